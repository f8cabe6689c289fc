#!/usr/bin/env python3
"""Writes grad_scaler.json: scale and growth tracker of torch.amp.GradScaler after each step, some with gradients that are not finite."""
import json
import pathlib

import torch

CASES = [
    {"init_scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3},
    {"init_scale": 3.0, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": 2},
    {"init_scale": 2.0**126, "growth_factor": 2.0, "backoff_factor": 0.25, "growth_interval": 1},  # growth would overflow
]
FINITE = [1, 1, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 1]
NOT_FINITE = [float("inf"), float("nan"), float("-inf")]


def run(case):
    scaler = torch.amp.GradScaler("cpu", **case)
    weight = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scales, trackers = [], []
    for step, finite in enumerate(FINITE):
        scaler.scale(torch.zeros(()))  # makes the scale
        weight.grad = torch.tensor([0.0, 0.0 if finite else NOT_FINITE[step % 3]])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        trackers.append(scaler._growth_tracker.item())
    return {**case, "scales": scales, "trackers": trackers}


def main():
    out = {"torch": torch.__version__, "finite": FINITE, "cases": [run(c) for c in CASES]}
    (pathlib.Path(__file__).resolve().parent / "grad_scaler.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
