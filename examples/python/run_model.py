"""Runs a model of torch.export.save on NumPy's arrays: handwritten digits, of which it names most. PyTorch is not needed."""

import pathlib

import numpy as np
import toroid

digits = pathlib.Path(__file__).parent.parent / "digits"
labelled = np.fromfile(digits / "labelled.safetensors", [("header", "V152"), ("labels", "i8", 360), ("images", "f4", (360, 1, 8, 8))])[0]
labels, images = labelled["labels"], labelled["images"]

model = toroid.load(digits / "digits.pt2")
(scores,) = model.run(images)
print(f"right: {(scores.argmax(1) == labels).sum()} of {len(labels)}, in {model.summary.kernels} kernels")
