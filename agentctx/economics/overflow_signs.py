r"""The words by which an error is told to be an overflow, or told not to be one.

Patterns are matched against text in lower case, with plain quotes and single spaces. They were collected from
providers' pages and from error messages in public issue threads and test suites, as of 2026-11: OpenAI, Azure,
Anthropic, Bedrock, Gemini and Vertex, Mistral, Cohere, DeepSeek, Groq, Together, Cerebras, OpenRouter, xAI, Qwen,
Kimi, GLM, MiniMax, watsonx, Workers AI, GitHub Copilot, vLLM, SGLang, TGI, llama.cpp, LM Studio, Ollama, LiteLLM.
"""

from __future__ import annotations

import re

_SIZE = r"(?:window|length|lenght|size|limit|space)"


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


_WINDOW = (
    rf"(?:context[ _-]?{_SIZE}|(?:max|maximum) context\b|n_ctx|max_(?:seq|input|context)_len(?:gth)?"
    rf"|(?:max|maximum|specified|model'?s?) (?:\w+ ){{0,2}}(?:prompt|model|input|sequence|seq)[ _]{_SIZE})"
)
_OVER = (
    r"(?:exceed\w{0,3}|(?:longer|larger|greater|bigger|more) than|\bover\b|beyond|n[o']t fit"
    r"|too (?:long|large|big) (?:for|in)|>=?)"
)

WINDOW = _any_of(
    rf"{_OVER}[^.]{{0,48}}?{_WINDOW}",
    rf"{_WINDOW}[^.]{{0,32}}?(?:exceed|overflow|\bfull\b)",
    rf"context_?{_SIZE}_?(?:exceed|overflow)",
    r"exceed_context_size",
    r"context[ _-]?(?:overflow|too[ _]large|too[ _]long)\b|context is (?:too (?:long|large)|full)",
    rf"(?:maximum|max) (?:context|prompt|model|input) {_SIZE}\b|context {_SIZE} is only",
    rf"(?:maximum|max) context of \d|context {_SIZE}[^.\d]{{0,24}}\d[\d,]*(?: tokens)?,? (?:but|however|while)",
    r"\b(?:prompt|input)_too_(?:long|large)\b|(?<!stop )\bsequence (?:is )?too long",
    rf"no room left in (?:the )?context|handle the requested context {_SIZE}",
    r"too long to fit into the model|not fit in(?:to)? the model",
    r"too large for [\w.\-/:]+ model\. max size: \d+ tokens",
    r"(?:prompt|input|request) (?:has|had|contains) \d[\d,]* (?:input )?tokens,? (?:but|which|while)",
    r"this (?:request|prompt) has \d[\d,]* tokens,? which",
    r"prompt length \d+ exceeds|exceed max message tokens|max tokens of \d+ exceeded",
    r"max_prompt_tokens_exceeded|tokens_limit_reached",
    r"prompt tokens too long|the max input characters is|text fields that are too large",
    r"too large for (?:this |the )?model|is too large to process\b",
    r"prompt is too (?:long|large)\b|prompt too (?:long|large)\b|prompt ?超长|(?:prompt|input) \([^)]*\) is too long",
    r"(?<!tool )(?<!audio )(?<!video )(?<!image )input is too (?:long|large)(?: for|[.:,;]|$)"
    r"|input (?:token length|prompt) too long|(?:^|[\d:.>\"'] ?)input too long",
    r"(?:all messages|conversation|chat history|request input) is too long",
    r"prompt exceeds (?:the )?(?:max|length)",
    r"input token count\b[^.]{0,60}?(?:exceeds|supports up to)",
    r"(?:number of )?input tokens (?:\d[\d,]*|\(\d[\d,]*\)) (?:cannot|must not) exceed|input cannot be longer than",
    r"estimated number of input and maximum output tokens",
    r"(?:input|prompt|(?<!stop )sequence) length\b[^.]{0,30}?exceed",
    r"(?:total|combined) length of (?:the )?(?:prompt|messages|input)[^.]{0,60}?exceed|^length limit exceeded",
    r"reduce the length of (?:the |your )?(?:input |prompt |messages?|either)",
    r"reduce the length of (?:the |your )?(?:input|prompt)\b",
    r"exceeded model token limit",
    r"loaded with context length of only|keep the first \d+ tokens when",
    r"inputs?`? tokens \+ `?max_new_tokens`? must be|`inputs` must have less than",
    r"range of input length should be",
    r"current length is \d[\d,]* while limit is",
    r"total number of tokens (?:\(prompt and prediction\)|in the prompt) cannot exceed",
    r"size limit exceeded by|minimal context could not be added",
    r"too many input tokens|too many tokens in (?:the )?(?:prompt|request|input)",
    rf"(?:input|prompt|max_total_tokens)[^.]{{0,40}}?must be less than (?:or equal to )?(?:the )?"
    rf"(?:context {_SIZE}|max_seq_len)|not enough context {_SIZE}",
    r"(?:input|prompt) is too big\b",
    r"tokens in request more than max tokens allowed|input tokens;? this model accepts",
    r"can only process up to \d[\d,]* tokens",
    r"exceed model maximum(?! output)",
    r"(?:prompt|input|total)[ _]tokens?[^.]{0,20}?\+ ?`?max_(?:new_)?tokens`?[^.]{0,20}?>",
    r"(?:context|model) window is \d[\d,]*k? tokens, you requested",
    r"max_tokens must be at least 1, got -\d{2,}",
    r"required for long context requests|long context beta is not yet available",
    r"上下文(?:长度|窗口)?[^。]{0,8}(?:超限|超过|超出|过长)|超(?:过|出)[^。]{0,16}上下文|输入[^。]{0,6}(?:过长|超长|超限|超出|超过)"
    r"|压缩上下文",
    r"token[^。]{0,6}超(?:过|出)",
)
"""The context is larger than the model's window: nothing else is said in these words."""

