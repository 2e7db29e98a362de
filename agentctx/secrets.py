"""Secrets taken out of text before a model, and a provider's log, gets to see it.

Two rules. A value that looks like a secret goes whatever it is called (``secret_spans``). A value that a secret's
name is given to (``is_secret_name``) goes too; how readily depends on what kind of text it is: in settings, logs and
environments every value, in source code a quoted one (``token = tokens[0]`` is no secret), elsewhere a quoted one or
one that looks made up by a machine. Text is read as it stands, and as it is seen where colours, escapes, line breaks or
base64 hide what it says. Files that hold nothing but credentials give nothing, files of environment
variables give the names of the variables.

No rule finds every secret: one without a telling name or a known shape (a key in a Kubernetes ``data`` section, say)
is not recognised; nor is a password of letters alone, or of several words, in a sentence ("the password is sunshine"):
it reads as prose does. Nor are a wallet's words where nothing says that they are, nor ``session_id=...``: tools name
sessions that the model has to name again. What must never leave the machine should not be offered as context. (Why own
rules: of 137 secrets in a log these find all, detect-secrets 23; ``benchmarks/redaction.py`` compares them.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from agentctx.hidden_text import Seen, Span, joined, without_escapes, wrapped_in
from agentctx.lazy import lazy_pattern

if TYPE_CHECKING:
    from pathlib import PurePath

_NAME_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SECRET = frozenset(
    {"auth", "authorization", "bearer", "cookie", "credential", "credentials", "creds", "dsn", "pin", "salt", "sig"}
)
"""Words that make a name that of a secret when they are its last."""

_SECRET_ENDINGS = (
    *("apikey", "accesskey", "passwd", "password", "passphrase", "privatekey", "psk", "pwd", "secret", "secretkey"),
    *("adgangskode", "contrasena", "heslo", "kennwort", "passord", "passwort", "salasana", "senha", "wachtwoord"),
)
"""Endings of single words that make a name that of a secret wherever the word stands."""

_BEFORE_KEYS = (
    r"access|account|api|app|auth|client|consumer|deploy|encryption|hmac|jwt|master|private|secret|service|"
    r"session|shared|signing|ssh|storage|webhook"
)
"""Words before ``key`` that make it a secret."""
_KEYS = lazy_pattern(_BEFORE_KEYS)

_ABOUT = lazy_pattern(
    r"count|endpoint|enabled|expires|expiry|field|file|header|length|limit|max|min|name|names|path|pattern|"
    r"policy|prefix|ref|regex|required|size|ttl|type|uri|url|version"
)
"""Last words that make a name one about a secret: ``password_file`` holds none."""

_OTHER_KEYS = lazy_pattern(
    r"cache|cluster|composite|foreign|idempotency|index|order|partition|primary|public|routing|sort|unique"
)
"""Words before ``KEY`` that make it none of a secret, also in the name of an environment variable."""

_PLACES = lazy_pattern(
    r"continuation|cursor|end|eos|bos|mask|next|pad|page|pagination|prev|previous|sep|special|stop|sync|unk"
)
"""Words before ``token`` that make it a place in a list or a piece of text."""

_CREDENTIAL_FILES = lazy_pattern(
    r"\.git\-credentials|\.htpasswd|\.netrc|\.pgpass|_netrc|credentials|id_dsa|id_ecdsa|id_ed25519|id_rsa"
)
_CREDENTIAL_ENDINGS = frozenset({".jks", ".kdbx", ".key", ".keystore", ".p12", ".pem", ".pfx", ".ppk"})
_EXAMPLES = ("dist", "example", "sample", "template")


@lru_cache(maxsize=4_096)
def is_secret_name(name: str) -> bool:
    """Whether a variable, key or header of this name holds a secret."""
    words = _words(name)
    if not words or _ABOUT.fullmatch(words[-1]) or words == ["oldpwd"]:  # that is the folder one came from
        return False
    return (
        names_only_secrets(name)
        or words[-1] in _SECRET
        or (words[-1].endswith("token") and not (len(words) > 1 and _PLACES.fullmatch(words[-2])))
        or (words[-1] in ("pass", "pat") and len(words) > 1)
        # As environment variables with keys of services are named: AZURE_OPENAI_KEY.
        or (name.isupper() and len(words) > 1 and words[-1] == "key" and not _OTHER_KEYS.fullmatch(words[-2]))
    )


@lru_cache(maxsize=4_096)
def names_only_secrets(name: str) -> bool:
    """Whether nothing but a secret has such a name; a ``token`` may also be a word, and ``auth`` a method."""
    words = _words(name)
    if any(word.endswith(_SECRET_ENDINGS) for word in words) or "secrets" in words:
        return True
    keys = (first for first, second in pairwise(words) if second == "key" and _KEYS.fullmatch(first))
    return ("connection", "string") in pairwise(words) or any(keys)


def _words(name: str) -> list[str]:
    """The words of a name, without a number at its end: ``TOKEN_2`` is another token."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return words[:-1] if len(words) > 1 and words[-1].isdigit() else words


def is_environment_file(name: str) -> bool:
    """Whether a file of this name holds environment variables, any of which may be a secret (``.env.local``)."""
    base = _path(name).name.lower()
    named = base in (".env", ".envrc") or base.startswith(".env.") or base.endswith(".env")
    return named and not base.endswith(_EXAMPLES)


def is_credential_file(name: str) -> bool:
    """Whether a file of this name holds nothing but credentials."""
    path = _path(name.lower())
    return _CREDENTIAL_FILES.fullmatch(path.name) is not None or path.suffix in _CREDENTIAL_ENDINGS


def _path(name: str) -> PurePath:
    from pathlib import PurePath  # noqa: PLC0415 - loads much, for files only

    return PurePath(name)


