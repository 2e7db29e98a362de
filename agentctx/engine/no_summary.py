"""What is no summary, though a summarizer gave it: nothing, a tool call, a refusal, an error, words about other things.

A record, which has headings, is looked at for what it says and how it begins. Words without headings may be anything:
they are held against what they shall stand for as well, in whatever language they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from agentctx.core.message import Media, Message, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.secrets import NO_WIDTH
from agentctx.engine.record import SummaryRecord
from agentctx.lazy import lazy_pattern

_UNSEEN = lazy_pattern(rf"{NO_WIDTH}|[\u2800\U0001d159]")
"""What is not shown, and what is shown as a blank without being called one."""

_THOUGHT = lazy_pattern(
    r"\s*[<\[\u25c1](?P<tag>think|thinking|thought|reasoning)[>\]\u25b7](?:.*?[<\[\u25c1]/(?P=tag)[>\]\u25b7]|.*)",
    re.DOTALL | re.IGNORECASE,
)
_EMPTY = lazy_pattern(
    r"n/?a|none|null|nil|nan|undefined|empty|unknown|tbd|"
    r"nothing(?: (?:new|yet|so far|to (?:add|report|summari[sz]e)))?|"
    r"no (?:answer|content|data|output|response|summary|text)|not (?:applicable|available|known|specified)",
    re.IGNORECASE,
)
_TOOL_CALL = lazy_pattern(
    r"\s*(?:<(?:tool_call|tool_use|function_calls?|function=|invoke|antml:\w+)|<[|\uff5c]|\[TOOL_CALLS\]|"
    r"(?:commentary |assistant )?to=functions\.|functions\.\w+[:(]|```tool_\w+\n|"
    r"(?:Thought:[^\n]*\n+)?Action:[^\n]+\n+\s*Action Input:)"
)
_CALL_IN_CODE = lazy_pattern(r"\s*\[?\s*[A-Za-z_][\w.]*\(\s*[A-Za-z_]\w*\s*=.*\)\s*\]?\s*", re.DOTALL)
_CALL_KEYS = frozenset(("tool_calls", "function_call", "tool_use", "arguments", "input", "parameters"))
_FENCED = lazy_pattern(r"^[ \t]*```\w*[ \t]*\n(?P<inside>.*?)\n?[ \t]*```", re.DOTALL | re.MULTILINE)
_REFUSAL = lazy_pattern(
    r"\W*(?:(?:I(?:'|\u2019)?m|I am) (?:very |really )?(?:sorry|unable|not able)|(?:sorry|apologies),? (?:but )?I|"
    r"I (?:can(?:no|['\u2019])t|won['\u2019]t|will not) (?:be able to|help|assist|comply|provide|do|continue|"
    r"summari[sz]e)|"
    r"I (?:must|have to) decline|as an AI\b)",
    re.IGNORECASE,
)
_REFUSAL_IN_OTHERS = lazy_pattern(
    r"\W*(?:"
    r"(?:es )?tut mir (?:sehr )?leid|entschuldigung|leider kann ich|(?:dabei|dazu|damit) kann ich (?:\w+ )?nicht|"
    r"(?:je suis )?(?:vraiment )?d\u00e9sol\u00e9|je ne (?:peux|puis) pas|malheureusement,? je|je regrette|"
    r"lo siento|lamentablemente,? no|no puedo (?:ayudar|cumplir|hacer|proporcionar|resumir)|"
    r"(?:me )?desculpe|sinto muito|lamento,|infelizmente,? n\u00e3o|n\u00e3o posso (?:ajudar|atender|fazer)|"
    r"mi dispiace|purtroppo non|non posso (?:aiutar|fare|riassumere)|"
    r"het spijt me|helaas kan ik|ik kan (?:je |u )?(?:daar|hier)|"
    r"jag (?:\u00e4r ledsen|kan tyv\u00e4rr)|tyv\u00e4rr kan jag|jeg beklager|beklager|desv\u00e6rre|valitettavasti|"
    r"przykro mi|przepraszam|niestety nie|om\u00fclouv\u00e1m se|bohu\u017eel|sajn\u00e1lom|maalesef|"
    r"\u0438\u0437\u0432\u0438\u043d\u0438\u0442\u0435|\u043a \u0441\u043e\u0436\u0430\u043b\u0435\u043d\u0438\u044e|"
    r"\u044f \u043d\u0435 \u043c\u043e\u0433\u0443|\u0432\u0438\u0431\u0430\u0447\u0442\u0435|"  # ru, uk
    r"\u7533\u3057\u8a33|\u3059\u307f\u307e\u305b\u3093|\u3054\u3081\u3093|\u304a\u5fdc\u3048\u3067\u304d|"  # ja
    r"\u62b1\u6b49|\u5bf9\u4e0d\u8d77|\u5c0d\u4e0d\u8d77|\u5f88\u9057\u61be|"
    r"\u6211(?:\u65e0\u6cd5|\u7121\u6cd5|\u4e0d\u80fd)|"
    r"\uc8c4\uc1a1|\ubbf8\uc548|\u0639\u0630\u0631\u0627|\u0622\u0633\u0641|\u0623\u0639\u062a\u0630\u0631|"  # ko, ar
    r"\u05de\u05e6\u05d8\u05e2\u05e8|\u092e\u093e\u092b\u093c? \u0915\u0930|\u0e02\u0e2d\u0e2d\u0e20\u0e31\u0e22|"
    r"xin l\u1ed7i)",
    re.IGNORECASE,
)
"""How those begin who will not do what they are asked, elsewhere: no summary begins with an apology."""

_PAGE = lazy_pattern(
    r"\s*(?:<(?:!doctype|html|head|body|\?xml|error)\b|Traceback \(most recent call last\))", re.IGNORECASE
)
_ERROR_KEYS = frozenset(("error", "errors", "detail", "status_code", "statusCode", "Message"))
_ERROR = lazy_pattern(
    r"\W*(?:[\w.]{0,60}(?:error|exception|failure)(?: code)?\s*[:(\d-]|"
    r"(?:an? )?(?:\w+ )?error (?:has )?(?:occurred|generating|creating|while|during|calling|from)|"
    r"failed to (?:connect|create|fetch|generate|get|load|obtain|produce|reach|summari[sz]e)|"
    r"(?:could|can) ?not (?:be )?(?:connect|create|fetch|generate|get|load|obtain|produce|reach|summari[sz]e)|"
    r"summar\w+ (?:is |was |has )?(?:cannot|could|error|failed|not|timed|unavailable)|no summar|"
    r"(?:https?[/ \d.]{0,8})?[45]\d\d\b|(?:rate|usage|token) limit|too many requests|"
    r"(?:service|server|model) \w* ?(?:error|is |not |overloaded|unavailable)|"
    r"(?:connection|operation|read|request) (?:aborted|error|failed|refused|reset|time)|"
    r"(?:insufficient|exceeded|out of) \w|you (?:have )?exceeded|overloaded|time ?out|timed out|"
    r"unfortunately|apolog|I (?:can(?:no|['\u2019])t|won['\u2019]t|(?:could|do|am) not|don['\u2019]t)\b)",
    re.IGNORECASE,
)
"""How errors and excuses begin; a summary may begin so as well, and then has the words of what it stands for."""

_FAILURE = frozenset(
    re.findall(
        r"\w+",
        """
    apologies apologize cannot couldn denied error errors exceeded exception failed failure forbidden invalid
    limit overloaded quota refused refuse sorry timeout timed unable unauthorized unavailable unfortunately 400
    401 402 403 404 408 409 413 422 429 500 502 503 504 529
    """,
    )
)
_AROUND_FAILURE = frozenset(
    re.findall(
        r"\w+",
        """
    after again allowed and any api are assist available back bad because been but call can code connection
    content context contact conversation could decline did does don down during empty encountered for from
    gateway generate generated generating generation get getting has have help http https input internal later
    length llm many maximum message messages model moment network not now occurred output please produce provide
    provided proxy rate reached read request requested requests response retry returned seconds see server
    service some something status summaries summarization summarize summarizer summarizing summary support
    temporarily text that the there this time token tokens too try unexpected unknown upstream usage was while
    will with won wrong you your
    """,
    )
)
_WORD = lazy_pattern(r"[^\W_]+")
_TOGETHER = lazy_pattern(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of scripts that are written without blanks, or with words that change at their ends."""

