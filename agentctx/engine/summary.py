"""Summaries: the record that one is, what is none, and how one is asked for.

A summary is a record: what it says, under six headings, brought up to date in place. A model writes it, or
``Extractive`` does, out of the messages themselves. What a model leaves out of it is kept from the record before; so
nothing is ever a summary of a summary.

What a summarizer gives may be none: nothing, a tool call, a refusal, an error, small talk. A record, which has
headings, is looked at for what it says and how it begins. Words without headings, or behind a single one, may be
anything: those that look like an error are held against what they shall stand for as well. A summary may be in another
language than that, so to share no word with it is no flaw.

It is asked for with care: without secrets, in parts that the summarizer can take, and taken only whole.

What is no summary (no text, nothing, too much, a tool call, a refusal, an error, half of one) is never put into a
request: it raises ``SummaryError``, and whoever has asked goes another way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

import anyio
from attrs import evolve, field, frozen

from agentctx.engine.cut import tokens_of
from agentctx.engine.run_stages import answered
from agentctx.engine.shrink import Cut, cut_to_tokens
from agentctx.errors import ContextOverflow, SummaryError
from agentctx.formats.native import clean_text
from agentctx.formats.overflow import classify_error
from agentctx.lazy import lazy_pattern
from agentctx.marks import Recap, is_recap, quoted, recap_of
from agentctx.message import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.protocols import Call, Summarizer, name_of
from agentctx.secrets import NO_WIDTH, Redactor, failing_closed, redact_secrets
from agentctx.unit import has_user_words, units
from agentctx.users_code import offload

SUMMARY = "Summary"
"""Under this heading the recap has the words of a summarizer."""

LONGEST = 240
"""Characters; so much of a sentence goes into a record."""

_FIELDS = ("goal", "constraints", "decisions", "files", "open_items", "next_step")
HEADINGS = ("Goal", "Constraints", "Decisions", "Files", "Open items", "Next step")
"""What a record says, in this order."""

_HEADING = lazy_pattern(rf"[#*\s]*({'|'.join(HEADINGS)})[*\s]*(?::[*\s]*(.*))?", re.IGNORECASE)
_MOST: Mapping[str, int] = {"constraints": 12, "decisions": 12, "files": 40, "open_items": 8}
_FEW, _LEAST_OF_RULE = 12, 4
"""The constraints that are named in any room, and tokens of the shortest: in more room as many are as may fit."""


@frozen
class SummaryRecord:
    """What a summary says of a conversation, under six headings.

    Args:
        goal: What the user wants.
        constraints: What must hold, and what must not be done.
        decisions: What was decided.
        files: Which files it is about.
        open_items: What is left to do.
        next_step: What comes next.
        said: What else was said, before the first heading.

    Example:
        >>> from agentctx.engine.summary import SummaryRecord
        >>> record = SummaryRecord(goal="A build that runs", files=("build.log",))
        >>> print(record.text)
        Goal: A build that runs
        Files:
        - build.log
        >>> SummaryRecord.read(record.text) == record
        True
    """

    goal: str = ""
    constraints: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    open_items: tuple[str, ...] = ()
    next_step: str = ""
    said: str = ""

    @classmethod
    def read(cls, text: str) -> SummaryRecord:
        """The record that a text is; one that is none is ``said``."""
        found: dict[str, list[str]] = {}
        said: list[str] = []
        lines = said
        for line in text.splitlines():
            heading = _HEADING.fullmatch(line)
            if heading is not None:
                lines = found.setdefault(_FIELDS[HEADINGS.index(heading[1].capitalize())], [])
            lines.append(line if heading is None else heading[2] or "")
        single = {name: _joined(found.pop(name, ())) for name in ("goal", "next_step")}
        return cls(**single, **{name: _items(each) for name, each in found.items()}, said="\n".join(said).strip())  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        """What it says."""
        return "\n".join((*filter(None, (self.said,)), *self._lines()))

    def _lines(self) -> Iterator[str]:
        for name, heading in zip(_FIELDS, HEADINGS, strict=True):
            told = getattr(self, name)
            if isinstance(told, str):
                yield from (f"{heading}: {told}",) if told else ()
            elif told:
                yield from (f"{heading}:", *(f"- {item}" for item in told))

    @property
    def is_plain(self) -> bool:
        """Whether it has no headings."""
        return not any(getattr(self, name) for name in _FIELDS)

    def updated(self, later: SummaryRecord) -> SummaryRecord:
        """It as a later one says it, with what that one does not speak of; a plain one takes the place of all."""
        if later.is_plain:
            return later
        return evolve(later, **{name: getattr(self, name) for name in (*_FIELDS, "said") if not getattr(later, name)})

    def joined(self, later: SummaryRecord, rules: int) -> SummaryRecord:
        """Both: the goal is the first, the next step the last, and of each list the newest are kept."""
        kept = {**_MOST, "constraints": rules}
        lists = {name: _newest((*getattr(self, name), *getattr(later, name)), most) for name, most in kept.items()}
        return SummaryRecord(self.goal or later.goal, **lists, next_step=later.next_step, said=self.said)

    def shortened(self) -> Iterator[SummaryRecord]:
        """It, and then with ever less of it: of the longest list the oldest goes; goal and next step stay."""
        made = self
        while True:
            yield made
            longest = max(_MOST, key=lambda name: len("".join(getattr(made, name))))
            if not getattr(made, longest):
                return
            made = evolve(made, **{longest: getattr(made, longest)[1:]})


def _joined(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())


def _items(lines: Iterable[str]) -> tuple[str, ...]:
    plain = (line.strip().removeprefix("-").removeprefix("*").strip() for line in lines)
    return tuple(line for line in plain if line and line.lower() not in ("none", "none."))


def _newest(items: Iterable[str], most: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(reversed(list(items))))[:most][::-1]


def record_in(messages: Iterable[Message]) -> SummaryRecord:
    """The record that the recaps among messages have; an empty one where there is none."""
    found = SummaryRecord()
    for message in messages:
        recap = recap_of(message)
        if recap is not None and recap.sections.get(SUMMARY):
            found = found.updated(SummaryRecord.read(recap.sections[SUMMARY]))
    return found


_SENTENCE = lazy_pattern(r"[^\n.!?]+(?:[.!?](?!\s)[^\n.!?]*)*[.!?]?")
_RULE = lazy_pattern(
    r"\b(?:must|never|always|do not|don't|only|without|at most|at least|make sure|avoid)\b", re.IGNORECASE
)
_DECIDED = lazy_pattern(
    r"\b(?:decided|going with|chose|instead of|we(?:'ll| will) use|I(?:'ll| will) use)\b", re.IGNORECASE
)
_OPEN = lazy_pattern(r"\b(?:TODO|FIXME|still (?:to do|fails?|needs?|open)|remaining|not yet|left to do)\b|- \[ \]")
_NEXT = lazy_pattern(r"\b(?:next|now I(?:'ll| will)|let me|I(?:'ll| will))\b", re.IGNORECASE)
_PATH_NAMES = frozenset(("path", "file", "file_path", "filename", "target_file", "notebook_path", "relative_path"))


@frozen
class Extractive:
    """A summarizer that needs no model: its record says goal, constraints and the rest as they were said.

    It takes whole sentences out of the user's words and the model's, and paths out of the arguments of calls; never
    anything out of a tool's result.

    Example:
        >>> from agentctx import Message, Text
        >>> from agentctx.strategies import Extractive
        >>> said = Message("user", (Text("Mend the build. Never touch the tests."),))
        >>> print(await Extractive()([said], 100))
        Goal: Mend the build. Never touch the tests.
        Constraints:
        - Never touch the tests.
    """

    async def __call__(self, messages: Sequence[Message], max_tokens: int, /) -> str:
        """The record of the messages, with what an earlier recap among them says."""
        rules = max(_FEW, max_tokens // _LEAST_OF_RULE)
        return record_in(messages).joined(_extracted(messages, rules), rules).text


def _extracted(messages: Sequence[Message], rules: int) -> SummaryRecord:
    asked = [message.text for message in messages if has_user_words(message)]
    told = [message.text for message in messages if message.role == "assistant"]
    calls = (call for message in messages for call in message.calls)
    return SummaryRecord(
        goal=_one_line(next((text for text in asked if text.strip()), "")),
        constraints=_newest(_sentences(asked, _RULE), rules),
        decisions=_newest(_sentences(told, _DECIDED), _MOST["decisions"]),
        files=_newest((path for call in calls for path in _paths(call)), _MOST["files"]),
        open_items=_newest(_sentences(told, _OPEN), _MOST["open_items"]),
        next_step=next(iter(_newest(_sentences(told[-1:], _NEXT), 1)), ""),
    )


def _sentences(texts: Iterable[str], about: re.Pattern[str]) -> Iterator[str]:
    """The sentences in which a word of the pattern stands, each on a line of its own."""
    for text in texts:
        for found in _SENTENCE.finditer(text):
            sentence = found[0]
            if len(sentence) <= LONGEST and about.search(sentence) is not None:
                yield _one_line(sentence.strip(" -*#>"))


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * LONGEST].split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _paths(call: ToolCall) -> Iterator[str]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return
    for name, value in arguments.items() if isinstance(arguments, dict) else ():
        if name in _PATH_NAMES and isinstance(value, str) and value.strip():
            yield quoted(_one_line(value))


_UNSEEN = lazy_pattern(rf"{NO_WIDTH}|[\u2800\U0001d159]")
"""What is not shown, and what is shown as a blank without being called one."""

_THOUGHT = lazy_pattern(
    r"\s*[<\[\u25c1](?P<tag>think|thinking|thought|reasoning)[>\]\u25b7](?:.*?[<\[\u25c1]/(?P=tag)[>\]\u25b7]|.*)",
    re.DOTALL | re.IGNORECASE,
)
_EMPTY = lazy_pattern(
    r"n/?a|none|null|nil|nan|undefined|empty|unknown|tbd|"
    r"nothing(?: (?:new|yet|so far|to (?:add|report|summari[sz]e)))?|"
    r"\W?(?:(?:answer|content|output|response|summary) )?(?:blocked|filtered|redacted|removed|withheld)|"
    r"summary></summary|"
    r"no (?:answer|content|data|output|response|summary|text)|not (?:applicable|available|known|specified)",
    re.IGNORECASE,
)
_TOOL_CALL = lazy_pattern(
    r"\s*(?:<(?:tool_call|tool_use|function_calls?|function=|invoke|antml:\w+)|<[|\uff5c]|\[TOOL_CALLS\]|"
    r"(?:commentary |assistant )?to=functions\.|functions\.\w+(?::\d|:?\s*\(?\s*\{|\([^)\n]*\)\s*$)|```tool_\w+\n|"
    r"\u273fFUNCTION\u273f)"
)
_REACT = lazy_pattern(r"\s*(?:Thought:[^\n]*\n+)?Action:[^\n]+\n+\s*Action Input:")
_CALL_IN_CODE = lazy_pattern(r"\s*\[?\s*[A-Za-z_][\w.]*\(\s*[A-Za-z_]\w*\s*=.*\)\s*\]?\s*", re.DOTALL)
_CALLS = frozenset(("tool_calls", "tool_call", "function_call", "functionCall", "toolCall", "tool_use", "toolUse"))
_CALLED = frozenset(("name", "tool", "tool_name", "function", "action", "recipient_name"))
_ARGUMENTS = frozenset(("arguments", "parameters", "input", "args", "params", "kwargs", "action_input", "tool_input"))
_BESIDE_CALLS = frozenset(("id", "type", "index", "call_id", "role", "content", "refusal", "thought"))
_FENCED = lazy_pattern(r"^[ \t]*```\w*[ \t]*\n(?P<inside>.*?)\n?[ \t]*```", re.DOTALL | re.MULTILINE)
_REFUSAL = lazy_pattern(
    r"\W*(?:(?:I(?:'|\u2019)?m|I am) (?:very |really )?(?:sorry|unable|not able|not comfortable|afraid (?:I|that)\b)|"
    r"(?:sorry|apologies|I apologi[sz]e),? (?:but )?I\b|I(?: woul|['\u2019])d (?:rather|prefer) not\b|"
    r"I (?:can(?:no| no|['\u2019])t|won['\u2019]t|will not) (?:be able to|help|assist|comply|provide|do|continue|"
    r"summari[sz]e)|"
    r"I (?:must|have to|need to) (?:decline|refuse)|as an AI\b(?=[^.\n]{0,60}\b(?:I|not|cannot)\b)|"
    r"(?:cannot|unable to) (?:assist|comply|fulfil+|help)\b|(?:that|this)(?:['\u2019]s| is) (?:not )?something I\b)",
    re.IGNORECASE,
)
_REFUSAL_IN_OTHERS = lazy_pattern(
    r"\W*(?:"
    r"(?:es )?tut mir (?:sehr )?leid|entschuldigung|"
    r"leider kann ich (?:das|dabei|damit|dazu|dem|dies\w*|dir|euch|ihnen|ihre?n?|keine?|nicht)\b|"
    r"(?:dabei|dazu|damit) kann ich (?:\w+ )?nicht|"
    r"(?:je suis )?(?:vraiment )?d\u00e9sol\u00e9|je ne (?:peux|puis) pas|malheureusement,? je|je regrette|"
    r"lo siento|lamentablemente,? no|no puedo (?:ayudar|cumplir|hacer|proporcionar|resumir)|"
    r"(?:me )?desculpe|sinto muito|lamento,|infelizmente,? n\u00e3o|n\u00e3o posso (?:ajudar|atender|fazer)|"
    r"mi dispiace|purtroppo non|non posso (?:aiutar|fare|riassumere)|"
    r"het spijt me|sorry,? (?:maar|daar)\b|helaas kan ik|ik kan (?:je |u )?(?:daar|hier)|"
    r"jag (?:\u00e4r ledsen|kan tyv\u00e4rr)|tyv\u00e4rr kan jag|jeg beklager|beklager|desv\u00e6rre|valitettavasti|"
    r"przykro mi|przepraszam|niestety nie|om\u00fclouv\u00e1m se|bohu\u017eel|sajn\u00e1lom|maalesef|"
    r"\u0438\u0437\u0432\u0438\u043d\u0438\u0442\u0435|\u043a \u0441\u043e\u0436\u0430\u043b\u0435\u043d\u0438\u044e|"
    r"\u044f \u043d\u0435 \u043c\u043e\u0433\u0443|\u0432\u0438\u0431\u0430\u0447\u0442\u0435|"  # ru, uk
    r"\u7533\u3057\u8a33|\u3059\u307f\u307e\u305b\u3093|\u3054\u3081\u3093|\u304a\u5fdc\u3048\u3067\u304d|"  # ja
    r"\u62b1\u6b49|\u5bf9\u4e0d\u8d77|\u5c0d\u4e0d\u8d77|\u5f88\u9057\u61be|"
    r"\u6211(?:\u65e0\u6cd5|\u7121\u6cd5|\u4e0d\u80fd)|"
    r"\uc8c4\uc1a1|\ubbf8\uc548|\u0639\u0630\u0631\u0627|\u0622\u0633\u0641|\u0623\u0639\u062a\u0630\u0631|"  # ko, ar
    r"\u05de\u05e6\u05d8\u05e2\u05e8|\u092e\u093e\u092b\u093c? \u0915\u0930|\u0e02\u0e2d\u0e2d\u0e20\u0e31\u0e22|"
    r"xin l\u1ed7i|"
    r"als (?:eine? )?(?:AI|KI)(?:-?(?:sprach)?modell|-?assistent\w*)?,? kann\b|"
    r"es ist mir (?:leider )?nicht m\u00f6glich|"
    r"en tant qu(?:'|\u2019|e )(?:IA\b|mod\u00e8le de langage|assistant\b)|como (?:um |un |uma )?(?:IA\b|"
    r"modelo de lengua|modelo de lingua)|"
    r"jag kan (?:inte|tyv\u00e4rr)|"
    r"(?:\u4f5c\u4e3a|\u4f5c\u70ba)(?:\u4e00\u4e2a|\u4e00\u500b|\u4e00\u540d)?(?:AI|\u4eba\u5de5\u667a\u80fd|"
    r"\u4eba\u5de5\u667a\u6167|\u5927?\u8bed\u8a00\u6a21\u578b)|"
    r"(?:\u65e0\u6cd5|\u7121\u6cd5)(?:\u534f\u52a9|\u5e2e\u52a9|\u63d0\u4f9b|\u6ee1\u8db3|\u603b\u7ed3|"
    r"\u5354\u52a9|\u5e6b\u52a9|\u7e3d\u7d50)|"
    r"\u304a\u624b\u4f1d\u3044(?:\u3059\u308b\u3053\u3068\u306f)?\u3067\u304d|\u304a\u7b54\u3048\u3067\u304d|"
    r"AI(?:\u8a00\u8a9e\u30e2\u30c7\u30eb|\u30a2\u30b7\u30b9\u30bf\u30f3\u30c8)\u3068\u3057\u3066|"
    r"\ub3c4\uc640\ub4dc\ub9b4 \uc218 \uc5c6|\ub3c4\uc6c0\uc744 \ub4dc\ub9b4 \uc218 \uc5c6|"
    r"AI (?:\uc5b8\uc5b4 )?\ubaa8\ub378\ub85c\uc11c|"
    r"\u043f\u0440\u043e\u0441\u0442\u0438\u0442\u0435|"
    r"\u043d\u0435 \u043c\u043e\u0433\u0443 (?:\u043f\u043e\u043c\u043e\u0447\u044c|"
    r"\u0432\u044b\u043f\u043e\u043b\u043d\u0438\u0442\u044c)|"
    r"\u043a\u0430\u043a (?:\u0418\u0418|"
    r"\u044f\u0437\u044b\u043a\u043e\u0432\u0430\u044f \u043c\u043e\u0434\u0435\u043b\u044c)[ ,]|"
    r"\u0e44\u0e21\u0e48\u0e2a\u0e32\u0e21\u0e32\u0e23\u0e16(?:\u0e0a\u0e48\u0e27\u0e22|\u0e43\u0e2b\u0e49|"
    r"\u0e2a\u0e23\u0e38\u0e1b)|\u05dc\u05d0 \u05d0\u05d5\u05db\u05dc)",
    re.IGNORECASE,
)
"""How those begin who will not do what they are asked, elsewhere: no summary begins with an apology."""

_PAGE = lazy_pattern(
    r"\s*(?:<(?:!doctype|html|head|body|\?xml|error)\b|Traceback \(most recent call last\))", re.IGNORECASE
)
_ERROR_KEYS = frozenset(("error", "errors", "detail", "details", "message", "status", "status_code", "statuscode"))
_BESIDE_ERRORS = frozenset(
    ("code", "instance", "object", "ok", "param", "path", "request_id", "requestid", "success", "timestamp", "title")
) | {"type"}
_OBJECT = lazy_pattern(r"\W*(?:\[object \w+\]|<(?:[\w.]+ )+at 0x[\da-f]+>|<(?:coroutine|async_generator) object)")
_OTHER_ERROR = lazy_pattern(
    r"\W*(?:une erreur (?:est|s'est)|(?:se produjo|ha ocurrido|ocurri\u00f3|ocorreu) (?:un|um) erro|"
    r"(?:si \u00e8 verificato|c'\u00e8 stato) un errore|(?:es ist )?(?:ein )?(?:\w+ )?fehler (?:ist )?aufgetreten|"
    r"\u30a8\u30e9\u30fc\u304c\u767a\u751f|\u8bf7\u6c42\u8fc7\u4e8e|\u53d1\u751f\u9519\u8bef|\u51fa\u73b0\u9519\u8bef|"
    r"(?:this|the) (?:content|request|prompt|response) (?:violates|was (?:blocked|filtered|flagged)))",
    re.IGNORECASE,
)
"""How errors are told in other words; a short text that begins so is one."""

_NOTHING_ELSEWHERE = lazy_pattern(
    r"keine?[mnrs]?|nichts|leer|aucune?|rien|vide|n\u00e9ant|ningun[oa]|ning\u00fan|nada|nenhuma?|nessun[oa]?|niente|"
    r"nulla|geen|niets|ingen|inget|brak|\u043d\u0435\u0442|yok|\u65e0|\u7121|\u6ca1\u6709|\u306a\u3057|"
    r"\u7279\u306b\u306a\u3057|"
    r"\uc5c6\uc74c|todo",
    re.IGNORECASE,
)
_LABEL = lazy_pattern(r"[ \t]*(?:#.*$|(?:[-*>][-*> \t]*)?(?:[^:\uff1a\n]{1,60}[:\uff1a][*\s]*)?)")
_NO_TASK = lazy_pattern(
    r"\W*(?:(?:there (?:is|are|was|were|seems to be) )?(?:nothing|no (?:\w+ ){1,2})(?: ?here)? ?to summari[sz]e|"
    r"(?:es gibt )?nichts zu(?:sammenzu| ?sammen)|es gibt nichts|il n'y a rien|no hay nada|n\u00e3o h\u00e1 nada|"
    r"non c'\u00e8 (?:nulla|niente)|\u6ca1\u6709(?:\u53ef|\u9700\u8981|\u4ec0\u4e48)|"
    r"(?:es gibt )?keine zusammenfassung|(?:aucun|pas de) r\u00e9sum\u00e9|(?:no hay|sin) resumen|"
    r"(?:please |now )?summari[sz]e the (?:conversation|messages|text)|the conversation above\W*$|"
    r"(?:(?:now,? )?let me|I(?:'ll| will| am going to)(?: now)?|I(?: ha|')ve) summari[sz]ed? "
    r"(?:it|this|what|(?:the|this|your) (?:above|chat|conversation|messages|text))\b.{0,40}$|"
    r"the conversation (?:has been|is|was) summari[sz]ed\W*$|"
    r"(?:the )?summary (?:is )?(?:complete|done|finished|ready|written)\w?\W*$|(?:see|as) (?:above|below)\W*$|"
    r"here you go\W*$|(?:\w+[!,.] )?(?:below|here) is (?:a|the|your) (?:\w+ )?summary\W*$|"
    r"(?:(?:ok(?:ay)?|done|understood|sure(?: thing)?|got it|yes|thanks?|thank you|ready|noted|will do|certainly|"
    r"of course|I understand|verstanden|alles klar|erledigt|gut|d'accord|compris|entendido|vale|"
    r"\u597d\u7684|\u4e86\u89e3|\u308f\u304b\u308a\u307e\u3057\u305f|\u627f\u77e5\u3057\u307e\u3057\u305f|"
    r"\uc54c\uaca0\uc2b5\ub2c8\ub2e4|\ub124)\b"
    r"(?:\W*$|\W+(?:I(?:'ll| will|'m| am)|let me|let's|go on|please)\b))|"
    r"(?:hello|hi|hey)\b(?: there)?[!,.])",
    re.IGNORECASE,
)
_ASKS = lazy_pattern(
    r"\bhow (?:can|may) I (?:help|assist) you|\bwhat would you like|\blet me know (?:if|how|what) you|"
    r"\bplease (?:provide|paste|share|send)(?: me)? (?:the|your|a) (?:conversation|messages|text|transcript)|"
    r"\bbitte (?:geben|senden|f\u00fcgen|teilen) sie .*(?:gespr\u00e4ch|text)|"
    r"yard\u0131mc\u0131 olamam|nem tudok (?:\w+ )?seg[i\u00ed]teni|"
    r"\u092e\u0926\u0926 \u0928\u0939\u0940\u0902 \u0915\u0930 \u0938\u0915",
    re.IGNORECASE,
)
"""What is said, not summed up; a short text that has it is an answer of an assistant."""

_TOLD = lazy_pattern(
    r"\b(?:fixed|resolved|solved|mended|edited|traced|raised|added|installed|restarted|replaced|reset|"
    r"next(?: step)?:|still|untouched|left|caused)\b",
    re.IGNORECASE,
)
"""What is told of an error that was met, and not by one that is met now."""
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
    r"this model's maximum|\[errno \d|curl: \(\d|upstream connect|bad request\b|"
    r"(?:killed|segmentation fault|stream closed)\W*$|"
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
    length llm many maximum message messages model moment network not now occurred out output please produce provide
    provided proxy rate reached read request requested requests response retry returned seconds see server
    service some something status summaries summarization summarize summarizer summarizing summary support
    temporarily text that the there this time token tokens too try unexpected unknown upstream usage was while
    will with won wrong you your
    """,
    )
)
_WORD = lazy_pattern(r"[^\W_]+")
_FILE = lazy_pattern(r"\b\w+\.[a-z]\w{0,4}\b")
_TOGETHER = lazy_pattern(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Letters of scripts that are written without blanks, or with words that change at their ends."""

SHORT = 600
"""Characters; errors and refusals are no longer."""

_PROSE = 300
"""Characters; what is longer is a summary, unless it is plainly none."""

_SMALL_TALK = 160
"""Characters; what is said beside a summary, and errors in a sentence, are no longer."""

_A_SENTENCE = 8
"""Words; fewer, without a heading, of which none was said, are none from who was asked for a record."""


_SIGNS = " \t\n.,:;!?-_*#()[]<>\"'`\u3002"


def without_thoughts(text: str) -> str:
    """An answer without what was thought before it; all of it may be that.

    Example:
        >>> from agentctx.engine.summary import without_thoughts
        >>> without_thoughts("<think>What did they want?</think>Goal: mend it")
        'Goal: mend it'
    """
    return _THOUGHT.sub("", text, count=1) if _THOUGHT.match(text) is not None else text


def says_nothing(text: str) -> bool:
    r"""Whether there is nothing to be seen in a summary but headings, signs, and words for nothing.

    Example:
        >>> from agentctx.engine.summary import says_nothing
        >>> says_nothing("Goal: \u200b"), says_nothing("N/A"), says_nothing("Goal: mend it")
        (True, True, False)
    """
    record = SummaryRecord.read(_UNSEEN.sub("", text))
    lists = (record.constraints, record.decisions, record.files, record.open_items)
    return all(
        map(_is_nothing, (record.goal, record.next_step, record.said, *(each for items in lists for each in items)))
    )


def _is_nothing(text: str) -> bool:
    told = text.strip(_SIGNS)
    return not any(map(str.isalnum, told)) or _EMPTY.fullmatch(told) is not None


def flaw(text: str) -> str:
    """Why a text is no summary, whatever it is to stand for; empty when nothing says so."""
    seen = _UNSEEN.sub("", text)
    if says_nothing(seen) or _is_bare(seen):
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
    return _ERROR_TOLD if _is_error(seen) else _small_talk(seen)


_ERROR_TOLD = "the summarizer gave an error instead"


def _is_bare(text: str) -> bool:
    """Whether it is JSON without a value, or lines that are headings of any name, with nothing or a word for it."""
    found = _json(text)
    if found is not None:
        return all(map(_is_nothing, _values(found)))
    if len(text) > SHORT:
        return False
    told = (line[found.end() :] for line in text.splitlines() if (found := _LABEL.match(line)) is not None)
    return all(_is_nothing(each) or _NOTHING_ELSEWHERE.fullmatch(each.strip(_SIGNS)) is not None for each in told)


def _small_talk(text: str) -> str:
    if len(text) <= _SMALL_TALK and (_NO_TASK.match(text) is not None or _ASKS.search(text) is not None):
        return "the summarizer answered something else"
    return ""


def _is_error(text: str) -> bool:
    if _PAGE.match(text) is not None or _OBJECT.match(text) is not None:
        return True
    if len(text) <= _SMALL_TALK and _OTHER_ERROR.match(text) is not None:
        return True
    found = _objects(text)
    keys = [frozenset(map(str.lower, each)) for each in found]
    return bool(keys) and all(each & _ERROR_KEYS and each <= _ERROR_KEYS | _BESIDE_ERRORS for each in keys)


def alone(text: str) -> str:
    r"""The words of a summary without headings, or of a short one behind its only heading; empty for other records.

    Example:
        >>> from agentctx.engine.summary import alone
        >>> alone("Goal: mend it"), alone("Goal: mend it\nNext step: test")
        ('mend it', '')
    """
    seen = _UNSEEN.sub("", text)
    record = SummaryRecord.read(seen)
    if record.is_plain:
        return seen
    lists = (record.constraints, record.decisions, record.files, record.open_items)
    told = (record.said, record.goal, *("\n".join(items) for items in lists), record.next_step)
    found = [each for each in told if not _is_nothing(each)]
    return found[0] if len(found) == 1 and len(found[0]) <= _PROSE else ""


def strangeness(text: str, given: Sequence[Message], *, record: bool) -> str:
    """Why words that stand ``alone`` are no summary of messages; empty when nothing says so.

    Args:
        text: The summary.
        given: What the summarizer was given.
        record: Whether it was asked for a record, so that a few words of something else are none.
    """
    words = alone(text)
    if not SummaryRecord.read(_UNSEEN.sub("", text)).is_plain:
        if not words or _is_quoted(words, given):
            return ""
        if problem := flaw(words):
            return problem
    return _unlike(words, given, record=record)


def _is_quoted(text: str, given: Iterable[Message]) -> bool:
    """Whether somebody has said it, in these words."""
    said = " ".join(text.removesuffix("\u2026").split())
    return any(said in " ".join(each.split()) for each in _said_in(part for message in given for part in message.parts))


def _unlike(text: str, given: Sequence[Message], *, record: bool) -> str:
    if len(text) > _PROSE:
        return ""
    words = _words(text)
    telling = words - _FAILURE - _AROUND_FAILURE
    is_told = _TOLD.search(text) is not None
    begins = not is_told and _ERROR.match(text) is not None
    fails = not is_told and not words.isdisjoint(_FAILURE) and 2 * len(telling) < len(words)
    if not (fails or begins or record):
        return ""
    told = telling & _shared(words, given)
    if (fails or begins) and len(told) <= (len(telling) // 2 if begins else 0):
        return _ERROR_TOLD
    return "the summary has nothing of what it stands for" if record and len(words) < _A_SENTENCE and not told else ""


def _shared(words: frozenset[str], given: Iterable[Message]) -> frozenset[str]:
    """Which words stand in messages."""
    missing = set(words)
    for text in _said_in(part for message in given for part in message.parts):
        if not missing:
            break
        missing -= _words(text)
    return words - missing


def _said_in(parts: Iterable[Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case ToolCall():
                yield f"{part.name} {part.arguments}"
            case ToolResult():
                yield from _said_in(part.content)
            case Text() | Thinking():
                yield part.text
            case Media():
                yield part.words


def _words(text: str) -> frozenset[str]:
    """The words of a text, three letters or more, and names of files; of scripts without blanks each two letters."""
    found: set[str] = set(_FILE.findall(text.casefold()))
    for run in _WORD.findall(text.casefold()):
        if _TOGETHER.search(run) is not None:
            found.update(map("".join, pairwise(run)))
        elif len(run) > 2:
            found.add(run)
    return frozenset(found)


def _calls(text: str, *, anywhere: bool) -> bool:
    """Whether it is a tool call; ``anywhere``: or has one on lines of its own."""
    inside = [found["inside"] for found in _FENCED.finditer(text)] if anywhere and len(text) <= _PROSE else []
    return (
        _TOOL_CALL.match(text) is not None
        or _REACT.match(text) is not None
        or any(map(_is_call, (text, *inside)))
        or (anywhere and _CALL_IN_CODE.fullmatch(text) is not None)
        or (anywhere and any(_TOOL_CALL.match(text, found.end()) is not None for found in re.finditer(r"\n", text)))
    )


def _is_call(text: str) -> bool:
    """Whether it is JSON that has the whole shape of a call, or of several."""
    found = _objects(text)
    return bool(found) and all(map(_has_shape_of_call, found))


def _has_shape_of_call(found: Mapping[str, object]) -> bool:
    keys = frozenset(found)
    named = bool(keys & _CALLED) and bool(keys & _ARGUMENTS)
    nested = found.get("type") == "function" and "function" in keys
    return (named or nested or bool(keys & _CALLS)) and keys <= _CALLS | _CALLED | _ARGUMENTS | _BESIDE_CALLS


def _json(text: str) -> object:
    """What it is as JSON, also in a fence; None where it is none."""
    fenced = _FENCED.fullmatch(text.strip())
    told = (text if fenced is None else fenced["inside"]).strip()
    if told[:1] not in ("{", "["):
        return None
    try:
        found: object = json.loads(told)
    except (ValueError, RecursionError):
        return None
    return found


def _objects(text: str) -> list[dict[str, object]]:
    """The objects that it is as JSON, one or a list of them; none where it is anything else."""
    found = _json(text)
    each: list[object] = found if isinstance(found, list) else [found]
    objects = [one for one in each if isinstance(one, dict)]
    return objects if len(objects) == len(each) else []


def _values(found: object) -> Iterator[str]:
    """The values in JSON as text; what is null is none."""
    waiting = [found]
    while waiting:
        match waiting.pop():
            case dict() as each:
                waiting += each.values()
            case list() as each:
                waiting += each
            case None:
                pass
            case value:
                yield str(value)


SUMMARY_TIMEOUT = 120.0
"""Seconds that a step waits for one answer of a summarizer which says nothing else."""

SMALLEST_PART = 256
"""Tokens; a part of the messages that does not fit into the summarizer's window is not halved below it."""


@frozen
class Asking:
    """A summarizer and how it is asked.

    Args:
        summarizer: Finds the words.
        redact: Takes secrets out of what goes to it, and out of what it says.
        window: Tokens that it can take in at once, with its answer; None: as it says itself, else any number.
        timeout: Seconds for one answer; None: as it says itself, else ``SUMMARY_TIMEOUT``.
    """

    summarizer: Summarizer
    redact: Redactor = redact_secrets
    window: int | None = field(default=None)
    timeout: float | None = field(default=None)

    async def words(self, messages: Sequence[Message], most: int, call: Call, stage: str) -> str:
        """What the messages say in about ``most`` tokens, the earlier record among them brought up to date.

        Where they are more than the summarizer can take in, it is given one part after another, each with the record
        of those before; a part that is too large all the same is halved.

        Raises:
            SummaryError: If there is no summary.
            Exception: What the summarizer raises.
        """
        characters = sum(map(call.meter.weight, messages))
        told = await offload(partial(self._without_secrets, tuple(messages)), len(messages), characters)
        window = self.window or getattr(self.summarizer, "window", None)
        room = None if window is None else max(SMALLEST_PART, window - most)
        waiting, record = list(_split(told, room, call)), record_in(told)
        while waiting:
            part = (*_standing(record, told), *waiting[0])
            try:
                record = record.updated(await self._asked(part, most, call, stage))
            except Exception as error:
                tokens = tokens_of(waiting[0], call)
                if not _is_overflow(error) or tokens <= SMALLEST_PART:
                    raise
                waiting[:1] = _split(waiting[0], max(SMALLEST_PART, tokens // 2), call)
                continue
            waiting.pop(0)
        return record.text

    def _without_secrets(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        redact = failing_closed(self.redact, SummaryError)
        return tuple(_redacted(message, redact) for message in messages)

    async def _asked(self, messages: Sequence[Message], most: int, call: Call, stage: str) -> SummaryRecord:
        """The record that the summarizer makes of the messages."""
        name = f"{name_of(self.summarizer)} of {stage}"
        text: object = await self._in_time(answered(name, self.summarizer(messages, most)))
        if not isinstance(text, str):
            msg = f"the summarizer returned {type(text).__name__} instead of text"
            raise SummaryError(msg)
        text = without_thoughts(text)
        if problem := flaw(text) or await self._problem(text, messages, call):
            raise SummaryError(problem)
        told = await offload(partial(failing_closed(self.redact, SummaryError), clean_text(text)), 1, len(text))
        return SummaryRecord.read(_without_unknown_handles(told, messages, call))

    async def _problem(self, text: str, messages: Sequence[Message], call: Call) -> str:
        """Why a text is no summary of the messages; empty when it is one."""
        tokens = tokens_of(messages, call)
        if call.meter.counter.count(text) > tokens:
            return "the summary is longer than what it stands for"
        if not alone(text):
            return ""
        record = getattr(self.summarizer, "writes_record", False) is True
        return await offload(partial(strangeness, text, messages, record=record), len(messages), 4 * tokens)

    async def _in_time(self, answer: Awaitable[object]) -> object:
        """The answer, which is not waited for longer than is said."""
        seconds = self.timeout or getattr(self.summarizer, "timeout", None) or SUMMARY_TIMEOUT
        with anyio.move_on_after(seconds):
            return await answer
        msg = f"no answer within {seconds:g} seconds"
        raise TimeoutError(msg)


UNKNOWN = "an unknown handle"
"""What stands in a summary for a handle that its summarizer has made up."""


def _without_unknown_handles(text: str, given: Sequence[Message], call: Call) -> str:
    """A summary without handles for the recall tool that stood nowhere in what its summarizer was given."""
    tool = None if call.internals.shelf is None else call.internals.shelf.tool
    if tool is None or tool not in text:
        return text
    texts = [part.text for message in given for part in _inner_parts(message.parts) if isinstance(part, Text)]
    known = "\n".join([*texts, *(each.arguments for message in given for each in message.calls)])

    def checked(found: re.Match[str]) -> str:
        return found[0] if found["handle"] in known else UNKNOWN

    pattern = rf"\b{re.escape(tool)} (?P<handle>(?=[\w:./-]*\d|[a-f]{{16}})[\w:./-]{{8,}})(?:#\d+)?"
    return re.sub(pattern, checked, text)


def _is_overflow(error: Exception) -> bool:
    return isinstance(error, ContextOverflow) or classify_error(error) is not None


def _standing(record: SummaryRecord, told: Sequence[Message]) -> Iterator[Message]:
    """The recap with what is known so far; the counts are those of the recap that was there."""
    if record.text:
        known = next(filter(None, map(recap_of, told)), Recap())
        yield known.with_section(SUMMARY, record.text).written()


def _split(messages: Sequence[Message], room: int | None, call: Call) -> Iterator[tuple[Message, ...]]:
    """The messages without their recaps in parts of at most ``room`` tokens, whole units each; a large unit is cut."""
    plain = tuple(message for message in messages if not is_recap(message))
    if room is None:
        yield plain or tuple(messages)
        return
    part: list[Message] = []
    for unit in units(plain):
        group = _of_size(unit.of(plain), room, call)
        if part and tokens_of((*part, *group), call) > room:
            yield tuple(part)
            part = []
        part += group
    yield tuple(part)


def _of_size(group: Sequence[Message], room: int, call: Call) -> Sequence[Message]:
    """The messages of a unit, each text of them cut to its share of the room when they are too large together."""
    if tokens_of(group, call) <= room:
        return group
    texts = sum(1 for message in group for _ in _inner_parts(message.parts))
    share = max(8, room // (2 * max(1, texts)))

    def cut(text: str) -> str:
        return cut_to_tokens(Text(text), share, call.meter.counter, Cut()).text

    return [_redacted(message, cut) for message in group]


def _inner_parts(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield from _inner_parts(part.content) if isinstance(part, ToolResult) else (part,)


def _redacted(message: Message, redact: Callable[[str], str]) -> Message:
    """The message with all its texts written anew; the same object when none changes, else without its payload."""
    recap = recap_of(message)
    if recap is not None:
        sections = {redact(heading): redact(text) for heading, text in recap.sections.items()}
        return evolve(recap, sections=sections).written()
    parts = _parts(message.parts, redact)
    return message if parts == message.parts else Message(message.role, parts)


def _parts(parts: Sequence[Part], redact: Callable[[str], str]) -> tuple[Part, ...]:
    return tuple(told for part in parts if (told := _part(part, redact)) is not None)


def _part(part: Part, redact: Callable[[str], str]) -> Part | None:
    """A part with its texts written anew; None for reasoning, or what is not understood, of which something changes."""
    match part:
        case Text():
            told = redact(part.text)
            return part if told == part.text else Text(told)
        case ToolCall():
            told = redact(part.arguments)
            return part if told == part.arguments else ToolCall(part.id, part.name, told)
        case ToolResult():
            content = _parts(part.content, redact)
            return part if content == part.content else ToolResult(part.call_id, content, part.name, part.is_error)
        case Thinking():
            return part if redact(part.text) == part.text else None
        case Opaque():
            told = json.dumps(part.data, default=str)
            return part if redact(told) == told else None
        case Media():
            return part if redact(part.words) == part.words else None
