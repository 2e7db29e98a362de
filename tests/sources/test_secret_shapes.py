"""Credentials of many services, wherever they turn up: in files, environments, remotes, diffs, errors, names."""

import random
import string
import subprocess

import anyio
import pytest

from agentctx.sources import BuildErrors, Environment, GitSource, ReadOnlyFiles, RecentFiles, gather, redact_secrets
from agentctx.sources.git import redact_diff

HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + "234567"
WORD = string.ascii_letters + string.digits

_random = random.Random(4711)  # noqa: S311 - the same characters every time are the point


def made(length, alphabet=WORD):
    """Characters of no meaning; made up here, so that no scanner takes this file for a leak."""
    return "".join(_random.choice(alphabet) for _ in range(length - 4)) + "a1b2" if alphabet != UPPER else "A2B3" * 4


KEYS = {
    "AWS": "AKIA" + made(16, UPPER),
    "Anthropic": "sk-ant-api03-" + made(90),
    "Atlassian": "ATATT3" + made(60),
    "Azure storage": "AccountKey=" + made(86) + "==",
    "Bitbucket": "ATBB" + made(32),
    "Cerebras": "csk-" + made(48, HEX),
    "Cloudflare": "v1.0-" + made(24, HEX) + "-" + made(146, HEX),
    "Crates": "cio" + made(32),
    "Databricks": "dapi" + made(32, HEX),
    "Discord bot": "M" + made(23) + "." + made(6) + "." + made(30),
    "Docker Hub": "dckr_pat_" + made(27),
    "Firebase": "AAAA" + made(7) + ":" + made(140),
    "GitHub app": "ghs_" + made(36),
    "GitHub classic": "ghp_" + made(36),
    "GitHub fine": "github_pat_" + made(22) + "_" + made(59),
    "GitLab": "glpat-" + made(20),
    "Google": "AIza" + made(35),
    "Google OAuth": "ya29." + made(60),
    "Grafana": "glsa_" + made(32) + "_" + made(8, HEX),
    "Groq": "gsk_" + made(52),
    "Heroku": "HRKU-" + f"{made(8, HEX)}-a1b2-c3d4-e5f6-{made(12, HEX)}",
    "Hugging Face": "hf_" + made(34),
    "JWT": "eyJ" + made(20) + ".eyJ" + made(40) + "." + made(43),
    "JWT encrypted": "eyJ" + made(30) + "." + made(40) + "." + made(16) + "." + made(50) + "." + made(22),
    "Linear": "lin_api_" + made(40),
    "Mailchimp": made(32, HEX) + "-us12",
    "Mailgun": "key-" + made(32, HEX),
    "Notion": "ntn_" + made(46),
    "OpenAI": "sk-proj-" + made(60),
    "OpenRouter": "sk-or-v1-" + made(64, HEX),
    "PayPal": "access_token$production$" + made(16, HEX) + "$" + made(32, HEX),
    "PlanetScale": "pscale_tkn_" + made(43),
    "PyPI": "pypi-AgE" + made(60),
    "SendGrid": "SG." + made(22) + "." + made(43),
    "Sentry": "sntrys_" + made(64),
    "Shopify": "shpat_" + made(32, HEX),
    "Slack": "xoxb-1234567890-" + made(24),
    "Slack app": "xapp-1-" + made(40),
    "Slack hook": "https://hooks.slack.com/services/T" + made(8) + "/B" + made(8) + "/" + made(24),
    "Square": "sq0atp-" + made(22),
    "Stripe": "sk_live_" + made(24),
    "Supabase": "sbp_" + made(40, HEX),
    "Telegram": "123456789:AA" + made(33),
    "Telegram address": "https://api.telegram.org/bot123456789:AA" + made(33) + "/sendMessage",
    "Terraform": made(14) + ".atlasv1." + made(67),
    "Twilio": "SK" + made(32, HEX),
    "URL password": "postgres://joe:" + made(12) + "@db.example.org/x",
    "URL password with signs": "https://joe:p@ss/w" + made(9) + "@example.org/x",
    "URL user": "https://" + made(24) + "@example.org/x.git",
    "URL without user": "redis://:" + made(9) + "@cache:6379/0",
    "Vault": "hvs." + made(90),
    "basic header": "Authorization: Basic " + made(24) + "==",
    "bearer header": "Authorization: Bearer " + made(24),
    "cookie": "Cookie: session=" + made(24),
    "curl": "curl -s -u joe:" + made(12) + " https://example.org",
    "netrc": "machine example.org login joe password " + made(12),
    "npm": "npm_" + made(36),
    "private key": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + made(64) + "\n-----END OPENSSH PRIVATE KEY-----",
    "private key on one line": "-----BEGIN PRIVATE KEY-----\\n" + made(64) + "\\n-----END PRIVATE KEY-----\\n",
    "shell": "mysql -h db -u root -p" + made(12),
    "signed URL": "https://x.example.org/c?sv=2020&sig=" + made(40) + "&se=1",
}
PLACES = {
    "": "see {} there",
    "a.json": '{{"k": "{}"}}',
    "a.log": "2026-01-01 [info] {} done",
    "a.md": "```\n{}\n```",
    "a.py": 'x = "{}"  # why',
    "a.yaml": "value: {}",
}


