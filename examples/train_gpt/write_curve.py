#!/usr/bin/env python3
"""Writes curve.json: the losses of gpt.toml as PyTorch and Hugging Face's GPT-2 compute them, from the same first weights and data.

Usage: write_curve.py TOROID   TOROID: the command, which writes the first weights
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
STEPS, BATCH, LENGTH, RATE, WARMUP, HELD_OUT = 80, 8, 64, 3e-3, 20, 0.1


def first_weights(toroid, folder):
    settings = ["training.steps=0", "training.shuffle=false"]
    command = [toroid, "train", HERE / "gpt.toml", "--out", folder] + [x for s in settings for x in ("--set", s)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    checkpoint = pathlib.Path(folder) / "step-000000"
    config = transformers.GPT2Config(**json.loads((checkpoint / "config.json").read_text()), embd_pdrop=0.0, attn_pdrop=0.0)
    model = transformers.GPT2LMHeadModel(config)
    missing, unexpected = model.load_state_dict(load_file(checkpoint / "model.safetensors"), strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    model.tie_weights()
    return model, json.loads((checkpoint / "trainer.json").read_text())["model_digest"]


def rate(step):
    if step < WARMUP:
        return RATE * (step + 1) / WARMUP
    return RATE * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))) / 2


def main():
    text = torch.tensor(list((HERE / "sonnets.txt").read_bytes()))
    text = text[: round((1 - HELD_OUT) * len(text))]
    samples = (len(text) - 1) // LENGTH
    with tempfile.TemporaryDirectory() as folder:
        model, digest = first_weights(sys.argv[1], folder)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    losses, norms = [], []
    for step in range(STEPS):
        rows = [(step * BATCH + i) % samples * LENGTH for i in range(BATCH)]
        batch = torch.stack([text[at : at + LENGTH + 1] for at in rows])
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        logits = model(batch[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
        optimizer.step()
        losses.append(loss.item())
    curve = {"torch": torch.__version__, "first_weights": digest, "losses": losses, "norms": norms}
    (HERE / "curve.json").write_text(json.dumps(curve) + "\n")


if __name__ == "__main__":
    main()
