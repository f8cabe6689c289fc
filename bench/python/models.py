"""Times models under torch.compile: backend "toroid" beside "inductor" and eager PyTorch, in turns.

Usage: models.py [--models minilm,bert-base,resnet50,mobilenet_v3_large] [--backends toroid,inductor,eager] [--freezing] [--seconds S]
                 [--device cuda] [--dtype bfloat16]
Prints the median of each in milliseconds, the largest difference from eager PyTorch, and the time of the first call. Models "encoder" and
"convolutions" need neither transformers nor torchvision. A backend may have a mode: "toroid:reduce-overhead", "inductor:max-autotune". On a
GPU a time is that of a call and of waiting for it.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import toroid.torch

Case = tuple[torch.nn.Module, dict[str, torch.Tensor]]


def bert(layers: int, width: int, sequence: int) -> Case:
    import transformers

    config = transformers.BertConfig(num_hidden_layers=layers, hidden_size=width, intermediate_size=4 * width, num_attention_heads=12)
    ids = torch.randint(0, config.vocab_size, (1, sequence))
    return transformers.BertModel(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def gpt2(sequence: int) -> Case:
    import transformers

    config = transformers.GPT2Config(use_cache=False)
    return transformers.GPT2LMHeadModel(config), {"input_ids": torch.randint(0, config.vocab_size, (1, sequence))}


def vision(name: str) -> Case:
    import torchvision

    return getattr(torchvision.models, name)(), {"x": torch.randn(1, 3, 224, 224)}


def encoder() -> Case:
    torch.backends.mha.set_fastpath_enabled(False)  # one operation a layer, which compilers cannot look into
    layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, activation="gelu", batch_first=True, norm_first=True)
    return torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), {"src": torch.randn(1, 128, 768)}


def convolutions() -> Case:
    layers: list[torch.nn.Module] = []
    for inside, outside, stride in ((3, 64, 2), (64, 128, 2), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)):
        convolution = torch.nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        layers += [convolution, torch.nn.BatchNorm2d(outside), torch.nn.ReLU(inplace=True)]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()), {"input": torch.randn(1, 3, 224, 224)}


MODELS: dict[str, Callable[[], Case]] = {
    "encoder": encoder,
    "convolutions": convolutions,
    "minilm": lambda: bert(6, 384, 128),
    "bert-base": lambda: bert(12, 768, 128),
    "resnet50": lambda: vision("resnet50"),
    "mobilenet_v3_large": lambda: vision("mobilenet_v3_large"),
    "vit_b_32": lambda: vision("vit_b_32"),
    "swin_t": lambda: vision("swin_t"),
    "gpt2": lambda: gpt2(128),
}


def first_tensor(out: Any) -> torch.Tensor:
    return out if isinstance(out, torch.Tensor) else out[0]


def compiled(model: torch.nn.Module, backend: str, freezing: bool) -> Any:
    if backend == "eager":
        return model
    name, _, mode = backend.partition(":")
    if name == "inductor" and mode:
        return torch.compile(model, backend=name, dynamic=False, mode=mode)
    options = {"freezing": True} if freezing else {}
    return torch.compile(model, backend=name, dynamic=False, options=(options | ({"mode": mode} if mode else {})) or None)


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
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    options = parser.parse_args()
    wait = torch.cuda.synchronize if options.device != "cpu" else lambda: None
    for name in options.models.split(","):
        torch.manual_seed(0)
        torch._dynamo.reset()
        toroid.reset_explain()
        model, inputs = MODELS[name]()
        model.eval().to(options.device, getattr(torch, options.dtype))
        inputs = {k: v.to(options.device, getattr(torch, options.dtype) if v.is_floating_point() else v.dtype) for k, v in inputs.items()}
        with torch.no_grad():
            expected = first_tensor(model(**inputs))
            runs, notes = {}, []
            for backend in options.backends.split(","):
                fn = compiled(model, backend, options.freezing)
                begin = time.perf_counter()
                got = first_tensor(fn(**inputs)).clone()
                wait()
                notes.append(f"{backend} {time.perf_counter() - begin:.1f} s, off by {(got - expected).abs().max():.1e}")
                runs[backend] = lambda fn=fn: (fn(**inputs), wait())
            medians = measure(runs, options.seconds)
        print(f"{name}: " + ", ".join(f"{k} {v:.3f} ms" for k, v in medians.items()) + f" | first calls: {'; '.join(notes)}", flush=True)
        print(toroid.explain(), flush=True)


if __name__ == "__main__":
    main()
