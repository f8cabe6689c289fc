"""From Dynamo's graphs, through AOTAutograd, to programs of Toroid."""

from __future__ import annotations

import ctypes
import functools
import itertools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule
from torch.utils._python_dispatch import _disable_current_modes

from .. import _core, _report
from ._decompositions import GRADIENTS
from ._partition import compile_graph, is_put_off
from ._schema import target_name

_counter = itertools.count()


@functools.lru_cache(None)
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Decompositions of those operations that Toroid lacks, most of them PyTorch's."""
    return GRADIENTS | {
        op: fn
        for op, fn in decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded not in op.tags
        and not _core.has_operation(target_name(op))
    }


@functools.lru_cache(None)
def _share_gpu_memory() -> None:
    """From now on Toroid's segments of GPUs' memory are PyTorch's: counted by its statistics, and made room for by giving back its cache.

    The functions are those that packages of AOTInductor call. A RuntimeWarning says where they are missing: then the driver is asked.
    """
    names = [f"aoti_torch_cuda_caching_allocator_raw_{what}" for what in ("alloc", "delete")]
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"))
        allocate, release = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names)
    except (OSError, AttributeError) as error:
        warnings.warn(f"toroid has memory of its own on GPUs, which torch.cuda.memory_stats() does not count: {error}", RuntimeWarning)
        return
    _core.set_segment_allocator(allocate, release)


def _compiler(kind: str, options: _core.ModelOptions) -> Callable[..., Any]:
    def compile(module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        forward, report = compile_graph(module, f"graph {next(_counter)} ({kind})", options)
        _report.record(report)
        return _boxed(forward)

    return compile


def _boxed(forward: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    def call(arguments: list[Any]) -> Any:
        taken = tuple(arguments)
        arguments.clear()
        return forward(*taken)

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _weights(module: GraphModule, dynamo_inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The arguments of AOTAutograd's graph that are weights, by position; none where the graph's arguments are not Dynamo's."""
    nodes = module.graph.find_nodes(op="placeholder")
    if len(nodes) != len(dynamo_inputs):
        return {}
    written = {n.args[0] for n in module.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)}
    context = torch._guards.TracingContext.try_get()
    static = context.fw_metadata.static_input_indices if context and context.fw_metadata else []
    return {i: dynamo_inputs[i] for i in static if nodes[i] not in written and _tells_writes(dynamo_inputs[i])}


def _tells_writes(value: Any) -> bool:
    """Whether a weight counts what is written to it, which tensors of inference mode do not, and has elements in memory to look at."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.is_inference():
        return False
    return value.layout == torch.strided and not is_put_off(value)


def _freezing_compiler(options: _core.ModelOptions, dynamo_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Weights are constants. A call with other weights, or with ones that were written since, runs another program, without constants."""
    thawed = _compiler("inference, weights have changed", options)

    def compile(module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        weights = _weights(module, dynamo_inputs)
        nodes = module.graph.find_nodes(op="placeholder")
        # Tensors of their own, which keep the memory when a weight's `.data` is replaced, so that no other memory has its address.
        with _disable_current_modes():
            frozen = {nodes[i].name: t.detach() for i, t in weights.items()}
        forward, report = compile_graph(module, f"graph {next(_counter)} (inference, {len(frozen)} weights frozen)", options, frozen)
        _report.record(report)
        pins = _core.Pins(torch.Tensor, list(weights.items()))
        other: Callable[..., Any] | None = None

        def call(arguments: list[Any]) -> Any:
            nonlocal other
            if not pins.hold(arguments):
                other = other or thawed(module, example_inputs)
                return other(arguments)
            taken = tuple(arguments)
            arguments.clear()
            return forward(*taken)

        call._boxed_call = True  # type: ignore[attr-defined]
        call.frozen = frozen  # type: ignore[attr-defined]
        return call

    return compile


def backend(module: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None) -> Any:
    """What torch.compile(..., backend="toroid") calls with each graph.

    mode: as toroid.load has it. options: "freezing" (weights of calls without gradients are constants), "threads", "fusion", "templates",
    and those of docs/options.md by name. UserError for others.
    """
    given = dict(options or {})
    freezing = given.pop("freezing", False)
    fields = {k: given.pop(k) for k in ("threads", "fusion", "templates") if k in given}
    if torch.cuda.is_initialized() and _core.cuda_device_count():
        _share_gpu_memory()
    _core.check_options(given)  # here, as what a part of a graph is refused for leaves it to PyTorch
    compiled_with = _core.ModelOptions(mode=mode or "default", freeze=freezing, options=given, **fields)
    return aot_autograd(
        fw_compiler=_compiler("forward", compiled_with),
        bw_compiler=_compiler("backward", compiled_with),
        inference_compiler=_freezing_compiler(compiled_with, example_inputs) if freezing else _compiler("inference", compiled_with),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(module, example_inputs)