NAMES = _any_of(
    rf"^(?:\w*\.)*\w*context_?(?:{_SIZE})?_?(?:exceeded|overflow|too_?(?:large|long))",
    r"^exceed_context_size",
    r"(?:prompt|input)_?too_?(?:long|large)|max_prompt_tokens_exceeded|tokens_limit_reached",
    r"^1261$",  # Zhipu and Z.ai: "Prompt exceeds max length"
)
"""Codes and class names that say the same."""

BYTES = _any_of(
    r"request_too_large|request exceeds the maximum (?:allowed )?(?:size|number of bytes)",
    r"(?<!response )(?:payload|entity|content|body|request) (?:is |was )?too large",
    r"(?<!response )(?:request body|body size|payload)(?: size)?\b[^.]{0,40}?exceed",
    r"request size(?: limit| (?:of )?\d[\d,]*(?: bytes)?)? exceed",
    r"message size \d+ exceeds limit|sent message larger than max|(?<!client: )received message larger than max",
    r"too many total text bytes|max bytes to request body",
)
"""The request's body is larger than the endpoint takes."""

NO_BODY = re.compile(r"\b4(?:00|13)\s{0,8}(?:status code)?\s{0,8}\(no body\)|^error code: 400$")
"""Cerebras and some gateways refuse an overlong request with no word of why."""

PERHAPS = _any_of(
    r"too many tokens(?! in stop)",
    r"token limit exceeded|tokens? limit\b[^.]{0,20}?exceed|exceed\w* (?:the )?(?:maximum )?token limit",
    r"exceed\w* the maximum number of (?:input |prompt )?tokens",
    r"number of (?:input |prompt )?tokens\b[^.]{0,40}?exceed",
    r"(?:input|prompt|requested|messages?|total)(?: input)?[ _]?tokens?(?: count)?\b"
    r"[^.]{0,40}?(?:exceed|over the model|>)",
    r"request tokens exceed",
    r"\b(?:prompt|inputs?|messages?|request|text|conversation)\b[^.]{0,48}?(?:too long|too large|exceed\w*)\b"
    r"[^.]{0,48}?\b(?:tokens?|context|model)\b",
    r"length of the (?:prompt|input|messages)\b[^.]{0,40}?exceed",
)
"""Said of the window by most, of a rate or of a picture by others: counts when nothing speaks of those."""

ELSE = _any_of(
    r"\b(?:logit_bias|stop sequences?|images?|files?|audio|video|pdf|documents?|pages|pixels|dimensions?|resolution)\b",
    r"\b(?:session|access|auth\w*|refresh|bearer|api) (?:token|key)|\bjwt\b|\bexpired?\b",
)
"""Something else is too large, too long or out of date."""

_MONEY = (r"insufficient", r"\bcredits?\b", r"billing", r"balance", r"\bafford\b")

MONEY = _any_of(*_MONEY)
"""Out of money: whatever else is said, nothing smaller helps."""

RATE = _any_of(
    r"rate[ _-]?limit", r"too many requests", r"\bper[ _-](?:min|minute|day|hour|second|month)\b", r"\b[tr]p[mds]\b",
    r"throttl", r"quota", r"please wait", r"(?:try again|retry) (?:in|after) \d",
    r"resource[ _]?exhausted", r"usage limit", r"token rate",
    *_MONEY, r"overloaded", r"at capacity",
    r"\btrial\b", r"\bfree (?:tier|plan)\b", r"\bupgrade\b",
    r"your (?:account|plan|subscription)|monthly|daily",
)  # fmt: skip
"""Busy, or out of money: waiting or paying helps, a smaller request does not."""

ANSWER = re.compile(
    r"max(?:imum)?[ _]?(?:output[ _]?|completion[ _]?|new[ _]?)?tokens?\b"
    r"|requested for (?:the )?(?:output|completion)|\b(?:output|completion) (?:tokens?|length|limit)"
)
"""The length of the answer is spoken of."""

REQUEST = re.compile(
    r"\b(?:input|inputs|prompt|messages|context)\b|\btokens in request\b|\b(?:prompt|input)_tokens?\b"
    r"|at least 1, got -\d|max tokens of \d+ exceeded"
)
"""The request is spoken of, openly or not: a sentence about the answer alone is no overflow."""

TOO_LONG_TEXT = re.compile(
    r"string too long\. expected a string with maximum length (?P<limit>\d(?:[\d,]*\d)?)"
    r"(?:, but got a string with length (?P<size>\d(?:[\d,]*\d)?))?"
    r"|expected maxlength: (?P<limit2>\d(?:[\d,]*\d)?), actual: (?P<size2>\d(?:[\d,]*\d)?)"
)
"""One text of the request has too many characters: of the transcript when the limit is large, else of some name."""

LONG_TEXT = 8_000
"""A limit of fewer characters than this is one of a name or an id, never of a message."""

HOPELESS = frozenset({401, 402, 403, 404})
"""Statuses of errors that no smaller request mends."""


_UNICODE = re.compile(r"(?<!\\)\\+u([0-9a-fA-F]{4})")


def plain(text: str) -> str:
    """Text as the patterns expect it: lower case, plain quotes, no escapes, single spaces."""
    text = _UNICODE.sub(lambda hit: chr(int(hit[1], 16)), text).lower().replace("\\n", " ").replace("\\", "")
    return re.sub(r"\s+", " ", text.replace("\u2019", "'").replace("\u2018", "'"))
