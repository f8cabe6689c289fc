"""Writes each model of the comparison for every runtime, with the same weights.

Usage: export_models.py OUT [MODEL ...]
OUT/MODEL/model.pt2 is what torch.export.save writes by default, model.onnx what torch.onnx.export writes, in.safetensors and
out.safetensors hold the inputs and the outputs of eager PyTorch under the keys "000", "001", ...
"""
import os
import sys
import warnings

warnings.filterwarnings("ignore")
import torch
from safetensors.torch import save_file

import models


def flat(tensors):
    return {f"{i:03d}": t.detach().contiguous().clone() for i, t in enumerate(tensors)}


def export(name, folder):
    os.makedirs(folder, exist_ok=True)
    module, args = models.build(name)
    out = module(*args)
    save_file(flat(args), f"{folder}/in.safetensors")
    save_file(flat([out]), f"{folder}/out.safetensors")
    torch.export.save(torch.export.export(module, args, strict=False), f"{folder}/model.pt2")
    torch.onnx.export(module, args, f"{folder}/model.onnx", dynamo=False, opset_version=17)


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    torch.set_grad_enabled(False)
    for name in sys.argv[2:] or models.NAMES:
        export(name, os.path.join(sys.argv[1], name))
        print(f"{name}: exported", flush=True)


if __name__ == "__main__":
    main()
