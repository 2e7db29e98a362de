"""Whose files these are: what is installed as ``agentctx-middleware`` is imported as ``agentctx``.

On the package index there is an ``agentctx`` of somebody else, a command that switches profiles, with the same import
name. Where both are installed in one environment their files lie in one folder, and the last one's ``__init__.py`` is
there; where one of them is taken away again, none is. Nothing of ours can be told then from ``import agentctx``; but
each of its parts, the command line too, looks for what our ``__init__.py`` defines, which costs nothing.
"""

from __future__ import annotations

from importlib import metadata
from types import ModuleType

OTHER = "agentctx"
OURS = "agentctx-middleware"


def mixed_up(package: ModuleType) -> ImportError:
    """The error that says what stands in the place of our package, and what to do."""
    try:
        what = f"{OTHER} {metadata.version(OTHER)}, another program of that import name, is installed beside {OURS}"
        remedy = f"pip uninstall {OTHER}, then "
    except metadata.PackageNotFoundError:
        what, remedy = f"files of {OURS} are missing", ""
    where = ", ".join(getattr(package, "__path__", ())) or "agentctx"
    return ImportError(
        f"{what}: the __init__.py in {where} is not that of {OURS}; {remedy}pip install --force-reinstall {OURS}",
        name="agentctx",
    )
