"""PyTorch's own samples of its operations, through torch.compile(backend="toroid"), beside eager PyTorch on the same device.

Usage: opinfo.py [--device cpu|cuda] [--dtypes float32,int64] [--samples N] [--grad] [--json FILE] [PATTERN ...]
Prints a line for each operation that is not "equal", then the counts. Exit code 1 where a result is wrong.

  equal     all of it ran in programs of Toroid, with PyTorch's results, dtypes, sizes and strides
  fallback  the same, but PyTorch ran some operations (they are named)
  untraced  torch.compile handed no operation over, so that nothing has been tested
  refused   torch.compile cannot take the call, whatever the backend: "aot_eager" gives the same error, or the same other result
  wrong     another result, or an error that the backend "aot_eager" does not give
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import itertools
import json
import sys
import warnings
from typing import Any

import torch
import torch._dynamo
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import toroid.torch
from distance import distance

TOLERANCES = {torch.float32: (1e-4, 1e-5), torch.complex64: (1e-4, 1e-5), torch.bfloat16: (1.6e-2, 1e-3), torch.float16: (4e-3, 1e-3)}


def tensors(value: Any) -> list[Any]:
    return [t for t in tree_leaves(value) if isinstance(t, torch.Tensor)]


def copied(value: Any) -> Any:
    return tree_map(lambda t: t.detach().clone(memory_format=torch.preserve_format).requires_grad_(t.requires_grad)
                    if isinstance(t, torch.Tensor) else t, value)  # fmt: skip


def call(fn: Any, sample: Any, grad: bool) -> list[Any]:
    """Results, and with `grad` the gradients of their sum by the arguments."""
    arguments = copied((sample.input, sample.args, sample.kwargs))
    torch.manual_seed(0)
    out = tensors(fn(arguments[0], *arguments[1], **arguments[2]))
    if not grad:
        return out
    wanted = [t for t in tensors(arguments) if t.requires_grad]
    summed = [t for t in out if t.requires_grad]
    if not wanted or not summed:
        return out
    torch.manual_seed(1)
    seeds = [torch.randn_like(t) for t in summed]
    return out + [g for g in torch.autograd.grad(summed, wanted, seeds, allow_unused=True) if g is not None]


def difference(ours: list[Any], theirs: list[Any]) -> str:
    """What differs; empty where nothing does."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {i} is {a.dtype} {tuple(a.shape)}, expected {b.dtype} {tuple(b.shape)}"
        if a.layout == torch.strided and a.numel() > 0 and [s for s, n in zip(a.stride(), a.shape) if n > 1] != [
            s for s, n in zip(b.stride(), b.shape) if n > 1
        ]:
            return f"result {i} has strides {a.stride()}, expected {b.stride()}"
        rtol, atol = TOLERANCES.get(a.dtype, (1e-7, 1e-7))
        try:
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as e:
            return f"result {i}: " + " ".join(str(e).split())[:200]
    return ""


def compiled(op: Any, backend: str) -> Any:
    torch._dynamo.reset()
    fn = op.get_op()
    return torch.compile(lambda *a, **k: fn(*a, **k), backend=backend, dynamic=False)


def inaccuracy(values: list[Any], op: Any, sample: Any, grad: bool) -> float:
    """The largest distance from what PyTorch computes with twice the bits; infinity where it cannot."""
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128, torch.bfloat16: torch.float32, torch.float16: torch.float32}
    try:
        exact = call(op.get_op(), sample.transform(lambda t: t.detach().to(wide.get(t.dtype, t.dtype)).requires_grad_(t.requires_grad)
                                                   if isinstance(t, torch.Tensor) else t), grad)  # fmt: skip
        return max((distance(a, b) for a, b in zip(values, exact)), default=0.0)
    except Exception:
        return float("inf")


def kind_of(error: Exception) -> str:
    """The class of an error, and of the one within that a backend has raised."""
    inner = getattr(error, "inner_exception", None)
    return type(error).__name__ + (f" ({type(inner).__name__})" if inner is not None else "")


NO_VALUES = ("empty", "new_empty")  # memory as it was
# Behind its result and the logarithms of sums, attention gives what its random numbers were drawn from; without dropout that is nothing.
RANDOM_STATES = ("torch.ops.aten._efficient_attention_forward", "torch.ops.aten._flash_attention_forward")
TIES = ("argsort", "kthvalue", "median", "mode", "msort", "nanmedian", "sort", "topk")  # any of several equal elements may be named