REDACTED = "[redacted]"
"""What stands where a secret stood."""

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
    r"github_pat_\w{30,}",
    r"gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[\w.-]{20,}",  # GitLab
    r"glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}",  # Grafana
    r"lin_api_[A-Za-z0-9]{32,}",  # Linear
    r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",  # LangSmith
    r"nvapi-[\w-]{40,}",  # NVIDIA
    r"ops_eyJ[A-Za-z0-9+/]{200,}={0,3}",  # 1Password
    r"pscale_(?:tkn|pw|oauth)_[\w.=-]{32,}",  # PlanetScale
    r"pypi-AgE[\w-]{24,}",
    r"rubygems_[0-9a-f]{48}",
    r"shippo_(?:live|test)_[0-9a-f]{40}",
    r"shp(?:at|ca|pa|ss)_[a-zA-Z0-9]{16,}",  # Shopify
    r"sk-ant-[a-z0-9]{2,12}-[\w-]{20,}",  # Anthropic
    r"sk-(?:proj|svcacct|admin|or-v1)-[\w-]{20,}",  # OpenAI, OpenRouter
    r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",  # Stripe
    r"sntry[su]_[A-Za-z0-9_=+/-]{60,}",  # Sentry
    r"sq0(?:atp|csp|idp)-[\w-]{22,}",  # Square
    r"whsec_[A-Za-z0-9+/=]{16,}",  # webhooks
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

_TOKEN = lazy_pattern(
    rf"(?:{'|'.join(_UNMISTAKABLE)})(?![A-Za-z0-9])|{_FREE}(?:{'|'.join(_TOKENS)})(?![A-Za-z0-9])", re.MULTILINE
)
_OF_TOKENS = r"[\w.~:$=+/,-]"
_LONG_WORD = lazy_pattern(rf"(?<!{_OF_TOKENS}){_OF_TOKENS}{{15,}}+")
"""What a token is, or is a part of: none has other characters, or fewer."""

_AZURE_KEY = lazy_pattern(
    r"(?<![A-Za-z0-9+/])(?<!sha512[-:=])"
    r"(?:[A-Za-z0-9+/]{86}==|[A-Za-z0-9+/]{33}(?:\+(?:ASb|AEh|ARm)|AzCa)[A-Za-z0-9+/]{6}=|"
    r"[A-Za-z0-9]{42}AzSe[A-Za-z0-9]{6}|[\w-]{44}AzFu[\w-]{6}==)(?![A-Za-z0-9+/=])"
)
"""Keys of storage, database, bus, hub, cache, search and functions; a hash of as many bytes says what it is."""
_IN_AZURE_KEYS = ("==", "+ASb", "+AEh", "+ARm", "AzCa", "AzSe")

_PEM = lazy_pattern(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END (?P=kind)-----|\Z)", re.DOTALL
)
_PUTTY = lazy_pattern(
    r"\bPrivate-Lines:[ \t]{0,4}\d{1,4}[ \t]{0,4}\r?\n"
    r"(?P<secret>[ \t>|+]{0,16}[A-Za-z0-9+/=]++"
    r"(?:[ \t]{0,4}\r?\n[ \t>|+]{0,16}[A-Za-z0-9+/=]++(?=[ \t]{0,4}\r?(?:\n|\Z)))*+)"
)
_PEM_END = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_HARMLESS = r"(?!\d{1,5}/|\$?\{[^{}\s]{0,64}\}[@/]|\$[A-Z_]{1,64}@)"
"""A port before a path, or a variable."""

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]{1,20}://"
_IN_URL = lazy_pattern(rf"{_SCHEME}[^\s/:@\"'<>]{{0,256}}:{_HARMLESS}(?P<secret>[^\s\"'<>?#]{{1,512}})@(?=[\w.\[-])")
"""To the last at sign: a password that was not escaped may have one in it."""
_USER_IN_URL = lazy_pattern(rf"{_SCHEME}(?P<secret>[^\s/:@\"'<>]{{16,512}})(?::(?:x-oauth-basic|x)?)?@")
_USER_INFO = lazy_pattern(
    r"(?<![\w:/@.+%-])(?P<user>[A-Za-z_][\w.-]{0,63}):(?P<secret>[^\s:/@\"'`<>()\[\]{},;\\]{4,256})@"
    r"(?P<host>tcp\(|unix\(|(?!sha\d)(?:[A-Za-z0-9-]{1,63}\.){0,8}[A-Za-z0-9-]{1,63})(?P<port>:\d{2,5}(?!\w)|/\w)?"
)
"""An address without a scheme, as of databases and proxies."""
_NO_USERS = lazy_pattern(
    r"(?i)(?:.*[._-])?(?:acct|account|author|b?cc|by|contact|e?mails?|for|from|id|login|mailto|maintainer|name|npm|on|"
    r"recipient|reply|sender|sips?|to|user|username|with|workspace|xmpp)"
)
"""What stands before an address of a person and a colon."""
_SCHEMES = lazy_pattern(r"(?i)mailto|npm|sips?|workspace|xmpp")
_NUMBERED_HOST = lazy_pattern(r"localhost|\d{1,3}(?:\.\d{1,3}){3}")
_CREDENTIALS = lazy_pattern(
    r"(?i)\b(?:creds?|credentials?)(?:[ \t]{0,4}[:=]|[ \t]{1,4}(?:are|is):?)[ \t]{1,4}"
    r"[\w.@-]{1,64}(?:[ \t]{1,4}|[ \t]{0,4}[/:,|][ \t]{0,4})(?P<secret>[^\s\"'`<>]{8,256})"
)
"""Who, and with which password."""
_SEED_WORD = r"(?:\d{1,2}[.):][ \t]{0,4})?[a-z]{3,8}"
_SEED_PHRASE = lazy_pattern(
    r"(?i:\b(?:seed|mnemonic|(?:secret|recovery|backup|wallet)[ _-](?:phrase|words))(?:[ _-]?(?:phrase|words))?)"
    r"(?:\\?[\"'])?(?:[ \t]{0,4}[:=]|[ \t]{1,4}(?:is|was|are):?)[ \t]{0,4}(?:\\?[\"'`])?"
    rf"(?P<secret>{_SEED_WORD}(?:[ \t,]{{1,4}}{_SEED_WORD}){{11,23}})(?=[.]?\s*(?:[\n\"'`\\}}]|\Z))"
)
"""The words that a wallet is restored from: that many, each of three to eight letters."""
_ABOUT_SEEDS = "seed", "mnemonic", "secret", "recovery", "backup", "wallet"
_LETTERS = lazy_pattern(r"[a-z]+")
_SEED_LENGTHS = frozenset({12, 15, 18, 21, 24})
_PIN_WORD = lazy_pattern(r"pin(?![a-z])")
_PIN = lazy_pattern(
    r"(?i)\bpin(?:[ -](?:code|number))?(?:[ \t]{1,4}for[ \t][^\n.:;,=?]{1,40}?)?"
    r"(?:[ \t]{1,4}(?:(?:is|was)(?:[ \t](?:now|set[ \t]to))?|(?:set|changed)[ \t]to)|(?<=code|mber)[ \t]{0,4}[:=])"
    r"[ \t]{1,4}[\"'`*]{0,3}(?P<secret>\d{4,12})(?![\w%.,:/-]*\w)"
    r"(?![ \t](?:[kmMG]?(?:[AVWsm]|Hz|Pa)|h?Pa|bar|bytes|ohms?|px)\b)"
)
"""A number by which somebody shows who he is."""
_HEADER = lazy_pattern(
    r"(?i)\b(?:(?:proxy-)?authorization|(?:set-)?cookie)\\?[\"']?\s{0,4}:\s{0,4}\\?[\"']?(?P<secret>[^\n\"'\\]+)"
)
_SAYS_WHO = lazy_pattern(r"(?i)(?:apikey|aws4|basic|bearer|digest|negotiate|token)\b|[^\n]*[=\d]")
_BEARER = lazy_pattern(r"(?i)\b(?:bearer|basic) {1,4}(?P<secret>[A-Za-z0-9._~+/-]{16,}={0,2})")
_SLACK_OR_DISCORD = lazy_pattern(
    r"(?:hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/)(?P<secret>[\w/-]+)"
)
_SESSION_COOKIE = lazy_pattern(
    r"\b(?:JSESSIONID|PHPSESSID|ASP\.NET_SessionId|ASPSESSIONID[A-Z]{8}|connect\.sid|laravel_session)="
    r"(?P<secret>[^;,&\s\"'<>]{12,4096})"
)
_OF_AN_ACCOUNT = lazy_pattern(r"(?i)\b(?:AccountKey|SharedAccessKey|SharedAccessSignature)=(?P<secret>[^;\s\"'<>]+)")
_SIGNED = lazy_pattern(r"(?i)[?&](?:x-amz-)?(?:sig|signature|security-token|credential)=(?P<secret>[^&\s\"'<>]+)")
_HOOKS = (
    ("bearer ", _BEARER),
    ("basic ", _BEARER),
    ("hooks.slack.com/", _SLACK_OR_DISCORD),
    ("/api/webhooks/", _SLACK_OR_DISCORD),
    ("webhook.office.com/", lazy_pattern(r"webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]+)")),
    *((word, _SIGNED) for word in ("sig=", "signature=", "security-token=", "credential=")),
    *((word, _SESSION_COOKIE) for word in ("sessionid", "phpsessid", "connect.sid", "laravel_session")),
    *((word, _OF_AN_ACCOUNT) for word in ("accountkey=", "sharedaccesskey=", "sharedaccesssignature=")),
)
"""What follows certain words, each with one of these, in small letters."""

