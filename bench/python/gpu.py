"""Models and a training step on a GPU under torch.compile: backend "toroid" beside "inductor", in turns, with the memory that each takes.

Usage: gpu.py [--models bert,resnet50,...] [--modes default,reduce-overhead] [--peer-modes default,reduce-overhead,max-autotune]
              [--program build/toroid] [--seconds S] [--host] [--plain]

A line a model and backend: milliseconds of a call and of waiting for it, in turns; of one of many calls back to back, by the GPU's events;
microseconds that the host takes for a call; the most memory of PyTorch's allocator in steady calls, in use and taken from the device, over
what there was before the backend compiled (weights, inputs, programs of backends before it); seconds of the first call; the largest
difference from eager PyTorch. --plain: backend "toroid" without freezing, which copies what it folds into weights. --program: the same model
by the command line, too (bert, resnet50, llama-decode, llama-prefill). --host: what the host takes for a call of a small program, in turns
with a backend that returns results that were there before. Model "digits" is a training step: forward and backward by the backend, AdamW by
PyTorch, whose losses are not compared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

import toroid.torch

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "peers")]
import gpu_models  # noqa: E402
import models  # noqa: E402

Run = Callable[[], Any]
DTYPE = torch.float16


def inference(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    if name in gpu_models.TOROID:
        return gpu_models.subject(name)
    model, inputs = models.MODELS[name]()
    inputs = {k: v.to("cuda", DTYPE if v.is_floating_point() else v.dtype) for k, v in inputs.items()}
    model = model.eval().to("cuda", DTYPE)

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: torch.Tensor) -> torch.Tensor:
            return models.first_tensor(self.model(**dict(zip(inputs, values))))

    return Positional(), tuple(inputs.values())


def digits(backend: str, mode: str) -> Run:
    """A step of the network of `bench_train digits`, with PyTorch's fused AdamW."""
    nn = torch.nn
    torch.manual_seed(0)
    convolutions = (nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
    model = nn.Sequential(*convolutions, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.GELU(), nn.Linear(64, 10)).cuda()
    x, y = torch.rand(64, 1, 8, 8, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = compiled(lambda x, y: nn.functional.cross_entropy(model(x), y), backend, mode, False)

    def step() -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        loss = forward(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


def compiled(fn: Any, backend: str, mode: str, freezing: bool) -> Any:
    if backend == "inductor":
        return torch.compile(fn, dynamic=False, mode=None if mode == "default" else mode)
    return torch.compile(fn, backend=backend, dynamic=False, options={"mode": mode, "freezing": freezing})


def back_to_back_ms(run: Run, calls: int = 50) -> float:
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(5):
        torch.cuda.synchronize()
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return statistics.median(times)


def host_us(run: Run, calls: int = 20) -> float:
    """What the host takes until a call returns; few calls, so that it does not wait for room in the GPU's queue."""
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        times.append((time.perf_counter() - begin) / calls * 1e6)
    return statistics.median(times)


def compare(name: str, backends: list[tuple[str, str]], seconds: float, freezing: bool) -> None:
    runs: dict[str, Run] = {}
    lines: dict[str, str] = {}
    training = name == "digits"
    if not training:
        model, inputs = inference(name)
        expected = model(*inputs)
    for backend, mode in backends:
        torch._C._cuda_clearCublasWorkspaces()  # those of eager PyTorch, which a backend may free and ask for again
        torch.cuda.empty_cache()
        before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        label = f"{backend}:{mode}"
        try:
            if training:
                run = digits(backend, mode)
            else:
                fn = compiled(model, backend, mode, freezing)
                run = lambda fn=fn: fn(*inputs)  # noqa: E731
            begin = time.perf_counter()
            out = run()
            torch.cuda.synchronize()
            first = time.perf_counter() - begin
            off = "" if training else f", off by {(out.float() - expected.float()).abs().max().item():.1e}"
            del out
            for _ in range(5):
                run()
        except Exception as error:  # a peer that cannot compile a model is named, and the others go on
            if backend == "toroid":
                raise
            print(f"{name} {label}: {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)
            continue
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        most = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        used, taken = ((a - b) / 2**20 for a, b in zip(most, before))
        runs[label], lines[label] = run, f"{used:.0f} and {taken:.0f} MiB, first call {first:.1f} s{off}"
    if not runs:
        return
    medians = models.measure({k: lambda run=run: (run(), torch.cuda.synchronize()) for k, run in runs.items()}, seconds)
    for label, run in runs.items():
        print(f"{name} {label}: {medians[label]:.3f} ms, back to back {back_to_back_ms(run):.4f} ms, host {host_us(run):.0f} us, {lines[label]}", flush=True)


def host_cost() -> None:
    """Calls of a program of three inputs: all that Dynamo and AOTAutograd do is in both columns."""

    def fn(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w + b)

    arguments = [torch.randn(*s, device="cuda", dtype=DTYPE) for s in ((64, 64), (64, 64), (64,))]
    results = (fn(*arguments),)

    def nothing(module: Any, inputs: Any) -> Any:
        return make_boxed_func(lambda *_: results)

    for mode in ("default", "reduce-overhead"):
        torch._dynamo.reset()
        runs = {
            "nothing": torch.compile(fn, backend=aot_autograd(fw_compiler=nothing, inference_compiler=nothing)),
            "toroid": torch.compile(fn, backend="toroid", options={"mode": mode}),
        }
        for run in runs.values():
            for _ in range(5):
                run(*arguments)
        rounds = [{label: host_us(lambda run=run: run(*arguments)) for label, run in runs.items()} for _ in range(9)]
        times = {label: statistics.median(r[label] for r in rounds) for label in runs}
        print(f"host, {mode}: {times['toroid']:.1f} us, a backend that computes nothing {times['nothing']:.1f} us", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="bert,resnet50,llama-decode,llama-prefill")
    parser.add_argument("--modes", default="default,reduce-overhead")
    parser.add_argument("--peer-modes", default="default,reduce-overhead,max-autotune")
    parser.add_argument("--program")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--host", action="store_true")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    backends = [("toroid", m) for m in options.modes.split(",") if m] + [("inductor", m) for m in options.peer_modes.split(",") if m]
    if options.host:
        host_cost()
    for name in filter(None, options.models.split(",")):
        with torch.set_grad_enabled(name == "digits"):
            compare(name, backends, options.seconds, not options.plain)
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        if options.program and name in gpu_models.TOROID:
            own = gpu_models.toroid_times(options.program, name)
            print(f"{name} command line: {own['compiled']['median_ms']:.4f} ms", flush=True)
    print(toroid.explain(), flush=True)


if __name__ == "__main__":
    main()
