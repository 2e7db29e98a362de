"""What a project is built with."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from attrs import field, frozen

from agentctx.protocols import ContextItem
from agentctx.sources.folder import read_below
from agentctx.sources.secrets import Redactor, redact_secrets
from agentctx.sources.writing import amount

_LARGEST = 2**20
"""Larger manifests are no manifests, in bytes."""


@frozen
class Dependencies:
    """What the project's manifests say about dependencies, each an item: of long ones only that part.

    A manifest that is a link out of the folder is not read.

    Args:
        root: The project's folder.
        max_tokens: The most tokens of it all.
        redact: Takes secrets out (an index with a password, for example); None leaves them in.

    Raises:
        ConfigError: If a number makes no sense.

    Example:
        >>> from agentctx.sources import Dependencies, gather
        >>> gathered = await gather([Dependencies(".")])
    """

    name: ClassVar[str] = "dependencies"
    description: ClassVar[str] = "what the project's manifests depend on"

    root: Path = field(default=Path(), converter=Path)
    max_tokens: int | None = field(default=600, validator=amount(0, optional=True), kw_only=True)
    redact: Redactor | None = field(default=redact_secrets, kw_only=True)

    def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """An item for each manifest that there is."""
        del query
        items = []
        for name, shorten in _MANIFESTS.items():
            data = read_below(self.root, name, _LARGEST)
            if data is not None:
                content = shorten(data.decode("utf-8", "replace"))
                shown = content if self.redact is None else self.redact(content, name)
                items.append(ContextItem(name, shown, 0.5))
        return [item for item in items if item.content.strip()]


def _as_it_is(text: str) -> str:
    return text


def _package_json(text: str) -> str:
    """Name, engines, scripts and dependencies."""
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return text
    kept = ("name", "version", "type", "engines", "packageManager", "scripts")
    return _part(whole, lambda key: key in kept or key.lower().endswith("dependencies"), text)


def _part(whole: object, wanted: Callable[[str], bool], text: str) -> str:
    if not isinstance(whole, Mapping):
        return text
    return json.dumps({key: value for key, value in whole.items() if wanted(key)}, indent=1, ensure_ascii=False)


def _pyproject(text: str) -> str:
    """What it is called, which Python it wants, and what it depends on."""
    try:
        whole = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    project: Mapping[str, Any] = whole.get("project", {})
    kept = ("name", "version", "requires-python", "dependencies", "optional-dependencies")
    parts = {key: project[key] for key in kept if key in project}
    parts |= {"dependency-groups": whole["dependency-groups"]} if "dependency-groups" in whole else {}
    poetry = whole.get("tool", {}).get("poetry", {})
    parts |= {f"poetry.{key}": poetry[key] for key in ("dependencies", "group") if key in poetry}
    return json.dumps(parts, indent=1, ensure_ascii=False, default=str) if parts else text


def _cargo(text: str) -> str:
    try:
        whole = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    parts = {key: value for key, value in whole.items() if key == "package" or key.endswith("dependencies")}
    return json.dumps(parts, indent=1, ensure_ascii=False, default=str) if parts else text


_MANIFESTS: Mapping[str, Callable[[str], str]] = {
    "go.mod": _as_it_is,
    "package.json": _package_json,
    "requirements.txt": _as_it_is,
    "pyproject.toml": _pyproject,
    "Cargo.toml": _cargo,
    "Gemfile": _as_it_is,
    "composer.json": _package_json,
    "build.gradle": _as_it_is,
    "pom.xml": _as_it_is,
}