_COMMANDS = (
    (
        ("curl", "http", "wget"),
        lazy_pattern(
            r"(?:c(?<!\w.)url|h(?<!\w.)ttps?|w(?<!\w.)get)\b"
            r"[^\n]{0,512}?\s(?:-u|-a|--auth|--user|--proxy-user)[ =]?[\"']?[^\s:\"']{1,128}:"
            r"(?P<secret>[^\s\"']+)"
        ),
    ),
    (
        ("machine ", "machine\t"),
        lazy_pattern(r"\bmachine[ \t]+\S{1,256}\s+login[ \t]+\S{1,256}\s+password[ \t]+(?P<secret>[^\s\"']+)"),
    ),
    (
        ("mysql", "mariadb", "sshpass"),
        lazy_pattern(
            r"\b(?:mysql|mysqldump|mysqladmin|mariadb|sshpass)\b[^\n]{0,256}?\s-p ?[\"']?(?P<secret>[^\s\"'-][^\s\"']*)"
        ),
    ),
    (
        ("login ", "login\t", "--username"),
        lazy_pattern(
            r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm(?: registry)?|oras|crane(?: auth)?|oc|az|mongo|mongosh|cf)"
            r"[ \t]+"
            r"(?:login[ \t]|[^\n]{0,128}?--username[ \t])[^\n]{0,256}?(?:(?<=\s)-p|--password)(?:[ \t]{1,4}|=)[\"']?"
            r"(?P<secret>[^\s\"'-][^\s\"']*)"
        ),
    ),
    (
        ("redis-cli",),
        lazy_pattern(r"\bredis-cli\b[^\n]{0,256}?\s-a[ \t]+[\"']?(?P<secret>[^\s\"']+)"),
    ),
    (
        ("ldap", "sqlcmd"),
        lazy_pattern(
            r"\b(?:ldapsearch|ldapmodify|ldapadd|sqlcmd)\b[^\n]{0,256}?\s-[wP][ \t]*[\"']?(?P<secret>[^\s\"']+)"
        ),
    ),
    (
        ("htpasswd",),
        lazy_pattern(r"\bhtpasswd\b[^\n]{0,64}?\s-\w{0,6}b\w{0,6}[ \t]+\S{1,256}[ \t]+\S{1,128}[ \t]+(?P<secret>\S+)"),
    ),
    (
        ("ssh-keygen",),
        lazy_pattern(
            r"\bssh-keygen\b[^\n]{0,256}?\s-[NP][ \t]{0,4}(?P<quote>[\"'])(?P<secret>[^\"'\n]{1,256})(?P=quote)"
        ),
    ),
    (
        ("ssh-keygen",),
        lazy_pattern(r"\bssh-keygen\b[^\n]{0,256}?\s-[NP][ \t]{1,4}(?P<secret>[^\s\"'-][^\s\"']*)"),
    ),
    (
        ("smbclient",),
        lazy_pattern(r"\bsmbclient\b[^\n]{0,256}?\s-U[ \t]*[^\s%]{1,128}%(?P<secret>\S+)"),
    ),
    (
        ("storepass", "keypass", "srcpass", "destpass"),
        lazy_pattern(r"\s-(?:store|key|src|dest)pass[ \t]+(?:pass:)?(?P<secret>[^\s\"']+)"),
    ),
    (
        ("-pass",),
        lazy_pattern(r"\s-pass(?:in|out)?[ \t]+pass:(?P<secret>[^\s\"']+)"),
    ),
    (
        ("sqlplus",),
        lazy_pattern(r"\bsqlplus\b[^\n]{0,64}?\s[\w.]{1,64}/(?P<secret>[^\s@/]+)@"),
    ),
    (
        ("jdbc:oracle",),
        lazy_pattern(r"\bjdbc:oracle:[a-z]{1,8}:[\w.]{1,64}/(?P<secret>[^\s@/]+)@"),
    ),
    (
        ("vault login", "doctl auth", "gh auth"),
        lazy_pattern(
            r"\b(?:vault login|doctl auth init -t|gh auth login --with-token <<<)[ \t]+[\"']?(?P<secret>[^\s\"'-]\S+)"
        ),
    ),
    (
        ("aws_secret_access_key", "aws_session_token", "_authtoken", "_password"),
        lazy_pattern(
            r"(?i)\b(?:aws_secret_access_key|aws_session_token|_authToken|_password)[ \t]+[\"']?"
            r"(?P<secret>[\w+/=.-]{8,})"
        ),
    ),
    (
        ("--password-stdin", "--with-token", "sudo"),
        lazy_pattern(
            r"\b(?:echo|printf|print)[ \t]+(?:-\w{1,4}[ \t]+)?[\"']?(?P<secret>[^\s\"'|]{1,512})[\"']?[ \t]{0,8}\|"
            r"[^\n|]{0,200}?(?:--password-stdin|--with-token|\bsudo[ \t]+-S)\b"
        ),
    ),
    (
        ("convertto-securestring",),
        lazy_pattern(
            r"(?i)\bConvertTo-SecureString[ \t]+(?:-String[ \t]+)?[\"'](?P<secret>[^\s\"'$][^\"'\n]{0,512})[\"']"
        ),
    ),
    (
        ("convertto-securestring",),
        lazy_pattern(
            r"(?i)\bConvertTo-SecureString[ \t]+(?:-String[ \t]+)?(?P<secret>[^\s\"'$(|-][^\s\"']{0,512})[ \t]+-A"
        ),
    ),
    (
        ("identified",),
        lazy_pattern(r"(?i)\bidentified[ \t]+(?:with[ \t]+\w{1,40}[ \t]+)?by[ \t]+'(?P<secret>[^'\n]{1,256})'"),
    ),
    (
        ("password ", "password\t"),
        lazy_pattern(
            r"(?i)\b(?:create|alter)[ \t]+(?:user|role)\b[^\n;]{0,256}?\bpassword[ \t]+'(?P<secret>[^'\n]{1,256})'"
        ),
    ),
)
_SAID_BY_COMMANDS = tuple((word, pattern) for words, pattern in _COMMANDS for word in words)
"""What commands say, each with a word that stands there, in small letters."""
_OF_WHAT = (
    r"(?:[ \t](?:for|of|on|to|für|von|pour|de|du|para|per|di|do|van|voor|от|для|к|на)[ \t][^\n.:;,=?]{1,40}?)?"
    r"(?:[ \t]{1,2}\([^()\n]{1,40}\))?"
)
_IS = (
    r"(?:is(?:[ \t]now)?|was|will[ \t](?:now[ \t])?be|"
    r"(?:(?:is|was|has[ \t]been|now)[ \t])?(?:set|changed|reset)[ \t]to|"
    r"ist|war|lautet|est|es|era|è|é|är|er|on|jest|to)"
)
_SIGN = r"(?:[ \t]{0,4}(?::=|=>?|->|[:\uff1a\u2192])[ \t]{0,4})"
_VALUE = r"[\"'`*]{0,3}(?P<secret>[^\s\"'`<>]{8,256})"
_ALONE = (
    r"(?:[ \t]{1,40}|[ \t]{0,4}:?[ \t]{0,4}(?:[|>][+-]?[ \t]{0,4})?(?:\r?\n|<br ?/?>)[ \t]{0,40})"
    r"[\"'`*]{0,3}(?P<alone>[^\s\"'`<>\\]{10,256})"
)
"""What stands beside the word, or on the line below it, without anything that says that it is one."""
_SAID = rf"{_OF_WHAT}(?:[ \t]+{_IS}:?[ \t]+|{_SIGN}){_VALUE}"
_IN_ENGLISH = lazy_pattern(
    r"[PpTtSsAa](?<![A-Za-z_][PpTtSsAa])(?:(?:ass|ASS)(?i:word|phrase|code|wd)?|(?<=[Pp])[Ww][Dd]?|oken|OKEN|ecret|ECRET|"
    rf"(?:pi|PI|ccess|CCESS|ecret|uth|UTH)[ _-]?(?i:key|token))(?:{_SAID}|{_ALONE})"
)
_KEY_IN_ENGLISH = lazy_pattern(rf"[Kk](?<=[A-Za-z][ \t][Kk])(?:ey|EY){_SAID}")
_BEFORE_KEY = lazy_pattern(r"(?<![\w-])(?P<of>[A-Za-z-]{2,12})[ \t]\Z")
_ITS_KEY = frozenset(("my", "wi-fi", "wifi", "wpa", "license", "licence", "activation", "recovery"))
_PASSWORDS = (
    *("passwort", "kennwort", "wachtwoord", "mot de passe", "contraseña", "senha", "hasło", "lösenord", "passord"),
    *("heslo", "salasana", "adgangskode", "jelszó", "şifre", "\u043f\u0430\u0440\u043e\u043b\u044c"),  # Russian
    *("parola", "clave", "kata sandi", "mật khẩu", "\u05e1\u05d9\u05e1\u05de\u05d4", "κωδικός"),  # and Hebrew, Greek
    *(
        "\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631",
        "\u0643\u0644\u0645\u0629 \u0627\u0644\u0633\u0631",
    ),
    *(
        "\u5bc6\u7801",
        "\u5bc6\u78bc",
        "\u30d1\u30b9\u30ef\u30fc\u30c9",
        "\ube44\ubc00\ubc88\ud638",
    ),  # Chinese, Japanese, Korean
)
"""What a password is called in other languages."""
_IN_OTHERS = lazy_pattern(
    rf"(?i)(?:{'|'.join(_PASSWORDS)})"
    rf"(?:{_OF_WHAT}[ \t]{{0,4}}(?:[:=\uff1a\u662f\u306f]|->|{_IS}:?[ \t])[ \t]{{0,4}}{_VALUE}|{_ALONE})"
)
_IN_WORDS = (
    *((word, _IN_ENGLISH) for word in ("pass", "pw", "token", "secret", "key")),
    *((word, _IN_OTHERS) for word in _PASSWORDS),
)
"""What sentences say, each with a word that stands there, in small letters."""
_TECHNICAL = lazy_pattern(
    r"(?:aes|argon|base|bcrypt|ecdsa|ed|es|http|iso|md|oauth|pbkdf|ps|rfc|rs|rsa|sha|utf|v|x)[-_]?\d.*|"
    r".*[(\[{/\\].*|.*\.[a-z]{1,5}\d?|.*\d\.\d.*|\d{4}-\d\d.*|\d+[- _][a-z-]+",
    re.IGNORECASE,
)
"""What is said of a password, or a token, that is none: how it is made, where it stands, when it was set, how long."""
_BELOW = lazy_pattern(r":[ \t]{0,8}\r?\n[ \t]{1,40}(?P<value>[^\s\"'`,;&:=()\[\]{}<>]{8,256})(?=\s|\Z)")
_BEFORE = lazy_pattern(r"[A-Za-z_][\w.-]{0,100}\Z")
"""A value on the line below its name, and that name."""
_REFERENCE = lazy_pattern(
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*\)|\$?\{\{.*\}\}|<[\w .-]+>|%[A-Z_]+%|true|false|null|none|"
    r"undefined|\*+|\[redacted\]|\$?\{[A-Z_][\w.]*\}|\{%[^\n]*%\}|"
    r"projects/[^/\s]+/secrets/[^/\s]+(?:/versions/\w+)?|arn:aws[\w-]*:(?:secretsmanager|ssm):[\w:/.-]+|op://\S+",
    re.IGNORECASE,
)
_PLACEHOLDER = lazy_pattern(
    r"string|str|test|example|placeholder|same-origin|include|omit|x{3,}|\.{2,}|"
    r"<?(?:your|insert|enter|replace)(?:[_ -][a-z]{1,40}){1,8}>?",
    re.IGNORECASE,
)
_SCHEME_OF = lazy_pattern(r"(?i)(?:apikey|basic|bearer|token)[ \t]+")


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


