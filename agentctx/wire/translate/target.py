"""What a conversation has to look like to go to a provider, as data.

Sources: the providers' pages on messages, images, files and tools (2026-07 to 2026-09) and the validity rules of each
format. Where a provider sets no limit, the narrowest that is known elsewhere holds: an id that all of them take need
not be rewritten at the next switch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from attrs import evolve, field, frozen

from agentctx.wire.dialects import DIALECTS, Dialect
from agentctx.wire.translate.reasoning import UNSIGNED

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The MIME types of images that every provider takes."""

_PDF = frozenset({"application/pdf"})
_TEXTS = frozenset({"text/plain", "text/markdown", "text/html", "text/csv"})
_SOUNDS = frozenset({"audio/wav", "audio/mp3", "audio/mpeg"})
_OTHER_SOUNDS = frozenset({"audio/flac", "audio/ogg", "audio/aac", "audio/aiff"})
_FILMS = frozenset({"video/mp4", "video/quicktime", "video/mov", "video/webm"})

REFUSES_MIXED = re.compile(r"mi[sx]tral|magistral|llama|command|jamba")
"""Models on Bedrock that refuse results and words in one turn."""

Media = Mapping[str, frozenset[str]]
"""The MIME types that may be carried inline, by the kind of media."""


@frozen
class Spelling:
    """How ids or names have to be spelled.

    Args:
        pattern: What the whole of it matches.
        longest: The most characters.
        shortest: The fewest characters.
        letters: What it may consist of, as the inside of a character class.
    """

    letters: str
    longest: int
    shortest: int = 1
    pattern: re.Pattern[str] = field(init=False, repr=False, eq=False)

    @pattern.default
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(f"[{self.letters}]{{{self.shortest},{self.longest}}}")

    def takes(self, word: str) -> bool:
        """Whether a word is spelled so."""
        return self.pattern.fullmatch(word) is not None


@frozen
class Target:
    """What a provider's format can say, and how.

    Args:
        ids: How the ids of calls are spelled.
        names: How the names of tools are spelled.
        unique_ids: Whether an id may occur only once.
        grouping: What one message holds: ``"one result"`` (Chat: a turn of the model is one message, each result
            another), ``"one item"`` (Responses), ``"all results"`` (the results of a turn stand in one message), or
            ``"one turn"`` (everything that a side says stands in one message).
        system_between: The role of a system message in the middle of a conversation.
        user_first: Whether the user has to speak first.
        user_after_results: Whether the user may speak directly after the results of tools.
        in_user: The media that a user may show.
        in_results: The media that a tool may show; a tool's other media that a user may show, the user shows then.
        by_url: The kinds of media that may be given by a web address.
        most: The most media of a kind in one message.
        texts_in_one: Whether what the model says is one text.
        results_in_one: Whether what a tool says is one text.
        says_failed: Whether a result says that its tool has failed.
        details: Whether media go with a wish for resolution.
        arguments_object: Whether the arguments of a call are an object.
        names_files: Where documents have a name: ``"file"`` and ``"input_file"`` (which need one when they are carried
            inline), or ``"title"``; None where none is given.
        also: Keys of documents that other formats have as well, and that are not taken along.
        unsigned_call: What stands for the signature of a call that another model made; None when none is needed.
    """

    ids: Spelling
    names: Spelling = Spelling("a-zA-Z0-9_-", 64)
    unique_ids: bool = True
    grouping: Literal["one result", "one item", "all results", "one turn"] = "all results"
    system_between: Literal["system", "developer", "user"] = "user"
    user_first: bool = False
    user_after_results: bool = True
    in_user: Media = field(factory=dict, hash=False)
    in_results: Media = field(factory=dict, hash=False)
    by_url: frozenset[str] = frozenset()
    most: Mapping[str, int] = field(factory=dict, hash=False)
    texts_in_one: bool = False
    results_in_one: bool = False
    says_failed: bool = True
    details: bool = False
    arguments_object: bool = True
    names_files: Literal["file", "input_file", "title"] | None = None
    also: frozenset[str] = frozenset()
    unsigned_call: str | None = None


_ALSO = frozenset({"title", "name", "context", "citations"})
_IDS = Spelling("a-zA-Z0-9_-", 64)
_OPENAI: Media = {"image": PICTURES, "audio": _SOUNDS, "document": _PDF}
_CLAUDE: Media = {"image": PICTURES, "document": _PDF}
_GOOGLE: Media = {
    "image": PICTURES | {"image/heic", "image/heif"},
    "audio": _SOUNDS | _OTHER_SOUNDS,
    "video": _FILMS,
    "document": _PDF | _TEXTS,
}
_AMAZON: Media = {"image": PICTURES, "document": _PDF | _TEXTS, "video": _FILMS}

TARGETS: Mapping[str, Target] = {
    "openai-chat": Target(
        Spelling("a-zA-Z0-9_-", 40),
        unique_ids=False,
        grouping="one result",
        system_between="system",
        in_user=_OPENAI,
        by_url=frozenset({"image"}),
        texts_in_one=True,
        results_in_one=True,
        says_failed=False,
        details=True,
        arguments_object=False,
        names_files="file",
    ),
    "openai-responses": Target(
        _IDS,
        grouping="one item",
        system_between="developer",
        says_failed=False,
        details=True,
        in_user={"image": PICTURES, "document": _PDF},
        in_results={"image": PICTURES, "document": _PDF},
        by_url=frozenset({"image", "document"}),
        arguments_object=False,
        names_files="input_file",
    ),
    "anthropic": Target(
        _IDS,
        system_between="system",
        user_first=True,
        in_user=_CLAUDE,
        in_results=_CLAUDE,
        by_url=frozenset({"image", "document"}),
        names_files="title",
        also=_ALSO,
    ),
    "gemini": Target(
        _IDS,
        Spelling("a-zA-Z0-9_.:-", 64),
        in_user=_GOOGLE,
        in_results={"image": PICTURES, "document": _PDF},
        by_url=frozenset({"image", "audio", "video", "document"}),
        unsigned_call=UNSIGNED,
        results_in_one=True,
    ),
    "bedrock": Target(
        _IDS,
        grouping="one turn",
        user_first=True,
        in_user=_AMAZON,
        in_results={"image": PICTURES, "document": _PDF | _TEXTS},
        most={"image": 20, "document": 5},
        also=_ALSO,
    ),
}
"""What each format can say."""


def target_of(format_name: str, model: str | None = None, *, takes_system: bool = True) -> Target:
    """What a format can say to a model.

    Args:
        format_name: Name of the format, with its dialect if it has one.
        model: The model's name, if known.
        takes_system: Whether the model takes system messages in the middle, where its format has them.
    """
    format_name, _, dialect = format_name.partition("/")
    target = TARGETS[format_name]
    if dialect:
        return _in_dialect(target, DIALECTS[dialect])
    if format_name == "bedrock" and model is not None and REFUSES_MIXED.search(model.lower()):
        return evolve(target, grouping="all results", user_after_results=False)
    if format_name == "anthropic" and not takes_system:
        return evolve(target, system_between="user")
    return target


def _in_dialect(target: Target, dialect: Dialect) -> Target:
    return evolve(
        target,
        ids=spelling_of(dialect),
        unique_ids=dialect.unique_ids,
        user_after_results=dialect.user_after_tool,
    )


def spelling_of(dialect: Dialect) -> Spelling:
    """How the ids of calls are spelled in a dialect of Chat Completions."""
    if dialect.id_regex is None:
        return Spelling("a-zA-Z0-9_-", dialect.id_max)
    return Spelling("a-zA-Z0-9", dialect.id_max, dialect.id_max)
