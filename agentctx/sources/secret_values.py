"""What secrets look like, whatever name they go by."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

REDACTED = "[redacted]"
"""What stands where a secret stood."""

Span = tuple[int, int]
"""Where a secret stands in a text: its start, and where it ends."""

_UNMISTAKABLE = (
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}",  # AWS access key id
    r"ABSK[A-Za-z0-9+/]{100,}={0,2}",  # AWS Bedrock
    r"AGE-SECRET-KEY-1[A-Z0-9]{58}",
    r"AIza[\w-]{35}",  # Google API key
    r"AT[AC]TT3[\w=-]{40,}",  # Atlassian
    r"CFPAT-[\w-]{43}",  # Contentful
    r"CLOJARS_[0-9a-f]{60}",
    r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}",  # Dynatrace
    r"EZ[AT]K[A-Za-z0-9]{54}",  # EasyPost
    r"FLWSECK(?:_TEST)?-[0-9a-zA-Z]{32}",  # Flutterwave
    r"GOCSPX-[\w-]{20,}",  # Google OAuth client secret
    r"HRKU-AA[\w-]{50,}",  # Heroku
    r"NRAK-[A-Z0-9]{27}",  # New Relic
    r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}",  # Postman
    r"api_org_[A-Za-z0-9]{30,}",  # Hugging Face
    r"dckr_[po]at_[\w-]{27,}",  # Docker Hub
    r"do[opr]_v1_[0-9a-f]{64}",  # DigitalOcean
    r"duffel_(?:live|test)_[\w=-]{43}",
    r"figd_[\w-]{40,}",  # Figma
    r"gh[oprsu]_[A-Za-z0-9]{30,}",  # GitHub
    r"github_pat_\w{40,}",
    r"gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[\w.-]{20,}",  # GitLab
    r"glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}",  # Grafana
    r"lin_api_[A-Za-z0-9]{32,}",  # Linear
    r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",  # LangSmith
    r"nvapi-[\w-]{40,}",  # NVIDIA
    r"ops_eyJ[A-Za-z0-9+/]{200,}={0,3}",  # 1Password
    r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}",  # PlanetScale
    r"pypi-AgE[\w-]{40,}",
    r"rubygems_[0-9a-f]{48}",
    r"shippo_(?:live|test)_[0-9a-f]{40}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",  # Shopify
    r"sk-ant-[a-z0-9]{2,12}-[\w-]{20,}",  # Anthropic
    r"sk-(?:proj|svcacct|admin|or-v1)-[\w-]{20,}",  # OpenAI, OpenRouter
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"sntry[su]_[A-Za-z0-9_=+/-]{60,}",  # Sentry
    r"sq0(?:atp|csp|idp)-[\w-]{22,}",  # Square
    r"whsec_[A-Za-z0-9+/=]{20,}",  # webhooks
    r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}",  # Brevo
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"tskey-[a-z]{2,10}-[A-Za-z0-9]{6,32}-[A-Za-z0-9]{16,}",  # Tailscale
    r"\$(?:1|apr1|5|6|sha1)\$(?:rounds=\d{1,9}\$)?[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{22,128}",  # crypt
    r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}",  # bcrypt
    r"\$g?y\$[./A-Za-z0-9]{1,16}\$[./A-Za-z0-9]{1,128}\$[./A-Za-z0-9]{43}",  # yescrypt
    r"\$argon2(?:id?|d)\$v=\d{1,3}\$m=\d{1,9},t=\d{1,4},p=\d{1,4}\$[A-Za-z0-9+/]{8,64}\$[A-Za-z0-9+/]{16,128}",
    r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}",  # Azure OpenAI and other AI services
    r"e2b_[0-9a-f]{40}",
    r"fo1_[\w-]{40,}",  # Fly
    r"glc_[A-Za-z0-9+/=]{32,}",  # Grafana
    r"gsk_[A-Za-z0-9]{40,}",  # Groq
    r"hf_[A-Za-z0-9]{30,}",  # Hugging Face
    r"nfp_[A-Za-z0-9]{36,}",  # Netlify
    r"npm_[A-Za-z0-9]{36,}",
    r"ntn_[A-Za-z0-9]{40,}",  # Notion
    r"pcsk_[A-Za-z0-9_]{50,}",  # Pinecone
    r"phx_[A-Za-z0-9]{40,}",  # PostHog
    r"pplx-[A-Za-z0-9]{40,}",  # Perplexity
    r"pul-[0-9a-f]{40}",  # Pulumi
    r"r8_[A-Za-z0-9]{36,}",  # Replicate
    r"sbp_[0-9a-f]{40}",  # Supabase
    r"sb_secret_[\w-]{20,}",
    r"tvly-[A-Za-z0-9-]{28,}",  # Tavily
    r"xai-[A-Za-z0-9]{40,}",
    r"xapp-\d-[A-Za-z0-9-]{20,}",  # Slack
    r"sha256~[\w-]{43}",  # OpenShift
    r"HRKU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # Heroku, of old
    r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}",  # PayPal
    r"(?<=bot)\d{8,10}:AA[\w-]{32,34}",  # Telegram bot, in its address
)
"""Tokens that begin so oddly that it does not matter what stands before them."""

_TOKENS = (
    r"A3T[A-Z0-9]-?[A-Z0-9]{16}",
    r"A3-[A-Z0-9]{6}-[A-Z0-9-]{11,12}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",  # 1Password
    r"AAAA[\w-]{7}:[\w-]{140}",  # Firebase messaging
    r"AKCp[A-Za-z0-9]{69}",  # Artifactory
    r"ATBB[A-Za-z0-9]{32}",  # Bitbucket
    r"EAA[A-Za-z0-9]{80,}",  # Meta
    r"LTAI[A-Za-z0-9]{16,20}",  # Alibaba
    r"SG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"SK[0-9a-f]{32}",  # Twilio
    r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}",  # Discord bot
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}",  # Terraform Cloud
    r"[0-9a-f]{32}-us\d{1,2}",  # Mailchimp
    r"[\w~.]{3}\dQ~[\w~.-]{31,34}",  # Azure AD client secret
    r"cmVmd[A-Za-z0-9]{59}",  # Artifactory
    r"cio[A-Za-z0-9]{32}",  # crates.io
    r"csk-[a-z0-9]{48}",  # Cerebras
    r"dapi[0-9a-f]{32}(?:-\d)?",  # Databricks
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.]{40,}",  # Doppler
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",  # JSON web token, signed
    r"eyJ[\w-]{8,}\.[\w-]*\.[\w-]{8,}\.[\w-]{2,}\.[\w-]{8,}",  # JSON web token, encrypted
    r"fm[12]_[A-Za-z0-9+/=]{40,}",  # Fly
    r"fw_[A-Za-z0-9]{24}",  # Fireworks
    r"hv[bs]\.[\w-]{20,}",  # Vault
    r"key-[0-9a-f]{32}",  # Mailgun
    r"oy2[a-z0-9]{43}",  # NuGet
    r"pa-(?=[\w-]{0,42}\d)[\w-]{43}",  # Voyage
    r"pat-(?:na|eu)1-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # HubSpot
    r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}",  # Airtable
    r"[sp]k\.eyJ[\w-]{20,}\.[\w-]{20,}",  # Mapbox
    r"secret_[A-Za-z0-9]{43}",  # Notion, of old
    r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}",  # Sourcegraph
    r"sk-(?=[\w-]{0,30}\d)[A-Za-z0-9][\w-]{18,}[A-Za-z0-9]",  # OpenAI, DeepSeek, Moonshot and others
    r"sq[upa]_[0-9a-f]{40}",  # Sonar
    r"tfp_[\w.=-]{59}",  # Typeform
    r"v1\.0-[0-9a-f]{24}-[0-9a-f]{140,}",  # Cloudflare origin certificates
    r"ya29\.[\w-]{20,}",  # Google OAuth access token
    r"\d{8,10}:AA[\w-]{32,34}",  # Telegram bot
)
_FREE = r"(?:(?<![A-Za-z0-9_-])|(?<=-)(?<![A-Za-z0-9_-]-)|(?<=^--)|(?<=[A-Z]_))"
"""Behind what is no part of the word: a blank or sign, a diff's one or two minus signs, a variable's name."""

_TOKEN = re.compile(
    rf"(?:{'|'.join(_UNMISTAKABLE)})(?![A-Za-z0-9])|{_FREE}(?:{'|'.join(_TOKENS)})(?![A-Za-z0-9])", re.MULTILINE
)
_AZURE_KEY = re.compile(
    r"(?<![A-Za-z0-9+/])(?<!sha512[-:=])"
    r"(?:[A-Za-z0-9+/]{86}==|[A-Za-z0-9+/]{33}(?:\+(?:ASb|AEh|ARm)|AzCa)[A-Za-z0-9+/]{6}=|"
    r"[A-Za-z0-9]{42}AzSe[A-Za-z0-9]{6}|[\w-]{44}AzFu[\w-]{6}==)(?![A-Za-z0-9+/=])"
)
"""Keys of storage, database, bus, hub, cache, search and functions; a hash of as many bytes says what it is."""

_PEM = re.compile(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END (?P=kind)-----|\Z)", re.DOTALL
)
_PUTTY = re.compile(
    r"\bPrivate-Lines:[ \t]{0,4}\d{1,4}[ \t]{0,4}\r?\n"
    r"(?P<secret>[ \t>|+]{0,16}[A-Za-z0-9+/=]++"
    r"(?:[ \t]{0,4}\r?\n[ \t>|+]{0,16}[A-Za-z0-9+/=]++(?=[ \t]{0,4}\r?(?:\n|\Z)))*+)"
)
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_HARMLESS = r"(?!\d{1,5}/|\$?\{[^{}\s]{0,64}\}[@/]|\$[A-Z_]{1,64}@)"
"""A port before a path, or a variable."""

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{1,20}://"
_IN_URL = re.compile(rf"{_SCHEME}[^\s/:@\"'<>]{{0,256}}:{_HARMLESS}(?P<secret>[^\s\"'<>?#]{{1,512}})@(?=[\w.\[-])")
"""To the last at sign: a password that was not escaped may have one in it."""
_USER_IN_URL = re.compile(rf"{_SCHEME}(?P<secret>[^\s/:@\"'<>]{{16,512}})@")
_HEADER = re.compile(
    r"(?i)\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\\?[\"']?\s{0,4}:\s{0,4}\\?[\"']?(?P<secret>[^\n\"'\\]+)"
)
_SAYS_WHO = re.compile(r"(?i)(?:apikey|aws4|basic|bearer|digest|negotiate|token)\b|[^\n]*[=\d]")
_BEARER = re.compile(r"(?i)\b(?:bearer|basic) {1,4}(?P<secret>[A-Za-z0-9._~+/-]{16,}={0,2})")
_HOOKS = (
    re.compile(r"(?:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/)(?P<secret>[\w/-]+)"),
    re.compile(r"webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]+)"),
    re.compile(r"(?i)[?&](?:x-amz-)?(?:sig|signature|security-token|credential)=(?P<secret>[^&\s\"'<>]+)"),
    re.compile(r"(?i)\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)=(?P<secret>[^;\s\"'<>]+)"),
)
_COMMANDS = (
    re.compile(
        r"\b(?:curl|https?|wget)\b[^\n]{0,512}?\s(?:-u|-a|--auth|--user|--proxy-user)[ =]?[\"']?[^\s:\"']{1,128}:"
        r"(?P<secret>[^\s\"']+)"
    ),
    re.compile(r"\bmachine[ \t]+\S{1,256}\s+login[ \t]+\S{1,256}\s+password[ \t]+(?P<secret>[^\s\"']+)"),
    re.compile(
        r"\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass)\b[^\n]{0,256}?\s-p ?[\"']?(?P<secret>[^\s\"'-][^\s\"']*)"
    ),
    re.compile(
        r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm(?: registry)?|oras|crane(?: auth)?|oc|az|mongo|mongosh|cf)"
        r"[ \t]+"
        r"(?:login[ \t]|[^\n]{0,128}?--username[ \t])[^\n]{0,256}?(?:(?<=\s)-p|--password)(?:[ \t]{1,4}|=)[\"']?"
        r"(?P<secret>[^\s\"'-][^\s\"']*)"
    ),
    re.compile(r"\bredis-cli\b[^\n]{0,256}?\s-a[ \t]+[\"']?(?P<secret>[^\s\"']+)"),
    re.compile(r"\b(?:ldapsearch|ldapmodify|ldapadd|sqlcmd)\b[^\n]{0,256}?\s-[wP][ \t]*[\"']?(?P<secret>[^\s\"']+)"),
    re.compile(r"\bhtpasswd\b[^\n]{0,64}?\s-\w{0,6}b\w{0,6}[ \t]+\S{1,256}[ \t]+\S{1,128}[ \t]+(?P<secret>\S+)"),
    re.compile(r"\bsmbclient\b[^\n]{0,256}?\s-U[ \t]*[^\s%]{1,128}%(?P<secret>\S+)"),
    re.compile(r"\s-(?:store|key|src|dest)pass[ \t]+(?:pass:)?(?P<secret>[^\s\"']+)"),
    re.compile(r"\s-pass(?:in|out)?[ \t]+pass:(?P<secret>[^\s\"']+)"),
    re.compile(r"\bsqlplus\b[^\n]{0,64}?\s[\w.]{1,64}/(?P<secret>[^\s@/]+)@"),
    re.compile(r"\bjdbc:oracle:[a-z]{1,8}:[\w.]{1,64}/(?P<secret>[^\s@/]+)@"),
    re.compile(
        r"\b(?:vault login|doctl auth init -t|gh auth login --with-token <<<)[ \t]+[\"']?(?P<secret>[^\s\"'-]\S+)"
    ),
    re.compile(
        r"(?i)\b(?:aws_secret_access_key|aws_session_token|_authToken|_password)[ \t]+[\"']?(?P<secret>[\w+/=.-]{8,})"
    ),
    re.compile(
        r"\b(?:echo|printf|print)[ \t]+(?:-\w{1,4}[ \t]+)?[\"']?(?P<secret>[^\s\"'|]{1,512})[\"']?[ \t]{0,8}\|"
        r"[^\n|]{0,200}?(?:--password-stdin|--with-token|\bsudo[ \t]+-S)\b"
    ),
    re.compile(r"(?i)\bConvertTo-SecureString[ \t]+(?:-String[ \t]+)?[\"'](?P<secret>[^\s\"'$][^\"'\n]{0,512})[\"']"),
    re.compile(r"(?i)\bConvertTo-SecureString[ \t]+(?:-String[ \t]+)?(?P<secret>[^\s\"'$(|-][^\s\"']{0,512})[ \t]+-A"),
    re.compile(r"(?i)\bidentified[ \t]+(?:with[ \t]+\w{1,40}[ \t]+)?by[ \t]+'(?P<secret>[^'\n]{1,256})'"),
    re.compile(r"(?i)\b(?:create|alter)[ \t]+(?:user|role)\b[^\n;]{0,256}?\bpassword[ \t]+'(?P<secret>[^'\n]{1,256})'"),
)
_WRAPPED = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/_=-])")
_READABLE = re.compile(rb"[\t\n\r -~]*")
_REFERENCE = re.compile(
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*\)|\$?\{\{.*\}\}|<[\w .-]+>|%[A-Z_]+%|true|false|null|none|"
    r"undefined|\*+|\[redacted\]|\$?\{[A-Z_][\w.]*\}|\{%[^\n]*%\}|"
    r"projects/[^/\s]+/secrets/[^/\s]+(?:/versions/\w+)?|arn:aws[\w-]*:(?:secretsmanager|ssm):[\w:/.-]+|op://\S+",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"string|str|test|example|placeholder|same-origin|include|omit|x{3,}|\.{2,}|"
    r"<?(?:your|insert|enter|replace)(?:[_ -][a-z]{1,40}){1,8}>?",
    re.IGNORECASE,
)
_SCHEME_OF = re.compile(r"(?i)(?:apikey|basic|bearer|token)[ \t]+")


def is_reference(value: str) -> bool:
    """Whether a value only says where the secret is, or that there is none."""
    return _REFERENCE.fullmatch(value.rstrip()) is not None


def is_placeholder(value: str) -> bool:
    """Whether a value stands where a secret will, in documentation and tests: ``YOUR_API_KEY``."""
    return _PLACEHOLDER.fullmatch(value.strip()) is not None


def _is_header(value: str) -> bool:
    """Whether what a header says is who asks, and not where that is to be put: ``Bearer <token>``."""
    if _SAYS_WHO.match(value) is None:
        return False
    told = _SCHEME_OF.sub("", value.rstrip(), 1)
    return not (is_reference(told) or is_placeholder(told))


def keys_in(text: str) -> Iterator[Span]:
    """Where keys of known services stand."""
    for pattern in (_TOKEN, _AZURE_KEY):
        yield from (found.span() for found in pattern.finditer(text))
    for pattern in (_BEARER, *_HOOKS):
        yield from (found.span("secret") for found in pattern.finditer(text) if not is_reference(found["secret"]))


def values_in(text: str) -> Iterator[Span]:
    """Where there is what looks like a secret: keys, private keys, passwords in URLs, headers and commands."""
    yield from _private_keys(text)
    yield from keys_in(text)
    yield from (each.span("secret") for each in _HEADER.finditer(text) if _is_header(each["secret"]))
    for pattern in (*_COMMANDS, *((_IN_URL, _USER_IN_URL) if "://" in text else ())):
        yield from (found.span("secret") for found in pattern.finditer(text) if not is_reference(found["secret"]))


def _private_keys(text: str) -> Iterator[Span]:
    keys = [found.span() for found in _PEM.finditer(text)]
    yield from keys
    yield from (found.span("secret") for found in _PUTTY.finditer(text))
    ends = {end for _, end in keys}
    alone = [found.end() for found in _PEM_END.finditer(text) if found.end() not in ends]
    if alone:  # its beginning was cut off: everything before it may be the key
        yield 0, alone[-1]


def wrapped_in(text: str) -> Iterator[tuple[Span, str]]:
    """What stands in base64, as text: each with its place."""
    for found in _WRAPPED.finditer(text):
        content = found[0].rstrip("=").translate(_STANDARD)
        decoded = b64decode(content + "=" * (-len(content) % 4)) if len(content) % 4 != 1 else b"\0"
        if _READABLE.fullmatch(decoded):
            yield found.span(), decoded.decode("ascii")


_STANDARD = str.maketrans("-_", "+/")