def _in_small_letters(text: str) -> str:
    """The text as those patterns compare it that do not mind the case."""
    small = text.lower()
    return small if small.isascii() else small.replace("\u017f", "s").replace("\u0131", "i").replace("\u0307", "")


def keys_in(text: str) -> Iterator[Span]:
    """Where keys of known services stand."""
    if _TOKEN.search("\n".join(set(_LONG_WORD.findall(text)))) is not None:  # three times as fast as all of the text
        yield from (found.span() for found in _TOKEN.finditer(text))
    if any(part in text for part in _IN_AZURE_KEYS):
        yield from (found.span() for found in _AZURE_KEY.finditer(text))
    small = _in_small_letters(text)
    for pattern in _worth_a_look(_HOOKS, small):
        yield from (found.span("secret") for found in pattern.finditer(text) if not is_reference(found["secret"]))


def secret_spans(text: str, keys: Iterable[Span] | None = None) -> Iterator[Span]:
    """Where there is what looks like a secret: keys, private keys, passwords in URLs, headers and commands.

    Args:
        text: The text.
        keys: What ``keys_in`` finds in it, where that is known.
    """
    yield from _private_keys(text)
    yield from keys_in(text) if keys is None else keys
    small = _in_small_letters(text)
    if "authorization" in small or "cookie" in small:
        yield from (each.span("secret") for each in _HEADER.finditer(text) if _is_header(each["secret"]))
    for pattern in _worth_a_look(_IN_WORDS, small):
        yield from _told_in_words(pattern, text)
    if " key" in small:
        yield from _keys_in_words(text)
    if "@" in text:
        yield from _user_infos(text)
    if "cred" in small:
        yield from (each.span("secret") for each in _CREDENTIALS.finditer(text) if _is_told(each["secret"]))
    if "pin" in small and _PIN_WORD.search(small) is not None:
        yield from (each.span("secret") for each in _PIN.finditer(text))
    if [word for word in _ABOUT_SEEDS if word in small]:
        phrases = (
            each for each in _SEED_PHRASE.finditer(text) if len(_LETTERS.findall(each["secret"])) in _SEED_LENGTHS
        )
        yield from (each.span("secret") for each in phrases)
    in_urls = (_IN_URL, _USER_IN_URL) if "@" in text and "://" in text else ()
    for pattern in (*_worth_a_look(_SAID_BY_COMMANDS, small), *in_urls):
        yield from (found.span("secret") for found in pattern.finditer(text) if not is_reference(found["secret"]))


