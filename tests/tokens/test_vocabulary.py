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


SIZES = {"o200k_base": 199_998, "cl100k_base": 100_256}


@pytest.mark.parametrize("name", PUBLISHED)
def test_official_file_can_be_rebuilt(name):
    """The ranks are exactly those of OpenAI's published file: the file is rebuilt of them, and has its hash."""
    ranks = VOCABULARIES[name].ranks()
    lines = (base64.b64encode(token) + b" %d\n" % ranks[token] for token in sorted(ranks, key=ranks.__getitem__))
    assert PUBLISHED[name] == hashlib.sha256(b"".join(lines)).hexdigest() == VOCABULARIES[name].sha256


@pytest.mark.parametrize("shipped", [O200K_BASE, CL100K_BASE], ids=lambda each: each.name)
def test_no_token_is_longer_than_the_bound(shipped):
    """A text of n bytes has at least n / 128 tokens."""
    assert max(map(len, shipped.ranks())) == LONGEST_TOKEN


@pytest.mark.parametrize("shipped", [O200K_BASE, CL100K_BASE], ids=lambda each: each.name)
def test_definition_is_that_of_tiktoken(shipped, monkeypatch):
    """Pattern and special tokens are those of the installed tiktoken."""
    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    theirs = getattr(tiktoken_ext.openai_public, shipped.name)()
    assert (theirs["pat_str"], theirs["special_tokens"]) == (shipped.pattern, shipped.special)


def test_damaged_file_is_refused():
    """A file whose content has another hash is an error that names the file and both hashes."""
    damaged = Vocabulary("o200k_base", "0" * 64, O200K_BASE.pattern, O200K_BASE.special)
    with pytest.raises(VocabularyError, match=r"o200k_base.*has hash 446a.*expected 0000"):
        damaged.ranks()


def test_missing_file_is_refused():
    """A vocabulary without its file is an error that says so."""
    with pytest.raises(VocabularyError, match=r"nowhere\.tiktoken\.gz cannot be read"):
        Vocabulary("nowhere", "0" * 64, "", {}).ranks()


def test_other_names_are_refused():
    """The error for an encoding that is not shipped names those that are."""
    with pytest.raises(ConfigError, match=r"^encoding must be one of o200k_base, cl100k_base, got 'p50k_base'$"):
        vocabulary("p50k_base")


@pytest.mark.parametrize("name", PUBLISHED)
def test_shared_file_has_the_same_tokens(name, shared):
    """Where the published file itself is at hand, each of its tokens has its rank."""
    folder = Path(__file__).parent if shared is None else shared / "vocab"
    ranks = VOCABULARIES[name].ranks()
    lines = [path.read_bytes().splitlines() for path in folder.glob(f"{name}.tiktoken")]
    assert all(ranks[base64.b64decode(token)] == int(rank) for each in lines for token, rank in map(bytes.split, each))
    assert len(ranks) == SIZES[name]
