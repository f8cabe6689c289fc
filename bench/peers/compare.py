"""Compares Toroid with torch.compile and ONNX Runtime on this machine's CPU, in interleaved rounds of one run.

Usage: compare.py MODELS [MODEL ...] [--serve PROGRAM] [--rounds 30] [--threads 2] [--runtimes toroid,torch,...] [--json FILE]

A runtime `toroid:TOROID_CHECK_INDICES=0` is Toroid with that environment variable: what an option costs.

MODELS is the folder that export_models.py or light_models.py wrote; where a model has no model.pt2, Toroid runs its model.onnx, and PyTorch
is left out. Each runtime is a process of its own that holds the model and waits on its stdin, so that
the others are idle while one runs. Every round runs all of them once, in random order: whatever else the machine does hits them alike.
Prints a table; a ratio below 1 means that Toroid is faster than the best of the others (medians over all rounds; in brackets the 95 %
interval of the ratio, by bootstrap over rounds). The last column is the share of the machine that other processes took meanwhile: above a few
percent the numbers say little, since preempted threads hold up each runtime's barriers differently.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNTIMES = ["toroid", "torch", "torch_freezing", "onnxruntime"]
SETTLE_S = 0.005  # after a runtime's turn: its threads stop spinning
TURN_US = 40_000  # what a turn should take


def has_pt2(folder):
    return os.path.exists(os.path.join(folder, "model.pt2"))


class Runtime:
    def __init__(self, name, folder, args):
        self.name, self.tolerance = name, args.tolerance
        environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads), KMP_BLOCKTIME="1", TOROID_THREADS=str(args.threads))
        runtime, _, variable = name.partition(":")
        if variable:
            key, _, value = variable.partition("=")
            environment[key] = value
        if runtime == "toroid":
            model = "model.pt2" if has_pt2(folder) else "model.onnx"
            command = [args.serve, f"{folder}/{model}", f"{folder}/in.safetensors", "--expect", f"{folder}/out.safetensors"]
        else:
            command = [sys.executable, os.path.join(HERE, "worker.py"), name, folder, str(args.threads)]
        self.log = open(os.path.join(folder, f"{name.replace(':', '-')}.log"), "w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1, env=environment
        )

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            self.process.wait()
            self.log.seek(0)
            lines = self.log.read().strip().splitlines() or [f"ended with status {self.process.returncode}"]
            raise RuntimeError(f"{self.name}: {lines[-1][:300]}")
        return text

    def wait_ready(self):
        word, _, rest = self.line().partition(" ")
        if word != "ready":
            raise RuntimeError(f"{self.name}: unexpected answer {word!r}")
        self.facts = json.loads(rest)
        if not self.facts["max_rel"] <= self.tolerance:
            raise RuntimeError(f"{self.name}: wrong output, off by {self.facts['max_rel']:.3g} of its largest magnitude")

    def run(self, count):
        self.process.stdin.write(f"{count}\n")
        return [float(t) for t in self.line().split()]

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def start(name, folder, args):
    """A runtime that is ready, or the reason why it is not."""
    runtime = Runtime(name, folder, args)
    try:
        runtime.wait_ready()
        return runtime, None
    except RuntimeError as error:
        runtime.close()
        return None, str(error)


def measure(runtimes, rounds, seed):
    """Microseconds of each runtime: one list a round. The first run of a turn finds cold caches and is left out."""
    counts = {}
    for r in runtimes:
        r.run(3)
        counts[r.name] = 1 + max(3, min(50, round(TURN_US / statistics.median(r.run(3)))))
        time.sleep(SETTLE_S)
    times = {r.name: [] for r in runtimes}
    shuffler = random.Random(seed)
    for _ in range(rounds):
        for r in shuffler.sample(runtimes, len(runtimes)):
            times[r.name].append(r.run(counts[r.name])[1:])
            time.sleep(SETTLE_S)
    return times


class Bystanders:
    """The share of the machine's CPU time that goes to processes other than the given ones, since construction."""

    def __init__(self, pids):
        self.pids = pids
        self.before = self.ticks()

    def ticks(self):
        with open("/proc/stat") as f:
            fields = [int(x) for x in f.readline().split()[1:9]]
        own = 0
        for pid in self.pids:
            with open(f"/proc/{pid}/stat") as f:
                own += sum(int(x) for x in f.read().rpartition(")")[2].split()[11:13])
        idle = fields[3] + fields[4]
        return sum(fields), sum(fields) - idle - own

    def share(self):
        total, foreign = (b - a for a, b in zip(self.before, self.ticks()))
        return max(0.0, foreign / max(1, total))


