"""Gradients of ResNet-50's convolutions on a GPU: Toroid's kernels beside cuDNN's, the fastest that PyTorch finds (cudnn.benchmark), in one run.

Usage: gpu_convolution_gradients.py [--tuned] [--program build/bench_gpu_convolution_gradients]

Needs PyTorch with CUDA. Both sides count what kernels take. A ratio below 1 means that Toroid is faster. The first layer has no gradient of
images in a training step; in the sums it counts with its weights alone.
"""
import argparse
import json
import statistics
import subprocess

import torch
from torch.profiler import ProfilerActivity, profile

BATCH, WARM, ROUNDS = 128, 3, 9


def kernel_us(call):
    """Median microseconds of a call's kernels, from the driver's records."""
    for _ in range(WARM):
        call()
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as trace:
            call()
            torch.cuda.synchronize()
        times.append(sum(e.self_device_time_total for e in trace.key_averages()))
    return statistics.median(times)


def cudnn_us(layer):
    """Microseconds of the gradients of images, of weights and of both."""
    def channels_last(*sizes):
        return torch.randn(*sizes, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)

    out = (layer["size"] - 1) // layer["stride"] + 1
    x = channels_last(BATCH, layer["in"], layer["size"], layer["size"])
    weight = channels_last(layer["out"], layer["in"], layer["kernel"], layer["kernel"])
    slope = channels_last(BATCH, layer["out"], out, out)
    stride, pad = [layer["stride"]] * 2, [layer["kernel"] // 2] * 2

    def gradients(of_images, of_weights):
        return kernel_us(lambda: torch.ops.aten.convolution_backward(
            slope, x, weight, None, stride, pad, [1, 1], False, [0, 0], 1, [of_images, of_weights, False]))

    return gradients(True, False), gradients(False, True), gradients(True, True)


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--program", default="build/bench_gpu_convolution_gradients")
    options.add_argument("--tuned", action="store_true")
    options = options.parse_args()
    lines = subprocess.run([options.program] + ["tuned"] * options.tuned, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    torch.backends.cudnn.benchmark = True
    sums, faster = {"toroid": 0.0, "cudnn": 0.0}, {0.9: 0, 1.0: 0}
    for line in lines:
        layer = json.loads(line)
        peers = dict(zip(("images_us", "weights_us", "both_us"), cudnn_us(layer)))
        what = "weights_us" if layer["in"] == 3 else "both_us"
        sums["toroid"] += layer["count"] * layer[what]
        sums["cudnn"] += layer["count"] * peers[what]
        for share in faster:
            faster[share] += peers[what] / layer[what] >= share
        print(json.dumps({**layer, **{f"cudnn_{k}": round(v, 1) for k, v in peers.items()}, "ratio": round(layer[what] / peers[what], 3)}),
              flush=True)
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "toroid_ms": round(sums["toroid"] / 1e3, 3),
                      "cudnn_ms": round(sums["cudnn"] / 1e3, 3), "ratio": round(sums["toroid"] / sums["cudnn"], 3), "layers": len(lines),
                      "at_least_0.9_as_fast": faster[0.9], "at_least_as_fast": faster[1.0]}))


if __name__ == "__main__":
    main()
