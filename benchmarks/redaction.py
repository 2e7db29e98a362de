"""How many made-up secrets of known shapes are redacted, in what kinds of text, and what is redacted that is none.

Run it with ``python benchmarks/redaction.py``; ``--leaks`` names what is missed and ``--alarms`` what goes in vain.
With detect-secrets installed (``pip install detect-secrets``) it is asked the same: a secret counts as found when it
reports anything in a file with the text.
"""

from __future__ import annotations

import base64
import random
import string
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from agentctx.sources import redact_secrets

HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
WORD = string.ascii_letters + string.digits
PAD = WORD + "_-"
B64 = WORD + "+/"


def shapes(seed: int = 1) -> dict[str, str]:
    """Secrets by name: none is real, all are made of seeded random characters behind the prefixes of services."""
    source = random.Random(seed)  # noqa: S311 - the same characters every time are the point

    def made(length: int, alphabet: str = WORD) -> str:
        return "".join(source.choice(alphabet) for _ in range(length - 2)) + ("7e" if alphabet == HEX else "7A")[:2]

    def base32(length: int) -> str:
        return "".join(source.choice(BASE32) for _ in range(length))

    def uuid() -> str:
        return "-".join(made(length, HEX) for length in (8, 4, 4, 4, 12))

    jwt = f"eyJ{made(33)}.eyJ{made(60)}.{made(43, PAD)}"
    return {
        "1Password": f"ops_eyJ{made(260, B64)}",
        "1Password key": f"A3-{made(6, UPPER)}-{made(11, UPPER)}-{made(5, UPPER)}-{made(5, UPPER)}-{made(5, UPPER)}",
        "AWS key id": f"AKIA{base32(16)}",
        "AWS session id": f"ASIA{base32(16)}",
        "AWS Bedrock": f"ABSK{made(110, B64)}",
        "age": f"AGE-SECRET-KEY-1{made(58, UPPER)}",
        "Airtable": f"pat{made(14)}.{made(64, HEX)}",
        "Alibaba": f"LTAI{made(20)}",
        "Anthropic": f"sk-ant-api03-{made(93, PAD)}AA",
        "Anthropic admin": f"sk-ant-admin01-{made(93, PAD)}AA",
        "Artifactory": f"AKCp{made(69)}",
        "Atlassian": f"ATATT3{made(186, PAD)}",
        "Azure storage": f"{made(86, B64)}==",
        "Azure OpenAI": f"{made(52)}JQQJ99{made(26)}",
        "Azure AD": f"{made(3)}8Q~{made(34, PAD)}",
        "Azure bus": f"{made(33, B64)}+ASb{made(6, B64)}=",
        "Azure search": f"{made(42)}AzSe{made(6)}",
        "Brevo": f"xkeysib-{made(64, HEX)}-{made(16)}",
        "Clojars": f"CLOJARS_{made(60, HEX)}",
        "Contentful": f"CFPAT-{made(43, PAD)}",
        "Databricks": f"dapi{made(32, HEX)}",
        "DeepSeek": f"sk-{made(32, HEX)}",
        "DigitalOcean": f"dop_v1_{made(64, HEX)}",
        "Discord": f"M{made(23)}.{made(6)}.{made(30)}",
        "Discord hook": f"https://discord.com/api/webhooks/1234567890123/{made(68)}",
        "Docker Hub": f"dckr_pat_{made(27)}",
        "Doppler": f"dp.pt.{made(43)}",
        "Duffel": f"duffel_live_{made(43)}",
        "Dynatrace": f"dt0c01.{made(24, UPPER)}.{made(64, UPPER)}",
        "E2B": f"e2b_{made(40, HEX)}",
        "EasyPost": f"EZAK{made(54)}",
        "Figma": f"figd_{made(40, PAD)}A",
        "Fireworks": f"fw_{made(24)}",
        "Fly personal": f"fo1_{made(43, PAD)}",
        "Fly": f"fm2_{made(80, B64)}",
        "Flutterwave": f"FLWSECK_TEST-{made(32)}",
        "GitHub": f"ghp_{made(36)}",
        "GitHub app": f"ghs_{made(36)}",
        "GitHub fine": f"github_pat_{made(22)}_{made(59)}",
        "GitLab": f"glpat-{made(20)}",
        "GitLab deploy": f"gldt-{made(20)}",
        "Google": f"AIza{made(35)}",
        "Google OAuth": f"ya29.{made(80, PAD)}A",
        "Google client": f"GOCSPX-{made(28)}",
        "Grafana": f"glsa_{made(32)}_{made(8, HEX)}",
        "Grafana Cloud": f"glc_{made(60)}",
        "Groq": f"gsk_{made(52)}",
        "Heroku": f"HRKU-AA{made(58)}",
        "HubSpot": f"pat-na1-{uuid()}",
        "Hugging Face": f"hf_{made(34)}",
        "JWT": jwt,
        "LangSmith": f"lsv2_pt_{made(32, HEX)}_{made(10, HEX)}",
        "Linear": f"lin_api_{made(40)}",
        "Mailchimp": f"{made(32, HEX)}-us12",
        "Mailgun": f"key-{made(32, HEX)}",
        "Mapbox": f"sk.eyJ{made(60)}.{made(22)}",
        "Meta": f"EAA{made(120)}",
        "Netlify": f"nfp_{made(36)}",
        "New Relic": f"NRAK-{made(27, UPPER)}",
        "Notion": f"ntn_{made(46)}",
        "npm": f"npm_{made(36)}",
        "NuGet": f"oy2{made(43, string.ascii_lowercase + string.digits).lower()}",
        "NVIDIA": f"nvapi-{made(64)}",
        "OpenAI": f"sk-proj-{made(74, PAD)}T3BlbkFJ{made(74, PAD)}",
        "OpenAI old": f"sk-{made(20)}T3BlbkFJ{made(20)}",
        "OpenRouter": f"sk-or-v1-{made(64, HEX)}",
        "OpenShift": f"sha256~{made(43)}",
        "Perplexity": f"pplx-{made(48)}",
        "Pinecone": f"pcsk_{made(6)}_{made(62)}",
        "PlanetScale": f"pscale_tkn_{made(43)}",
        "PostHog": f"phx_{made(43)}",
        "Postman": f"PMAK-{made(24, HEX)}-{made(34, HEX)}",
        "password hash": f"$6${made(16)}${made(86)}",
        "password hash, bcrypt": f"$2b$12${made(53)}",
        "private key": f"-----BEGIN PRIVATE KEY-----\n{made(64, B64)}\n{made(64, B64)}\n-----END PRIVATE KEY-----",
        "Pulumi": f"pul-{made(40, HEX)}",
        "PyPI": f"pypi-AgEIcHlwaS5vcmc{made(150, PAD)}A",
        "Replicate": f"r8_{made(37)}",
        "RubyGems": f"rubygems_{made(48, HEX)}",
        "SendGrid": f"SG.{made(22)}.{made(43)}",
        "Sentry": f"sntrys_{made(100)}",
        "Shippo": f"shippo_live_{made(40, HEX)}",
        "Shopify": f"shpat_{made(32, HEX)}",
        "Slack bot": f"xoxb-{source.randrange(10**11, 10**12)}-{source.randrange(10**12, 10**13)}-{made(24)}",
        "Slack app": f"xapp-1-A{made(10, UPPER)}-{source.randrange(10**12, 10**13)}-{made(64, HEX)}",
        "Slack hook": f"https://hooks.slack.com/services/T{made(8, UPPER)}/B{made(8, UPPER)}/{made(24)}",
        "Sonar": f"sqp_{made(40, HEX)}",
        "Sourcegraph": f"sgp_{made(40, HEX)}",
        "Square": f"sq0csp-{made(43)}",
        "Stripe": f"sk_live_{made(24)}",
        "Stripe restricted": f"rk_live_{made(24)}",
        "Supabase": f"sbp_{made(40, HEX)}",
        "Tailscale": f"tskey-auth-{made(17)}-{made(32)}",
        "Tavily": f"tvly-{made(32)}",
        "Telegram": f"{source.randrange(10**9, 10**10)}:AA{made(33)}",
        "Terraform": f"{made(14)}.atlasv1.{made(67)}",
        "Twilio": f"SK{made(32, HEX)}",
        "Typeform": f"tfp_{made(59)}",
        "Vault": f"hvs.{made(90)}",
        "Voyage": f"pa-{made(43)}",
        "webhook": f"whsec_{made(32)}",
        "xAI": f"xai-{made(80)}",
        "URL password": f"postgres://app:{made(14)}@db.example.org:5432/app",
        "URL without user": f"redis://:{made(14)}@cache:6379/0",
        "URL user": f"https://{made(40)}@git.example.org/x.git",
        "basic header": f"Authorization: Basic {base64.b64encode(f'joe:{made(12)}'.encode()).decode()}",
        "bearer header": f"Authorization: Bearer {made(32)}",
        "cookie": f"Cookie: sid={made(32)}",
        "signed URL": f"https://x.blob.core.windows.net/c?sv=2024-01-01&sig={made(40)}%3D&se=1",
        "presigned URL": f"https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIA{base32(16)}&X-Amz-Date=1",
        "storage string": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={made(86, B64)}==;EndpointSuffix=x",
        "bus string": f"Endpoint=sb://x.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={made(43, B64)}=",
        "JDBC": f"jdbc:mysql://db:3306/app?user=joe&password={made(12)}&ssl=true",
        "JDBC Oracle": f"jdbc:oracle:thin:scott/{made(12)}@//db:1521/x",
        "JDBC SQL Server": f"jdbc:sqlserver://db;databaseName=x;user=sa;password={made(12)};encrypt=true",
        "ADO": f"Server=db;Database=x;User Id=sa;Password={made(12)};",
        "netrc": f"machine example.org login joe password {made(12)}",
        "docker login": f"docker login -u joe -p {made(14)} registry.example.org",
        "docker login long": f"docker login --username joe --password {made(14)}",
        "helm login": f"helm registry login example.org -u joe -p {made(14)}",
        "mysql": f"mysql -h db -u root -p{made(12)} app",
        "psql": f"PGPASSWORD={made(12)} psql -h db",
        "redis-cli": f"redis-cli -h cache -a {made(12)} ping",
        "curl user": f"curl -s -u joe:{made(12)} https://example.org",
        "curl header": f"curl -H 'X-Api-Key: {made(24)}' https://example.org",
        "curl private token": f'curl --header "PRIVATE-TOKEN: {made(20)}" https://example.org',
        "sshpass": f"sshpass -p {made(12)} ssh joe@host",
        "ldapsearch": f"ldapsearch -x -D cn=admin -w {made(12)}",
        "openssl": f"openssl rsa -in k.pem -passin pass:{made(12)}",
        "keytool": f"keytool -list -keystore k -storepass {made(12)}",
        "aws configure": f"aws configure set aws_secret_access_key {made(40, B64)}",
        "kubectl": f"kubectl create secret generic x --from-literal=password={made(12)}",
        "npmrc": f"//registry.npmjs.org/:_authToken={uuid()}",
        "export": f"export DB_PASSWORD={made(12)}",
        "setx": f"setx API_TOKEN {made(24)}",
        "sql": f"CREATE USER joe IDENTIFIED BY '{made(12)}'",
        "sql role": f"ALTER ROLE joe WITH PASSWORD '{made(12)}'",
    }