def secret_of(text):
    """The part of a credential that must not be told: its longest run of letters and digits with both in it."""
    runs = "".join(each if each.isalnum() else " " for each in text).split()
    return max((run for run in runs if any(map(str.isdigit, run))), key=len)


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("kind", KEYS)
def test_no_credential_is_told(kind, name):
    """A credential goes from every kind of file, and what stands around it stays."""
    told = redact_secrets(PLACES[name].format(KEYS[kind]), name)
    assert secret_of(KEYS[kind]) not in told
    before, after = PLACES[name].format("|").split("|")
    assert told.startswith(before)
    to_the_end = name == "a.log" or KEYS[kind].startswith(("Authorization", "Cookie"))
    assert to_the_end or told.endswith(after)


@pytest.mark.parametrize("before", ["x_", "1", "%3D", "\\u003d", "\x1b[32m"])
@pytest.mark.parametrize(
    "kind", ["AWS", "GitHub classic", "Groq", "Hugging Face", "Notion", "PyPI", "Replicate", "npm"]
)
def test_it_does_not_matter_what_stands_before_a_key(kind, before):
    """A key that nothing else begins like goes, also where it is the end of a longer word."""
    key = KEYS.get(kind) or "r8_" + made(37)
    assert key not in redact_secrets(f"see {before}{key} there")


def test_a_key_of_a_registry_goes_from_its_settings():
    """What is given in base64, with the signs at its end, is a value and no comparison."""
    value = "dXNlcjo3eFN1eGc4WVRac00yMVVxaHB3Yg=="
    for name in (".npmrc", ".pypirc", ""):
        assert value not in redact_secrets(f"//r.example/:_auth={value}\n", name)


@pytest.mark.parametrize("width", [64, 70, 76])
def test_the_middle_of_a_private_key_is_not_told_in_a_diff(width):
    """Lines of a key whose two ends the diff does not show go; those of a redactor that takes no keys out stay."""
    lines = [made(width) for _ in range(7)]
    hunk = "".join(f" {line}\n" for line in lines[:3]) + f"-{lines[3]}\n+{lines[4]}\n" + f" {lines[5]}\n E+rnP4Q==\n"
    text = f"diff --git a/c.py b/c.py\n--- a/c.py\n+++ b/c.py\n@@ -9,5 +9,5 @@ {lines[6]}\n{hunk}"
    told = redact_diff(text, redact_secrets)
    assert not [line for line in (*lines, "E+rnP4Q") if line in told]
    assert redact_diff(text, lambda text, _name: text) == text


def test_sums_in_a_diff_are_told():
    """Hashes and words are no key."""
    hunk = f"+{'0123456789abcdef' * 4}\n+{'word' * 16}\n"
    text = f"diff --git a/sums b/sums\n--- a/sums\n+++ b/sums\n@@ -0,0 +1,2 @@\n{hunk}"
    assert redact_diff(text, redact_secrets) == text


@pytest.mark.parametrize("kind", KEYS)
def test_no_credential_is_told_in_a_diff(kind):
    """Nor when it stands in lines that were added."""
    lines = "\n".join(f"+{line}" for line in KEYS[kind].split("\n"))
    text = f"diff --git a/notes b/notes\n--- a/notes\n+++ b/notes\n@@ -0,0 +1 @@\n{lines}\n"
    assert secret_of(KEYS[kind]) not in redact_diff(text, redact_secrets)


@pytest.mark.anyio
async def test_no_credential_is_told_by_an_error():
    """What a source complains of is told without any of them."""

    def complaining(text):
        def complain(_query):
            raise LookupError(text)

        return complain

    answered = await gather([complaining(text) for text in KEYS.values()])
    assert len(answered.problems) == len(KEYS)
    assert [kind for kind, said in zip(KEYS, answered.problems, strict=True) if secret_of(KEYS[kind]) in said] == []


NAMED = {
    "API_KEY_2": "hunter2",
    "AZURE_OPENAI_KEY": "hunter2",
    "CI_CREDS": "hunter2",
    "DATABASE_URL": "postgres://joe:hunter2@db/x",
    "DB_PASS": "hunter2",
    "GH_PAT": "hunter2",
    "GIT_ASKPASS_TOKEN": "hunter2",
    "MYSQL_PWD": "hunter2",
    "PGPASSWORD": "hunter2",
    "SENTRY_DSN": "https://hunter2@sentry.example.org/1",
    "STRIPE_SECRET": "hunter2",
}


