"""Attention on a GPU: Toroid's templates beside every backend of PyTorch's scaled_dot_product_attention, in one run.

Usage: gpu_attention.py [--program build/bench_gpu_attention]

Needs PyTorch with CUDA. Both sides replay graphs of many launches that take turns with sets of inputs which together exceed the cache. A
ratio below 1 means that Toroid is faster than the fastest backend. Shares are of the bandwidth of a copy, measured here.
"""
import argparse
import json
import statistics
import subprocess

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

# As in bench/gpu_attention.cpp: batch, heads, key heads, queries, keys, depth, causal, dtype.
SHAPES = {
    "bert-base": (1, 12, 12, 128, 128, 64, False, torch.half),
    "vit-batch-8": (8, 12, 12, 197, 197, 64, False, torch.half),
    "llama-7b-prefill-1k": (1, 32, 32, 1024, 1024, 128, True, torch.bfloat16),
    "causal-4k": (1, 32, 32, 4096, 4096, 128, True, torch.bfloat16),
    "causal-8k": (1, 32, 32, 8192, 8192, 128, True, torch.bfloat16),
    "causal-4k-gqa-8": (1, 32, 8, 4096, 4096, 128, True, torch.bfloat16),
    "full-4k": (1, 32, 32, 4096, 4096, 128, False, torch.bfloat16),
    "causal-4k-depth-64": (4, 16, 16, 4096, 4096, 64, True, torch.half),
    "decode-4k": (1, 32, 32, 1, 4096, 128, False, torch.bfloat16),
    "decode-32k": (1, 32, 32, 1, 32768, 128, False, torch.bfloat16),
    "decode-4k-gqa-8": (1, 32, 8, 1, 4096, 128, False, torch.bfloat16),
    "decode-32k-gqa-8": (1, 32, 8, 1, 32768, 128, False, torch.bfloat16),
    "decode-4k-gqa-8-batch-8": (8, 32, 8, 1, 4096, 128, False, torch.bfloat16),
}
BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
ROUNDS = 9
CACHE_BYTES = 50 << 20


def replay_us(launch, sets):
    """Median microseconds of launch(i), i counting through the sets."""
    for i in range(sets):
        launch(i)
    torch.cuda.synchronize()
    start, end = torch.cuda.Event(True), torch.cuda.Event(True)
    start.record(), launch(0), end.record()
    torch.cuda.synchronize()
    count = max(sets, min(256, int(4 / start.elapsed_time(end))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            launch(i % sets)
    graph.replay()
    times = []
    for _ in range(ROUNDS):
        start.record(), graph.replay(), end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / count)
    return statistics.median(times)


def copy_gb_per_s():
    a = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    b = torch.empty_like(a)
    replay_us(lambda i: b.copy_(a), 256)  # clocks rise when there is work
    return 2 * a.numel() / replay_us(lambda i: b.copy_(a), 1) / 1e3


def backend_times(shape):
    batch, heads, kv_heads, queries, keys, depth, causal, dtype = shape
    make = lambda h, n: torch.randn(batch, h, n, depth, device="cuda", dtype=dtype)
    bytes_of_set = 2 * batch * depth * (2 * heads * queries + 2 * kv_heads * keys)
    sets = max(2, min(64, 4 * CACHE_BYTES // bytes_of_set + 1))
    inputs = [(make(heads, queries), make(kv_heads, keys), make(kv_heads, keys)) for _ in range(sets)]
    times = {}
    for name, backend in BACKENDS.items():
        try:
            with sdpa_kernel(backend), torch.no_grad():
                call = lambda i: F.scaled_dot_product_attention(*inputs[i], is_causal=causal, enable_gqa=heads != kv_heads)
                times[name] = replay_us(call, sets)
        except RuntimeError:  # the backend does not take the shape
            torch.cuda.synchronize()
    return times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/bench_gpu_attention")
    args = parser.parse_args()
    copy = copy_gb_per_s()
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, copies {copy:.0f} GB/s")
    peers = {name: backend_times(shape) for name, shape in SHAPES.items()}
    torch.cuda.empty_cache()
    run = subprocess.run([args.program, "--json"], check=True, capture_output=True, text=True)
    print(f"{'shape':<24} {'toroid us':>10} {'TFLOP/s':>8} {'GB/s':>6} {'of copy':>8}  {'ratio':>6}  backends, us")
    for line in map(json.loads, run.stdout.splitlines()):
        batch, heads, kv_heads, queries, keys, depth, causal, dtype = SHAPES[line["shape"]]
        us, times = line["us"], peers[line["shape"]]
        flops = 4 * batch * heads * queries * keys * depth / (2 if causal else 1)
        rate = 4 * batch * kv_heads * keys * depth / us / 1e3
        others = ", ".join(f"{name} {t:.2f}" for name, t in sorted(times.items(), key=lambda x: x[1]))
        ratio = us / min(times.values()) if times else float("nan")
        print(f"{line['shape']:<24} {us:>10.2f} {flops / us / 1e6:>8.0f} {rate:>6.0f} {100 * rate / copy:>7.0f}%  {ratio:>6.2f}  {others}")


if __name__ == "__main__":
    main()
