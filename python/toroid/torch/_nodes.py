"""Nodes of a graph that are rewritten before it is divided: attention, norms of halves, and numbers that are tensors of the host."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._python_dispatch import _disable_current_modes

_aten = torch.ops.aten


def argument(node: Node, name: str) -> Any:
    """What a call gives a parameter, or the parameter's default; None where there is no such parameter."""
    for i, parameter in enumerate(node.target._schema.arguments):
        if parameter.name == name:
            return node.args[i] if i < len(node.args) else node.kwargs.get(name, parameter.default_value)
    return None


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors_in(v)] if isinstance(value, (list, tuple)) else []


# Kernels of attention that PyTorch chooses from on GPUs, and the names of a mask among their parameters.
_FORWARD = {
    _aten._scaled_dot_product_flash_attention.default: None,
    _aten._scaled_dot_product_efficient_attention.default: "attn_bias",
    _aten._scaled_dot_product_cudnn_attention.default: "attn_bias",
}
_BACKWARD = {
    _aten._scaled_dot_product_flash_attention_backward.default: None,
    _aten._scaled_dot_product_efficient_attention_backward.default: "attn_bias",
    _aten._scaled_dot_product_cudnn_attention_backward.default: "attn_bias",
}


def translate_attention(module: GraphModule) -> None:
    """Turns PyTorch's kernels of attention, and those of its gradients, into operations that Toroid has.

    Kernels with dropout stay: their random numbers are PyTorch's. So do those of whose results more is read than Toroid has.
    """
    for node in list(module.graph.nodes):
        if node.target in _FORWARD and argument(node, "dropout_p") == 0:
            _translate_forward(module, node)
        elif node.target in _BACKWARD and argument(node, "dropout_p") == 0:
            _translate_backward(module, node)


def return_written(module: GraphModule) -> None:
    """A graph that returns what it has written to an argument returns the argument, so that nothing reads the write."""
    for write in module.graph.find_nodes(op="call_function", target=_aten.copy_.default):
        if write.args[0].op == "placeholder" and all(reader.op == "output" for reader in write.users):
            write.replace_all_uses_with(write.args[0])


def _pieces(node: Node) -> dict[int, Node] | None:
    """The results of a node that are read, by their numbers; None where the whole is. Readers of one result become one."""
    pieces: dict[int, Node] = {}
    for reader in list(node.users):
        if reader.target is not operator.getitem:
            return None
        first = pieces.setdefault(reader.args[1], reader)
        if first is not reader:
            _replace(node.graph, reader, first)
    return pieces


def _mask(node: Node, names: dict[Any, str | None]) -> Any:
    name = names[node.target]
    return argument(node, name) if name else None


def _heads(node: Node) -> list[int]:
    return [argument(node, name).meta["val"].shape[1] for name in ("query", "key")]


def _replace(graph: torch.fx.Graph, old: Node, new: Node) -> None:
    old.replace_all_uses_with(new)
    graph.erase_node(old)


def _translate_forward(module: GraphModule, node: Node) -> None:
    pieces = _pieces(node)
    if pieces is None:
        return
    if set(pieces) <= {0}:
        _translate_result(module, node, pieces)
    else:
        _translate_with_logarithms(module, node, pieces)


def _translate_result(module: GraphModule, node: Node, pieces: dict[int, Node]) -> None:
    heads = _heads(node)
    with module.graph.inserting_before(node):
        plain = module.graph.call_function(
            _aten.scaled_dot_product_attention.default,
            (*node.args[:3], _mask(node, _FORWARD), 0.0, argument(node, "is_causal")),
            {"scale": argument(node, "scale"), "enable_gqa": heads[0] != heads[1]},
        )
    plain.meta = {**node.meta, "val": node.meta["val"][0]}
    for reader in pieces.values():
        _replace(module.graph, reader, plain)
    module.graph.erase_node(node)


