"""Secrets: what is one goes, what is none stays."""

import pytest
from hypothesis import given, strategies as st

from agentctx.secrets import is_secret_name
from agentctx.sources import redact_secrets

PLAIN = "q7Xk29LmPz04RtVb"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PLAIN}\n{PLAIN}\n-----END RSA PRIVATE KEY-----"


def join(*pieces):
    """A made-up key of a service; in pieces, so that no scanner takes this file for a leak."""
    return "".join(pieces)


KEYS = [
    join("AKIA", "ABCDEFGHIJKLMNOP"),
    join("gh", "p_", "a1B2" * 9),
    join("github", "_pat_", "a1B2c3" * 10),
    join("gl", "pat-", "a1B2c3d4" * 3),
    join("xox", "b-1234567890-", PLAIN),
    join("sk", "_live_", PLAIN),
    join("sk", "-proj-", PLAIN, "_", PLAIN),
    join("sk", "-ant-api03-", PLAIN, "-", PLAIN),
    join("AIza", "a" * 35),
    join("hf", "_", "a1" * 17),
    join("npm", "_", "a1B2" * 9),
    join("SG.", PLAIN, ".", PLAIN, PLAIN),
    join("eyJ", "hbGciOiJIUzI1NiJ9", ".eyJ", "zdWIiOiIxMjM0NTY3ODkwIn0", ".", PLAIN),
    PEM,
]


@pytest.mark.parametrize("name", ["", "notes.md", "main.py", "settings.yaml", "build.log"])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key[:7])
def test_what_looks_like_a_key_goes_from_any_file(key, name):
    """A key of a known shape goes, wherever it stands and whatever it is called."""
    assert redact_secrets(f"see {key} there", name) == "see [redacted] there"


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("DB_PASSWORD=hunter2", "a.ini", "DB_PASSWORD=[redacted]"),
        ("db_password: my pass phrase", "a.yaml", "db_password: [redacted]"),
        ('{"apiKey":"x", "user":"y"}', "a.json", '{"apiKey":"[redacted]", "user":"y"}'),
        ('{"cfg": "{\\"password\\":\\"x y\\"}"}', "a.log", '{"cfg": "{\\"password\\":\\"[redacted]\\"}"}'),
        ("client-secret = 'a b'", "a.toml", "client-secret = '[redacted]'"),
        ("<password>abc</password>", "a.xml", "<password>[redacted]</password>"),
        ("run --password hunter2 --user bob", "a.log", "run --password [redacted] --user bob"),
        ("run --api-key=hunter2 --user bob", "a.log", "run --api-key=[redacted] --user bob"),
        ("failed: password=hunter2", "a.log", "failed: password=[redacted]"),
        ("secret_key: |\n  abc\n  def\nport: 1\n", "a.yml", "secret_key: [redacted]\n  [redacted]\nport: 1\n"),
        ("postgres://joe:pw@db/x", "a.md", "postgres://joe:[redacted]@db/x"),
        ("Authorization: Bearer abc", "a.md", "Authorization: [redacted]"),
        ("?a=1&sig=abc%3D&b=2", "", "?a=1&sig=[redacted]&b=2"),
        ("API_KEY = 'k9d8f7'", "a.py", "API_KEY = '[redacted]'"),
        ("password: str = 'hunter2'", "a.py", "password: str = '[redacted]'"),
        ("os.environ['DB_PASSWORD'] = 'hunter2'", "a.py", "os.environ['DB_PASSWORD'] = '[redacted]'"),
        (f"self.token = '{PLAIN}'", "a.py", "self.token = '[redacted]'"),
        (f"the token: {PLAIN}", "", "the token: [redacted]"),
        ("A=1\nexport B='x\ny'\n# why\n", ".env", "A=[redacted]\nexport B=[redacted]\n[redacted]\n# why\n"),
        ("# C=z\n", ".env.local", "# C=[redacted]\n"),
        ("machine x login y password z", "/home/dev/.netrc", "[redacted]: a file of credentials\n"),
        (PLAIN, "deploy.key", "[redacted]: a file of credentials\n"),
        (f"{PLAIN}\n-----END PRIVATE KEY-----\nrest", "a.log", "[redacted]\nrest"),
        (f"head\n-----BEGIN PRIVATE KEY-----\n{PLAIN}", "a.log", "head\n[redacted]"),
    ],
)  # fmt: skip
def test_what_is_a_secret_goes(text, name, expected):
    """A secret's value goes, and nothing else does."""
    assert redact_secrets(text, name) == expected


SEED = "legal winner thank year wave sausage worth useful legal winner thank yellow"


