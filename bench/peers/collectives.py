"""Collectives of bf16 between the GPUs of one host by PyTorch: torchrun --nproc-per-node N bench/peers/collectives.py. A JSON line a size: us
of one all-reduce, called eagerly, and of one of 20 recorded in a CUDA graph: NCCL's, and one and two shots over symmetric memory (no
multicast); and of the other kinds by NCCL, recorded, where the larger side has so many bytes. A line a size of square products whose rows are
gathered, or whose result is reduced and scattered. Arguments: --products runs these alone."""
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
REPEATS, ROUNDS = 20, 30
LARGEST_ONE_SHOT = 16 << 20


def median_us(call, repeats):
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    dist.barrier()
    times = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / repeats * 1e3)
    slowest = torch.tensor(sorted(times)[ROUNDS // 2], device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return round(slowest.item(), 2)


def recorded_us(call):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(REPEATS):
            call()
    return median_us(graph.replay, REPEATS)


for size in () if "--products" in sys.argv else (4096, 32768, 131072, 524288, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20):
    x = torch.zeros(size // 2, device="cuda", dtype=torch.bfloat16)
    row = {"bytes": size, "nccl_eager_us": median_us(lambda: dist.all_reduce(x), 1), "nccl_us": recorded_us(lambda: dist.all_reduce(x))}
    shared = symmetric.empty(size // 2, device="cuda", dtype=torch.bfloat16)
    group = dist.group.WORLD.group_name
    symmetric.rendezvous(shared, group)
    shared.zero_()
    for name in ("one_shot_all_reduce", "two_shot_all_reduce_"):
        if name.startswith("one") and size > LARGEST_ONE_SHOT:
            continue
        operation = getattr(torch.ops.symm_mem, name)
        row[name.strip("_") + "_us"] = recorded_us(lambda: operation(shared, "sum", group))
    part, other = x[: x.numel() // dist.get_world_size()].clone(), torch.zeros_like(x)
    row["all_gather_us"] = recorded_us(lambda: dist.all_gather_into_tensor(other, part))
    row["reduce_scatter_us"] = recorded_us(lambda: dist.reduce_scatter_tensor(part, other))
    row["all_to_all_us"] = recorded_us(lambda: dist.all_to_all_single(other, x))
    if rank == 0:
        print(json.dumps(row), flush=True)

# Square products whose rows are gathered, and whose result is reduced and scattered: one after the other, by NCCL, and fused over symmetric
# memory. The fused ones run on streams of their own, which a graph does not take in all versions: eagerly.
symmetric.enable_symm_mem_for_group(dist.group.WORLD.group_name)
for size in (1024, 2048, 4096, 8192):
    ranks, group = dist.get_world_size(), dist.group.WORLD.group_name
    a = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
    part = a[: size // ranks].clone()
    gathered, scattered = torch.empty_like(a), torch.empty_like(part)

    def gather_in_sequence():
        dist.all_gather_into_tensor(gathered, part)
        return gathered @ b

    def scatter_in_sequence():
        dist.reduce_scatter_tensor(scattered, a @ b)
        return scattered

    row = {
        "products": size,
        "product_us": recorded_us(lambda: a @ b),
        "all_gather_product_us": recorded_us(gather_in_sequence),
        "fused_all_gather_product_us": median_us(lambda: torch.ops.symm_mem.fused_all_gather_matmul(part, [b], 0, group), 1),
        "product_reduce_scatter_us": recorded_us(scatter_in_sequence),
        "fused_product_reduce_scatter_us": median_us(lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b, "sum", 0, group), 1),
    }
    if rank == 0:
        print(json.dumps(row), flush=True)
dist.destroy_process_group()
