import base64
import hashlib
from pathlib import Path

import pytest
import tiktoken_ext.openai_public

from agentctx import ConfigError
from agentctx.errors import VocabularyError
from agentctx.tokens.tiktoken import CL100K_BASE, LONGEST_TOKEN, O200K_BASE, VOCABULARIES, Vocabulary, vocabulary

# What tiktoken checks its downloads by (tiktoken_ext/openai_public.py).
PUBLISHED = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_official_file_can_be_rebuilt(name):
    """The shipped vocabulary says exactly what OpenAI's published file says: the file rebuilt has its hash."""
    ranks = VOCABULARIES[name].tokens().ranks()
    lines = (base64.b64encode(token) + b" %d\n" % ranks[token] for token in sorted(ranks, key=ranks.__getitem__))
    rebuilt = b"".join(lines)
    assert PUBLISHED[name] == hashlib.sha256(rebuilt).hexdigest()


@pytest.mark.parametrize("shipped", [O200K_BASE, CL100K_BASE], ids=lambda each: each.name)
def test_no_token_is_longer_than_the_bound(shipped):
    """A text of n bytes has at least n / 128 tokens."""
    assert max(map(len, shipped.tokens().ranks())) == LONGEST_TOKEN


@pytest.mark.parametrize("shipped", [O200K_BASE, CL100K_BASE], ids=lambda each: each.name)
def test_definition_is_that_of_tiktoken(shipped, monkeypatch):
    """Pattern and special tokens are those of the installed tiktoken."""
    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    theirs = getattr(tiktoken_ext.openai_public, shipped.name)()
    assert (theirs["pat_str"], theirs["special_tokens"]) == (shipped.pattern, shipped.special)


def test_damaged_file_is_refused():
    """A file whose content has another hash is an error that names the file and both hashes."""
    damaged = Vocabulary("o200k_base", O200K_BASE.size, "0" * 64, O200K_BASE.pattern, O200K_BASE.special)
    with pytest.raises(VocabularyError, match=r"o200k_base.*has hash 0aa9.*expected 0000"):
        damaged.tokens()


def test_missing_file_is_refused():
    """A vocabulary without its file is an error that says so."""
    with pytest.raises(VocabularyError, match=r"nowhere\.bin cannot be read"):
        Vocabulary("nowhere", 1, "0" * 64, "", {}).tokens()


def test_other_names_are_refused():
    """The error for an encoding that is not shipped names those that are."""
    with pytest.raises(ConfigError, match=r"'p50k_base' is not shipped; pass one of o200k_base, cl100k_base"):
        vocabulary("p50k_base")


@pytest.mark.parametrize("name", PUBLISHED)
def test_shared_file_has_the_same_tokens(name, shared):
    """Where the published file itself is at hand, each of its tokens has its rank."""
    folder = Path(__file__).parent if shared is None else shared / "vocab"
    ranks = VOCABULARIES[name].tokens().ranks()
    lines = [path.read_bytes().splitlines() for path in folder.glob(f"{name}.tiktoken")]
    assert all(ranks[base64.b64decode(token)] == int(rank) for each in lines for token, rank in map(bytes.split, each))
    assert len(ranks) == VOCABULARIES[name].size


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_token_is_found_without_reading_all(name):
    """Each token has its rank when it is looked up alone, and bytes that are no token have none."""
    tokens = VOCABULARIES[name].tokens()
    ranks = tokens.ranks()
    some = list(ranks)[::97]
    assert [ranks[token] for token in some] == [tokens.rank(token) for token in some]
    others = [token[::-1] for token in some] + [b"\x00" * LONGEST_TOKEN, b"\xff" * LONGEST_TOKEN]
    assert [ranks.get(token) for token in others] == [tokens.rank(token) for token in others]
