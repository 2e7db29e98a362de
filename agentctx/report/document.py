"""One file of HTML with its styles, scripts and data in it, to which its own policy allows no address."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template

_CHARTS = "uplot/uPlot.iife.min.js"
_STYLES = ("uplot/uPlot.min.css", "page.css")


def document(template: str, scripts: Sequence[str], **values: str) -> str:
    """A page.

    Args:
        template: The asset that has its elements.
        scripts: The assets that make it work, in order; the library of charts stands before them.
        values: HTML for the places of the template.
    """
    code, styles = [_asset(name) for name in (_CHARTS, *scripts)], [_asset(name) for name in _STYLES]
    return Template(_asset(template)).substitute(
        values,
        policy=_policy(code, styles),
        licence=escape(_asset("uplot/LICENSE").replace("--", "")),
        styles="\n".join(f"<style>{style}</style>" for style in styles),
        scripts="\n".join(f"<script>{script}</script>" for script in code),
    )


def packed(values: Mapping[str, object]) -> str:
    """Values as a page unpacks them."""
    packer = zlib.compressobj(9, wbits=-15)
    text = json.dumps(values, separators=(",", ":"))
    return b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def fact_list(facts: Iterable[tuple[str, str, str]]) -> str:
    """Name, value, and what there is to say beside it: entries of a description list."""
    return "".join(
        f'<div class="fact"><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd class="more">{escape(more)}</dd></div>'
        for name, value, more in facts
    )


def _asset(name: str) -> str:
    return files("agentctx.report").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """What the browser allows the page: its own scripts and styles, and no address."""
    allowed = [" ".join(f"'sha256-{_hash(text)}'" for text in texts) for texts in (scripts, styles)]
    return f"default-src 'none'; script-src {allowed[0]}; style-src {allowed[1]}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
