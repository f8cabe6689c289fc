"""Quantizes models to 8 bits in QDQ form, for compare.py beside ONNX Runtime, which computes that form in 8 bits too.

Usage: quantized_models.py FROM TO [MODEL ...] [--per-tensor] [--signed]
       compare.py TO --runtimes toroid,onnxruntime --tolerance 0.1

FROM is a folder that export_models.py or light_models.py has written. Each model becomes TO/NAME/{model.onnx, in.safetensors,
out.safetensors}, by onnxruntime.quantization.quantize_static, calibrated on its own input; weights have a scale for each channel unless
--per-tensor is given, activations are unsigned unless --signed is. The outputs are those of ONNX Runtime with all optimizations off. Roundings
differ between runtimes, and one step of a quantization is up to a few percent of the largest output: hence the tolerance.
"""
import argparse
import os
import shutil

import numpy
import onnx
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from safetensors.numpy import load_file, save_file


class OneInput(CalibrationDataReader):
    def __init__(self, feed):
        self.feeds = [feed]

    def get_next(self):
        return self.feeds.pop() if self.feeds else None


def feed_of(folder, model):
    known = {i.name for i in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in known]
    tensors = load_file(os.path.join(folder, "in.safetensors"))
    return dict(zip(names, (tensors[key] for key in sorted(tensors))))


def quantize(source, target, args):
    os.makedirs(target, exist_ok=True)
    path, ready = os.path.join(target, "model.onnx"), os.path.join(target, "ready.onnx")
    quant_pre_process(os.path.join(source, "model.onnx"), ready)
    feed = feed_of(source, onnx.load(ready))
    quantize_static(
        ready,
        path,
        OneInput(feed),
        quant_format=QuantFormat.QDQ,
        per_channel=not args.per_tensor,
        activation_type=QuantType.QInt8 if args.signed else QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )
    os.remove(ready)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    outputs = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feed)
    shutil.copy(os.path.join(source, "in.safetensors"), target)
    save_file({f"{i:03}": numpy.ascontiguousarray(a) for i, a in enumerate(outputs)}, os.path.join(target, "out.safetensors"))
    print(target, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("target", metavar="TO")
    parser.add_argument("model", nargs="*", help="which models; all that are there when none is named")
    parser.add_argument("--per-tensor", action="store_true")
    parser.add_argument("--signed", action="store_true")
    args = parser.parse_args()
    found = sorted(n for n in os.listdir(args.source) if os.path.exists(os.path.join(args.source, n, "model.onnx")))
    if missing := [n for n in args.model if n not in found]:
        parser.error(f"{args.source} has no {missing[0]}/model.onnx; it has {', '.join(found) or 'no models'}")
    for name in args.model or found:
        quantize(os.path.join(args.source, name), os.path.join(args.target, name), args)


if __name__ == "__main__":
    main()
