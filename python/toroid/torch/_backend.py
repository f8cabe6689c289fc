"""From Dynamo's graphs, through AOTAutograd, to programs of Toroid."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule

from .. import _core, _report
from ._partition import compile_graph
from ._schema import target_name

_counter = itertools.count()


@functools.lru_cache(None)
def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of those operations that Toroid lacks."""
    return {
        op: fn
        for op, fn in decomposition_table.items()
        if isinstance(op, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded not in op.tags
        and not _core.has_operation(target_name(op))
    }


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


def backend(module: GraphModule, example_inputs: Sequence[Any], *, mode: str | None = None, options: dict[str, Any] | None = None) -> Any:
    """What torch.compile(..., backend="toroid") calls with each graph.

    mode: as toroid.load has it. options: those of docs/options.md by name, and "threads", "fusion", "templates".
    """
    given = dict(options or {})
    fields = {k: given.pop(k) for k in ("threads", "fusion", "templates") if k in given}
    compiled_with = _core.ModelOptions(mode=mode or "default", freeze=False, options=given, **fields)
    return aot_autograd(
        fw_compiler=_compiler("forward", compiled_with),
        bw_compiler=_compiler("backward", compiled_with),
        inference_compiler=_compiler("inference", compiled_with),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(module, example_inputs)
