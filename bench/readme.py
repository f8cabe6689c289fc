#!/usr/bin/env python3
"""Measures the table "Beside its peers" of README.md and writes it: bench/readme.py [--peers /opt/peers] [--build build] [--rounds 30].

CPU rows come from bench/peers/compare.py, GPU rows from bench/peers/gpu_models.py, each beside its peers in one run; raw lines go to
bench/results/readme-DATE.jsonl. Rows of a device that this machine has not stay as they are, with the date at which they were measured.
bench/peers/setup.sh makes the folder of peers.
"""
import argparse
import datetime
import json
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
HEADING = "## Beside its peers"
PEERS = {"torch": "torch.compile", "torch_freezing": "torch.compile, freezing", "onnxruntime": "ONNX Runtime"}
CPU = {
    "bert_base": "BERT-base, 128 tokens, f32",
    "resnet50": "ResNet-50, f32",
    "mobilenet_v3": "MobileNetV3, f32",
    "mlp": "MLP, f32",
}
GPU = {
    "bert": "BERT-base, 128 tokens, f16",
    "resnet50": "ResNet-50, f16",
    "llama-decode": "Llama-7B, a token at position 1024, bf16",
}


def row(model, where, date, toroid, peer, name):
    return f"| {model}, {where} ({date}) | {toroid:.3g} | {peer:.3g} {name} | {toroid / peer:.2f} |"


def key(line):
    """The model and whether it ran on a CPU: what a row of another day or machine takes the place of."""
    label = re.match(r"\| (.*), ([^,]*) \(\d{4}-\d\d-\d\d", line)
    if not label:
        sys.exit(f"README.md has a row that is not \"MODEL, MACHINE (DATE)\": {line}")
    return label[1], "CPU" in label[2]


def replaced(text, rows):
    """The page with these rows in the place of those of the same model on the same kind of device, new ones at the end."""
    head, heading, rest = text.partition(HEADING)
    if not heading:
        sys.exit(f"there is no heading \"{HEADING}\" in README.md")
    lines = rest.split("\n")
    table = [i for i, line in enumerate(lines) if line.startswith("|")]
    kept = {key(line): line for line in lines[table[2]:table[-1] + 1]}
    kept.update((key(line), line) for line in rows)
    lines[table[2]:table[-1] + 1] = kept.values()
    return head + heading + "\n".join(lines)


def cpu_rows(args, python, date, raw):
    models = os.path.join(args.peers, "models")
    missing = [m for m in CPU if not os.path.exists(os.path.join(models, m, "in.safetensors"))]
    if missing:
        subprocess.run([python, f"{ROOT}/bench/peers/export_models.py", models, *missing], check=True)
    fresh = f"{raw}.part"
    serve = os.path.join(args.build, "bench_serve")
    compare = [python, f"{ROOT}/bench/peers/compare.py", models, *CPU, "--serve", serve, "--rounds", str(args.rounds), "--json", fresh]
    subprocess.run(compare, check=True)
    with open(fresh) as lines:
        results = [json.loads(line) for line in lines]
    os.remove(fresh)
    with open(raw, "a") as out:
        for r in results:
            out.write(json.dumps(r) + "\n")
    where = f"{os.cpu_count()} CPU cores"
    return [row(CPU[r["model"]], where, date, r["ms"]["toroid"], r["ms"][r["best_peer"]], PEERS[r["best_peer"]]) for r in results]


def gpu_rows(args, python, date, raw):
    program = os.path.join(args.build, "toroid")
    compare = [python, f"{ROOT}/bench/peers/gpu_models.py", "--program", program, "--models", ",".join(GPU)]
    text = subprocess.run(compare, check=True, capture_output=True, text=True).stdout
    with open(raw, "a") as out:
        out.write(json.dumps({"gpu_models": text}) + "\n")
    card = text.partition(",")[0].replace("NVIDIA ", "").split()[0]
    rows = []
    for line in text.splitlines():
        name, *numbers = line.split()
        if name in GPU:
            modes = {m: float(ms) for m, ms in re.findall(r"([a-z-]+) ([\d.]+) \(", line)}
            best = min(modes, key=modes.get)
            rows.append(row(GPU[name], card, date, float(numbers[0]), modes[best], f"torch.compile, {best}" if best != "eager" else "PyTorch"))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=os.environ.get("TOROID_PEERS", "/opt/peers"))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    python = os.path.join(args.peers, "venv", "bin", "python")
    if not os.path.exists(python):
        parser.error(f"{args.peers} holds no PyTorch; make it by bench/peers/setup.sh {args.peers}")
    date = datetime.date.today().isoformat()
    raw = os.path.join(ROOT, "bench", "results", f"readme-{date}.jsonl")
    rows = cpu_rows(args, python, date, raw)
    if subprocess.run([python, "-c", "import sys, torch; sys.exit(not torch.cuda.is_available())"]).returncode == 0:
        rows += gpu_rows(args, python, date, raw)
    page = os.path.join(ROOT, "README.md")
    with open(page) as f:
        text = f.read()
    with open(page, "w") as f:
        f.write(replaced(text, rows))
    print("\n".join(rows))


if __name__ == "__main__":
    main()
