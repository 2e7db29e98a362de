"""Modules of the package import each other in one direction."""

from graphlib import TopologicalSorter

import grimp


def test_no_module_comes_back_to_itself_by_imports():
    """There is no circle of imports, those for types alone among them; else the error names one."""
    graph = grimp.build_graph("agentctx", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(imports).prepare()
    assert "agentctx.session.step" in imports
