"""Leave the blanks out of the JSON that tools answer with."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from agentctx.core.json_text import compact, may_be_json
from agentctx.protocols import Call
from agentctx.strategies.compress.rewriting import Pointer, RewriteResults


@frozen
class CompactJson(RewriteResults):
    """Leave out the blanks between the tokens of tool results that are JSON, when they arrive.

    Lossless: only blanks go, so numbers, the order of keys, repeated keys and escapes are as they were, byte for byte.
    A result is JSON when all of it is one object or array, or each of its lines is. It changes only where the
    tokenizer says that it gets smaller.

    Args:
        exclude: Names of tools whose results stay, such as one by which the model reads a file that it then edits.

    Raises:
        ConfigError: If ``exclude`` has anything but names.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import CompactJson
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> turns = user("Look."), assistant(call("a", "get")), result("a", '{"price": 1.10, "seats": [1, 2, 3, 4]}')
        >>> (await Pipeline(CompactJson()).prepare(transcript("openai-chat", *turns))).messages[2]["content"]
        '{"price":1.10,"seats":[1,2,3,4]}'
    """

    why: ClassVar[str] = "blanks left out of JSON"
    of_objects: ClassVar[bool] = False

    def concerns_text(self, text: str, /) -> bool:
        """Whether it begins as JSON does."""
        return may_be_json(text)

    def rewritten(self, text: str, _call: Call, _pointer: Pointer, /) -> str:
        """The text without blanks, if it is JSON."""
        return compact(text)
