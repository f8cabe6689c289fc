"""Which operations of a graph become programs of Toroid, and which PyTorch runs."""

from __future__ import annotations

import collections
import operator
import re
import time
import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._higher_order_ops.auto_functionalize import auto_functionalized_v2
from torch._higher_order_ops.effects import with_effects
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_functional
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._python_dispatch import _disable_current_modes

from .. import _core
from .._report import GraphReport
from ._control_flow import refusal_of_form, regions_of
from ._nodes import argument, move_numbers, return_written, tensors_in, translate_attention, widen_norms
from ._schema import IN_REGION, SCALAR_TYPES, Unsupported, is_symbolic, memory_order, serialize, size_hint, target_name
from ._sizes import hand_over_sizes

_NODE = re.compile(r'(?:node "|\()([A-Za-z_]\w*)[")]')
_HALVES = {torch.float16, torch.bfloat16}
_AFTER = "toroid_after"  # an argument that stands for an order, while a graph is divided
_WRAPPERS = {auto_functionalized_v2: "it writes to an argument", with_effects: "it does more than compute"}
_UNINITIALIZED = {
    f"aten::{name}"
    for name in ("empty.memory_format", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize")
}
# Toroid has them for integers, too, and PyTorch an error.
_OF_FLOATS = {
    f"aten::{name}"
    for name in ("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_max_pool2d", "adaptive_max_pool3d", "_softmax", "_log_softmax", "frac")
}
_LAYOUT_READERS = {torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default}


def is_operation(node: Node) -> bool:
    """Whether a node computes tensors: neither arithmetic on sizes nor a piece of a result."""
    return node.op == "call_function" and isinstance(node.target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)) and (
        not is_symbolic(node.meta.get("val"))
    )  # fmt: skip


def op_name(node: Node) -> str:
    """The operation that a node calls: of wrappers what is within."""
    if node.target is auto_functionalized_v2:
        return str(node.args[0])
    if node.target is with_effects:
        return str(node.args[1])
    if node.target is triton_kernel_wrapper_functional:
        kernel = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
        while hasattr(kernel, "fn"):
            kernel = kernel.fn
        return f"triton.{kernel.__name__}"
    return str(node.target)


def _refusal_of_tensor(t: torch.Tensor) -> str:
    if t.layout != torch.strided or t.is_nested:
        return f"a tensor of the layout {t.layout}"
    if t.dtype not in SCALAR_TYPES:
        return f"a tensor of the dtype {t.dtype}"
    return ""


def device_of(module: GraphModule) -> torch.device:
    """Where programs of a graph run: on the first GPU that a tensor of it is on, else on the CPU."""
    devices = (t.device for n in module.graph.nodes for t in tensors_in(n.meta.get("val")))
    return next((d for d in devices if d.type == "cuda"), torch.device("cpu"))


def refusal(node: Node, device: torch.device) -> str:
    """Why PyTorch runs an operation; empty where Toroid may, on this device."""
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator) and (regions := regions_of(node)):
        return _refusal_of_control_flow(node, regions, device)
    if not isinstance(target, torch._ops.OpOverload):
        return _WRAPPERS.get(target, "Toroid has no such operation")
    if torch.Tag.nondeterministic_seeded in target.tags and argument(node, "dropout_p") != 0:
        return "random numbers are PyTorch's, so that seeds mean what they say"
    if target.name() in _UNINITIALIZED and torch.are_deterministic_algorithms_enabled() and torch.utils.deterministic.fill_uninitialized_memory:
        return "PyTorch fills memory that a program has not written, so that results are deterministic"
    if target is torch.ops.aten._assert_scalar.default:
        return "it computes nothing"
    if target is torch.ops.aten.copy_.default:
        return "" if _is_final_write(node) else "a write in the middle of the graph"
    if target._schema.is_mutable:
        return "it writes to an argument"
    if not _core.has_operation(target_name(target)):
        return "Toroid has no such operation"
    if device.type == "cpu" and "scaled_dot_product" in target.name() and any(t.dtype in _HALVES for t in tensors_in(node.args[0].meta["val"])):
        return "PyTorch has a kernel of half-precision attention, which is faster in bf16"
    if target in _LAYOUT_READERS and not _fills_memory(node.args[0]):
        return "it reads memory that is not that of a row-major tensor alone"
    if target.name() in _OF_FLOATS and not (node.args[0].meta["val"].is_floating_point() or node.args[0].meta["val"].is_complex()):
        return "PyTorch has it for floating-point numbers alone"
    if target is torch.ops.aten.resize.default and not _is_row_major_resize(node):
        return "it takes elements in the order in which they lie in memory"
    return _refusal_of_tensors(node, device)


