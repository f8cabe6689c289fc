"""relu(x @ w) on a GPU: Toroid's template with its epilogue beside torch.compile(mode="max-autotune"), in one run.

Usage: gpu_matmul.py [--program build/bench_gpu_gemm] [MxNxK ...]

Needs PyTorch with CUDA. Both sides replay graphs of many launches in f16 that take turns with sets of matrices which together exceed the
cache. Toroid's own time is the median of `bench_gpu_gemm`. A ratio below 1 means that Toroid is faster.
"""
import argparse
import subprocess
import time

import torch
import torch.nn.functional as F

from gpu_attention import CACHE_BYTES, replay_us

SHAPES = ["1024x8192x2048", "1024x2048x8192"]


def torch_us(m, n, k):
    """Median microseconds of the tuned program, and the seconds that its tuning took."""
    sets = max(2, min(64, 4 * CACHE_BYTES // (2 * (m * n + n * k + m * k)) + 1))
    make = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.half)
    inputs = [(make(m, k), make(n, k)) for _ in range(sets)]
    torch._dynamo.reset()
    run = torch.compile(lambda x, w: F.relu(F.linear(x, w)), mode="max-autotune-no-cudagraphs", fullgraph=True)
    start = time.perf_counter()
    run(*inputs[0])
    torch.cuda.synchronize()
    tuned = time.perf_counter() - start
    return replay_us(lambda i: run(*inputs[i]), sets), tuned


def toroid_us(program, shape):
    lines = subprocess.run([program, shape + "f16", "--epilogues"], check=True, capture_output=True, text=True).stdout.splitlines()
    row = next(line.split() for line in lines if line.startswith(shape) and line.split()[2] == "relu")
    return float(row[3])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/bench_gpu_gemm")
    parser.add_argument("shapes", nargs="*", default=SHAPES)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'m x n x k, f16':<16} {'toroid us':>10} {'torch us':>9} {'ratio':>6}  torch's tuning, s")
    for shape in args.shapes:
        peer, tuned = torch_us(*map(int, shape.split("x")))
        own = toroid_us(args.program, shape)
        print(f"{shape:<16} {own:>10.2f} {peer:>9.2f} {own / peer:>6.3f}  {tuned:.1f}", flush=True)


if __name__ == "__main__":
    main()
