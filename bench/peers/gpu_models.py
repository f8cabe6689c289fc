"""Models on a GPU: Toroid beside PyTorch's eager mode and torch.compile, in one run.

Usage: gpu_models.py [--program build/toroid] [--models bert,resnet50,llama-decode,llama-prefill] [--modes eager,default,reduce-overhead]

Needs PyTorch with CUDA, torchvision and transformers. Times are medians of whole calls, from the host's call until the GPU is done. A ratio
below 1 means that Toroid, with its calls replayed as CUDA graphs, is faster than the best of PyTorch's modes. Weights are random on both
sides, of the same sizes and dtypes; what Toroid computes is checked by its tests.
"""
import argparse
import json
import statistics
import subprocess
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

RUNS = 50
CACHE, POSITION, PREFILL = 2048, 1024, 1024
# Name: arguments of `toroid bench`.
TOROID = {
    "bert": "bert-base --seq 128 --dtype f16",
    "resnet50": "resnet50 --dtype f16",
    "llama-decode": f"llama-7b --decode --seq {CACHE} --position {POSITION} --dtype bf16",
    "llama-prefill": f"llama-7b --seq {PREFILL} --dtype bf16",
}


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class LlamaBlock(nn.Module):
    """Multi-head attention and a gated MLP; with a static cache where `cache` is not 0."""

    def __init__(self, width, heads, hidden, cache):
        super().__init__()
        self.heads, self.depth = heads, width // heads
        self.attention_norm, self.mlp_norm = RMSNorm(width), RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        if cache:
            self.register_buffer("k", torch.zeros(1, heads, cache, self.depth))
            self.register_buffer("v", torch.zeros(1, heads, cache, self.depth))

    def forward(self, x, cos, sin, positions, mask):
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, self.depth).transpose(1, 2) for t in self.qkv(self.attention_norm(x)).chunk(3, -1)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if mask is None:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            self.k[:, :, positions], self.v[:, :, positions] = k, v
            y = F.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama7B(nn.Module):
    def __init__(self, cache, layers=32, width=4096, heads=32, hidden=11008, vocabulary=32000):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, hidden, cache) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        depth = width // heads
        angles = torch.outer(torch.arange(CACHE).float(), 10000 ** (-torch.arange(0, depth, 2).float() / depth))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        self.cache = cache

    def forward(self, ids, positions):
        x, cos, sin = self.embed(ids), self.cos[positions].float(), self.sin[positions].float()
        mask = None
        if self.cache:
            mask = (torch.arange(self.cache, device=ids.device) <= positions[:, None])[None, None]
        for block in self.blocks:
            x = block(x, cos, sin, positions, mask)
        return self.head(self.norm(x[:, -1:]))


def llama(cache, positions):
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = Llama7B(cache).eval()
        torch.set_default_dtype(torch.float32)
    for p in model.parameters():
        if p.dim() > 1:
            p.normal_(0, 0.02)
    return model, (torch.randint(0, 32000, (1, len(positions)), device="cuda"), positions)


def subject(name):
    if name == "resnet50":
        import torchvision

        model = torchvision.models.resnet50().half().cuda().eval().to(memory_format=torch.channels_last)
        return model, (torch.randn(1, 3, 224, 224, device="cuda").half().to(memory_format=torch.channels_last),)
    if name == "bert":
        from transformers import BertConfig, BertModel

        bert = BertModel(BertConfig()).half().cuda().eval()

        class Pooled(nn.Module):
            def __init__(self):
                super().__init__()
                self.bert = bert

            def forward(self, ids):
                return self.bert(input_ids=ids).pooler_output

        return Pooled(), (torch.randint(0, 30000, (1, 128), device="cuda"),)
    if name == "llama-decode":
        return llama(CACHE, torch.tensor([POSITION], device="cuda"))
    return llama(0, torch.arange(PREFILL, device="cuda"))


def median_ms(call):
    for _ in range(5):
        call()
    times = []
    for _ in range(RUNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def torch_times(name, modes):
    model, inputs = subject(name)
    result = {}
    for mode in modes:
        torch._dynamo.reset()
        run = model if mode == "eager" else torch.compile(model, mode=None if mode == "default" else mode, fullgraph=True)
        start = time.perf_counter()
        run(*inputs)
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        result[mode] = (median_ms(lambda: run(*inputs)), first)
    return result


def toroid_times(program, name):
    command = [program, "bench", *TOROID[name].split(), "--device", "cuda", "--mode", "reduce-overhead", "--no-eager", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="build/toroid")
    parser.add_argument("--models", default=",".join(TOROID))
    parser.add_argument("--modes", default="eager,default,reduce-overhead")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("high")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'model':<14} {'toroid ms':>10} {'compile s':>10} {'cached s':>9} {'ratio':>6}  PyTorch: ms (first call, s)")
    for name in args.models.split(","):
        peers = torch_times(name, args.modes.split(","))
        torch.cuda.empty_cache()
        own = toroid_times(args.program, name)
        ms = own["compiled"]["median_ms"]
        best = min(t for t, _ in peers.values())
        others = ", ".join(f"{mode} {t:.3f} ({first:.1f})" for mode, (t, first) in peers.items())
        compile_s = own["compile_ms"]
        print(f"{name:<14} {ms:>10.3f} {compile_s['cold'] / 1e3:>10.2f} {compile_s['cached'] / 1e3:>9.2f} {ms / best:>6.2f}  {others}", flush=True)


if __name__ == "__main__":
    main()