def _worth_a_look(table: Iterable[tuple[str, re.Pattern[str]]], small: str) -> Iterable[re.Pattern[str]]:
    """The patterns of which a word stands in a text in small letters."""
    return dict.fromkeys([pattern for word, pattern in table if word in small])


def _user_infos(text: str) -> Iterator[Span]:
    """Where the passwords stand in addresses without a scheme: ``bob:…@db:5432``; none of ``mailto:bob@…``.

    Where neither a port nor a path follows, nor the host is a number, the address may be a person's: there a password
    has large and small letters and digits.
    """
    for found in _USER_INFO.finditer(text):
        value, host = found["secret"], found["host"]
        if _SCHEMES.fullmatch(found["user"]) or is_reference(value) or is_placeholder(value):
            continue
        port = found["port"] or ""
        of_letters, digits = re.search(r"[A-Za-z]", value) is not None, re.search(r"\d", value) is not None
        if port.startswith(":") or host.endswith("(") or _NUMBERED_HOST.fullmatch(host):
            goes = of_letters and _TECHNICAL.fullmatch(value) is None
        elif _NO_USERS.fullmatch(found["user"]):
            goes = False
        elif port:
            goes = of_letters and digits and _TECHNICAL.fullmatch(value) is None
        else:
            goes = "." in host and value.lower() != value != value.upper() and _is_told(value)
        if goes:
            yield found.span("secret")


def _private_keys(text: str) -> Iterator[Span]:
    keys = [found.span() for found in _PEM.finditer(text)]
    yield from keys
    if "Private-Lines:" in text:
        yield from (found.span("secret") for found in _PUTTY.finditer(text))
    ends = {end for _, end in keys}
    alone = [found.end() for found in _PEM_END.finditer(text) if found.end() not in ends]
    if alone:  # its beginning was cut off: everything before it may be the key
        yield 0, alone[-1]


