"""How long packages take to start: those of AOTInductor and ONNX Runtime's models, without the interpreter's start and its imports.

Usage: start.py MODEL_FOLDER aoti|onnx THREADS [ROUNDS]; the folder is one that export_models.py wrote. A line: ms until ready, until the first
result, median of later calls. The package of AOTInductor is made where it is missing. `toroid bench PACKAGE --inputs FOLDER/in.safetensors` says
the same of Toroid.
"""
import os
import statistics
import sys
import time
import warnings

warnings.filterwarnings("ignore")
import torch
from safetensors.torch import load_file


def aoti(folder, inputs, threads):
    import torch._inductor

    path = f"{folder}/aoti.pt2"
    torch.set_num_threads(threads)
    if not os.path.exists(path):
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(torch.export.load(f"{folder}/model.pt2"), package_path=path)
    begin = time.perf_counter()
    loader = torch._C._aoti.AOTIModelPackageLoader(path, "model", False, 1, -1)
    return begin, lambda: loader.run(inputs)


def onnx(folder, inputs, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    begin = time.perf_counter()
    session = onnxruntime.InferenceSession(f"{folder}/model.onnx", options, providers=["CPUExecutionProvider"])
    given = {i.name: t.numpy() for i, t in zip(session.get_inputs(), inputs)}
    return begin, lambda: session.run(None, given)


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    folder, runtime, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    inputs = [t for _, t in sorted(load_file(f"{folder}/in.safetensors").items())]
    begin, run = {"aoti": aoti, "onnx": onnx}[runtime](folder, inputs, threads)
    ready = time.perf_counter() - begin
    run()
    first = time.perf_counter() - begin
    times = []
    for _ in range(int(sys.argv[4]) if len(sys.argv) > 4 else 20):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    print(f"{runtime}: ready {ready * 1e3:.1f} ms, first result {first * 1e3:.1f} ms, a call {statistics.median(times) * 1e3:.2f} ms")


main()