def _translate_with_logarithms(module: GraphModule, node: Node, pieces: dict[int, Node]) -> None:
    """For a backward pass: what is kept for its random numbers, which it does not draw, becomes zeros."""
    values = node.meta["val"]
    rows = values[0].shape[2]
    heads = _heads(node)
    kept = {i: n for i, n in pieces.items() if i > 1}
    if heads[0] != heads[1] or not isinstance(rows, int) or any(not isinstance(values[i], torch.Tensor) for i in kept):
        return
    graph = module.graph
    with graph.inserting_before(node):
        both = graph.call_function(
            _aten._scaled_dot_product_flash_attention_for_cpu.default,
            (*node.args[:3], 0.0, argument(node, "is_causal")),
            {"attn_mask": _mask(node, _FORWARD), "scale": argument(node, "scale")},
        )
        both.meta = {**node.meta, "val": (values[0], values[1].flatten(2)[:, :, :rows])}
        for i, n in kept.items():
            zeros = graph.call_function(_aten.zeros.default, (list(values[i].shape),), {"dtype": values[i].dtype, "device": values[i].device})
            zeros.meta = {**n.meta}
            _replace(graph, n, zeros)
    for i in (0, 1):
        if i in pieces:
            pieces[i].args = (both, i)
    if 1 in pieces and tuple(values[1].shape) != tuple(both.meta["val"][1].shape):
        logarithms = pieces[1]
        with graph.inserting_after(logarithms):
            if values[1].dim() == 4:
                fitted = graph.call_function(_aten.unsqueeze.default, (logarithms, 3))
            else:
                fitted = graph.call_function(_aten.constant_pad_nd.default, (logarithms, [0, values[1].shape[2] - rows], float("inf")))
        fitted.meta = {**logarithms.meta}
        logarithms.meta = {**logarithms.meta, "val": both.meta["val"][1]}
        logarithms.replace_all_uses_with(fitted, delete_user_cb=lambda user: user is not fitted)
    graph.erase_node(node)


def _translate_backward(module: GraphModule, node: Node) -> None:
    pieces = _pieces(node)
    rows = argument(node, "query").meta["val"].shape[2]
    heads = _heads(node)
    if pieces is None or not set(pieces) <= {0, 1, 2} or heads[0] != heads[1] or not isinstance(rows, int):
        return
    graph = module.graph
    logarithms = argument(node, "logsumexp")
    with graph.inserting_before(node):
        given = logarithms
        if given.meta["val"].dim() == 4:
            logarithms = graph.call_function(_aten.squeeze.dim, (given, 3))
        elif given.meta["val"].shape[2] != rows:
            logarithms = graph.call_function(_aten.slice.Tensor, (given, 2, 0, rows))
        if logarithms is not given:
            logarithms.meta = {**given.meta, "val": given.meta["val"].flatten(2)[:, :, :rows]}
        named = [argument(node, name) for name in ("query", "key", "value", "out")]
        gradients = graph.call_function(
            _aten._scaled_dot_product_flash_attention_for_cpu_backward.default,
            (node.args[0], *named, logarithms, 0.0, argument(node, "is_causal")),
            {"attn_mask": _mask(node, _BACKWARD), "scale": argument(node, "scale")},
        )
    gradients.meta = {**node.meta, "val": tuple(node.meta["val"][:3])}
    for i, reader in pieces.items():
        reader.args = (gradients, i)
    graph.erase_node(node)


# Norms whose results may be float32 where they normalize halves: their statistics.
_NORMS = {
    _aten.native_layer_norm.default,
    _aten.native_group_norm.default,
    _aten._native_batch_norm_legit_functional.default,
    _aten._native_batch_norm_legit.no_stats,
    _aten._batch_norm_with_update_functional.default,
}
_COPIES = {_aten.lift_fresh_copy.default, _aten.clone.default, _aten.detach.default, _aten.alias.default}
_HALVES = (torch.bfloat16, torch.float16)