def everyday(seed: int = 1) -> dict[str, tuple[str, str]]:
    """Ways to write a password that no prefix tells, each with the password in it."""
    source = random.Random(seed)  # noqa: S311 - the same characters every time are the point
    key = "".join(source.choice(WORD) for _ in range(14)) + "7A"
    lines = "".join(source.choice(B64) for _ in range(60)) + "7A=="
    deep = '"\\"{\\\\\\"api_key\\\\\\": \\\\\\"' + key + '\\\\\\"}\\""'
    return {
        "wp-config": (f"define( 'DB_PASSWORD', '{key}' );", key),
        "web.config": (f'<add key="ApiKey" value="{key}" />', key),
        "name and value": ('{"name": "DB_PASSWORD", "value": "' + key + '"}', key),
        "JSON three deep": (deep, key),
        "no-break space": (f"password:\u00a0{key}", key),
        "default of a variable": (f'os.getenv("API_KEY", "{key}")', key),
        "default in a shell": (f"DB_PASSWORD=${{DB_PASSWORD:-{key}}}", key),
        "continued line": (f"API_KEY={key}\\\n{key[::-1]}", key[::-1]),
        "table": (f"| password | {key} |", key),
        "table of two words": (f"| API key | `{key}` |", key),
        "PowerShell": (f'ConvertTo-SecureString "{key}" -AsPlainText -Force', key),
        "PowerShell, bare": (f"ConvertTo-SecureString {key} -AsPlainText -Force", key),
        "password on stdin": (f"echo {key} | docker login --password-stdin -u x", key),
        "password of sudo": (f"echo '{key}' | sudo -S ls", key),
        "wireless": (f'psk="{key}"', key),
        "PuTTY": (f"Encryption: none\nPrivate-Lines: 1\n{lines}\nPrivate-MAC: 0f1e", lines),
        "folded": (f"token: >-\n  {key}\n", key),
        "line below": (f"token:\n    {key}\n", key),
        "sentence": (f"The password for the database is {key}.", key),
        "sentence of a change": (f"password has been set to `{key}`, tell nobody", key),
        "German": (f"Passwort: {key}", key),
        "German sentence": (f"Das Datenbankpasswort lautet {key}.", key),
        "French": (f"Mot de passe : {key}", key),
        "Spanish": (f"La contraseña es {key}", key),
        "Russian": (f"\u043f\u0430\u0440\u043e\u043b\u044c: {key}", key),
        "Chinese": (f"\u5bc6\u7801\uff1a{key}", key),
        "Markdown": (f"**Password:** {key}", key),
        "Markdown, name alone": (f"**Password**: `{key}`", key),
        "Markdown, code": (f"- `password`: `{key}`", key),
        "short name": (f"login: bob, pass: {key}", key),
        "short name, assigned": (f"pass={key} and pw={key}", key),
        "tab": (f"PASSWORD\t{key}", key),
        "key of two words": (f"signing key: {key}\nmy API key: {key}", key),
        "arrow": (f"password -> {key}", key),
        "for where": (f"password (prod) = {key}", key),
        "for whom": (f"passwd for root: {key}\nPassword for 'bob': {key}", key),
        "sentence of the future": (f"Your new password will be {key}", key),
        "use of it": (f"use the token {key} for login", key),
        "line below, not indented": (f"password\n{key}\nPassword:\n{key}", key),
        "folded in a line": (f"failed: password: >\n  {key}", key),
        "Kubernetes": (f"- name: DB_PASSWORD\n  value: {key}", key),
        "key and value": ('{"key":"API_KEY","value":"' + key + '"}', key),
        "user of GitHub": (f"https://{key}{key[::-1]}:x-oauth-basic@github.com/a/b", key),
        "Ruby": (f':password => "{key}"', key),
        "Spanish key": (f"clave: {key}", key),
        "Spanish key, sentence": (f"la clave es {key}", key),
        "Russian, alone": (f"\u043f\u0430\u0440\u043e\u043b\u044c {key}", key),
        "Russian, of what": (
            f"\u043f\u0430\u0440\u043e\u043b\u044c \u043e\u0442 \u0431\u0430\u0437\u044b: {key}",
            key,
        ),
        "Arabic": (
            f"\u0643\u0644\u0645\u0629 \u0627\u0644\u0645\u0631\u0648\u0631: {key}",
            key,
        ),
        "passphrase of a key": (f"ssh-keygen -t ed25519 -N '{key}' -f id", key),
    }


