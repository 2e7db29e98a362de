"""Servers that cut a prompt without a word: suspected from what they bill."""

from __future__ import annotations

from attrs import frozen

SHARE = 0.6
"""A prompt billed below this share of what was sent is suspect: no counter is wrong by so much for long."""

UNSURE = 0.4
"""The share instead of ``SHARE`` before the first report, when nothing is known of how the provider counts."""

SMALLEST = 1_000
"""Prompts of fewer tokens are not judged: there the wrapper that a chat template adds or saves weighs too much."""

FULL = 0.99
"""A prompt that takes this share of the window fills it."""

BLOCK = 1_100
"""Tokens; caches hold whole blocks, so that up to one block more than what is new is billed as uncached."""

LARGER = 1.3
"""A prompt billed at more than this share of what was sent is the sum of several prompts, not a larger one."""


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
    billed: int,
    sent: int,
    *,
    fresh: int | None = None,
    uncertain: int = 0,
    calibrated: bool = True,
    window: int | None = None,
    output: int | None = None,
    stopped_by_length: bool = False,
) -> Suspicion | None:
    """Whether a server seems to have cut the prompt silently, as Ollama does at ``num_ctx``.

    Args:
        billed: The whole prompt by the provider's count, cached parts included, in tokens. 0 tells nothing: some
            servers leave the number out when the prompt was cached.
        sent: The same prompt by our count, calibrated where possible, in tokens.
        fresh: Tokens of it that the prompt before did not have, if known: where as much is billed, the provider
            leaves out what it had in its cache, and nothing is wrong.
        uncertain: Tokens of it whose true size is not known: pictures, files, hidden reasoning, what only the
            provider can read. They are taken for free.
        calibrated: Whether ``sent`` is corrected by what the provider billed before. If not, less is suspected.
        window: The model's window, if known, in tokens: a prompt billed above it was cut too (z.ai takes it whole
            and cuts later).
        output: Tokens of the answer, if known.
        stopped_by_length: Whether the answer ended for want of room: with no output at a full window the server made
            the prompt fit exactly (Xiaomi MiMo).

    Returns:
        The suspicion, or None when the numbers agree.

    Example:
        >>> from agentctx.economics import suspect_truncation
        >>> suspect_truncation(billed=4_096, sent=31_000).why
        '...'
        >>> suspect_truncation(billed=30_500, sent=31_000) is None
        True
    """
    if billed < 1:
        return None
    sure, share = sent - uncertain, SHARE if calibrated else UNSURE
    if sure >= SMALLEST and billed < share * sure and not leaves_out_cached(billed, sent, fresh):
        return Suspicion(
            billed, sent, f"billed {billed:,} tokens of about {sent:,} sent: the front was probably cut off"
        )
    if window is not None and window < billed <= LARGER * sent:
        return Suspicion(billed, sent, f"billed {billed:,} tokens, more than the window of {window:,}")
    if window is not None and stopped_by_length and output == 0 and FULL * window <= billed <= window:
        return Suspicion(billed, sent, f"the prompt of {billed:,} tokens fills the window of {window:,} exactly")
    return None


def leaves_out_cached(billed: int, sent: int, fresh: int | None) -> bool:
    """Whether only what was new was billed, so that the rest came from a cache and is left out of the count."""
    return fresh is not None and billed < SHARE * sent and SHARE * fresh <= billed <= fresh / SHARE + BLOCK