def _is_row_major_resize(node: Node) -> bool:
    return argument(node, "memory_format") in (None, torch.contiguous_format) and memory_order(node.args[0].meta["val"]) == []


def _refusal_of_tensors(node: Node, device: torch.device) -> str:
    tensors = [t for v in (node.meta.get("val"), *(n.meta.get("val") for n in node.all_input_nodes)) for t in tensors_in(v)]
    if elsewhere := next((t.device for t in tensors if t.device != device), None):
        return f"a tensor on {elsewhere}, where the graph's are on {device}"
    return next((why for t in tensors if (why := _refusal_of_tensor(t))), "")


def _refusal_of_control_flow(node: Node, regions: Sequence[GraphModule], device: torch.device) -> str:
    """Control flow is Toroid's where all that is in it is."""
    if why := refusal_of_form(node, regions):
        return why
    for region in regions:
        for inner in region.graph.nodes:
            if inner.target is torch.ops.aten.copy_.default:
                return "a write within it"
            if any(t.is_complex() for t in tensors_in(inner.meta.get("val"))):
                return "complex numbers within it, of which a trial runs one way alone"
            if is_operation(inner) and (why := refusal(inner, device)):
                return f"{op_name(inner)} within it: {why}"
    return _refusal_of_tensors(node, device)


def _is_final_write(node: Node) -> bool:
    return node.args[0].op == "placeholder" and not node.users and not is_put_off(node.args[0].meta["val"])


def _fills_memory(node: Node) -> bool:
    """Whether a row-major tensor is all that lies in its memory. Of arguments nothing is known: calls may give other parts of a storage."""
    t = node.meta["val"]
    if root_of(node).op == "placeholder" or not t.is_contiguous():
        return False
    return statically_known_true(t.untyped_storage().nbytes() == t.numel() * t.element_size())


def is_put_off(t: torch.Tensor) -> bool:
    """Whether the elements in memory are not yet conjugated or negated."""
    return t.is_conj() or t.is_neg()


def viewed(node: Node) -> Node | None:
    """What a node is a view of; None where it has memory of its own."""
    if node.target is operator.getitem:
        return viewed(node.args[0])
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or not target._schema.arguments:
        return None
    first = target._schema.arguments[0]
    is_view = first.alias_info is not None and not target._schema.is_mutable and isinstance(node.args[0], Node)
    return node.args[0] if is_view else None


def views_from(node: Node) -> tuple[list[Node], Node]:
    """The views that lead to a node, the last one first, and the tensor with memory of its own that they are views of."""
    chain, at = [], node
    while (base := viewed(at)) is not None:
        chain.append(at)
        at = base
    return chain, at


def root_of(node: Node) -> Node:
    return views_from(node)[1]


def _with_makers(nodes: Iterable[Node]) -> set[Node]:
    """The nodes, and the operations whose results they are pieces of."""
    out: set[Node] = set()
    for n in nodes:
        out.update({n, n.args[0]} if n.target is operator.getitem else {n})
    return out