@pytest.mark.anyio
async def test_no_environment_variable_tells_one(tmp_path):
    """Of variables that are asked for, those that hold secrets give their names alone."""
    environ = {**NAMED, "EDITOR": "vi", "SORT_KEY": "name", "LANG": "C"}
    (told,) = await Environment(tmp_path, tools=(), variables=("*",), environ=environ)("")
    assert "hunter2" not in told.content
    assert all(f"{name}=" in told.content for name in NAMED)
    assert "EDITOR=vi\nGH_PAT=" in told.content
    assert "SORT_KEY=name" in told.content


def test_no_environment_file_tells_one():
    """A file of environment variables tells their names, whatever they hold."""
    text = "".join(f"{name}={value}\n" for name, value in NAMED.items())
    for name in (".env", ".env.production", "prod.env", ".envrc"):
        assert redact_secrets(text, name) == "".join(f"{each}=[redacted]\n" for each in NAMED)


@pytest.mark.anyio
async def test_no_remote_tells_one(tmp_path):
    """What ``git remote -v`` prints is told with the hosts, and without who may write there."""
    remotes = {
        "one": "https://joe:hunter2@example.org/x.git",
        "two": "https://oauth2:" + KEYS["GitLab"] + "@example.org/x.git",
        "three": "https://" + KEYS["GitHub classic"] + "@example.org/x.git",
        "four": "git@example.org:x/y.git",
    }
    await anyio.run_process(["git", "init"], cwd=tmp_path)
    for name, url in remotes.items():
        await anyio.run_process(["git", "remote", "add", name, url], cwd=tmp_path)
    said = (await anyio.run_process(["git", "remote", "-v"], cwd=tmp_path)).stdout.decode()
    told = redact_secrets(said)
    assert not [url for url in ("hunter2", secret_of(KEYS["GitLab"]), secret_of(KEYS["GitHub classic"])) if url in told]
    assert told.count("@example.org") == 8
    assert "four\tgit@example.org:x/y.git (fetch)" in told


def name_of_a_file():
    """A file that someone named after a key."""
    return f"export {KEYS['GitHub classic']}.py"


@pytest.mark.anyio
async def test_no_name_of_a_file_tells_one(tmp_path):
    """Names of files are told without them too: by git, among recent files and logs, over what is shown."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)  # noqa: ASYNC221 - it takes a moment
    (tmp_path / name_of_a_file()).write_text("error\n", encoding="utf-8")
    (tmp_path / f"{name_of_a_file()}.log").write_text("error\n", encoding="utf-8")
    gathered = await gather([GitSource(tmp_path), RecentFiles(tmp_path), BuildErrors(tmp_path)])
    files = ReadOnlyFiles(1_000, root=tmp_path)
    await files.add_pattern("*.py")
    assert len(gathered.items) == 4
    for text in (gathered.text, files.render()):
        assert "export" in text
        assert secret_of(KEYS["GitHub classic"]) not in text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("`${protocol}://${host}:${port}/@vite/client`", "a.ts"),
        ("postgres://joe:${DB_PASSWORD}@db/x and pg://joe:$PASSWORD@db", "a.md"),
        ("http://localhost:4873/@scope/package and http://localhost:8080/a@b", "a.md"),
        ("connect(password=db_password, token=self.tokens2get, key=sha256_of_password)", "a.py"),
        ("mysql -h db -P 3306 and curl -u joe https://example.org", "a.md"),
        ("git@example.org:x/y.git and joe@example.org", ""),
        ("CACHE_KEY: name\nPRIMARY_KEY: id\nPUBLIC_KEY: x", "a.yaml"),
        ("7169b32dac0940e401d83c4a29548fa9 is a hash, and so is key-value", "a.md"),
    ],
)
def test_what_only_looks_like_one_stays(text, name):
    """References, ports, addresses and hashes are no secrets."""
    assert redact_secrets(text, name) == text


@pytest.mark.parametrize(
    "piece", ["curl -u a", "mysql -p", "machine a login b ", "://a:b@", "://a:", "eyJaaaaaaaa.a", "@",
     "Private-Lines: 1\nA\n", "echo a|", "ConvertTo-SecureString 'a ", "|token", "name=token value=", "$6$a$",
     "the password for ", "token is 'a", "token:\n a", "mot de passe de ", "ssh-keygen -N ",
     "a.b:cdefg@", "creds: bob ", "pin for a ", "seed: word word "],
)  # fmt: skip
def test_work_grows_with_the_text(piece, work):
    """However often something begins like a credential, the rules come to an end of it."""
    redact_secrets(piece * 1_000)  # its patterns are compiled when they are needed first
    assert work(lambda: redact_secrets(piece * 10_000)) < 14 * work(lambda: redact_secrets(piece * 1_000))
