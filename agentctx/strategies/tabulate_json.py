"""Say the keys of JSON objects of one shape once."""

from __future__ import annotations

from typing import ClassVar

from attrs import frozen

from agentctx.core.json_text import may_be_json, tabulate
from agentctx.protocols import Call
from agentctx.strategies.compress.rewriting import Pointer, RewriteResults


@frozen
class TabulateJson(RewriteResults):
    """Say the keys of objects of one shape once in tool results that are JSON, then a row of values each.

    Arrays of such objects become tables, and objects of such objects, when they arrive; a line above says so. Values
    stay as they were written, and ``untabulate`` (``agentctx.core.json_text``) gives the document back,
    but for its blanks. A result changes only where the tokenizer says that it gets smaller, the line included.

    Args:
        exclude: Names of tools whose results stay, such as one by which the model reads a file that it then edits.

    Raises:
        ConfigError: If ``exclude`` has anything but names.

    Example:
        >>> import json
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import TabulateJson
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> seats = [{"seat": f"{row}A", "free": row < 3, "price": 99.5} for row in range(1, 9)]
        >>> turns = user("Look."), assistant(call("a", "get")), result("a", json.dumps(seats))
        >>> view = await Pipeline(TabulateJson()).prepare(transcript("openai-chat", *turns))
        >>> print(view.messages[2]["content"])
        [JSON]
        [{seat,free,price=99.5}
        1A,true
        2A,true
        ...
        8A,false]
    """

    why: ClassVar[str] = "JSON in tables, without quotes"

    def concerns_text(self, text: str, /) -> bool:
        """Whether it begins as JSON does, and has a string."""
        return may_be_json(text) and '"' in text

    def rewritten(self, text: str, _call: Call, _pointer: Pointer, /) -> str:
        """The text with tables, if it is JSON with objects of one shape, and without quotes that need not be."""
        return tabulate(text)
