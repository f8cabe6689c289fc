"""Graphs of torch.fx as the JSON that torch.export.save writes: the form in which Toroid's importer reads ATen calls."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ._nodes import tensors_in

# The schema's own numbers (torch/_export/serde/schema.py), which are not those of c10.
SCALAR_TYPES = {
    torch.uint8: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5, torch.float16: 6, torch.float32: 7, torch.float64: 8,
    torch.complex64: 10, torch.complex128: 11, torch.bool: 12, torch.bfloat16: 13, torch.uint16: 28, torch.uint32: 34, torch.uint64: 35,
}  # fmt: skip
MEMORY_FORMATS = {torch.contiguous_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3, torch.preserve_format: 4}
STRIDED = 7
IN_REGION = "__"  # between the name of a call that takes graphs and those within them

Json = dict[str, Any]


class Unsupported(Exception):
    """What the schema, or Toroid, has no form for. `node` is where."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node = node


@dataclass
class Serialized:
    """A graph for toroid._core.Program."""

    text: str
    inputs: list[int]  # for each argument of the program: a placeholder's index
    parts: dict[int, int] = field(default_factory=dict)  # arguments that are parts of a number: 1 for what is above zero, -1 for below
    held: dict[str, torch.Tensor] = field(default_factory=dict)  # constants of the graph, by name
    orders: list[list[int]] = field(default_factory=list)  # of each result: how its dimensions lie in memory; []: row-major


def is_symbolic(value: Any) -> bool:
    """Whether a node's value is a number made of sizes."""
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def expression(value: Any) -> sympy.Expr:
    """The expression of a symbolic number, or the number."""
    return value.node.expr if is_symbolic(value) else sympy.sympify(value)


def target_name(target: Any) -> str:
    """The name of an operation as files have it: torch.ops.aten.add.Tensor."""
    return f"torch.ops.{target.name().replace('::', '.')}" + ("" if target._overloadname else ".default")


Parts = dict[sympy.Symbol, sympy.Expr]  # symbols that may be negative, as differences of two that may not


def sym_int(value: Any, parts: Parts) -> Json:
    expr = expression(value).xreplace(parts)
    if expr.is_number:
        return {"as_int": int(expr)}
    out: Json = {"expr_str": sympy.srepr(expr)}
    if value.node.has_hint():
        out["hint"] = {"as_int": int(value.node.hint)}
    return {"as_expr": out}


def tensor_meta(t: torch.Tensor, parts: Parts) -> Json:
    return {
        "dtype": SCALAR_TYPES[t.dtype],
        "sizes": [sym_int(s, parts) for s in t.shape],
        "strides": [sym_int(s, parts) for s in t.stride()],
        "storage_offset": {"as_int": 0},
        "layout": STRIDED,
        "device": {"type": t.device.type, "index": t.device.index},
        "requires_grad": False,
    }


def memory_order(t: torch.Tensor) -> list[int] | None:
    """The dimensions by falling stride of a dense tensor, [] where it is row-major, None where there are gaps or overlaps, or may be."""
    sizes, strides = list(t.shape), list(t.stride())
    if any(statically_known_true(s == 0) for s in sizes):
        return []
    if any(is_symbolic(s) and not s.node.has_hint() for s in strides):
        return None
    row_major = [d for d in range(t.dim()) if not statically_known_true(sizes[d] == 1)]
    # Dimensions of one element lie where their strides follow from the others: within one of the same stride.
    dims = sorted(range(t.dim()), key=lambda d: (-size_hint(strides[d]), d not in row_major, d))
    order = [d for d in dims if d in row_major]
    expected: Any = 1
    for d in reversed(order):
        if not statically_known_true(strides[d] == expected):
            return None
        expected = expected * sizes[d]
    return [] if order == row_major else dims


def size_hint(value: Any) -> int:
    """A size, or what it was in the example."""
    return value.node.hint if is_symbolic(value) and value.node.has_hint() else int(value)


