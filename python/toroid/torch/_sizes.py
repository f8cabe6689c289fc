"""Symbols of sizes that a part of a graph needs and its arguments do not tell: they are handed to it from the graph around it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.symbol import SymT, symbol_is_type

from ._nodes import tensors_in
from ._schema import Unsupported, expression, is_symbolic

_FROM_DATA = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)


def _expressions(value: Any) -> list[sympy.Expr]:
    if is_symbolic(value):
        return [expression(value)]
    return [expression(n) for t in tensors_in(value) for n in (*t.shape, *t.stride()) if is_symbolic(n)]


def _symbols(node: Node) -> set[sympy.Symbol]:
    return {s for e in _expressions(node.meta.get("val")) for s in e.free_symbols}


def _symbols_in(module: GraphModule) -> set[sympy.Symbol]:
    """The symbols of a graph but for sizes that it finds in its data."""
    out: set[sympy.Symbol] = set()
    found: set[sympy.Symbol] = set()
    for graph in [m.graph for m in module.modules() if isinstance(m, GraphModule)]:
        for node in graph.nodes:
            symbols = _symbols(node)
            if node.op == "call_function":
                given = set().union(*(_symbols(n) for n in node.all_input_nodes))
                found |= {s for s in symbols - given if symbol_is_type(s, _FROM_DATA)}
            out |= symbols
    return out - found


def _is_size(value: Any, sizes: Container[sympy.Expr]) -> bool:
    """Whether a number can be handed over as the size of a tensor: of those that may be negative symbols alone can."""
    expr = expression(value)
    return not isinstance(value, torch.SymInt) or expr.is_Symbol or expr in sizes or statically_known_true(value >= 0)


def _told(part: GraphModule) -> set[sympy.Symbol]:
    """The symbols that follow from sizes: those that are one, and those that are alone in a linear one."""
    placeholders = part.graph.find_nodes(op="placeholder")
    inside = {expression(n) for node in part.graph.nodes for t in tensors_in(node.meta.get("val")) for n in t.shape}
    sizes = [expression(n) for p in placeholders for t in tensors_in(p.meta.get("val")) for n in t.shape]
    sizes += [expression(v) for p in placeholders if is_symbolic(v := p.meta.get("val")) and _is_size(v, inside)]
    out: set[sympy.Symbol] = {e for e in sizes if e.is_Symbol}
    while True:
        unknown = [(e, e.free_symbols - out) for e in sizes]
        found = {s for e, (*rest,) in unknown if len(rest) == 1 for s in rest if sympy.diff(e, s).is_number and e.is_polynomial(s)}
        if not found:
            return out
        out |= found


def _source(graph: torch.fx.Graph, symbol: sympy.Symbol, call: Node) -> Node | None:
    """A number of the outer graph that is the symbol's value."""
    placeholders = graph.find_nodes(op="placeholder")
    for node in placeholders:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and expression(value) == symbol:
            return node
    for node in placeholders:
        for t in tensors_in(node.meta.get("val")):
            for d, size in enumerate(t.shape):
                if expression(size) == symbol:
                    with graph.inserting_before(call):
                        read = graph.call_function(torch.ops.aten.sym_size.int, (node, d))
                    read.meta["val"] = size
                    return read
    return None


def hand_over_sizes(outer: GraphModule, call: Node, part: GraphModule, regions: Iterable[GraphModule]) -> None:
    """Adds to a part, and to its call, the symbols that it needs. Unsupported where the graph around it does not tell one either."""
    needed = _symbols_in(part).union(*(_symbols_in(r) for r in regions))
    for symbol in sorted(needed - _told(part), key=str):
        source = _source(outer.graph, symbol, call)
        if source is None:
            first = next(n for n in part.graph.nodes if n.op == "call_function")
            raise Unsupported(first, f"the size {symbol} does not follow from what the graph is given")
        with part.graph.inserting_before(next(n for n in part.graph.nodes if n.op != "placeholder")):
            added = part.graph.placeholder(f"size_{symbol}")
        added.meta["val"] = source.meta["val"]
        call.args = (*call.args, source)
