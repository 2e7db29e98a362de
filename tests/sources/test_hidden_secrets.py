"""Secrets that colours, escapes, base64 and line breaks hide; and what is none, though it looks like one."""

import importlib.util
from pathlib import Path
from unicodedata import category

import pytest

from agentctx import secrets
from agentctx.secrets import joined, without_escapes
from agentctx.sources import redact_secrets


def benchmark():
    """The project's own list of shapes, places and harmless texts."""
    place = Path(__file__).parents[2] / "benchmarks/redaction.py"
    spec = importlib.util.spec_from_file_location("secret_shapes", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LISTED = benchmark()
IN_CODE = {("source code", "kubectl")}
"""In code a lower-case name that is given a word without quotes is a variable that is given another."""


@pytest.mark.parametrize("place", LISTED.PLACES)
def test_every_shape_goes_from_every_kind_of_text(place):
    """Of 137 shapes of secrets none is told, whatever stands around it."""
    found = LISTED.recall(LISTED.redacted, {place: LISTED.PLACES[place]})
    assert {(place, kind) for place, kind, goes in found if not goes} <= IN_CODE


@pytest.mark.parametrize("kind", LISTED.everyday())
def test_a_password_goes_however_it_is_written(kind):
    """Calls, pairs, tables, pipes and blocks give a password to a name as an assignment does."""
    text, secret = LISTED.everyday()[kind]
    told = redact_secrets(text)
    assert secret not in told
    assert redact_secrets(told) == told


@pytest.mark.parametrize("name", ["a.yaml", "a.log", "a.md"])
def test_a_default_that_is_a_secret_goes(name):
    """What holds where a variable is not set is a name that stays, or a password that goes."""
    assert redact_secrets("A_PASSWORD=${B_PASSWORD:-postgres}", name) == "A_PASSWORD=${B_PASSWORD:-postgres}"
    assert "k9ncJgQyVerd4Zq" not in redact_secrets("A_PASSWORD=${B_PASSWORD:-k9ncJgQyVerd4Zq}", name)


@pytest.mark.parametrize("hiding", ["in base64", "no width", "colour inside"])
def test_every_shape_goes_however_it_is_hidden(hiding):
    """Nor is one that is encoded, or has something in its middle that no reader sees."""
    assert all(goes for _, _, goes in LISTED.recall(LISTED.redacted, {hiding: LISTED.HIDINGS[hiding]}))


@pytest.mark.parametrize("hiding", ["wrapped", "continued", "two texts"])
def test_a_key_that_is_cut_in_two_goes(hiding):
    """A key of a service that a line break or quotes cut in two goes as a whole."""
    shapes = LISTED.shapes()
    keys = {kind for kind, key in shapes.items() if not set(" ;?") & set(key) and "//" not in key}
    found = LISTED.recall(LISTED.redacted, {hiding: LISTED.HIDINGS[hiding]})
    assert len(keys) > 90
    assert {kind for _, kind, goes in found if not goes and kind in keys} == set()


@pytest.mark.parametrize(("text", "name"), LISTED.HARMLESS)
def test_what_is_no_secret_stays(text, name):
    """Pins, indexes, counts, hashes, references and prose stay."""
    assert redact_secrets(text, name) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b[32mpassword=hunter2\x1b[0m", "\x1b[32mpassword=[redacted]\x1b[0m"),
        ("pass\u200bword=hunter22x", "pass\u200bword=[redacted]"),
        ('{"m": "a\\npassword=hunter2x\\nb"}', '{"m": "a\\npassword=[redacted]\\nb"}'),
        ("?q=1%26password%3Dhunter2x%26b", "?q=1%26password%3D[redacted]%26b"),
        ("&quot;password&quot;:&quot;hunter22&quot;", "&quot;password&quot;:&quot;[redacted]&quot;"),
        ("\\u0070assword=hunter22", "\\u0070assword=[redacted]"),
    ],
)
def test_a_name_is_recognised_as_it_is_read(text, expected):
    """A secret's name that is coloured, escaped or has something in it that has no width is one all the same."""
    assert redact_secrets(text) == expected


KEYS = [LISTED.shapes()[name] for name in ("GitHub", "npm", "Hugging Face", "SendGrid", "JWT", "Mailgun")]
BEFORE = (
    *("^[[32m{}^[[0m", "t=3D{}", '"t\\U0000003d{}"', "t\\u{{3d}}{}", "t\\N{{EQUALS SIGN}}{}", "t\\075{}", "%u003d{}"),
    *("-{}", "--{}", "+{}", " -{}", "KEY_{}", "t&equals;{}", "t&#0061;{}", "t&#X3D;{}", "t\\x{{3d}}{}"),
)


@pytest.mark.parametrize("form", BEFORE)
def test_a_key_goes_whatever_stands_before_it(form):
    """Colours as programs write them out, escapes of languages and of mail, and the signs of a diff hide no key."""
    for key in KEYS:
        told = redact_secrets(form.format(key))
        assert key not in told
        assert redact_secrets(told) == told


UNSEEN = [
    *(chr(code) for code in (0x00, 0x07, 0x1F, 0x7F, 0x90, 0xAD, 0x34F, 0x115F, 0x180B, 0x180E, 0x200D, 0x2062)),
    *(chr(code) for code in (0x2068, 0x3164, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFF0, 0xFFF9, 0x1D173, 0xE0041, 0xE0100)),
    *("x\b", "xyz\b\b\b", "x\b\u200b"),
]


@pytest.mark.parametrize("unseen", UNSEEN, ids=ascii)
def test_a_key_goes_whatever_is_not_seen_in_it(unseen):
    """Controls, what Unicode lets be ignored, and what backspaces take away hide no key."""
    for key in KEYS:
        assert redact_secrets(f"a {key[:8]}{unseen}{key[8:]} b") == "a [redacted] b"


def test_every_control_and_format_character_is_unseen():
    """By Unicode's own categories, whichever of its versions Python knows; blanks are seen."""
    blanks = "\t\n\x0b\x0c\r\x85"
    unseen = [each for each in map(chr, range(0x110000)) if category(each) in ("Cc", "Cf") and each not in blanks]
    assert without_escapes("".join(unseen))[1].text == ""


@pytest.mark.parametrize("text", ["a -b --c", "a=b == c", "x-key-" + "0a" * 16, "1==\nnext", "&notanentityatall; &x;"])
def test_what_looks_a_little_like_it_stays(text):
    """Options, comparisons and names with hyphens are no keys."""
    assert redact_secrets(text) == text


def test_what_stands_around_a_hidden_key_stays():
    """Only the key goes: escapes and words before and behind it are left as they are."""
    key = LISTED.shapes()["GitHub"]
    text = f"a \x1b[1mb\x1b[0m \\u0041 {key[:9]}\u200b{key[9:]} %41 \\n c"
    assert redact_secrets(text) == "a \x1b[1mb\x1b[0m \\u0041 [redacted] %41 \\n c"


def test_the_next_line_is_not_the_keys():
    """A key at the end of a line leaves the next line alone, when it is a word."""
    key = LISTED.shapes()["GitHub"]
    assert redact_secrets(f"{key}\nnext line") == "[redacted]\nnext line"


def test_places_are_those_of_the_text_as_it_is():
    """What is seen can be found again in the text, whether it was an escape or not."""
    text = "a%41b\u200bc\\nd"
    apart, seen = without_escapes(text)
    assert (apart.text, seen.text) == ("a Ab c \nd", "aAbc\nd")
    places = seen.placed((at, at + 1) for at in range(6))
    assert [text[slice(*place)] for place in places] == ["a", "%41", "b", "c", "\\n", "d"]
    assert without_escapes("nothing hidden") == ()
    assert joined("two words").text == "two words"


class Counting:
    """A pattern that adds up how many characters its matches read."""

    def __init__(self, pattern):
        self.pattern, self.read = pattern, 0

    def match(self, text, start):
        """Match as the pattern does."""
        found = self.pattern.match(text, start)
        self.read += 1 if found is None else 1 + found.end() - start
        return found


VALUES = ("_BARE", "_MORE", "_QUOTED", "_REST", "_WORD", "_INSIDE", "_PLAIN", "_CELL")


@pytest.mark.parametrize("name", ["", "a.py", "a.log"])
@pytest.mark.parametrize(
    "piece",
    [
        "password=",
        "password=${{",
        "password='a",
        "token: a",
        "?token=a",
        "--password a ",
        "<password>",
        "secret=a1b2c3d4,",
        "password=a\\\n",
        "| password | a1b2c3d4 ",
        "getenv('token', 'a",
    ],
)
def test_twice_the_text_is_twice_the_characters(piece, name, monkeypatch):
    """However many names of secrets a text has, what is read of their values grows with the text."""

    def read(size):
        counting = [Counting(getattr(secrets, each)) for each in VALUES]
        for each, counter in zip(VALUES, counting, strict=True):
            monkeypatch.setattr(secrets, each, counter)
        secrets._rules_of.cache_clear()  # they hold the patterns
        redact_secrets((piece * size)[:size], name)
        monkeypatch.undo()
        secrets._rules_of.cache_clear()
        return sum(counter.read for counter in counting)

    once = read(8_000)
    assert read(16_000) <= 2.2 * once + 100
    assert once or name == "a.py"  # where flags and tags hold no secrets
