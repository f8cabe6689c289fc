"""Which operations of a graph become programs of Toroid, and which PyTorch runs."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from .. import _core
from .._report import GraphReport
from ._schema import SCALAR_TYPES, Unsupported, is_symbolic, serialize, target_name

_NODE = re.compile(r'(?:node "|\()([A-Za-z_]\w*)[")]')
_LAYOUT_READERS = {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default}


def is_operation(node: Node) -> bool:
    """Whether a node computes tensors: neither arithmetic on sizes nor a piece of a result."""
    return node.op == "call_function" and isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)) and (
        not is_symbolic(node.meta.get("val"))
    )  # fmt: skip


def op_name(node: Node) -> str:
    return str(node.target)


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _refusal_of_tensor(t: torch.Tensor) -> str:
    if t.layout != torch.strided or t.is_nested:
        return f"a tensor of the layout {t.layout}"
    if t.dtype not in SCALAR_TYPES:
        return f"a tensor of the dtype {t.dtype}"
    if t.device.type != "cpu":
        return f"a tensor on {t.device}"
    if t.is_conj() or t.is_neg():
        return "a tensor with a lazy conjugation"
    return ""


def refusal(node: Node) -> str:
    """Why PyTorch runs an operation; empty where Toroid may."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return "not an operation of ATen"
    if torch.Tag.nondeterministic_seeded in target.tags:
        return "random numbers are PyTorch's, so that seeds mean what they say"
    if target is torch.ops.aten.copy_.default:
        return "" if _is_final_write(node) else "a write in the middle of the graph"
    if target._schema.is_mutable:
        return "it writes to an argument"
    if not _core.has_operation(target_name(target)):
        return "Toroid has no such operation"
    if target in _LAYOUT_READERS and not node.args[0].meta["val"].is_contiguous():
        return "it reads memory by strides that are not row-major"
    values = [node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)]
    return next((why for v in values for t in _tensors(v) if (why := _refusal_of_tensor(t))), "")


def _is_final_write(node: Node) -> bool:
    return node.args[0].op == "placeholder" and not node.users


def is_view_of_argument(node: Node, seen: dict[Node, bool]) -> bool:
    """Whether a node is a chain of views that begins at an argument: a result of the graph that needs no memory of its own."""
    if node not in seen:
        target = node.target
        seen[node] = (
            node.op == "call_function"
            and isinstance(target, torch._ops.OpOverload)
            and isinstance(node.meta.get("val"), torch.Tensor)
            and target._schema.arguments[0].alias_info is not None
            and not target._schema.is_mutable
            and isinstance(node.args[0], Node)
            and (node.args[0].op == "placeholder" or is_view_of_argument(node.args[0], seen))
        )
    return seen[node]


class _Support(OperatorSupportBase):
    """Decides node by node; what compiling finds out later is added to `refused`."""

    def __init__(self, module: GraphModule) -> None:
        self.refused: dict[Node, str] = {}
        self.views: set[Node] = set()
        returned = next(n for n in reversed(module.graph.nodes) if n.op == "output").all_input_nodes
        seen: dict[Node, bool] = {}
        for node in returned:
            while is_view_of_argument(node, seen):
                self.views.add(node)
                node = node.args[0]
        for node in module.graph.nodes:
            if is_operation(node) and node not in self.views and (why := refusal(node)):
                self.refused[node] = why

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.target is operator.getitem:
            return isinstance(node.meta.get("val"), torch.Tensor) and self.is_node_supported(submodules, node.args[0])
        return is_operation(node) and node not in self.refused and node not in self.views


