"""The values: plain, frozen, equal when they look equal.

From the bottom up: ``message`` (parts, messages, requests, cache markers), ``units`` (which messages stand or fall
together), ``protection`` (what must survive), ``budget`` and ``tier`` (how much room there is, and for whom),
``changes`` (before and after, and what was changed since the conversation began), ``report`` (what is said of it:
reports, events, the view). Beside them stand ``references`` (what stages write into texts), ``numbered_lines`` and
``later_lines`` (which lines say the same), ``recap`` (what stands for what went), ``json_text``, and ``secrets`` (what
never leaves the machine).
"""
