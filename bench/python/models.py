"""Times models under torch.compile: backend "toroid" beside "inductor" and eager PyTorch, in turns, on the CPU.

Usage: models.py [--models minilm,bert-base,resnet50,mobilenet_v3_large] [--backends toroid,inductor,eager] [--freezing] [--seconds S]
Prints the median of each in milliseconds, the largest difference from eager PyTorch, and the time of the first call.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torchvision
import transformers

import toroid.torch

Case = tuple[torch.nn.Module, dict[str, torch.Tensor]]


def bert(layers: int, width: int, sequence: int) -> Case:
    config = transformers.BertConfig(num_hidden_layers=layers, hidden_size=width, intermediate_size=4 * width, num_attention_heads=12)
    ids = torch.randint(0, config.vocab_size, (1, sequence))
    return transformers.BertModel(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def vision(make: Callable[[], torch.nn.Module]) -> Case:
    return make(), {"x": torch.randn(1, 3, 224, 224)}


MODELS: dict[str, Callable[[], Case]] = {
    "minilm": lambda: bert(6, 384, 128),
    "bert-base": lambda: bert(12, 768, 128),
    "resnet50": lambda: vision(torchvision.models.resnet50),
    "mobilenet_v3_large": lambda: vision(torchvision.models.mobilenet_v3_large),
}


def first_tensor(out: Any) -> torch.Tensor:
    return out if isinstance(out, torch.Tensor) else out[0]


def compiled(model: torch.nn.Module, backend: str, freezing: bool) -> Any:
    if backend == "eager":
        return model
    return torch.compile(model, backend=backend, dynamic=False, options={"freezing": True} if freezing else None)


def measure(runs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Medians in milliseconds; the candidates take turns, so that they meet the same machine."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for name, run in runs.items():
            for _ in range(3):
                begin = time.perf_counter()
                run()
                times[name].append((time.perf_counter() - begin) * 1e3)
    return {name: statistics.median(t) for name, t in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--backends", default="toroid,inductor,eager")
    parser.add_argument("--freezing", action="store_true")
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    for name in options.models.split(","):
        torch.manual_seed(0)
        torch._dynamo.reset()
        toroid.reset_explain()
        model, inputs = MODELS[name]()
        model.eval()
        with torch.no_grad():
            expected = first_tensor(model(**inputs))
            runs, notes = {}, []
            for backend in options.backends.split(","):
                fn = compiled(model, backend, options.freezing)
                begin = time.perf_counter()
                got = first_tensor(fn(**inputs))
                notes.append(f"{backend} {time.perf_counter() - begin:.1f} s, off by {(got - expected).abs().max():.1e}")
                runs[backend] = lambda fn=fn: fn(**inputs)
            medians = measure(runs, options.seconds)
        print(f"{name}: " + ", ".join(f"{k} {v:.2f} ms" for k, v in medians.items()) + f" | first calls: {'; '.join(notes)}", flush=True)
        print(toroid.explain(), flush=True)


if __name__ == "__main__":
    main()