class _Writer:
    """Writes one graph module; the regions of its control flow are written by others of its kind."""

    def __init__(
        self,
        module: GraphModule,
        symbols: dict[sympy.Symbol, Any],
        parts: Parts,
        regions: Mapping[str, GraphModule] | None = None,
        prefix: str = "",
    ) -> None:
        """regions: placeholders that stand for graphs, by name. prefix: of all names, those of a region differ from those around it."""
        self.module = module
        self.symbols = symbols  # of the whole program: where each symbol comes from
        self.parts = parts
        self.regions = regions or {}
        self.prefix = prefix
        self.names = _aliases(module.graph)
        self.graph: Json = {
            "inputs": [], "outputs": [], "nodes": [],
            "tensor_values": {}, "sym_int_values": {}, "sym_float_values": {}, "sym_bool_values": {},
        }  # fmt: skip

    def tensor(self, node: Node, name: str, value: torch.Tensor) -> Json:
        self.note(value.shape)
        self.graph["tensor_values"][name] = tensor_meta(value, self.parts)
        return {"as_tensor": {"name": name}}

    def note(self, values: Any) -> None:
        for v in values:
            if is_symbolic(v):
                for s in expression(v).free_symbols:
                    self.symbols.setdefault(s, v.node.shape_env)

    def number(self, node: Node) -> Json:
        """A reference to a symbolic number, defined by its expression."""
        value = node.meta["val"]
        self.note([value])
        expr = sympy.srepr(expression(value).xreplace(self.parts))
        name = self.name(node)
        if isinstance(value, torch.SymInt):
            self.graph["sym_int_values"][name] = sym_int(value, self.parts)
            return {"as_sym_int": {"as_name": name}}
        kind = "float" if isinstance(value, torch.SymFloat) else "bool"
        self.graph[f"sym_{kind}_values"][name] = {"as_expr": {"expr_str": expr}}
        return {f"as_sym_{kind}": {"as_name": name}}

    def reference(self, node: Node) -> Json:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return {"as_tensor": {"name": self.name(node)}}
        if is_symbolic(value):
            return self.number(node)
        return self.argument(node, value)

    def name(self, node: Node) -> str:
        return self.prefix + self.names.get(node.name, node.name)

    def argument(self, at: Node, value: Any, kind: str = "") -> Json:
        """`kind`: what the operation's schema says of the parameter."""
        if isinstance(value, Node):
            return self.reference(value)
        if isinstance(value, (list, tuple)):
            return self.list(at, list(value), kind)
        if value is None:
            return {"as_none": True}
        if isinstance(value, bool):
            return {"as_bool": value}
        if isinstance(value, int):
            return {"as_int": value}
        if isinstance(value, float):
            return {"as_float": value}
        if isinstance(value, complex):
            return {"as_complex": {"real": value.real, "imag": value.imag}}
        if isinstance(value, str):
            return {"as_string": value}
        if isinstance(value, torch.dtype):
            if value not in SCALAR_TYPES:
                raise Unsupported(at, f"the dtype {value}")
            return {"as_scalar_type": SCALAR_TYPES[value]}
        if isinstance(value, torch.memory_format):
            return {"as_memory_format": MEMORY_FORMATS[value]}
        if isinstance(value, torch.device):
            return {"as_device": {"type": value.type, "index": value.index}}
        if isinstance(value, torch.layout) and value == torch.strided:
            return {"as_layout": STRIDED}
        raise Unsupported(at, f"an argument of the type {type(value).__name__}")

    def list(self, at: Node, values: list[Any], kind: str) -> Json:
        if "Tensor" in kind:
            if "Optional" in kind or any(v is None for v in values):
                return {"as_optional_tensors": [{"as_none": True} if v is None else self.reference(v) for v in values]}
            return {"as_tensors": [{"name": self.name(v)} for v in values]}
        if any(isinstance(v, Node) for v in values):
            return {"as_sym_ints": [self.argument(at, v).get("as_sym_int", self.argument(at, v)) for v in values]}
        if any(isinstance(v, bool) for v in values):
            return {"as_bools": values}
        if "float" in kind or any(isinstance(v, float) for v in values):
            return {"as_floats": [float(v) for v in values]}
        if all(isinstance(v, int) for v in values):
            return {"as_ints": values}
        raise Unsupported(at, "a list of " + ", ".join(sorted({type(v).__name__ for v in values})))

    def body(self) -> None:
        """Writes the calls of the graph, but for writes to its arguments."""
        for node in self.module.graph.nodes:
            if node.op != "call_function" or node.target is torch.ops.aten.copy_.default:
                continue
            if isinstance(node.target, torch._ops.OpOverload):
                self.call(node)
            elif isinstance(node.target, torch._ops.HigherOrderOperator):
                self.control_flow(node)

    def control_flow(self, node: Node) -> None:
        """A call that takes graphs. Their tensors are operands; sizes stand in them as expressions of the symbols of the whole program."""
        inputs = []
        for value in node.args:
            region = self.region_of(value)
            if region is not None:
                argument: Json = {"as_graph": {"name": value.name, "graph": self.region(node, region)}}
            elif isinstance(value, (list, tuple)):
                operands = [v for v in value if isinstance(v, Node) and isinstance(v.meta.get("val"), torch.Tensor)]
                argument = {"as_tensors": [{"name": self.name(v)} for v in operands]}
            else:
                argument = self.argument(node, value)
            inputs.append({"name": "", "arg": argument, "kind": 1})
        name = self.name(node)
        self.graph["nodes"].append(
            {
                "target": f"torch.ops.higher_order.{node.target.name()}", "name": name,
                "inputs": inputs, "outputs": self.results(node), "metadata": {},
            }
        )  # fmt: skip

    def region_of(self, value: Any) -> GraphModule | None:
        if isinstance(value, Node) and value.op == "get_attr":
            return getattr(self.module, value.target)
        return self.regions.get(value.name) if isinstance(value, Node) else None

    def region(self, outer: Node, module: GraphModule) -> Json:
        writer = _Writer(module, self.symbols, self.parts, prefix=f"{self.name(outer)}{IN_REGION}")
        for node in module.graph.find_nodes(op="placeholder"):
            if isinstance(value := node.meta.get("val"), torch.Tensor):
                writer.graph["inputs"].append(writer.tensor(node, writer.name(node), value))
        writer.body()
        writer.graph["outputs"] = [{"as_none": True} if n is None else {"as_tensor": {"name": writer.name(n)}} for n in returned(module)]
        return writer.graph

    def call(self, node: Node) -> None:
        schema = node.target._schema
        inputs = []
        for i, parameter in enumerate(schema.arguments):
            if i < len(node.args):
                value = node.args[i]
            elif parameter.name in node.kwargs:
                value = node.kwargs[parameter.name]
            else:
                continue
            inputs.append({"name": parameter.name, "arg": self.argument(node, value, str(parameter.type)), "kind": 1})
        self.graph["nodes"].append(
            {"target": target_name(node.target), "name": self.name(node), "inputs": inputs, "outputs": self.results(node), "metadata": {}}
        )

    def results(self, node: Node) -> list[Json]:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return [self.tensor(node, self.name(node), value)]
        if not isinstance(value, (list, tuple)):
            raise Unsupported(node, f"a result of the type {type(value).__name__}")
        readers: dict[int, str] = {}
        for user in node.users:
            if user.target is operator.getitem:
                readers[user.args[1]] = self.name(user)
        names = [readers.get(i, f"{self.name(node)}_unused_{i}") for i in range(len(value))]
        if isinstance(node.target, torch._ops.OpOverload) and str(node.target._schema.returns[0].type) == "List[Tensor]":
            for name, t in zip(names, value):
                self.tensor(node, name, t)
            return [{"as_tensors": [{"name": n} for n in names]}]
        return [
            {"as_none": True} if t is None else self.tensor(node, name, t) if isinstance(t, torch.Tensor) else {"as_int": 0}
            for name, t in zip(names, value)
        ]


