"""Compiles a model into a package, and runs it: a process that opens the package compiles nothing."""

import pathlib
import tempfile

import numpy as np
import toroid

digits = pathlib.Path(__file__).parent.parent / "digits" / "digits.pt2"
images = np.random.default_rng(1).standard_normal((5, 1, 8, 8), np.float32)

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "digits.tpk"
    toroid.compile_package(digits, path, targets=["x86-64-v4", "x86-64-v3"])  # the best that a machine can run is taken
    session = toroid.open_package(path).session()
    (scores,) = session.run(images)

(expected,) = toroid.load(digits).run(images)
print(f"scores of {len(scores)} images, as compiled in this process:", np.allclose(scores, expected, atol=1e-5))
