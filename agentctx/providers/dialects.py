"""What providers that call themselves compatible with Chat Completions do otherwise, as data.

A dialect is named after the format (``format="openai-chat/mistral"``), or found by the model's name. Sources: the
providers' own pages (DeepSeek thinking mode, Z.ai thinking mode, Moonshot thinking models, 2026), error envelopes
captured in public issues, chat templates of open models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from attrs import evolve, field, frozen

FORMAT = "openai-chat"
"""The format that these are dialects of."""

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
    def minds_places(self) -> bool:
        """Whether it depends on the neighbours of a message where it may stand."""
        return self.alternation or self.system_first_only or not self.user_after_tool

    @property
    def full_name(self) -> str:
        """The name of the format in this dialect."""
        return f"{FORMAT}/{self.name}"

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
    """The dialect in which a model is called; None for OpenAI's own and for unknown ones.

    Args:
        model: The model's name as its provider or a gateway writes it, for example ``deepseek/deepseek-v4-pro``.
    """
    name = model.lower()
    return next((dialect.of_model(model) for dialect in _ALL if re.search(dialect.models, name)), None)