SHORT = 600
"""Characters; errors and refusals are no longer."""

_A_SENTENCE = 8
"""Words; so many of which none stands in what they are to stand for are about something else."""


def without_thoughts(text: str) -> str:
    """An answer without what was thought before it; all of it may be that.

    Example:
        >>> from agentctx.engine.no_summary import without_thoughts
        >>> without_thoughts("<think>What did they want?</think>Goal: mend it")
        'Goal: mend it'
    """
    return _THOUGHT.sub("", text, count=1) if _THOUGHT.match(text) is not None else text


def says_nothing(text: str) -> bool:
    r"""Whether there is nothing to be seen in a summary but headings, signs, and words for nothing.

    Example:
        >>> from agentctx.engine.no_summary import says_nothing
        >>> says_nothing("Goal: \u200b"), says_nothing("N/A"), says_nothing("Goal: mend it")
        (True, True, False)
    """
    record = SummaryRecord.read(_UNSEEN.sub("", text))
    lists = (record.constraints, record.decisions, record.files, record.open_items)
    return all(
        map(_is_nothing, (record.goal, record.next_step, record.said, *(each for items in lists for each in items)))
    )


def _is_nothing(text: str) -> bool:
    told = text.strip(" \t\n.,:;!?-_*#()[]<>\"'`")
    return not any(map(str.isalnum, told)) or _EMPTY.fullmatch(told) is not None