class Program:
    """A part of a graph as a program of Toroid: a module's `forward` in its place."""

    def __init__(self, module: GraphModule, options: _core.ModelOptions) -> None:
        serialized = serialize(module)
        self.core = _core.Program(
            torch.Tensor, serialized.text, {n: t.detach() for n, t in serialized.held.items()}, "graph", serialized.orders, options
        )
        count = sum(1 for _ in module.graph.find_nodes(op="placeholder"))
        self.picks = None if serialized.inputs == list(range(count)) else serialized.inputs
        self.results = len(serialized.orders)
        output = next(n for n in reversed(module.graph.nodes) if n.op == "output")
        self.single = not isinstance(output.args[0], (list, tuple))

    def __call__(self, *arguments: Any) -> Any:
        results = self.core(*arguments) if self.picks is None else self.core(*(arguments[i] for i in self.picks))
        return results[0] if self.single else results


def _culprit(error: Exception, part: GraphModule) -> Node | None:
    """The node that an error names."""
    if isinstance(error, Unsupported):
        return error.node
    nodes = {n.name: n for n in part.graph.nodes if is_operation(n)}
    return next((nodes[name] for name in _NODE.findall(str(error)) if name in nodes), None)


def _compile_parts(
    module: GraphModule, support: _Support, options: _core.ModelOptions, report: GraphReport
) -> tuple[GraphModule, dict[Node, str]]:
    """The graph with its supported parts replaced by programs; or what is to be refused for that, by node of `module`."""
    whole = torch.fx.GraphModule(module, _copy(module.graph))
    by_name = {n.name: n for n in module.graph.nodes}
    translated = _Translated(support, by_name)
    partitioner = CapabilityBasedPartitioner(whole, translated, allows_single_node_partition=True)
    fused = partitioner.fuse_partitions(partitioner.propose_partitions())
    programs: dict[str, Program] = {}
    refused: dict[Node, str] = {}
    for name, part in list(fused.named_children()):
        if not name.startswith("fused_"):
            continue
        try:
            programs[name] = Program(part, options)
        except (Unsupported, _core.UserError, _core.InternalError) as error:
            node = _culprit(error, part)
            found = [node] if node is not None else [n for n in part.graph.nodes if is_operation(n)]
            why = str(error).strip().splitlines()[0]
            refused.update({by_name[n.name]: why for n in found if n.name in by_name})
    if refused:
        return fused, refused
    for name, program in programs.items():
        delattr(fused, name)
        setattr(fused, name, program)
        report.kernels += program.core.summary.kernels
    report.programs = len(programs)
    return fused, {}


def _copy(graph: torch.fx.Graph) -> torch.fx.Graph:
    out = torch.fx.Graph()
    values: dict[Node, Node] = {}
    result = out.graph_copy(graph, values)
    output = out.output(result)
    output.meta = next(n for n in reversed(graph.nodes) if n.op == "output").meta
    return out


class _Translated(OperatorSupportBase):
    """The decisions of another graph with equal names."""

    def __init__(self, support: _Support, by_name: dict[str, Node]) -> None:
        self.support, self.by_name = support, by_name

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        original = self.by_name.get(node.name)
        return original is not None and self.support.is_node_supported(submodules, original)


def compile_graph(module: GraphModule, name: str, options: _core.ModelOptions) -> tuple[Callable[..., Any], GraphReport]:
    """The graph as a function of its arguments, and what became of it. Operations that Toroid cannot take are PyTorch's."""
    begin = time.perf_counter()
    support = _Support(module)
    report = GraphReport(name)
    while True:
        fused, refused = _compile_parts(module, support, options, report)
        if not refused:
            break
        support.refused.update(refused)
    operations = [n for n in module.graph.nodes if is_operation(n)]
    report.nodes = len(operations)
    report.compiled = sum(1 for n in operations if support.is_node_supported({}, n))
    report.views.update(op_name(n) for n in operations if n in support.views)
    for node in operations:
        if why := support.refused.get(node):
            report.fallbacks[op_name(node)] += 1
            report.reasons[op_name(node)] = why
    report.compile_ms = (time.perf_counter() - begin) * 1e3
    fused.recompile()
    return fused.forward, report
