"""Whole training steps on the CPU by PyTorch: the rows "digits" and "minilm" of bench_train. One JSON line a row and mode.
Usage: train_cpu.py [digits] [minilm] [eager] [compile]"""
import json, statistics, sys, time
import torch, torch.nn as nn, torch.nn.functional as F

torch.set_num_threads(2)
torch.manual_seed(0)


def digits():
    net = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
                        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 64), nn.GELU(), nn.Linear(64, 10))
    x, y = torch.randint(0, 16, (64, 1, 8, 8)).float() / 16, torch.randint(0, 10, (64,))
    return net, lambda: F.cross_entropy(net(x), y), 40


def minilm():
    from transformers import BertConfig, BertForSequenceClassification
    config = BertConfig(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536, hidden_dropout_prob=0.0,
                        attention_probs_dropout_prob=0.0, attn_implementation="sdpa")
    net = BertForSequenceClassification(config)
    x, y = torch.randint(0, 30000, (16, 128)), torch.randint(0, 2, (16,))
    return net, lambda: F.cross_entropy(net(input_ids=x).logits, y), 5


def measure(name, mode):
    net, loss, rounds = globals()[name]()
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, fused=True)
    forward = torch.compile(loss) if mode == "compile" else loss

    def step():
        optimizer.zero_grad(set_to_none=True)
        forward().backward()
        optimizer.step()

    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    for _ in range(3):
        step()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"op": name, "mode": mode, "first_step_s": round(first, 2), "ms": round(1e3 * statistics.median(times), 3),
                      "least_ms": round(1e3 * min(times), 3)}), flush=True)


if __name__ == "__main__":
    for row in [a for a in sys.argv[1:] if a in ("digits", "minilm")] or ["digits", "minilm"]:
        for how in [a for a in sys.argv[1:] if a in ("eager", "compile")] or ["eager", "compile"]:
            measure(row, how)
