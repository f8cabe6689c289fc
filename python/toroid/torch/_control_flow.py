"""Calls that take graphs: torch.cond, torch.while_loop, scans and maps. Their graphs become regions of a program of Toroid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ._schema import is_symbolic, memory_order, returned

# For each, which arguments are lists of tensors that the call goes through or carries on; what else it is given is closed over.
_CARRIED = {"cond": (), "while_loop": (2,), "scan": (1, 2), "associative_scan": (1,), "map_impl": (1,), "invoke_subgraph": ()}


def regions_of(node: Node) -> list[GraphModule]:
    """The graphs that a call takes; none where Toroid has no such control flow."""
    if node.target.name() not in _CARRIED:
        return []
    owner = node.graph.owning_module
    given = [getattr(owner, a.target) for a in node.args if isinstance(a, Node) and a.op == "get_attr"]
    return [g for g in given if isinstance(g, GraphModule)]


def refusal_of_form(node: Node, regions: Sequence[GraphModule]) -> str:
    """Why a call cannot be written as a program, whatever is in its regions; empty where it can."""
    for i in _CARRIED[node.target.name()]:
        if not all(isinstance(v, Node) and isinstance(v.meta.get("val"), torch.Tensor) for v in node.args[i]):
            return "it carries a number that is no tensor"
    given = node.meta.get("val")
    may_lack = (type(None),) if node.target.name() == "invoke_subgraph" else ()  # gradients that are not wanted
    if not isinstance(given, (list, tuple)) or not all(isinstance(t, (torch.Tensor, *may_lack)) for t in given):
        return "a result is no tensor"
    results = [t for t in given if t is not None]
    if any(free_unbacked_symbols(t) for t in results):
        return "sizes of its results are known when it has run"
    if any(memory_order(t) is None for t in results):
        return "a result lies in memory with gaps"
    for region in regions:
        values = [n.meta.get("val") if isinstance(n, Node) else n for n in returned(region)]
        if not all(isinstance(v, (torch.Tensor, *may_lack)) for v in values):
            return "a graph within it returns what is no tensor"
        if any(_depends_on_data(n.meta.get("val")) for n in region.graph.find_nodes(op="placeholder")):
            return "a graph within it takes a number that is known when it runs"
    return ""


def _depends_on_data(value: Any) -> bool:
    return (isinstance(value, torch.Tensor) or is_symbolic(value)) and bool(free_unbacked_symbols(value))
