"""What providers that call themselves compatible with Chat Completions do otherwise, and repair for what they refuse.

A dialect is named after the format (``format="openai-chat/mistral"``), or found by the model's name. Sources: the
providers' own pages (DeepSeek thinking mode, Z.ai thinking mode, Moonshot thinking models, 2026), error envelopes
captured in public issues, chat templates of open models. What they refuse stands in ``rules.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from attrs import evolve, field, frozen

from agentctx.formats.native import HEARD, NO_ANSWER
from agentctx.message import SYSTEM_ROLES, Message, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.unit import GO_ON
from agentctx.wire_format import Arranged, Spelling

FRAMEWORK = "framework"
"""The name of each dialect where an integration of an agent framework writes the request."""

_REASONING_LEFT_OUT = "The `reasoning_content` in the thinking mode must be passed back to the API."


@frozen
class Dialect:
    """How a provider's Chat Completions differ.

    Args:
        name: The dialect's name.
        models: What the names of models look like that are called in it, in small letters.
        thinking: What the names of those of its models look like that think before they call tools; None: all.
        unique_ids: Whether a call id may occur only once in a request.
        id_regex: What the whole id of a call has to match; None: anything.
        id_max: The longest id, in characters.
        shortens_ids: Whether an id that is longer than OpenAI takes is refused.
        null_content_with_calls: Whether content that is empty has to be null beside calls.
        keep_reasoning: Which messages with calls have to bring their ``reasoning_content`` along: ``"none"``, those
            of the ``"current"`` turn (behind the latest user message), or ``"all"``.
        no_reasoning: What stands for reasoning that another model made.
        reasoning_needed: What the provider says where reasoning is missing; None when it says nothing.
        user_after_tool: Whether the user may speak directly after a result.
        counts_results: Whether the provider counts calls and results over the whole history.
        assistant_last: Whether the model may have the last word.
        alternation: Whether user and assistant have to take turns; as its template says when they do not.
        system_first_only: Whether a system message has to be the first; as its template says when it is not.
        developer_role: Whether there is the role ``developer``.
    """

    name: str
    models: str
    thinking: str | None = None
    unique_ids: bool = False
    id_regex: str | None = None
    id_max: int = 40
    shortens_ids: bool = True
    null_content_with_calls: bool = False
    keep_reasoning: Literal["none", "current", "all"] = "none"
    no_reasoning: str = ""
    reasoning_needed: str | None = None
    user_after_tool: bool = True
    counts_results: bool = False
    assistant_last: bool = True
    alternation: bool = False
    system_first_only: bool = False
    developer_role: bool = False
    id_pattern: re.Pattern[str] | None = field(init=False, repr=False, eq=False)

    @id_pattern.default
    def _compiled(self) -> re.Pattern[str] | None:
        return None if self.id_regex is None else re.compile(self.id_regex)

    @property
    def spelling(self) -> Spelling:
        """How the ids of calls are spelled."""
        if self.id_regex is None:
            return Spelling("a-zA-Z0-9_-", self.id_max)
        return Spelling("a-zA-Z0-9", self.id_max, self.id_max)

    @property
    def minds_places(self) -> bool:
        """Whether it depends on the neighbours of a message where it may stand."""
        return self.alternation or self.system_first_only or not self.user_after_tool

    @property
    def full_name(self) -> str:
        """The name of the format in this dialect."""
        return f"openai-chat/{self.name}"

    def in_framework(self) -> Dialect:
        """The dialect for messages of an agent framework: what only the integration that writes the request can know.

        A model's name does not tell which API serves it. That API made the ids, or the integration spells them for it.
        The integration also brings reasoning along, writes empty content and names roles in its own way. OpenAI's limit
        on ids holds where OpenAI's models are called.
        """
        return evolve(
            self,
            name=FRAMEWORK,
            unique_ids=False,
            id_regex=None,
            id_max=40,
            shortens_ids=self.developer_role,
            null_content_with_calls=False,
            keep_reasoning="none",
            reasoning_needed=None,
            developer_role=True,
        )

    def of_model(self, model: str | None) -> Dialect:
        """The dialect for one of its models: one that does not think has no reasoning to bring along."""
        if model is None or self.thinking is None or re.search(self.thinking, model.lower()):
            return self
        return evolve(self, keep_reasoning="none", reasoning_needed=None)


_ALL = (
    # Gateways and servers first: they answer for whatever model they serve.
    Dialect("openrouter", r"^openrouter/", id_max=64, developer_role=True),
    Dialect("azure", r"^azure(?:_ai)?/", developer_role=True),
    Dialect("ollama", r"^ollama(?:_chat)?/", id_max=64),
    Dialect("vllm", r"^(?:hosted_)?vllm/", id_max=64, alternation=True, system_first_only=True),
    Dialect(
        "deepseek",
        r"deepseek",
        thinking=r"deepseek-(?:v3\.[2-9]|v[4-9]|reasoner)",
        null_content_with_calls=True,
        keep_reasoning="current",
        reasoning_needed=_REASONING_LEFT_OUT,
    ),
    Dialect(
        "kimi",
        r"kimi|moonshot",
        thinking=r"kimi-(?:k2\.[5-9]|k[3-9]|.*thinking)",
        unique_ids=True,
        keep_reasoning="all",
        no_reasoning=" ",  # an empty one counts as missing
        reasoning_needed="thinking is enabled but reasoning_content is missing in assistant tool call message at index "
        "{index}",
    ),
    Dialect(
        "mimo",
        r"mimo",
        unique_ids=True,
        keep_reasoning="all",
        no_reasoning=" ",
        reasoning_needed=_REASONING_LEFT_OUT,
    ),
    # Reasoning belongs back with the results of tools; nothing is refused where it is missing.
    Dialect("glm", r"(?:^|/)(?:glm|zai|chatglm)", keep_reasoning="current"),
    Dialect(
        "mistral",
        r"mi[sx]tral|magistral|ministral|devstral|pixtral",
        id_regex=r"[a-zA-Z0-9]{9}",
        id_max=9,
        user_after_tool=False,
        counts_results=True,
        assistant_last=False,
    ),
)

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in _ALL}
"""Every dialect by its name."""


def dialect_of(model: str) -> Dialect | None:
    """The dialect in which a model is called; None for OpenAI's own and for unknown ones."""
    name = model.lower()
    return next((dialect.of_model(model) for dialect in _ALL if re.search(dialect.models, name)), None)