def _aliases(graph: torch.fx.Graph) -> dict[str, str]:
    """The name under which each getitem node's value is known: several may read the same result."""
    first: dict[tuple[Node, int], str] = {}
    out = {}
    for node in graph.nodes:
        if node.target is operator.getitem:
            key = (node.args[0], node.args[1])
            out[node.name] = first.setdefault(key, node.name)
    return out


def serialize(module: GraphModule, constants: dict[str, torch.Tensor], regions: Mapping[str, GraphModule] | None = None) -> Serialized:
    """The graph of a module whose nodes have the value they stand for in meta["val"]; `constants` are what some placeholders always are,
    and others stand for the graphs `regions`.

    Unsupported names the node that has no form.
    """
    symbols: dict[sympy.Symbol, Any] = {}
    parts = _parts(module, regions or {})
    writer = _Writer(module, symbols, parts, regions)
    out = Serialized("", [])
    specs: list[Json] = []
    told: set[sympy.Symbol] = set()  # symbols that are a size of an input
    waiting: list[tuple[int, Node]] = []
    for index, node in enumerate(module.graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if node.name in writer.regions:
            continue
        if isinstance(value, torch.Tensor):
            argument = writer.tensor(node, node.name, value)
            if _has_open_gaps(value):
                writer.graph["tensor_values"][node.name] = {**tensor_meta(value, parts), "strides": _row_major(value, parts)}
            writer.graph["inputs"].append(argument)
            if node.name in constants:
                specs.append({"tensor_constant": {"arg": {"name": node.name}, "tensor_constant_name": node.name}})
                out.held[node.name] = constants[node.name]
                continue
            specs.append({"user_input": {"arg": argument}})
            out.inputs.append(index)
            told.update(e for s in value.shape if (e := expression(s)).is_Symbol)
        elif isinstance(value, torch.SymInt):
            waiting.append((index, node))
    outputs, output_specs, mutated = [], [], {}
    for node in module.graph.nodes:
        if node.op == "call_function" and node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder":
            mutated[node.args[0].name] = writer.name(node.args[1])
    writer.body()
    for target, name in mutated.items():
        outputs.append({"as_tensor": {"name": name}})
        output_specs.append({"user_input_mutation": {"arg": {"name": name}, "user_input_name": target}})
    for node in returned(module):
        name, order = writer.name(node), memory_order(node.meta["val"]) or []
        if order:
            name = f"{node.name}_as_it_lies"
            value = node.meta["val"].permute(order)
            writer.graph["tensor_values"][name] = tensor_meta(value, parts)
            writer.graph["nodes"].append(
                {
                    "target": "torch.ops.aten.permute.default", "name": name, "metadata": {},
                    "inputs": [
                        {"name": "self", "arg": {"as_tensor": {"name": writer.name(node)}}, "kind": 1},
                        {"name": "dims", "arg": {"as_ints": order}, "kind": 1},
                    ],
                    "outputs": [{"as_tensor": {"name": name}}],
                }
            )  # fmt: skip
        out.orders.append(order)
        outputs.append({"as_tensor": {"name": name}})
        output_specs.append({"user_output": {"arg": outputs[-1]}})
    for index, node in sorted(waiting, key=lambda w: not expression(w[1].meta["val"]).is_Symbol):  # of quotients a symbol does not follow
        _tell_size(writer, index, node, told, specs, out)
    writer.graph["outputs"] = outputs
    out.text = json.dumps(
        {
            "schema_version": {"major": 8, "minor": 8},
            "graph_module": {
                "graph": writer.graph,
                "signature": {"input_specs": specs, "output_specs": output_specs},
                "module_call_graph": [],
            },
            "range_constraints": {str(s): _range(s, env) for s, env in symbols.items() if s not in parts},
        }
    )
    return out


def _has_open_gaps(t: torch.Tensor) -> bool:
    """Whether strides follow from no size of the tensor: a part of a larger one of open sizes. Such arguments are copied at each call."""
    sizes = {s for n in t.shape for s in _symbols(n)}
    return any(not _symbols(stride) <= sizes for stride in t.stride())


def _symbols(value: Any) -> set[sympy.Symbol]:
    return set(expression(value).free_symbols) if is_symbolic(value) else set()


def _row_major(t: torch.Tensor, parts: Parts) -> list[Json]:
    strides: list[Any] = [1] * t.dim()
    for d in reversed(range(t.dim() - 1)):
        strides[d] = strides[d + 1] * t.shape[d + 1]
    return [sym_int(s, parts) for s in strides]


def returned(module: GraphModule) -> list[Any]:
    """What the graph of a module returns."""
    output = next(n for n in reversed(module.graph.nodes) if n.op == "output")
    values = output.args[0]
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _parts(module: GraphModule, regions: Mapping[str, GraphModule]) -> Parts:
    """Numbers among the placeholders that may be negative."""
    graphs = [m.graph for g in (module, *regions.values()) for m in g.modules() if isinstance(m, GraphModule)]
    sizes = {expression(s) for g in graphs for n in g.nodes for t in tensors_in(n.meta.get("val")) for s in t.shape}
    out: Parts = {}
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if not isinstance(value, torch.SymInt) or not (symbol := expression(value)).is_Symbol or symbol in sizes:
            continue
        bounds = value.node.shape_env.var_to_range.get(symbol)
        if bounds is None or not bounds.lower >= 0:
            above, below = sympy.symbols(f"{symbol}_above {symbol}_below", integer=True)
            out[symbol] = above - below
    return out


def _tell_size(writer: _Writer, index: int, node: Node, told: set[sympy.Symbol], specs: list[Json], out: Serialized) -> None:
    """A symbol that no tensor has as its size becomes that of a tensor without elements; one that may be negative those of two."""
    value = node.meta["val"]
    expr = expression(value)
    needed = writer.symbols.keys() & expr.free_symbols
    if not needed or needed <= told:
        return
    told.update(needed)
    if expr not in writer.parts:
        sizes = {f"{node.name}_size": sym_int(value, writer.parts)}
    else:
        hint = size_hint(value) if value.node.has_hint() else 0
        sizes = {}
        for name, sign in (("above", 1), ("below", -1)):
            symbol = sympy.Symbol(f"{expr}_{name}", integer=True)
            sizes[f"{node.name}_{name}"] = {"as_expr": {"expr_str": sympy.srepr(symbol), "hint": {"as_int": max(sign * hint, 0)}}}
            out.parts[len(out.inputs) + len(sizes) - 1] = sign
    for name, size in sizes.items():
        writer.graph["tensor_values"][name] = {
            "dtype": SCALAR_TYPES[torch.uint8], "sizes": [size, {"as_int": 0}], "strides": [{"as_int": 1}, {"as_int": 1}],
            "storage_offset": {"as_int": 0}, "layout": STRIDED, "device": {"type": "cpu", "index": None}, "requires_grad": False,
        }  # fmt: skip
        argument = {"as_tensor": {"name": name}}
        writer.graph["inputs"].append(argument)
        specs.append({"user_input": {"arg": argument}})
        out.inputs.append(index)


def _range(symbol: sympy.Symbol, env: Any) -> Json:
    bounds = env.var_to_range.get(symbol)
    out: Json = {"min_val": None, "max_val": None}
    if bounds is not None:
        for key, bound in (("min_val", bounds.lower), ("max_val", bounds.upper)):
            if bound.is_Integer:
                out[key] = int(bound)
    return out
