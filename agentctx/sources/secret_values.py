"""What secrets look like, whatever name they go by."""

from __future__ import annotations

import re

REDACTED = "[redacted]"
"""What stands where a secret stood."""

_TOKENS = (
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}",  # AWS access key id
    r"A3T[A-Z0-9]-?[A-Z0-9]{16}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    r"AIza[\w-]{35}",  # Google API key
    r"AT[AC]TT3[\w=-]{40,}",  # Atlassian
    r"CLOJARS_[0-9a-f]{60}",
    r"EAA[A-Za-z0-9]{80,}",  # Meta
    r"EZ[AT]K[A-Za-z0-9]{54}",  # EasyPost
    r"GOCSPX-[\w-]{20,}",  # Google OAuth client secret
    r"NRAK-[A-Z0-9]{27}",  # New Relic
    r"SG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"SK[0-9a-f]{32}",  # Twilio
    r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}",  # Discord bot
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}",  # Terraform Cloud
    r"[0-9a-f]{32}-us\d{1,2}",  # Mailchimp
    r"dapi[0-9a-f]{32}",  # Databricks
    r"dckr_[po]at_[\w-]{27,}",  # Docker Hub
    r"do[opr]_v1_[0-9a-f]{64}",  # DigitalOcean
    r"dp\.(?:pt|st|ct|sa)\.[A-Za-z0-9.]{40,}",  # Doppler
    r"e2b_[0-9a-f]{40}",
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",  # JSON web token, signed
    r"eyJ[\w-]{8,}\.[\w-]*\.[\w-]{8,}\.[\w-]{2,}\.[\w-]{8,}",  # JSON web token, encrypted
    r"figd_[\w-]{40,}",  # Figma
    r"fm[12]_[A-Za-z0-9+/=]{40,}",  # Fly
    r"fw_[A-Za-z0-9]{24}",  # Fireworks
    r"gh[oprsu]_[A-Za-z0-9]{30,}",  # GitHub
    r"github_pat_\w{40,}",
    r"gl(?:agent|cbt|dt|ft|imt|pat|ptt|rt|soat)-[\w.-]{20,}",  # GitLab
    r"glc_[A-Za-z0-9+/=]{32,}",  # Grafana
    r"glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}",
    r"gsk_[A-Za-z0-9]{40,}",  # Groq
    r"hf_[A-Za-z0-9]{30,}",  # Hugging Face
    r"hv[bs]\.[\w-]{20,}",  # Vault
    r"key-[0-9a-f]{32}",  # Mailgun
    r"lin_api_[A-Za-z0-9]{32,}",  # Linear
    r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",  # LangSmith
    r"npm_[A-Za-z0-9]{36,}",
    r"ntn_[A-Za-z0-9]{40,}",  # Notion
    r"nvapi-[\w-]{40,}",  # NVIDIA
    r"pa-[\w-]{43}",  # Voyage
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",  # Airtable
    r"pcsk_[A-Za-z0-9_]{50,}",  # Pinecone
    r"phx_[A-Za-z0-9]{40,}",  # PostHog
    r"pplx-[A-Za-z0-9]{40,}",  # Perplexity
    r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}",  # PlanetScale
    r"pypi-AgE[\w-]{40,}",
    r"r8_[A-Za-z0-9]{36,}",  # Replicate
    r"rk_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"rubygems_[0-9a-f]{48}",
    r"sbp_[0-9a-f]{40}",  # Supabase
    r"secret_[A-Za-z0-9]{43}",  # Notion, of old
    r"shippo_(?:live|test)_[0-9a-f]{40}",
    r"sk_(?:live|test)_[A-Za-z0-9]{16,}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",  # Shopify
    r"sk-[A-Za-z0-9][\w-]{18,}[A-Za-z0-9]",  # OpenAI, Anthropic, DeepSeek, OpenRouter
    r"sntry[su]_[A-Za-z0-9_=+/-]{60,}",  # Sentry
    r"sq0(?:atp|csp|idp)-[\w-]{22,}",  # Square
    r"tvly-[A-Za-z0-9-]{28,}",  # Tavily
    r"whsec_[A-Za-z0-9+/=]{20,}",  # webhooks
    r"xai-[A-Za-z0-9]{40,}",
    r"xapp-\d-[A-Za-z0-9-]{20,}",  # Slack
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"ya29\.[\w-]{20,}",  # Google OAuth access token
    r"\d{8,10}:AA[\w-]{32,34}",  # Telegram bot
)
_TOKEN = re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_TOKENS)})(?![A-Za-z0-9])")

_PEM = re.compile(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END (?P=kind)-----|\Z)", re.DOTALL
)
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_HARMLESS = r"(?!\d{1,5}/|\$?\{[^{}\s]{0,64}\}[@/]|\$[A-Z_]{1,64}@)"
"""A port before a path, or a variable."""

_IN_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>]{0,256}):"
    rf"{_HARMLESS}[^\s\"'<>?#]{{1,512}}@(?=[\w.\[-])"
)
"""To the last at sign: a password that was not escaped may have one in it."""
_USER_IN_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{1,20}://)[^\s/:@\"'<>]{16,512}@")
_HEADER = re.compile(
    r"(?i)\b(?P<name>(?:proxy-)?authorization|(?:set-)?cookie)(?P<is>\\?[\"']?\s{0,4}:\s{0,4}\\?[\"']?)[^\n\"'\\]+"
)
_CURL = re.compile(r"(?P<is>\bcurl\b[^\n]{0,512}?\s(?:-u|--user|--proxy-user)[ =]?[\"']?[^\s:\"']{1,128}:)[^\s\"']+")
_NETRC = re.compile(r"(?P<is>\bmachine[ \t]+\S{1,256}\s+login[ \t]+\S{1,256}\s+password[ \t]+)[^\s\"']+")
_SHELL = re.compile(r"(?P<is>\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass)\b[^\n]{0,256}?\s-p ?[\"']?)[^\s\"']+")
_BEARER = re.compile(r"(?i)\b(?P<kind>bearer|basic) {1,4}[A-Za-z0-9._~+/-]{16,}={0,2}")
_HOOK = re.compile(r"(?P<host>hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/)[\w/-]+")
_SIGNED = re.compile(r"(?i)(?P<name>[?&](?:x-amz-)?(?:sig|signature|security-token|credential)=)[^&\s\"'<>]+")
_AZURE = re.compile(r"(?i)(?P<name>\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)=)[^;\s\"'<>]+")


def redact_values(text: str) -> str:
    """The text without what looks like a secret: keys of known services, private keys, passwords in URLs, headers."""
    text = _PEM.sub(REDACTED, text)
    end = _PEM_END.search(text)
    if end is not None:  # its beginning was cut off: everything before it may be the key
        text = REDACTED + text[[found.end() for found in _PEM_END.finditer(text)][-1] :]
    text = _HEADER.sub(rf"\g<name>\g<is>{REDACTED}", text)
    text = _BEARER.sub(rf"\g<kind> {REDACTED}", text)
    if "://" in text:
        text = _IN_URL.sub(rf"\g<scheme>:{REDACTED}@", text)
        text = _USER_IN_URL.sub(rf"\g<scheme>{REDACTED}@", text)
    for command in (_CURL, _NETRC, _SHELL):
        text = command.sub(rf"\g<is>{REDACTED}", text)
    text = _HOOK.sub(rf"\g<host>{REDACTED}", text)
    text = _SIGNED.sub(rf"\g<name>{REDACTED}", text)
    text = _AZURE.sub(rf"\g<name>{REDACTED}", text)
    return _TOKEN.sub(REDACTED, text)