@pytest.mark.parametrize(
    "text",
    [
        "bob:<hunter2>@localhost", "bob:<hunter2>@db:5432/app", "bob:<pw14>@10.0.0.7", "joe:<word>@tcp(db:3306)/app",
        f"deploy:<{PLAIN}>@db.example.com", "app:<s3cret>@db.internal/app", f"creds: bob <{PLAIN}>",
        f"the credentials are bob / <{PLAIN}>", "my PIN is <1234>.", "PIN code: <1234>", "the pin for it is <4821>",
        f"Seed phrase: <{SEED}>", f'mnemonic = "<{SEED} {SEED}>"', f"recovery phrase is <{SEED}>.",
        f"JSESSIONID=<{PLAIN}>; Path=/", f"curl -b PHPSESSID=<{PLAIN}> x",
    ],
)  # fmt: skip
def test_what_people_write_down_goes(text):
    """Who and with which password, a PIN, the words of a wallet, a session of a web server: what stands in <>."""
    before, _, rest = text.partition("<")
    value, _, after = rest.rpartition(">")
    assert redact_secrets(before + value + after) == f"{before}[redacted]{after}"


@pytest.mark.parametrize(
    "text",
    [
        "mailto:john1985Smith@gmail.com", "email:Jane4567doe@example.com", "python:3.11@sha256:12345abc", "x[1:w4@v.T]",
        "git@github.com:org/repo.git", "npm:foo12@1.2.3", "redis:7.2.4-alpine3@sha256:abc", "sip:bob12345@host:5060",
        "bob:${PASS}@host:5432", "Credentials: stored in secret-manager-v2", "credentials are rotated every 90days.",
        "pin is 1013 hPa", "pin 5 is 1024", "PIN is 4821abc", "session_id=47", "time:noon@office.com/room",
        "seed phrase: never write down what you would not want other people find near your desk", "seed: 1234",
    ],
)  # fmt: skip
def test_what_only_reads_like_that_stays(text):
    """Addresses of people, images and packages, measured pins, sentences."""
    assert redact_secrets(text) == text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("token = tokens[0]\nwhile token == 'plus': pass", "a.py"),
        ("password = getpass('Enter your password')", "a.py"),
        ("max_tokens = 'many'\nsecret_name: 'x-key'", "a.py"),
        ("password: ${DB_PASSWORD}\ntoken: {{ token }}\nsecret: null", "a.yaml"),
        ("max_tokens: 4096\ntokenizer: fast\nkeyboard: qwerty\npassword_file: /run/x", "a.yaml"),
        ("Fix token: handle resets of the password: they failed", ""),
        ("task-aaaaaaaaaaaaaaaaaaaaaaaaaaa and risk-bbbbbbbbbbbbbbbbbbbbbbbb", ""),
        ("sha512-" + PLAIN * 4, "package-lock.json"),
        ("https://example.org/a:b@c", ""),
        ("API_KEY=your key here\n", ".env.example"),
        ("", ".env"),
        ("", "id_rsa"),
    ],
)
def test_what_is_no_secret_stays(text, name):
    """Code, prose, references and counts are left as they are."""
    assert redact_secrets(text, name) == text


@pytest.mark.parametrize("name", ["password", "DB_PASSWORD", "apiKey", "API-KEY", "aws_secret_access_key", "authToken"])
def test_names_of_secrets(name):
    """Names are split at case, dashes and underscores."""
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["max_tokens", "tokenizer", "primary_key", "author", "password_file", "monkey", "_"])
def test_names_of_other_things(name):
    """What only sounds like a secret is none."""
    assert not is_secret_name(name)


LINES = st.lists(
    st.sampled_from(["password", "token", "a", ": ", "://", *KEYS, PLAIN, *"='\"\n |\\@[]-{}<>$"]),
    max_size=30,
).map("".join)  # fmt: skip


@given(LINES | st.text(), st.sampled_from(["", "a.py", "a.yaml", ".env", "a.log", "id_rsa"]))
def test_redacting_twice_changes_nothing_more(text, name):
    """What was redacted once stays as it is."""
    once = redact_secrets(text, name)
    assert redact_secrets(once, name) == once


@given(st.text(alphabet="ab \n", max_size=30), st.sampled_from(KEYS), st.text(alphabet="ab \n", max_size=30))
def test_no_key_survives_among_other_words(before, key, after):
    """Wherever a key stands between words, nothing of its secret half is left."""
    assert key[10:] not in redact_secrets(f"{before} {key} {after}", "a.log")


@pytest.mark.parametrize(
    "text", ["a-", "a.b=", "password='a", "a: |\n  x\n", "eyJaaaaaaaa.", "\"'`=", "http://a", "p : a "]
)
@pytest.mark.parametrize("name", ["a.py", "a.log", ""])
def test_no_text_hangs(text, name):
    """Whatever a long text says, the rules come to an end of it."""
    assert redact_secrets(text * 20_000, name) is not None