def final_views(module: GraphModule) -> set[Node]:
    """Views at the end of the graph that PyTorch makes of what they view, so that they share its memory, and lie in it as they should.

    These are views of arguments, which need no memory of their own, those with gaps or overlaps, conjugates that are put off, and those
    that share their memory with another result. Where the graph reads such a view, too, it gets a twin for that.
    """
    output = next(n for n in reversed(module.graph.nodes) if n.op == "output")
    results = [n for n in output.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    roots = collections.Counter(root_of(n) for n in results)
    out: set[Node] = set()
    computed: set[Node] = set()
    for node in results:
        chain, root = views_from(node)
        if root.op == "placeholder":
            out |= _with_makers(chain)
            continue
        if roots[root] == 1:
            gaps = [i for i, n in enumerate(chain) if any(is_put_off(t) or memory_order(t) is None for t in tensors_in(n.meta["val"]))]
            chain = chain[: gaps[-1] + 1] if gaps else []
        computed |= _with_makers(chain)
    return out | _separated(module.graph, computed, {output})


def _separated(graph: torch.fx.Graph, views: set[Node], readers: Container[Node]) -> set[Node]:
    """Twins of those views that are not read by `readers` and by other views alone, so that what PyTorch makes of the results of a program
    does not divide it. Returns the views that lead to the readers."""
    read: set[Node] = set()
    for node in reversed(graph.nodes):
        if node in views and any(user not in readers and (user not in views or user in read) for user in node.users):
            read.add(node)
    twins: dict[Node, Node] = {}
    for node in [n for n in graph.nodes if n in read]:
        with graph.inserting_after(node):
            twins[node] = graph.node_copy(node, lambda n: twins.get(n, n))
    for node, twin in twins.items():
        for user in list(node.users):
            if user in readers or (user in views and user not in read):
                user.replace_input_with(node, twin)
    return (views - read) | set(twins.values())


def _has_gaps(node: Node) -> bool:
    return any(memory_order(t) is None for t in tensors_in(node.meta.get("val")))


class _Support(OperatorSupportBase):
    """Decides node by node; what compiling finds out later is added to `refused`."""

    def __init__(self, module: GraphModule) -> None:
        self.refused: dict[Node, str] = {}
        self.graph = module.graph
        self.device = device_of(module)
        self.views = final_views(module)
        output = next(n for n in reversed(module.graph.nodes) if n.op == "output")
        for node in module.graph.nodes:
            if is_operation(node) and node not in self.views and (why := refusal(node, self.device)):
                self.refused[node] = why
        self._refuse_gaps(output, _has_gaps)
        self.writes = list(module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default))
        self.refuse({})

    def refuse(self, found: Mapping[Node, str]) -> None:
        """Adds what cannot be compiled. What PyTorch computes and writes to an argument is written by PyTorch, too."""
        self.refused.update(found)
        to_do = list(self.refused)
        while to_do:
            to_do += self._refuse_gaps(to_do.pop(), lambda n: _has_gaps(n) and not free_unbacked_symbols(n.meta["val"]))
        self.lay_out()
        for write in self.writes:
            made = write.args[1].args[0] if write.args[1].target is operator.getitem else write.args[1]
            if made in self.refused:
                self.refused.setdefault(write, f"it writes what PyTorch's {op_name(made)} computes")

    def _refuse_gaps(self, reader: Node, has_gaps: Callable[[Node], bool]) -> list[Node]:
        """Refuses what makes a tensor with gaps that the caller, or an operation of PyTorch's, is given: Toroid's have none."""
        out = []
        for given in reader.all_input_nodes:
            for node in (given, root_of(given)):
                made = node.args[0] if node.target is operator.getitem else node
                if is_operation(made) and made not in self.views and made not in self.refused and has_gaps(node):
                    self.refused[made] = "its result lies in memory with gaps, or as only the run tells"
                    out.append(made)
        return out

    def lay_out(self) -> None:
        """What PyTorch runs is given memory as it lies in eager mode: views with gaps or overlaps are PyTorch's, or twins for it are."""
        views: set[Node] = set()
        for node in self.refused:
            for given in node.all_input_nodes:
                if node.target in _LAYOUT_READERS and given is node.args[0] or _has_gaps(given):
                    views |= _with_makers(views_from(given)[0])
        self.views |= _separated(self.graph, views - self.views, self.refused.keys())
        self.refused = {n: why for n, why in self.refused.items() if n not in self.views}

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        if node.target is operator.getitem:
            return isinstance(node.meta.get("val"), torch.Tensor) and self.is_node_supported(submodules, node.args[0])
        return is_operation(node) and node not in self.refused and node not in self.views