def flaw(text: str) -> str:
    """Why a text is no summary, whatever it is to stand for; empty when nothing says so."""
    seen = _UNSEEN.sub("", text)
    if says_nothing(seen):
        return "the summary was empty"
    is_plain = SummaryRecord.read(seen).is_plain
    if _calls(seen, anywhere=is_plain):
        return "the summarizer called a tool instead"
    if _REFUSAL.match(seen) is not None:
        return "the summarizer refused"
    if not is_plain or len(seen) > SHORT:
        return _ERROR_TOLD if is_plain and _PAGE.match(seen) is not None else ""
    if _REFUSAL_IN_OTHERS.match(seen) is not None:
        return "the summarizer refused"
    return _ERROR_TOLD if _PAGE.match(seen) is not None or _has_keys(seen, _ERROR_KEYS) else ""


_ERROR_TOLD = "the summarizer gave an error instead"


def is_plain(text: str) -> bool:
    """Whether a summary has none of the headings of a record."""
    return SummaryRecord.read(_UNSEEN.sub("", text)).is_plain


def strangeness(text: str, given: Sequence[Message], *, record: bool) -> str:
    """Why words without headings are no summary of messages; empty when nothing says so.

    Args:
        text: The words.
        given: What the summarizer was given.
        record: Whether it was asked for a record, so that even a few words of something else are none.
    """
    words = _words(_UNSEEN.sub("", text))
    if not record and len(text) > SHORT:
        return ""
    telling = words - _FAILURE - _AROUND_FAILURE
    fails = len(text) <= SHORT and not words.isdisjoint(_FAILURE)
    begins = len(text) <= SHORT and _ERROR.match(text) is not None
    if not (fails or begins or record or len(words) >= _A_SENTENCE):
        return ""
    shared = _shared(words, given)
    if (fails or begins) and len(telling & shared) <= (len(telling) // 2 if begins else 0):
        return _ERROR_TOLD
    if (record and not shared & telling) or (len(words) >= _A_SENTENCE and not shared):
        return "the summary has nothing of what it stands for"
    return ""


def _shared(words: frozenset[str], given: Iterable[Message]) -> frozenset[str]:
    """Which words stand in messages."""
    missing = set(words)
    for text in _texts(part for message in given for part in message.parts):
        if not missing:
            break
        missing -= _words(text)
    return words - missing


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case ToolCall():
                yield f"{part.name} {part.arguments}"
            case ToolResult():
                yield from _texts(part.content)
            case Text() | Thinking():
                yield part.text
            case Media():
                yield part.words


def _words(text: str) -> frozenset[str]:
    """The words of a text, three letters or more; of scripts without blanks each two letters."""
    found: set[str] = set()
    for run in _WORD.findall(text.casefold()):
        if _TOGETHER.search(run) is not None:
            found.update(map("".join, pairwise(run)))
        elif len(run) > 2:
            found.add(run)
    return frozenset(found)


def _calls(text: str, *, anywhere: bool) -> bool:
    """Whether it is a tool call; ``anywhere``: or has one on lines of its own."""
    inside = [found["inside"] for found in _FENCED.finditer(text)] if anywhere or text.lstrip()[:3] == "```" else []
    return (
        _TOOL_CALL.match(text) is not None
        or _has_keys(text, _CALL_KEYS)
        or any(_has_keys(each, _CALL_KEYS) for each in inside)
        or (anywhere and _CALL_IN_CODE.fullmatch(text) is not None)
        or (anywhere and any(_TOOL_CALL.match(text, found.end()) is not None for found in re.finditer(r"\n", text)))
    )


def _has_keys(text: str, keys: frozenset[str]) -> bool:
    """Whether it is JSON, and the first object has one of these keys."""
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    first = found[0] if isinstance(found, list) and found else found
    return isinstance(first, dict) and not keys.isdisjoint(first)
