"""Prepares the light models of the Python package onnx for compare.py: AlexNet, DenseNet-121, Inception v1 and v2, ResNet-50, ShuffleNet,
SqueezeNet, VGG-19 and ZFNet-512, batch 1, float32.

Usage: light_models.py FOLDER [--weights stored|random]; then compare.py FOLDER

Writes FOLDER/NAME/{model.onnx, in.safetensors, out.safetensors}. The package ships these networks with weights that the graph makes
(ConstantOfShape) and with the outputs they must have: `stored` takes both. Such weights hide what a kernel mixes up, as they are all equal;
`random` writes them as initializers with random numbers instead, and the outputs of ONNX Runtime with all optimizations off.
"""
import argparse
import glob
import os

import numpy
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file

SEED = 0


def inputs_of(model):
    """What the package's own test feeds: numbers that rise from 0 to 1."""
    known = {i.name for i in model.graph.initializer}
    arrays = []
    for value in model.graph.input:
        if value.name in known:
            continue
        sizes = [d.dim_value if d.HasField("dim_value") else 1 for d in value.type.tensor_type.shape.dim]
        count = int(numpy.prod(sizes))
        arrays.append((numpy.arange(count).reshape(sizes) / count).astype(numpy.float32))
    return arrays


def random_weights(model):
    """The model with initializers in place of ConstantOfShape, of a size that keeps activations in range."""
    chooser = numpy.random.default_rng(SEED)
    shapes = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    kept, used = [], set()
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        used.add(node.input[0])
        sizes = tuple(int(s) for s in shapes[node.input[0]])
        if len(sizes) > 1:
            values = chooser.standard_normal(sizes, dtype=numpy.float32) * numpy.float32((2 / numpy.prod(sizes[1:])) ** 0.5)
        else:  # biases, and what normalisation multiplies and divides by
            values = chooser.random(sizes, dtype=numpy.float32) + numpy.float32(0.5)
        model.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
        if model.ir_version < 4:  # where every initializer must be an input, too
            model.graph.input.append(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, sizes))
    for list_of, keep in (
        (model.graph.node, kept),
        (model.graph.initializer, [i for i in model.graph.initializer if i.name not in used]),
        (model.graph.input, [i for i in model.graph.input if i.name not in used]),
    ):
        keep = list(keep)
        del list_of[:]
        list_of.extend(keep)


def reference_outputs(path, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip([i.name for i in session.get_inputs()], inputs)))


def read_tensor(path):
    tensor = onnx.TensorProto()
    with open(path, "rb") as f:
        tensor.ParseFromString(f.read())
    return numpy_helper.to_array(tensor)


def prepare(path, folder, weights):
    name = os.path.basename(path)[: -len(".onnx")]
    target = os.path.join(folder, name.removeprefix("light_"))
    os.makedirs(target, exist_ok=True)
    model = onnx.load(path)
    inputs = inputs_of(model)
    if weights == "random":
        random_weights(model)
    onnx.save(model, os.path.join(target, "model.onnx"))
    if weights == "random":
        outputs = reference_outputs(os.path.join(target, "model.onnx"), inputs)
    else:
        outputs = [read_tensor(f"{path[:-len('.onnx')]}_output_{i}.pb") for i in range(len(model.graph.output))]
    for file, arrays in (("in", inputs), ("out", outputs)):
        save_file({f"{i:03}": numpy.ascontiguousarray(a) for i, a in enumerate(arrays)}, os.path.join(target, f"{file}.safetensors"))
    print(target, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the models go")
    parser.add_argument("--weights", choices=["stored", "random"], default="stored")
    args = parser.parse_args()
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
    paths = sorted(glob.glob(os.path.join(data, "*.onnx")))
    if not paths:
        parser.error(f"the package onnx has no light models in {data}; install one that has its test data (1.14 or later)")
    for path in paths:
        prepare(path, args.folder, args.weights)


if __name__ == "__main__":
    main()