def median_of(rounds):
    return statistics.median([t for r in rounds for t in r])


def ratio_interval(ours, peers, seed, samples=1000):
    """95 % interval of median(ours) / min over peers of median(peer), resampling whole rounds."""
    chooser = random.Random(seed)
    count = len(ours)
    ratios = []
    for _ in range(samples):
        picks = [chooser.randrange(count) for _ in range(count)]
        best = min(median_of([p[i] for i in picks]) for p in peers)
        ratios.append(median_of([ours[i] for i in picks]) / best)
    ratios.sort()
    return ratios[int(0.025 * samples)], ratios[int(0.975 * samples)]


def compare(model, args):
    folder = os.path.join(args.models, model)
    result = {"model": model, "threads": args.threads, "rounds": args.rounds, "ms": {}, "min_ms": {}, "load_ms": {}, "errors": {}}
    runtimes = []
    try:
        for name in args.runtimes.split(","):
            if name.startswith("torch") and not has_pt2(folder):
                continue
            runtime, problem = start(name, folder, args)
            if problem:
                result["errors"][name] = problem
            else:
                runtimes.append(runtime)
                result["load_ms"][name] = runtime.facts["load_ms"]
        bystanders = Bystanders([os.getpid()] + [r.process.pid for r in runtimes])
        times = measure(runtimes, args.rounds, args.seed)
        result["others_cpu"] = round(bystanders.share(), 3)
    finally:
        for r in runtimes:
            r.close()
    for name, rounds in times.items():
        result["ms"][name] = round(median_of(rounds) / 1e3, 3)
        result["min_ms"][name] = round(min(t for r in rounds for t in r) / 1e3, 3)
    peers = [name for name in times if name != "toroid"]
    if "toroid" in times and peers:
        result["best_peer"] = min(peers, key=lambda name: result["ms"][name])
        result["ratio"] = round(median_of(times["toroid"]) / min(median_of(times[p]) for p in peers), 3)
        result["ratio_95"] = [round(x, 3) for x in ratio_interval(times["toroid"], [times[p] for p in peers], args.seed)]
        result["ratio_of_minima"] = round(result["min_ms"]["toroid"] / min(result["min_ms"][p] for p in peers), 3)
    return result


def row(result, names):
    cells = [f"{result['ms'][n]:.3f} ({result['min_ms'][n]:.3f})" if n in result["ms"] else "-" for n in names]
    ratio = "-"
    if "ratio" in result:
        low, high = result["ratio_95"]
        ratio = f"{result['ratio']:.2f} [{low:.2f}, {high:.2f}] of minima {result['ratio_of_minima']:.2f}"
    return "| " + " | ".join([result["model"], *cells, ratio, f"{result['others_cpu']:.0%}"]) + " |"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", help="folder written by export_models.py, light_models.py or quantized_models.py")
    parser.add_argument("model", nargs="*", help="which models; all that are there when none is named")
    parser.add_argument("--serve", default=os.path.join(HERE, "../../build/bench_serve"), help="Toroid's program bench_serve")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--runtimes", default=",".join(RUNTIMES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tolerance", type=float, default=1e-3, help="how far outputs may be off, of their largest magnitude")
    parser.add_argument("--json", help="file to which one line a model is appended")
    args = parser.parse_args()
    for name in args.model:
        if not os.path.isdir(os.path.join(args.models, name)):
            parser.error(f"{args.models} holds no model {name}; export_models.py or light_models.py writes it")
    if args.rounds < 1:
        parser.error("--rounds must be at least 1")
    for name in args.runtimes.split(","):
        if name not in RUNTIMES and not name.startswith("toroid:"):
            parser.error(f"unknown runtime {name}; known are {', '.join(RUNTIMES)}")
    if "toroid" in args.runtimes.split(",") and not os.access(args.serve, os.X_OK):
        parser.error(f"there is no program {args.serve}; build it with make, or name it with --serve")
    if not args.model:
        args.model = sorted(m for m in os.listdir(args.models) if os.path.exists(os.path.join(args.models, m, "in.safetensors")))
    return args


def main():
    args = parse_arguments()
    names = args.runtimes.split(",")
    print("| model | " + " | ".join(f"{n} ms, median (min)" for n in names) + " | Toroid / best peer | others' CPU |", flush=True)
    print("|---" * (len(names) + 3) + "|", flush=True)
    for model in args.model:
        result = compare(model, args)
        print(row(result, names), flush=True)
        for name, problem in result["errors"].items():
            print(f"{model}: {problem}", file=sys.stderr, flush=True)
        if args.json:
            with open(args.json, "a") as out:
                out.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
