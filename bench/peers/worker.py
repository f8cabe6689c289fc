"""One runtime in a process of its own, as compare.py starts it: worker.py RUNTIME MODEL_FOLDER THREADS.

RUNTIME is torch (torch.compile), torch_freezing (torch.compile with frozen weights) or onnxruntime. Prints "ready {...}" when the model is
compiled and compared with the expected outputs; then each line "N" of stdin runs it N times and prints the microseconds of each run.
"""
import json
import os
import sys
import time
import warnings


def torch_runner(folder, threads, freezing):
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch._inductor.config.freezing = freezing
    from safetensors.torch import load_file

    inputs = [t.clone() for _, t in sorted(load_file(f"{folder}/in.safetensors").items())]
    module = torch.export.load(f"{folder}/model.pt2").module()
    compiled = torch.compile(module, fullgraph=True)
    return lambda: compiled(*inputs), lambda out: out.numpy()


def onnx_runner(folder, threads):
    import onnxruntime
    from safetensors.numpy import load_file

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3  # errors alone
    # Threads spin between the kernels of a run, as by default, but not after it: they would disturb the runtime whose turn is next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options, providers=["CPUExecutionProvider"])
    inputs = [t for _, t in sorted(load_file(f"{folder}/in.safetensors").items())]
    feed = dict(zip([i.name for i in session.get_inputs()], inputs))
    return lambda: session.run(None, feed), lambda out: out[0]


def main():
    warnings.filterwarnings("ignore")
    runtime, folder, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    # Whatever libraries print goes to stderr: stdout belongs to compare.py.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start = time.perf_counter()
    if runtime == "onnxruntime":
        run, to_numpy = onnx_runner(folder, threads)
    else:
        run, to_numpy = torch_runner(folder, threads, runtime == "torch_freezing")
    out = to_numpy(run())
    load_ms = (time.perf_counter() - start) * 1e3

    import numpy
    from safetensors.numpy import load_file

    expected = load_file(f"{folder}/out.safetensors")["000"]
    difference = float(numpy.abs(out - expected).max())
    ready = {"load_ms": round(load_ms, 1), "max_abs": difference, "max_rel": difference / float(numpy.abs(expected).max())}
    print("ready", json.dumps(ready), file=answers, flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) * 1e6)
        print(" ".join(f"{t:.2f}" for t in times), file=answers, flush=True)


if __name__ == "__main__":
    main()