def _core(secret: str) -> str:
    """The part of a credential that must not be told: its longest run of letters and digits with a digit in it."""
    runs = "".join(each if each.isalnum() else " " for each in secret).split()
    return max((run for run in runs if any(map(str.isdigit, run))), key=len)


def _hidden(secret: str) -> str:
    middle = secret.index(_core(secret)) + len(_core(secret)) // 2
    return f"{secret[:middle]}\u200b{secret[middle:]}"


def _cut(secret: str, between: str) -> str:
    middle = secret.index(_core(secret)) + len(_core(secret)) // 2
    return f"{secret[:middle]}{between}{secret[middle:]}"


PLACES: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "prose": ("", lambda secret: f"see {secret} there"),
    "markdown": ("a.md", lambda secret: f"```\n{secret}\n```"),
    "environment": ("a.env.txt", lambda secret: f"VALUE={secret}"),
    "JSON": ("a.json", lambda secret: '{"k": "' + secret.replace("\n", "\\n").replace('"', '\\"') + '"}'),
    "YAML": ("a.yaml", lambda secret: f"value: {secret}"),
    "INI": ("a.ini", lambda secret: f"value = {secret}"),
    "source code": ("a.py", lambda secret: f"x = '''{secret}'''  # why"),
    "shell history": ("", lambda secret: f" 1042  2026-01-01 10:00:00 {secret}"),
    "log": ("a.log", lambda secret: f"2026-01-01T00:00:00Z [info] {secret} done"),
    "coloured log": ("a.log", lambda secret: f"\x1b[1;32m{secret}\x1b[0m"),
    "escaped colour": ("", lambda secret: f"\\u001b[32m{secret}\\u001b[0m"),
    "escaped lines": ("", lambda secret: '{"m":"a\\n' + secret.replace("\n", "\\n").replace('"', '\\"') + '\\nb"}'),
    "percent": ("", lambda secret: f"?next%3D{secret}%26x"),
    "unicode escape": ("", lambda secret: f'"k\\u003d{secret}"'),
}
HIDINGS: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "in base64": ("", lambda secret: f"data: {base64.b64encode(secret.encode()).decode()}"),
    "no width": ("", lambda secret: f"see {_hidden(secret)} there"),
    "colour inside": ("", lambda secret: f"see {_cut(secret, chr(27) + '[31m')} there"),
    "wrapped": ("", lambda secret: f"see {_cut(secret, chr(10))} there"),
    "continued": ("", lambda secret: f"see {_cut(secret, chr(92) + chr(10) + '    ')} there"),
    "two texts": ("a.py", lambda secret: f'x = "{_cut(secret, chr(34) + chr(10) + "    " + chr(34))}"'),
}