def _has_wide_statistics(node: Node) -> bool:
    """Whether statistics of halves are float32: those of the batch, or running ones that were given as halves."""
    values = node.meta["val"]
    running = argument(node, "running_mean")
    given_as_half = isinstance(running, Node) and running.meta["val"].dtype in _HALVES
    return values[1].dtype not in _HALVES or given_as_half and any(t.dtype == torch.float32 for t in values[3:])


def widen_norms(module: GraphModule) -> None:
    """Norms of halves whose statistics are float32 become norms in float32, whose other results are rounded."""
    graph = module.graph
    for node in list(graph.nodes):
        values = node.meta.get("val")
        if node.target not in _NORMS or values[0].dtype not in _HALVES or not _has_wide_statistics(node):
            continue
        pieces = _pieces(node)
        if pieces is None:
            continue
        with graph.inserting_before(node):
            for given in node.all_input_nodes:
                if isinstance(given.meta.get("val"), torch.Tensor) and given.meta["val"].dtype in _HALVES:
                    wide = graph.call_function(_aten._to_copy.default, (given,), {"dtype": torch.float32})
                    wide.meta = {**given.meta, "val": given.meta["val"].to(torch.float32)}
                    node.replace_input_with(given, wide)
        node.meta = {**node.meta, "val": tuple(t.to(torch.float32) if t.dtype in _HALVES else t for t in values)}
        for i, result in pieces.items():
            if values[i].dtype not in _HALVES:
                continue
            with graph.inserting_after(result):
                rounded = graph.call_function(_aten._to_copy.default, (result,), {"dtype": values[i].dtype})
            rounded.meta = {**result.meta}
            result.meta = {**result.meta, "val": node.meta["val"][i]}
            result.replace_all_uses_with(rounded, delete_user_cb=lambda user: user is not rounded)  # noqa: B023


def _constant_behind(module: GraphModule, node: Node) -> torch.Tensor | None:
    """The attribute of the graph that a node is a copy of."""
    while node.op == "call_function" and node.target in _COPIES:
        node = node.args[0]
    value = getattr(module, node.target, None) if node.op == "get_attr" else None
    return value if isinstance(value, torch.Tensor) else None


def _erase_unread(graph: torch.fx.Graph, node: Node) -> None:
    """Erases a node that nothing reads, and what it alone reads."""
    if node.users or node.op not in ("call_function", "get_attr"):
        return
    read = node.all_input_nodes
    graph.erase_node(node)
    for n in read:
        _erase_unread(graph, n)


def move_numbers(module: GraphModule, device: torch.device) -> None:
    """Copies of tensors without dimensions on the host, which operations on a GPU may take, to that GPU: made here of those that never
    change, and by PyTorch in each call of others."""
    if device.type == "cpu":
        return
    graph = module.graph
    moved: dict[Node, Node] = {}

    def there(n: Node, reader: Node) -> Node:
        if n not in moved:
            constant = _constant_behind(module, n)
            with graph.inserting_before(reader):
                if constant is None:
                    moved[n] = graph.call_function(_aten._to_copy.default, (n,), {"device": device})
                else:
                    name = f"{n.name}_moved"
                    with _disable_current_modes():
                        module.register_buffer(name, constant.to(device))
                    moved[n] = graph.get_attr(name)
            moved[n].meta = {**n.meta, "val": n.meta["val"].to(device)}
        return moved[n]

    def is_number(value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.dim() == 0 and value.device.type == "cpu"

    for node in list(graph.nodes):
        results = tensors_in(node.meta.get("val"))
        if node.op != "call_function" or not results or any(t.device != device for t in results) or node.target is _aten._to_copy.default:
            continue
        for n in node.all_input_nodes:
            if is_number(n.meta.get("val")):
                node.replace_input_with(n, there(n, node))
    for n in moved:
        _erase_unread(graph, n)
