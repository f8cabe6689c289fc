"""Sums and products by themselves: errors and times of torch.compile(backend="toroid") beside eager PyTorch, in f32 on the CPU.

Usage: operations.py [PATTERN ...]
A line an operation: the root mean square of errors relative to that of results in f64, ours and eager PyTorch's, and the median of calls in
microseconds, ours and eager PyTorch's. They have turns of 60 ms, of which the first half is left out: until then threads of the other one
may look for work.
"""

from __future__ import annotations

import fnmatch
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

import toroid.torch  # registers the backend

Function = Callable[..., torch.Tensor]
ROUNDS, TURN_S = 5, 0.06


def uniform(*sizes: int) -> torch.Tensor:
    return torch.rand(sizes)


def normal(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes)


# Name, function, arguments.
OPERATIONS: list[tuple[str, Function, list[torch.Tensor]]] = [
    ("sum of all", lambda x: x.sum(), [uniform(2000, 2000)]),
    ("sum of rows", lambda x: x.sum(1), [uniform(64, 50000)]),
    ("sum of columns", lambda x: x.sum(0), [uniform(50000, 64)]),
    ("sum between", lambda x: x.sum(1), [uniform(16, 10000, 16)]),
    ("mean of both ends", lambda x: x.mean((0, 2)), [uniform(64, 32, 3136)]),
    ("variance of columns", lambda x: x.var(0), [normal(40960, 16) + 10]),
    ("batch norm", lambda x: F.batch_norm(x, None, None, training=True), [normal(64, 16, 56, 56) + 5]),
    ("layer norm", lambda x: F.layer_norm(x, (4096,)), [normal(64, 4096) + 5]),
    ("softmax", lambda x: x.softmax(1), [normal(64, 50000)]),
    ("product", torch.matmul, [normal(64, 4096), normal(4096, 64)]),
    ("product, k = 512", torch.matmul, [normal(64, 512), normal(512, 64)]),
    ("batch of products", torch.matmul, [normal(4, 64, 4096), normal(4, 4096, 64)]),
    ("matrix by vector", torch.matmul, [normal(1000, 4096), normal(4096)]),
    ("vector by matrix", torch.matmul, [normal(4096), normal(4096, 1000)]),
    ("batch of matrices by vectors", torch.matmul, [normal(64, 100, 512), normal(64, 512, 1)]),
    ("batch of vectors by matrices", torch.matmul, [normal(64, 1, 512), normal(64, 512, 64)]),
    ("dot", torch.dot, [uniform(1000000), uniform(1000000)]),
    ("convolution 1x1", F.conv2d, [normal(2, 2048, 14, 14), normal(64, 2048, 1, 1)]),
    ("convolution 3x3", lambda x, w: F.conv2d(x, w, padding=1), [normal(2, 512, 14, 14), normal(64, 512, 3, 3)]),
    ("attention", F.scaled_dot_product_attention, [normal(1, 4, 256, 64), normal(1, 4, 2048, 64), normal(1, 4, 2048, 64)]),
    ("attention of one query", F.scaled_dot_product_attention, [normal(1, 4, 1, 64), normal(1, 4, 4096, 64), normal(1, 4, 4096, 64)]),
    ("pointwise, 12 MB", lambda x: x + 1, [normal(3000, 1000)]),
    ("in place, 4 MB", lambda x: x.add_(1), [normal(1000, 1000)]),
]


def error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return float((value.double() - exact).square().mean().sqrt() / exact.square().mean().sqrt())


def microseconds(calls: list[Callable[[], torch.Tensor]]) -> list[float]:
    taken: list[list[float]] = [[] for _ in calls]
    for _ in range(ROUNDS):
        for call, times in zip(calls, taken):
            start = time.perf_counter()
            while (begin := time.perf_counter()) < start + TURN_S:
                call()
                if begin > start + TURN_S / 2:
                    times.append((time.perf_counter() - begin) * 1e6)
    return [statistics.median(times) for times in taken]


def main() -> None:
    print(f"{'':30s} error     eager     ratio   us       eager    ratio")
    for name, fn, arguments in OPERATIONS:
        if sys.argv[1:] and not any(fnmatch.fnmatch(name, pattern) for pattern in sys.argv[1:]):
            continue
        torch._dynamo.reset()
        compiled = torch.compile(fn, backend="toroid", dynamic=False)
        with torch.no_grad():
            exact = fn(*(a.double() for a in arguments))
            ours, theirs = (error(call(*(a.clone() for a in arguments)), exact) for call in (compiled, fn))
            us, eager_us = microseconds([lambda: compiled(*arguments), lambda: fn(*arguments)])
        print(f"{name:30s} {ours:.2e}  {theirs:.2e}  {ours / theirs:5.2f} {us:8.1f} {eager_us:8.1f}  {us / eager_us:5.2f}", flush=True)


if __name__ == "__main__":
    main()
