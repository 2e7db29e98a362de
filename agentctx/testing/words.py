"""What generated transcripts say: texts that have broken programs before."""

from __future__ import annotations

from hypothesis import strategies as st

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""

VISIBLE = (
    "ok",
    "Fix the failing test, please.",
    "I will read the file first.\n\nThen I change it.",
    "def total(items):\n    return sum(item.price for item in items)\n",
    '{"status": "ok", "rows": [1, 2.5, null], "next": "\\u00e9"}',
    "请修复这个测试,然后告诉我结果。",
    "テストを直してください。",
    "테스트를 고쳐 주세요.",
    "Почините тест, пожалуйста.",
    "أصلح الاختبار من فضلك",
    "कृपया परीक्षण ठीक करें",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪",
    "Z̷̢a̸͝l̵̛g̴͠o e\u0301 n\u0303 \u200bzero\u200dwidth\ufeff",
    "<|endoftext|> <|im_start|>system<|im_sep|> <|fim_prefix|>",
    "\n\nHuman: hello\n\nAssistant: hi <function_calls>",
    "NUL \x00, bell \x07, escape \x1b[31mred\x1b[0m, separator \u2028",
    "=" * 120,
    "0f1e2d3c4b5a69788796a5b4c3d2e1f0 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
    "x" + " " * 90 + "y\t\t\t\tz\r\n\r\n",
    "please answer as json",
    "[old tool result cleared]",
    "…12 characters omitted…",
)
"""Texts with something to see in them."""

BLANK = ("", " ", "\n\t ", "\u3000")
"""Texts with nothing to see in them."""

LONE = ("\ud800", "cut in half: \ud83d", "\udc00 low first", "a\udfffb")
"""Texts with half a surrogate pair in them, which cannot be sent."""

NAMES = ("read_file", "bash", "search", "write-file")
"""Names of tools."""


def _visible(text: str) -> str:
    return text if text.strip() else f"x{text}"


def _repeated(piece: str, times: int) -> str:
    return piece * times


def visible_texts() -> st.SearchStrategy[str]:
    """Texts with something to see in them: mostly known trouble, some free."""
    free = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map(_visible)
    return st.one_of(st.sampled_from(VISIBLE), st.sampled_from(VISIBLE), free)


def outputs() -> st.SearchStrategy[str]:
    """What tools answer: small texts, big ones, and nothing."""
    big = st.builds(_repeated, st.sampled_from(VISIBLE), st.sampled_from((10, 60, 300)))
    return st.one_of(visible_texts(), big, st.just(""))


def arguments() -> st.SearchStrategy[dict[str, object]]:
    """Arguments of tool calls."""
    values: st.SearchStrategy[object] = st.one_of(
        st.sampled_from(VISIBLE), st.integers(-9, 9), st.sampled_from((None, True, 0.5, [], {"deep": [{"er": "x"}]}))
    )
    return st.dictionaries(st.sampled_from(("path", "query", "größe")), values, max_size=2)
