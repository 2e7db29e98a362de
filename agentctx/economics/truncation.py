"""Servers that cut a prompt without a word: suspected from what they bill."""

from __future__ import annotations

from attrs import frozen

SHARE = 0.6
"""A prompt billed below this share of what was sent is suspect: no counter is wrong by so much for long."""

SMALLEST = 1_000
"""Prompts of fewer tokens are not judged: there the wrapper that a chat template adds or saves weighs too much."""

FULL = 0.99
"""A prompt that takes this share of the window fills it."""


@frozen
class Suspicion:
    """A prompt was probably cut by the server.

    Args:
        billed: The prompt by the provider's count, in tokens.
        sent: The prompt by ours, in tokens.
        why: What speaks for it, in one sentence.
    """

    billed: int
    sent: int
    why: str


def suspect_truncation(
    billed: int, sent: int, *, window: int | None = None, output: int | None = None, stopped_by_length: bool = False
) -> Suspicion | None:
    """Whether a server seems to have cut the prompt silently, as Ollama does at ``num_ctx``.

    Args:
        billed: The whole prompt by the provider's count, cached parts included, in tokens. 0 tells nothing: some
            servers leave the number out when the prompt was cached.
        sent: The same prompt by our count, calibrated where possible, in tokens.
        window: The model's window, if known, in tokens: a prompt billed above it was cut too (z.ai takes it whole
            and cuts later).
        output: Tokens of the answer, if known.
        stopped_by_length: Whether the answer ended for want of room: with no output at a full window the server made
            the prompt fit exactly (Xiaomi MiMo).

    Returns:
        The suspicion, or None when the numbers agree.
    """
    if billed < 1:
        return None
    if sent >= SMALLEST and billed < SHARE * sent:
        return Suspicion(
            billed, sent, f"billed {billed:,} tokens of about {sent:,} sent: the front was probably cut off"
        )
    if window is not None and billed > window:
        return Suspicion(billed, sent, f"billed {billed:,} tokens, more than the window of {window:,}")
    if window is not None and stopped_by_length and output == 0 and billed >= FULL * window:
        return Suspicion(billed, sent, f"the prompt of {billed:,} tokens fills the window of {window:,} exactly")
    return None