class Program:
    """A part of a graph as a program of Toroid, which is called in its place."""

    def __init__(
        self,
        module: GraphModule,
        computed: Sequence[bool],
        constants: dict[str, torch.Tensor],
        options: _core.ModelOptions,
        regions: Mapping[str, GraphModule] | None = None,
    ) -> None:
        """computed: of each placeholder, whether an operation of PyTorch gives it, whose dtype may differ from what the trace says."""
        serialized = serialize(module, constants, regions)
        self.core = _core.Program(torch.Tensor, serialized.text, serialized.held, "graph", serialized.orders, options)
        self.arguments = serialized.inputs
        self.parts = serialized.parts
        output = next(n for n in reversed(module.graph.nodes) if n.op == "output")
        self.single = not isinstance(output.args[0], (list, tuple))
        nodes = list(module.graph.find_nodes(op="placeholder"))
        has_complex = any(t.is_complex() for n in module.graph.nodes for t in tensors_in(n.meta.get("val")))
        # What PyTorch has put off is done before a call. The trace has not seen what autograd hands to a backward pass.
        self.unsettled = [
            (k, t.dtype)
            for k, i in enumerate(self.arguments)
            for t in tensors_in(nodes[i].meta["val"])
            if has_complex or computed[i] or is_put_off(t) or nodes[i].name.startswith("tangents")
        ]
        if has_complex:
            self.try_out(nodes)

    def settle(self, arguments: list[Any]) -> tuple[Any, ...]:
        for i, sign in self.parts.items():
            arguments[i] = max(sign * arguments[i], 0)
        for i, dtype in self.unsettled:
            t = arguments[i]
            if is_put_off(t) or t.dtype != dtype:
                arguments[i] = t.resolve_conj().resolve_neg().to(dtype)
        return tuple(arguments)

    def try_out(self, nodes: list[Node]) -> None:
        """Runs once on zeros: whether the host has an operation of complex numbers shows when it runs."""
        with _disable_current_modes():
            self.core(*self.settle([_zeros(nodes[i].meta["val"]) for i in self.arguments]))

    def __call__(self, *arguments: Any) -> Any:
        if self.unsettled or self.parts:
            arguments = self.settle(list(arguments))
        results = self.core(*arguments)
        return results[0] if self.single else results


def _zeros(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return size_hint(value)
    sizes, strides = ([size_hint(s) for s in sizes] for sizes in (value.shape, value.stride()))
    return torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device).zero_()


def _culprit(error: Exception, part: GraphModule) -> Node | None:
    """The node that an error names."""
    if isinstance(error, Unsupported):
        return error.node
    nodes = {n.name: n for n in part.graph.nodes if is_operation(n)}
    names = (n for name in _NODE.findall(str(error)) for n in (name, name.split(IN_REGION)[0]))
    named = next((nodes[name] for name in names if name in nodes), None)
    first_word = f"aten.{str(error).split()[0]}".removesuffix(":")
    return named or next((n for n in nodes.values() if op_name(n).removesuffix(".default") == first_word), None)


def _compile_parts(
    module: GraphModule, support: _Support, frozen: Mapping[str, torch.Tensor], options: _core.ModelOptions, report: GraphReport
) -> tuple[GraphModule, dict[Node, str]]:
    """The graph with its supported parts replaced by programs; or what is to be refused for that, by node of `module`."""
    whole = torch.fx.GraphModule(module, _copy(module.graph))
    by_name = {n.name: n for n in module.graph.nodes}
    translated = _Translated(support, by_name)
    _chain_effects(whole, support, by_name)
    partitioner = CapabilityBasedPartitioner(whole, translated, allows_single_node_partition=True)
    parts = partitioner.propose_partitions()
    if writes := _unordered_writes(whole, parts, support, by_name):
        return whole, writes
    fused = partitioner.fuse_partitions(parts)
    for node in fused.graph.nodes:
        node.kwargs = {k: v for k, v in node.kwargs.items() if k != _AFTER}
    programs: dict[str, Program] = {}
    refused: dict[Node, str] = {}
    calls = {n.target: n for n in fused.graph.find_nodes(op="call_module") if n.target.startswith("fused_")}
    for name, call in calls.items():
        part = fused.get_submodule(name)
        try:
            regions = _regions(fused, call, part)
            hand_over_sizes(fused, call, part, regions.values())
            _expect_results(call, part)
            computed = [isinstance(a, Node) and a.op == "call_function" for a in call.args]
            programs[name] = Program(part, computed, _constants(fused, call, part, frozen), options, regions)
        except (Unsupported, _core.UserError, _core.InternalError) as error:
            node = _culprit(error, part)
            found = [node] if node is not None else [n for n in part.graph.nodes if is_operation(n)]
            why = str(error).strip().splitlines()[0]
            if isinstance(error, _core.InternalError):
                warnings.warn(f"a fault of Toroid; PyTorch runs what it names: {error}", RuntimeWarning, stacklevel=2)
            refused.update({by_name[n.name]: why for n in found if n.name in by_name})
    if refused:
        return fused, refused
    for name, program in programs.items():
        delattr(fused, name)
        setattr(fused, name, program)
        calls[name].args = tuple(calls[name].args[i] for i in program.arguments)
        report.kernels += program.core.summary.kernels
    report.programs = len(programs)
    for node in fused.graph.find_nodes(op="get_attr"):
        if not node.users:
            fused.graph.erase_node(node)
    return fused, {}