def _told_in_words(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    """Where sentences say what a password is."""
    for found in pattern.finditer(text):
        group = "secret" if found["secret"] is not None else "alone"
        value = found[group].rstrip(".,;:?)*")
        if _is_told(value) and (group == "secret" or _is_random(value)):
            yield found.start(group), found.start(group) + len(value)


def _keys_in_words(text: str) -> Iterator[Span]:
    """Where sentences say what a key is: an API key, a signing key."""
    for found in _KEY_IN_ENGLISH.finditer(text):
        before = _BEFORE_KEY.search(text[max(0, found.start() - 14) : found.start()])
        if before is None or not (before["of"].lower() in _ITS_KEY or _KEYS.fullmatch(before["of"].lower())):
            continue
        value = found["secret"].rstrip(".,;:?)*")
        if _is_told(value) and value.isascii() and not value.startswith("id_"):
            yield found.start("secret"), found.start("secret") + len(value)


_RANDOM_WORD = lazy_pattern(r"[\w!@#$%^&*+~-]+", re.ASCII)
_TURN = lazy_pattern(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])|[a-z](?=[A-Z])")
_OF_LETTERS = lazy_pattern(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")


def _is_random(value: str) -> bool:
    """Whether a word is a password though nothing says so: none that is made of words goes to and fro like that."""
    return (
        len(value) >= 10
        and value.lower() != value != value.upper()
        and _RANDOM_WORD.fullmatch(value) is not None
        and len(_TURN.findall(value)) > 4
        and 3 * len("".join(_OF_LETTERS.findall(value))) <= 2 * len(value)
    )


def _is_told(value: str) -> bool:
    """Whether a word that a sentence calls a password is one: what people make up has digits among letters.

    Three digits or more, or two where there are large and small letters, or one where these go to and fro. A word of
    letters alone reads as prose does.
    """
    digits = sum(character.isdigit() for character in value)
    mixed = value.lower() != value != value.upper()
    enough = digits > 2 or (digits > 1 and mixed) or _is_random(value)
    return enough and _made_up(value) and _TECHNICAL.fullmatch(value) is None


def _below(text: str) -> Iterator[Span]:
    """Where values stand, indented, on the line below the name of a secret."""
    for found in _BELOW.finditer(text):
        name = _BEFORE.search(text[max(0, found.start() - 101) : found.start()])
        if name is not None and is_secret_name(name[0]) and _is_told(found["value"]):
            yield found.span("value")


__all__ = ["REDACTED", "Redactor", "failing_closed", "redact_secrets"]

Redactor = Callable[[str, str], str]
"""Takes secrets out of a text, given the name of the file that it is from (empty: none, or it is not known).

A plain function; all that is redacted by one of the user's takes this shape, which ``redact_secrets`` has.
"""


def failing_closed(redact: Callable[[str, str], object], error: Callable[[str], Exception]) -> Callable[..., str]:
    """A redactor that raises ``error`` where it raises, or gives no text: that quotes nothing of what it was given."""

    def told(text: str, name: str = "") -> str:
        if not text:
            return text
        try:
            said = redact(text, name)
        except Exception as raised:  # noqa: BLE001 - whatever it is, it may quote what it was given
            msg = f"the redactor raised {type(raised).__name__}"
            raise error(msg) from None
        if not isinstance(said, str):
            msg = f"the redactor returned {type(said).__name__} instead of text"
            raise error(msg)
        return said

    return told


_SETTINGS = lazy_pattern(
    r"\.(?:bash|bat|cfg|conf|config|cnf|env|err|ini|json|json5|jsonc|log|plist|properties|ps1|sh|tf|tfvars|"
    r"toml|xml|yaml|yml|zsh)"
)
_CODE = lazy_pattern(
    r"\.(?:c|cc|cjs|cpp|cs|cxx|dart|ex|exs|go|groovy|h|hpp|hs|java|jl|js|jsx|kt|kts|lua|m|mjs|php|pl|py|pyi|r|"
    r"rb|rs|scala|sql|svelte|swift|ts|tsx|vue|zig)"
)
_RUN_COMMANDS = lazy_pattern(r"\.\w{1,40}rc")
"""Settings by their whole name, which ends with no known suffix: ``.npmrc``, ``.pypirc``."""

_HEAD = lazy_pattern(
    r"(?<![\w.-])[.-]{0,2}(?P<name>[A-Za-z_][\w.-]{0,100}+)(?:\\{0,15}[\"'])?\]?(?P<is>\s{0,8}(?::=|=>|==|!=|[:=]))"
)
"""A name and what says that something is given to it. The value is looked at apart: it may hold names itself."""
_QUOTED = lazy_pattern(
    r"\s{0,8}(?:[\w.|\[\] ]{1,60}=\s{0,8})?[bfru]{0,2}"  # what a value is, in code, may stand before it
    r"(?P<quote>\\{0,15}[\"'`])(?P<value>(?:(?!(?P=quote))[^\n\\]|\\.){1,4096}?)(?P=quote)"
)
_BARE = lazy_pattern(
    r"[^\S\r\n]{0,8}(?P<value>\$?\{\{[^\n]{0,200}?\}\}|[^\s\"'`,;&\\](?:(?!\\[nrt])[^\s\"'`,;&]){0,255})"
)
_MORE = lazy_pattern(r"(?:(?<=\\)\r?\n(?=\S)|(?!\\[nrt])[^\s\"'`,;&])*")
"""The rest of a bare value: what is looked at has a limit, what goes has none, and goes on after a broken line."""
_LINE = lazy_pattern(
    r"(?m)^[ \t]*(?:-[ \t]+)?(?:export[ \t]+|set[ \t]+)?(?P<name>[A-Za-z_][\w.-]{0,100})[ \t]*(?P<is>[:=])"
)
_REST = lazy_pattern(r"[^\S\r\n]*(?P<value>[^\s\"'|>&][^\n]*)")
_FLAG = lazy_pattern(r"-(?<!\S-)-?(?P<name>[A-Za-z][\w-]{2,60})(?P<is>[ \t])")
_WORD = lazy_pattern(r"[^\S\r\n]*(?P<value>[^\s\"'`-][^\s\"'`]*)")
_SET = lazy_pattern(
    r"\b(?:setx|setenv|set[ \t]+-[a-z]{1,4}|gh[ \t]+secret[ \t]+set)[ \t]+(?P<name>[A-Za-z_]\w{0,100})"
    r"(?P<is>[ \t]+(?:(?:--body|-b)[ \t=])?)"
)
_CALL = lazy_pattern(
    r"\b(?:define|(?:get|put|set)env|environ\.(?:get|setdefault)|ENV\.fetch|env)\s{0,4}\(\s{0,4}"
    r"\\?[\"'](?P<name>[A-Za-z_][\w.-]{0,100})\\?[\"'](?P<is>\s{0,4},)"
)
"""What takes a name and what it is given, or what holds where nothing is given to it."""
_PAIR = lazy_pattern(
    r"(?i)\b(?:key|name)(?:\\?[\"'])?\s?[:=]\s?(?:\\?[\"'])?(?P<name>[A-Z_][\w.-]{0,100}+)(?:\\?[\"'])?"
    r"(?P<is>(?:,\s{0,40}|\s{1,40})(?:\\?[\"'])?value(?:\\?[\"'])?\s?[:=])"
)
"""A name and its value side by side: ``<add key="ApiKey" value="..."/>``, ``{"name": ..., "value": ...}``."""
_ROW = lazy_pattern(r"\|[ \t]{0,40}[`*]{0,2}(?P<name>[A-Za-z_][\w .-]{0,60}?)[`*]{0,2}[ \t]{0,40}(?P<is>\|)")
_CELL = lazy_pattern(r"[ \t]{0,40}[`*]{0,2}(?P<value>[^\s|`*]{1,4096})[`*]{0,2}[ \t]{0,40}(?:\||$)", re.MULTILINE)
_MARK = lazy_pattern(
    r"(?<![\w`*])[`*]{1,2}(?P<name>[A-Za-z_][\w .-]{0,60})"
    r"(?P<is>[ \t]?(?:[`*]{1,2}[ \t]{0,4}[:=]|[:=][`*]{1,2})[ \t]{0,8})"
)
_MARKED = lazy_pattern(r"[`*]{0,2}(?P<value>[^\s`*]{1,4096})")
"""A name that is set off in Markdown, and what it is given: ``**Password:** ...``, also with a mark around it."""
_TAG = lazy_pattern(r"<(?P<name>[A-Za-z_][\w.-]{0,100})(?P<is>)>")
_INSIDE = lazy_pattern(r"(?P<value>[^<\n]{1,4096})</")
_FIELD = lazy_pattern(r"[?&;](?P<name>[A-Za-z_][\w.-]{0,60})(?P<is>=)")
_PLAIN = lazy_pattern(r"(?P<value>[^&;\s\"'`<>]+)")
_FOLDED = lazy_pattern(r"(?m)^(?P<indent>[ \t]*)(?:-[ \t]+)?(?P<name>[\w.-]+):[ \t]*[|>][+-]?\d?[ \t]*\n")
_VARIABLE = lazy_pattern(r"(?P<is>\s*(?:#\s*)?(?:export\s+|set\s+)?[A-Za-z_][\w.-]*\s*[=:]\s*)\S.*")
_RANDOM = lazy_pattern(r"[A-Za-z0-9+/=-]+")
_EXPRESSION = lazy_pattern(r"[A-Za-z_][\w.-]*(?:[\[(<>~!]|==.).*|[\[({].*", re.DOTALL)
"""What computes something, or says which versions will do."""
_DEFAULTED = lazy_pattern(r"\$\{[A-Za-z_]\w{0,100}:?[=?+-](?P<default>[^{}\n]{0,256})\}")
_COMPARED = lazy_pattern(r"[a-z]+(?:[_.][a-z0-9]+)+")
_NUMBER = lazy_pattern(r"\d{4,12}")

_ROUNDS = 6
"""How often what is left is looked at again; where something went, two words may have come together."""

Goes = Callable[[str, str, str], bool]
"""Whether a value that is given to the name of a secret is one: by name, by what stands between, and by value."""


def _always(_name: str, _is: str, _value: str) -> bool:
    return True


def redact_secrets(text: str, name: str = "") -> str:
    """The text with ``[redacted]`` where a secret stood; redacting twice changes nothing more.

    The work grows with the text.

    Args:
        text: Anything that a model might be shown.
        name: The name of the file that it is from; empty for what is in no file.

    Example:
        >>> from agentctx.sources import redact_secrets
        >>> redact_secrets("password = 'xk29-fj3n-QQ81'")
        "password = '[redacted]'"
    """
    if name and is_credential_file(name):
        return f"{REDACTED}: a file of credentials\n" if text else text
    rules = _rules_of(name)
    for _ in range(_ROUNDS):
        told = _without(text, _secrets(text, rules))
        if told == text:
            break
        text = told
    return "\n".join(map(_without_value, text.split("\n"))) if name and is_environment_file(name) else text


Rule = tuple[re.Pattern[str], re.Pattern[str], Goes]
"""How a name stands before its value, how the value stands, and which values go."""


@lru_cache(maxsize=256)
def _rules_of(name: str) -> tuple[Rule, ...]:
    """How values are given to names in a file of this name."""
    path = _path(name.lower())
    suffix = ".cfg" if _RUN_COMMANDS.fullmatch(path.name) else path.suffix
    query = (
        *((_FIELD, _PLAIN, _always), (_SET, _WORD, _always)),
        *((_CALL, _QUOTED, _written_in), (_PAIR, _QUOTED, _always), (_ROW, _CELL, _tabled)),
    )
    if is_environment_file(name):
        return ()
    if _CODE.fullmatch(suffix):
        return *query, (_HEAD, _QUOTED, _written_in), (_HEAD, _BARE, _random)
    if _SETTINGS.fullmatch(suffix):
        heads = ((_HEAD, _QUOTED), (_TAG, _INSIDE), (_LINE, _REST), (_HEAD, _BARE), (_FLAG, _WORD))
        return *query, *((head, value, _setting) for head, value in (*heads, (_PAIR, _BARE)))
    quoted = ((_HEAD, _QUOTED, _always), (_TAG, _INSIDE, _always))
    bare = ((_HEAD, _BARE, _assigned), (_PAIR, _BARE, _assigned), (_MARK, _MARKED, _tabled), (_FLAG, _WORD, _assigned))
    return *query, *quoted, *bare


def _secrets(text: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """Where secrets stand: in the text as it is, as it is seen, and in what is wrapped in it."""
    keys = list(keys_in(text))
    plain = [*secret_spans(text, keys), *_named(text, rules)]
    yield from plain
    for seen, is_joined in zip(without_escapes(text), (False, True), strict=False):
        keys_seen = list(keys_in(seen.text))
        yield from seen.placed([*secret_spans(seen.text, keys_seen), *_named(seen.text, rules)])
        if is_joined:
            yield from _across(seen, keys_seen)
    yield from _across(Seen(text, text), [*plain, *keys])
    for place, content in wrapped_in(text):
        if any(True for _ in secret_spans(content)) or any(True for _ in _named(content, _rules_of(""))):
            yield place


def _across(seen: Seen, known: Iterable[Span]) -> Iterator[Span]:
    """Where keys stand that a line break or quotes cut in two; ``known`` has those that none does.

    What is already a whole key goes on only with what looks made up: the next line may be another's.
    """
    whole = joined(seen.text)
    keys = list(keys_in(whole.text)) if whole.replaced else ()
    ends = dict(known)
    for (start, end), (first, last) in zip(keys, whole.placed(keys), strict=True):
        is_cut = last - first > end - start
        if is_cut and (first not in ends or _goes_on(seen.text[ends[first] : last])):
            yield from seen.placed([(first, last)])


def _goes_on(rest: str) -> bool:
    return _made_up(re.split(r"\W", rest)[-1])


def _without(text: str, spans: Iterable[Span]) -> str:
    """The text with one mark for each run of secrets that touch each other."""
    pieces: list[str] = []
    done = 0
    for start, end in _merged(spans):
        pieces += (text[done:start], REDACTED)
        done = end
    return "".join((*pieces, text[done:]))


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _named(text: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """Where the values stand that are given to the names of secrets."""
    names: dict[re.Pattern[str], list[re.Match[str]]] = {}
    for head, value, goes in rules:
        if head not in names:
            names[head] = [found for found in head.finditer(text) if is_secret_name(found["name"])]
        yield from _given(text, names[head], value, goes)
    if any(goes is _setting for _, _, goes in rules):
        yield from _blocks(text)
        yield from _below(text)
    elif any(goes is _assigned for _, _, goes in rules):
        yield from _below(text)
        yield from (span for span in _blocks(text) if _one_made_up(text[slice(*span)]))


def _given(text: str, names: Iterable[re.Match[str]], value: re.Pattern[str], goes: Goes) -> Iterator[Span]:
    """Where the values stand that are given to names by one rule."""
    done = 0
    for found in names:
        if found.start() < done:
            continue
        given = value.match(text, found.end())
        if given is None:
            continue
        if _says_none(found["name"], given["value"]):
            done = given.end("value")
            continue
        if not goes(found["name"], found["is"], given["value"]):
            continue
        done = given.end("value")
        if value in (_BARE, _REST) and (more := _MORE.match(text, done)) is not None:
            done = more.end()
        yield given.start("value"), done


def _says_none(name: str, value: str) -> bool:
    """Whether a value says where the secret is, or will be; and whether it is the folder one is in."""
    if name.lower() == "pwd" and value.startswith(("/", "~")):
        return True
    default = _DEFAULTED.fullmatch(value)
    return is_reference(value) or is_placeholder(value) or (default is not None and not _made_up(default["default"]))


def _blocks(text: str) -> Iterator[Span]:
    """Where the indented lines stand that are under the names of secrets (YAML's ``|`` and ``>``)."""
    done = 0
    for found in _FOLDED.finditer(text):
        if found.start() < done or not is_secret_name(found["name"]):
            continue
        inside = re.compile(rf"(?:{found['indent']}[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\n)++").match(text, found.end())
        if inside is not None:
            done = inside.end()
            lines = inside[0].rstrip("\n")
            begins = inside.start() + len(lines) - len(lines.lstrip())
            yield begins, inside.start() + len(lines)


def _setting(name: str, _is: str, value: str) -> bool:
    """In settings and logs everything that is given to such a name; a PIN is a number."""
    return not value.startswith(REDACTED) and (name.lower() != "pin" or _NUMBER.fullmatch(value) is not None)


def _written_in(name: str, _is: str, value: str) -> bool:
    """In code a short value, or one with spaces or gaps to fill, is a name, a label or a template."""
    if len(value) < 4 or re.search(r"[\s{}%]", value):
        return False
    return names_only_secrets(name) or _made_up(value)


def _assigned(name: str, between: str, value: str) -> bool:
    """In prose what looks made up, or what is written like a setting."""
    if name.lower() == "pin":
        return _NUMBER.fullmatch(value.rstrip(".")) is not None
    if _EXPRESSION.fullmatch(value) or (between.strip() in ("==", "!=") and _COMPARED.fullmatch(value)):
        return False
    tight = between == "=" and names_only_secrets(name) and len(value) >= 4
    return _made_up(value) or (tight and re.search(r"[\d!@#$%^*?]", value) is not None)


def _tabled(_name: str, _is: str, value: str) -> bool:
    """In the next cell of a table what looks made up: others say what a field is for."""
    return _made_up(value)


def _one_made_up(value: str) -> bool:
    return _made_up(value) and len(value.split()) == 1


def _made_up(value: str) -> bool:
    """Prose after a colon is no secret; what has letters and digits, and is long, may be."""
    return len(value) >= 8 and re.search(r"\d", value) is not None and re.search(r"[A-Za-z]", value) is not None


def _random(name: str, between: str, value: str) -> bool:
    """In code what stands without quotes is a name, unless no one would give such a name: it is within a string."""
    if name.isupper() and between == "=" and value.isalnum() and _made_up(value):
        return True  # a variable that a command within the code is given
    digits = sum(character.isdigit() for character in value)
    return len(value) >= 16 and digits >= 3 and _RANDOM.fullmatch(value) is not None and _made_up(value)


def _without_value(line: str) -> str:
    """A line of a file of environment variables: the name stays; what is no assignment and no comment goes."""
    found = _VARIABLE.fullmatch(line.rstrip("\r"))
    if found is not None:
        return found["is"] + REDACTED
    return line if not line.strip() or line.lstrip().startswith("#") else REDACTED