HARMLESS: tuple[tuple[str, str], ...] = (
    ("pin: numpy==1.26.4", "a.txt"),
    ("token = tokens[0]", "a.txt"),
    ("token = tokens[0]", "a.py"),
    ("password = getpass('Password: ')", "a.py"),
    ("password: str | None = None", "a.py"),
    ("max_tokens: 4096\nprompt_tokens=1234\ntokenizer: o200k_base", "a.yaml"),
    ("token_count: 128000 and total_tokens=128001", ""),
    ("next_page_token=abc123def456 and pageToken: xyz98765432", ""),
    ("sha512-" + "A1b2" * 21 + "A1==", "package-lock.json"),
    ("sha256:" + "0123456789abcdef" * 4, "a.log"),
    ("commit 7169b32dac0940e401d83c4a29548fa97169b32d", ""),
    ("550e8400-e29b-41d4-a716-446655440000", "a.log"),
    ("sk-toggleable__control sk-estimator-doc-link fitted", "a.html"),
    ("task-aaaaaaaaaaaaaaaaaaaaaaaaaaa risk-bbbbbbbbbbbbbbbbbbbbbbbb", ""),
    ("http://localhost:4873/@scope/package", "a.md"),
    ("postgres://joe:${DB_PASSWORD}@db/x", "a.md"),
    ("git@example.org:x/y.git", ""),
    ("CACHE_KEY: name\nPRIMARY_KEY: id\nPUBLIC_KEY: x", "a.yaml"),
    ("password: ${{ secrets.DB_PASSWORD }}", "a.yml"),
    ("secretName: my-secret\nsecretKeyRef:\n  name: db", "a.yaml"),
    ("password_file: /run/secrets/db", "a.yaml"),
    ("The token: it is read once. Fix password: handle resets", ""),
    ("Authorization: see the chapter below", "a.md"),
    ("Cookie: a small text that a site keeps", "a.md"),
    ("def test_token_2_is_refused(token, secret): ...", "a.py"),
    ("if token == expected_token_value_2: pass", "a.py"),
    ("const apiKey = process.env.API_KEY2;", "a.ts"),
    ("api_key = os.environ['OPENAI_API_KEY']", "a.py"),
    ("docker run -p 8080:80 nginx", ""),
    ("docker login --username joe --password-stdin", ""),
    ("mysql -h db -P 3306", ""),
    ("curl -u joe https://example.org", ""),
    ("ssh -p 2222 host", ""),
    ("connect(password=db_password, token=self.token)", "a.md"),
    ("see -----BEGIN CERTIFICATE----- and so on", "a.md"),
    ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk", "a.md"),
    ("SG.example and key-value and xoxb", ""),
    ("C:\\new\\table\\users", ""),
    ("author: bob2000\nauthors = alice99", "a.toml"),
    ("basic understanding, bearer of news", ""),
    ("OLDPWD=/home/user1/project2\nPWD=/home/user1/project3", ""),
    ('"api_key": "string"', "a.json"),
    ('PASSWORD = "test"', "a.py"),
    ('fetch(url, { credentials: "same-origin" })', "a.ts"),
    ("Authorization: Bearer <token>", "a.md"),
    ("Authorization: Bearer {token}", "a.py"),
    ('assert response.json()["token"] == expected_token_1', ""),
    ("DB_PASSWORD=${DB_PASSWORD:-postgres}", ""),
    ("DB_PASSWORD: ${DB_PASSWORD:-postgres}", "a.yaml"),
    ('csrf_token = "{% csrf_token %}"', "a.html"),
    ('api_key: "YOUR_API_KEY"', "a.yaml"),
    ("secret_id: projects/123/secrets/my-secret/versions/2", "a.yaml"),
    ("| password | string | the password of the user |", "a.md"),
    ("echo $TOKEN | docker login --password-stdin", ""),
    ("os.getenv('API_KEY', '')", "a.py"),
    ("The token is base64url-encoded, and the secret is sha256-hashed", "a.md"),
    ("The password was changed to a longer one in 2026", ""),
    ("The password is required; the token is AuthServiceV2", ""),
    ("The token is 16-character; the secret is v1.20.3", ""),
    ("The password is set to expire on 2026-01-01T00:00Z", ""),
    ("The token is /var/run/secrets/token2026", ""),
    ("Passwort: mindestens 12 Zeichen; das Passwort ist erforderlich", ""),
    ("token:\n  required in 2026", "a.md"),
    ("secrets:\n  db_password_2024:\n    external: true", "a.yaml"),
    ("ssh-keygen -t ed25519 -N '' -f id_2026", ""),
    ("- `token`: `string`, **secret:** of 2026, `password`: `min8`", "a.md"),
    ("12 pass: 340 tests, 2 fail: test_pw_1234", ""),
    ("key: Value2024X1 and primary key: order_20240101, cache key: abc123def456", ""),
    ("SSH key: id_ed25519 and API key: see chapter 2026", ""),
    ("def token(self) -> Token2024: ...", ""),
    ("use the token TestClass2Suite3 or token 7169b32dac0940e401d83c4a29548fa9", ""),
    ("password\nResetPasswordForm2\n", ""),
    ("la clave es user_id; clave: primaria", ""),
    ("https://localhost:8080/a@b and https://example.org:443/@scope1234567890", ""),
    ('{"key":"retries","value":"12345678a"}', ""),
    ("- name: RETRIES\n  value: 12345678a", ""),
)


