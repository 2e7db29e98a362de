"""The generateContent format of Google Gemini, read and written without loss.

Source: https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.core.message import Message, Text, Tool, ToolCall, ToolResult
from agentctx.core.validity import Violation
from agentctx.errors import InvalidInput
from agentctx.models.profile import ModelProfile
from agentctx.providers.gemini.contents import read_content, read_system, recognise, value, write_content
from agentctx.providers.gemini.place import Arranged, arrange, pair
from agentctx.providers.gemini.repair import mend, with_signatures
from agentctx.providers.gemini.rules import violations
from agentctx.providers.native import fields, fields_or_none, mapping_or_none


@frozen
class Gemini:
    """The generateContent format (``protocols.WireFormat``, ``ReadsPlaces``, ``ArrangesForModel``).

    Args:
        name: The format's name.
        system_apart: The system instruction is kept apart from the contents.
        merges_turns: Each content with calls is answered before the next one.
        results_anywhere: Responses stand directly after their calls.
        unique_ids: Ids are optional, and only a turn's own have to differ.
        most_calls: A message may hold any number of calls.
        answers_server_calls: A call that the server runs is taken without its result.
    """

    name: str = "gemini"
    system_apart: bool = True
    merges_turns: bool = False
    results_anywhere: bool = False
    unique_ids: bool = False
    most_calls: int | None = None
    answers_server_calls: bool = False

    def recognises(self, request: Mapping[str, Any], /) -> int:
        """How surely this request is in this format: 0 means impossible, higher is surer."""
        return recognise(request)

    def read_message(self, native: object, index: int, /) -> Message:
        """One native content (a mapping or an SDK object) as a value that remembers it.

        Args:
            native: The content.
            index: Its place among the contents; used in errors.

        Raises:
            InvalidInput: If it cannot be read; names ``messages[index]`` and the field.
        """
        return read_content(native, index)

    def pair(self, messages: Sequence[Message], after: Sequence[Message] = (), /) -> list[Message]:
        """The messages with each response under the id of the call that it answers.

        Args:
            messages: Messages as they were read one by one.
            after: What stands before them.
        """
        return pair(messages, after)

    def arrange(self, messages: Sequence[Message], after: Message | None = None, /) -> Sequence[Arranged]:
        """What has to change so that responses stand together and calls where they may stand.

        Args:
            messages: Messages whose pairs are whole.
            after: The message before them; None at the start of the conversation.
        """
        return arrange(messages, after)

    def arrange_for(
        self,
        messages: Sequence[Message],
        profile: ModelProfile | None,
        note: Callable[[Message, str], None],
        _after: Message | None = None,
        /,
    ) -> Sequence[Message]:
        """The messages with the thought signatures that the model asks for; the same object when it takes them."""
        return with_signatures(messages, profile, note)

    def read_system(self, native: object, /) -> Message | None:
        """The system instruction (a string, a content, a list of parts) as a value; None when there is none.

        Raises:
            InvalidInput: If it cannot be read; names the place in ``system``.
        """
        if native is None:
            return None
        try:
            parts = read_system(native)
        except InvalidInput as error:
            raise InvalidInput(where=f"system{error.where}", what=error.what) from error
        return Message.read("system", parts, native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The functions of the native tools, and each built-in tool, as values.

        Raises:
            InvalidInput: If one is neither a mapping nor an SDK object.
        """
        return tuple(tool for index, each in enumerate(native or ()) for tool in _read_tool(each, f"tools[{index}]"))

    def write_message(self, message: Message, /) -> object:
        """A message as this format writes it: the content it was read from when nobody touched it."""
        return message.source if message.as_read else write_content(message)

    def mend(self, messages: Sequence[Message], /) -> Sequence[tuple[int, Message | None, str]]:
        """What this format refuses and can be mended in place: (index, new message or None to drop it, why)."""
        return mend(messages)

    def may_end_on(self, message: Message, _profile: ModelProfile | None, /) -> bool:
        """Whether the model answers this message: its own last words are refused, or it goes on with them."""
        return message.role != "assistant"

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others."""
        return f"{call_id}_{number}"

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One user content that answers all the calls with ``text``, as errors."""
        if not calls:
            return ()
        results = (ToolResult(call.id, (Text(text),), call.name, is_error=True) for call in calls)
        return (Message("user", tuple(results)),)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks, in the order of its contents.

        Args:
            request: ``contents`` (or ``messages``) and what else the provider takes.
            profile: The model's profile; without it the model is known by the name in the request; when there is
                none, only the rules of all models are checked.
            before: The request that this one was made from; with it, thought signatures are compared too.
        """
        return violations(request, profile, before)


def _read_tool(native: object, where: str) -> Iterator[Tool]:
    """The functions that a native tool declares; itself when it declares none."""
    if callable(native) and not isinstance(native, type):  # the SDK makes declarations of plain functions itself
        yield Tool(getattr(native, "__name__", ""), getattr(native, "__doc__", None) or "", source=native)
        return
    tool = fields(native, where)
    declared = value(tool, "functionDeclarations")
    if not isinstance(declared, (list, tuple)):
        yield Tool(str(next(iter(tool), "")), source=native)
        return
    for each in declared:
        one = len(declared) == 1
        yield _read_function(each, native if one else {"functionDeclarations": [each]})


def _read_function(native: object, source: object) -> Tool:
    function = fields_or_none(native) or {}
    name, description = function.get("name"), function.get("description")
    schema = value(function, "parameters")
    return Tool(
        name if isinstance(name, str) else "",
        description if isinstance(description, str) else "",
        mapping_or_none(value(function, "parametersJsonSchema") if schema is None else schema),
        source=source,
    )