_KEY = "reasoning_content"


def repair(messages: Sequence[Message], dialect: Dialect) -> Iterator[tuple[int, Message, str]]:
    """What is refused and can be repaired in one message: (index, what to send instead, why)."""
    for index, message in enumerate(messages):
        if message.role == "developer" and not dialect.developer_role:
            yield index, evolve(message, role="system"), "there is no role developer"
        if message.role not in {"assistant", "tool"}:
            continue
        why: list[str] = []
        calls = any(isinstance(part, ToolCall) for part in message.parts)
        parts: list[Part] = []
        for part in message.parts:
            if calls and dialect.null_content_with_calls and isinstance(part, Text) and not part.text:
                why.append("beside calls empty content is null")
            else:
                parts.append(_spelled(part, dialect, why))
        if calls and dialect.reasoning_needed is not None:
            thoughts = [part for part in message.parts if isinstance(part, Thinking)]
            # The dialects look for reasoning under their own key; what stands under another stands for it there.
            own = (
                len(part.text)
                for part in thoughts
                if part.source is None or (isinstance(part.source, dict) and _KEY in part.source)
            )
            if next(own, -1) < len(dialect.no_reasoning):
                why.append("a message with calls brings its reasoning along")
                text = "\n".join(part.text for part in thoughts if part.text) or dialect.no_reasoning
                parts.insert(0, Thinking(text, source={_KEY: text}))
        if why:
            yield index, message.with_parts(tuple(parts)), ", ".join(dict.fromkeys(why))


def _spelled(part: Part, dialect: Dialect, why: list[str]) -> Part:
    """A call or a result under an id that the provider takes, made from the id alone."""
    pattern = dialect.id_pattern
    if pattern is None or not isinstance(part, (ToolCall, ToolResult)):
        return part
    identity = part.id if isinstance(part, ToolCall) else part.call_id
    if pattern.fullmatch(identity):
        return part
    why.append("the id of a tool call is spelled as the provider takes it")
    new = dialect.spelling.respelled(identity)
    return evolve(part, id=new) if isinstance(part, ToolCall) else evolve(part, call_id=new)


def arrange(messages: Sequence[Message], standing_before: Message | None, dialect: Dialect) -> Iterator[Arranged]:
    """What has to stand between messages so that they may follow each other: (index, what stands there, why)."""
    if not dialect.minds_places:
        return
    last = standing_before
    for index, given in enumerate(messages):
        message = given
        why: list[str] = []
        leads = last is None or last.role in SYSTEM_ROLES
        if dialect.system_first_only and message.role in SYSTEM_ROLES and not leads:
            why.append("a system message has to be the first")
            message = evolve(message, role="user")
        between = _between("" if leads or last is None else last.role, message.role, dialect)
        if between is not None:
            why.append("the roles on both sides may not follow each other")
        if why:
            yield index, (message,) if between is None else (between, message), ", ".join(why)
        last = message


def _between(before: str, role: str, dialect: Dialect) -> Message | None:
    """The message that has to stand between those of two roles; None when nothing has to."""
    if role == "user" and before == "tool" and (dialect.alternation or not dialect.user_after_tool):
        return Message("assistant", (Text(HEARD),))
    if dialect.alternation and role == before == "user":
        return Message("assistant", (Text(NO_ANSWER),))
    if dialect.alternation and role == "assistant" and before in {"assistant", ""}:
        return Message("user", (Text(GO_ON),))
    return None