def recall(
    find: Callable[[str, str, str], bool], places: Mapping[str, tuple[str, Callable[[str], str]]]
) -> Iterator[tuple[str, str, bool]]:
    """For each place and secret whether it is found."""
    for place, (name, put) in places.items():
        for kind, secret in shapes().items():
            text = put(secret)
            yield place, kind, find(text, name, secret)


def redacted(text: str, name: str, secret: str) -> bool:
    """Whether agentctx takes a secret out."""
    told = redact_secrets(text, name)
    core = _core(secret)
    quarter = max(6, len(core) // 3)
    parts = (core, core[:quarter], core[-quarter:])
    return (
        told != text
        and not any(part in told for part in parts)
        and base64.b64encode(secret.encode()).decode() not in told
    )


def _detect_secrets() -> Callable[[str, str, str], bool] | None:
    """What detect-secrets says of a file with a text, when it is installed."""
    try:
        from detect_secrets import SecretsCollection  # noqa: PLC0415 - only for comparison
        from detect_secrets.settings import default_settings  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    folder = Path(tempfile.mkdtemp())

    def find(text: str, name: str, _secret: str) -> bool:
        place = folder / (name or "a.txt")
        place.write_text(text, encoding="utf-8")
        found = SecretsCollection()
        with default_settings():
            found.scan_file(str(place))
        return bool(found.data)

    return find


def main() -> None:
    """Print the table."""
    finders: dict[str, Callable[[str, str, str], bool]] = {"agentctx": redacted}
    if (other := _detect_secrets()) is not None:
        finders["detect-secrets"] = other
    results = {who: list(recall(find, {**PLACES, **HIDINGS})) for who, find in finders.items()}
    print(f"{len(shapes())} shapes of secrets, {len(PLACES)} kinds of text, {len(HIDINGS)} ways of hiding\n")
    print(f"| found in | {' | '.join(finders)} |\n|---|{'---|' * len(finders)}")
    for place in (*PLACES, *HIDINGS):
        counts = [sum(found for at, _, found in results[who] if at == place) for who in finders]
        print(f"| {place} | {' | '.join(f'{count} of {len(shapes())}' for count in counts)} |")
    daily = everyday()
    counts = [sum(find(text, "", secret) for text, secret in daily.values()) for find in finders.values()]
    print(f"| everyday writing | {' | '.join(f'{count} of {len(daily)}' for count in counts)} |")
    alarms = {who: [text for text, name in HARMLESS if _goes(who, find, text, name)] for who, find in finders.items()}
    print(f"| false alarms | {' | '.join(f'{len(each)} of {len(HARMLESS)}' for each in alarms.values())} |")
    if "--leaks" in sys.argv:
        for place, kind, found in results["agentctx"]:
            if not found:
                print(f"leaks: {place}: {kind}")
    if "--alarms" in sys.argv:
        for text in alarms["agentctx"]:
            print(f"alarm: {text!r}")


def _goes(who: str, find: Callable[[str, str, str], bool], text: str, name: str) -> bool:
    return redact_secrets(text, name) != text if who == "agentctx" else find(text, name, "")


if __name__ == "__main__":
    main()