def comparable(name: str, values: list[Any]) -> list[Any]:
    """What is known for sure of results: of eigenvectors all but their phase, of sorts the values."""
    if name.startswith(NO_VALUES):
        return [torch.zeros_like(t) for t in values]
    if name in RANDOM_STATES:
        return values[:2]
    if name in TIES:
        values = [t if t.dtype != torch.int64 or i == 0 and name != "argsort" else torch.zeros_like(t) for i, t in enumerate(values)]
        # Of halves many are equal, and take each other's gradients: eager PyTorch's sort is not stable.
        may_swap = name in ("sort", "msort") and values[0].dtype in (torch.bfloat16, torch.float16)
        return [t.flatten().sort().values if may_swap and i > 0 else t for i, t in enumerate(values)]
    if "eig" in name or "svd" in name:
        return [t.abs() if t.is_floating_point() or t.is_complex() else t for t in values]
    return values


def verdict(op: Any, sample: Any, grad: bool) -> tuple[str, str]:
    try:
        expected = call(op, sample, grad)
    except Exception as e:
        return "skipped", f"eager PyTorch: {type(e).__name__}"
    toroid.reset_explain()
    try:
        ours = call(compiled(op, "toroid"), sample, grad)
    except Exception as e:
        try:
            call(compiled(op, "aot_eager"), sample, grad)
        except Exception as other:
            if kind_of(other) == kind_of(e):
                return "refused", kind_of(e)
        return "wrong", f"{kind_of(e)}: {' '.join(str(e).split())[:300]}"
    mine, eager = comparable(op.name, ours), comparable(op.name, expected)
    what = difference(mine, eager)
    if "not close" in what:
        error, eager_error = inaccuracy(ours, op, sample, grad), inaccuracy(expected, op, sample, grad)
        if error < float("inf") and error <= max(2 * eager_error, 1e-6):
            what = ""
    if what:
        try:
            theirs = comparable(op.name, call(compiled(op, "aot_eager"), sample, grad))
        except Exception as e:
            return "wrong", f"{what} (aot_eager: {kind_of(e)})"
        return ("wrong" if difference(mine, theirs) else "refused"), what
    told = toroid.explain()
    if not any(g.nodes for g in told.graphs):
        return "untraced", "no graph"
    if told.fallbacks:
        reasons = {k: v for g in told.graphs for k, v in g.reasons.items()}
        return "fallback", "; ".join(f"{name}: {reasons.get(name, '')}" for name in sorted(told.fallbacks))
    return "equal", ""


ORDER = ["wrong", "fallback", "refused", "untraced", "equal", "skipped"]


def check(op: Any, device: str, dtype: torch.dtype, count: int, grad: bool) -> tuple[str, str]:
    """The worst verdict of the first samples."""
    found = []
    try:
        samples = list(itertools.islice(op.sample_inputs(device, dtype, requires_grad=grad), count))
    except Exception as e:
        return "skipped", f"no samples: {type(e).__name__}"
    for sample in samples:
        found.append(verdict(op, sample, grad))
    return min(found, key=lambda f: ORDER.index(f[0]), default=("skipped", "no samples"))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--grad", action="store_true")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th operation from the K-th on")
    parser.add_argument("--json")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch._dynamo.config.cache_size_limit = 64
    part, parts = map(int, options.part.split("/"))
    counts: collections.Counter[str] = collections.Counter()
    rows = []
    for op in op_db[part::parts]:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if options.patterns and not any(fnmatch.fnmatch(name, p) for p in options.patterns):
            continue
        for dtype in (getattr(torch, d) for d in options.dtypes.split(",")):
            if dtype not in op.supported_dtypes(options.device) or (options.grad and dtype not in op.supported_backward_dtypes(options.device)):
                continue
            kind, why = check(op, options.device, dtype, options.samples, options.grad)
            counts[kind] += 1
            rows.append({"op": name, "dtype": str(dtype), "verdict": kind, "why": why})
            if kind not in ("equal", "skipped"):
                print(f"{kind:8} {name} {str(dtype)[6:]}: {why}", flush=True)
    print(", ".join(f"{counts[k]} {k}" for k in ORDER))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