def _chain_effects(whole: GraphModule, support: _Support, by_name: Mapping[str, Node]) -> None:
    """Makes each operation of PyTorch that does more than compute depend on the one before: random numbers are drawn in the order of the
    graph. The partitioner keeps no order but that of data."""
    last: Node | None = None
    for node in whole.graph.nodes:
        if by_name.get(node.name) not in support.refused or not _has_effects(node):  # the output may have another name
            continue
        if last is not None:
            node.kwargs = {**node.kwargs, _AFTER: last}
        last = node


def _has_effects(node: Node) -> bool:
    target = node.target
    return not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded in target.tags or target._schema.is_mutable


def _unordered_writes(whole: GraphModule, parts: Sequence[Partition], support: _Support, by_name: Mapping[str, Node]) -> dict[Node, str]:
    """Writes to arguments that programs cannot make, by node of the first graph, with the reason.

    A program writes when it ends, and the partitioner knows of data alone, not of what others read and write in the same memory. So
    programs write only where one program is the whole graph; elsewhere PyTorch writes, after all that comes before in the graph.
    """
    inside = {n for part in parts for n in part.nodes}
    others = [n for n in whole.graph.nodes if is_operation(n) and n not in inside and by_name[n.name] not in support.views]
    if len(parts) == 1 and not others:
        return {}
    writes = whole.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    return {by_name[n.name]: "others may still read what it overwrites" for n in writes if n in inside}


def _expect_results(call: Node, part: GraphModule) -> None:
    """What another program computes is row-major where PyTorch's result would have gaps or overlaps: an expanded tensor, say."""
    for node, given in zip(part.graph.find_nodes(op="placeholder"), call.args):
        made = given.args[0] if isinstance(given, Node) and given.target is operator.getitem else given
        value = node.meta.get("val")
        if isinstance(made, Node) and made.op == "call_module" and isinstance(value, torch.Tensor) and memory_order(value) is None:
            node.meta = {**node.meta, "val": value.contiguous()}


def _constants(outer: GraphModule, call: Node, part: GraphModule, frozen: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What never changes among the arguments of a part, by the part's names: attributes of the outer graph, and frozen arguments."""
    out = {}
    for node, given in zip(part.graph.find_nodes(op="placeholder"), call.args):
        value = getattr(outer, given.target) if given.op == "get_attr" else frozen.get(given.name)
        if isinstance(value, torch.Tensor):
            out[node.name] = value
    return out


def _regions(outer: GraphModule, call: Node, part: GraphModule) -> dict[str, GraphModule]:
    """The graphs among the arguments of a part, by the part's names."""
    given = zip(part.graph.find_nodes(op="placeholder"), call.args)
    values = {node.name: getattr(outer, a.target) for node, a in given if isinstance(a, Node) and a.op == "get_attr"}
    return {name: value for name, value in values.items() if isinstance(value, GraphModule)}


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


def compile_graph(
    module: GraphModule, name: str, options: _core.ModelOptions, frozen: Mapping[str, torch.Tensor] | None = None
) -> tuple[Callable[..., Any], GraphReport]:
    """The graph as a function of its arguments, and what became of it. Operations that Toroid cannot take are PyTorch's.

    frozen: what some placeholders will always be.
    """
    begin = time.perf_counter()
    for graph in [m for m in module.modules() if isinstance(m, GraphModule)]:  # those of control flow, too
        translate_attention(graph)
        widen_norms(graph)
        if graph is not module:
            graph.recompile()
    return_written(module)
    move_numbers(module, device_of(module))
    support = _Support(module)
    options = options.on(str(support.device))
    report = GraphReport(name)
    while True:
        fused, refused = _compile_parts(module, support, frozen or {}, options, report)
        if not refused:
            break
        support.refuse(refused)
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
