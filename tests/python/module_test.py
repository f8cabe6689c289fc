"""The module toroid without PyTorch: models, packages, arrays of NumPy and DLPack, errors, and operations beside NumPy's.

Usage: module_test.py FOLDER (tests/data). Exit code 77: skipped, since NumPy is not installed.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (package python3-numpy)")
    sys.exit(77)

import toroid
from toroid import _core

DATA = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 else "tests/data")
DIGITS = DATA / "models" / "digitsnet"
SAFETENSORS = {"F32": np.float32, "I64": np.int64, "BOOL": np.bool_}
SCALAR_TYPES = {np.dtype(np.float32): 7, np.dtype(np.float64): 8, np.dtype(np.int64): 5, np.dtype(np.bool_): 12}


def arrays_of(path: pathlib.Path) -> list[np.ndarray]:
    """The tensors of a safetensors file, by name."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = {k: v for k, v in json.loads(data[8 : 8 + length]).items() if k != "__metadata__"}
    out = []
    for _, entry in sorted(header.items()):
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        out.append(np.frombuffer(raw, SAFETENSORS[entry["dtype"]]).reshape(entry["shape"]))
    return out


def program(target: str, inputs: list[np.ndarray], result: np.ndarray, **arguments: object) -> str:
    """A program of one call, as the JSON of torch.export.save."""

    def meta(a: np.ndarray) -> dict:
        strides = [s // a.itemsize for s in a.strides]
        return {
            "dtype": SCALAR_TYPES[a.dtype], "layout": 7, "sizes": [{"as_int": n} for n in a.shape], "strides": [{"as_int": s} for s in strides],
        }  # fmt: skip

    names = [f"x{i}" for i in range(len(inputs))]
    given = [{"as_tensor": {"name": n}} for n in names]
    tags = {bool: "as_bool", int: "as_int", float: "as_float", list: "as_ints"}
    call = [{"name": "", "arg": g} for g in given] + [{"name": k, "arg": {tags[type(v)]: v}} for k, v in arguments.items()]
    out = {"as_tensor": {"name": "out"}}
    return json.dumps(
        {
            "schema_version": {"major": 8, "minor": 0},
            "range_constraints": {},
            "graph_module": {
                "graph": {
                    "inputs": given, "outputs": [out],
                    "nodes": [{"target": f"torch.ops.aten.{target}", "name": "out", "inputs": call, "outputs": [out], "metadata": {}}],
                    "tensor_values": {**{n: meta(a) for n, a in zip(names, inputs)}, "out": meta(result)},
                },
                "signature": {"input_specs": [{"user_input": {"arg": g}} for g in given], "output_specs": [{"user_output": {"arg": out}}]},
            },
        }
    )  # fmt: skip


def erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[x.dtype])(x)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# An operation, its sizes, NumPy's, and further arguments.
OPERATIONS: list[tuple[str, list[tuple[int, ...]], Callable[..., np.ndarray], dict]] = [
    ("add.Tensor", [(3, 5), (5,)], np.add, {}),
    ("sub.Tensor", [(3, 5), (3, 1)], np.subtract, {}),
    ("mul.Tensor", [(3, 5), (3, 5)], np.multiply, {}),
    ("div.Tensor", [(3, 5), (3, 5)], np.divide, {}),
    ("maximum.default", [(7,), (7,)], np.maximum, {}),
    ("lt.Tensor", [(7,), (7,)], np.less, {}),
    ("relu.default", [(4, 4)], lambda x: np.maximum(x, 0), {}),
    ("gelu.default", [(4, 4)], lambda x: x * (1 + erf(x / np.sqrt(np.float32(2)))) / 2, {}),
    ("sigmoid.default", [(9,)], lambda x: 1 / (1 + np.exp(-x)), {}),
    ("tanh.default", [(9,)], np.tanh, {}),
    ("exp.default", [(9,)], np.exp, {}),
    ("neg.default", [()], np.negative, {}),
    ("sum.dim_IntList", [(3, 4, 5)], lambda x: x.sum((0, 2)), {"dim": [0, 2]}),
    ("mean.dim", [(3, 4)], lambda x: x.mean(1, keepdims=True), {"dim": [1], "keepdim": True}),
    ("amax.default", [(3, 4)], lambda x: x.max(0), {"dim": [0]}),
    ("argmax.default", [(3, 40)], lambda x: x.argmax(1), {"dim": 1}),
    ("cumsum.default", [(3, 6)], lambda x: x.cumsum(1), {"dim": 1}),
    ("_softmax.default", [(3, 6)], softmax, {"dim": -1, "half_to_float": False}),
    ("mm.default", [(4, 6), (6, 3)], np.matmul, {}),
    ("bmm.default", [(2, 4, 6), (2, 6, 3)], np.matmul, {}),
    ("permute.default", [(2, 3, 4)], lambda x: np.ascontiguousarray(x.transpose(2, 0, 1)), {"dims": [2, 0, 1]}),
    ("flip.default", [(2, 5)], lambda x: np.ascontiguousarray(x[:, ::-1]), {"dims": [1]}),
    ("tril.default", [(4, 4)], np.tril, {}),
]


class Operations(unittest.TestCase):
    def test_as_numpy_has_them(self) -> None:
        rng = np.random.default_rng(0)
        for target, sizes, reference, arguments in OPERATIONS:
            with self.subTest(target):
                inputs = [rng.standard_normal(s).astype(np.float32) for s in sizes]
                expected = np.asarray(reference(*inputs))
                model = _core.compile_program(program(target, inputs, expected, **arguments), {}, "test", toroid.ModelOptions())
                (got,) = model.run(*inputs)
                self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape))
                np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    def test_memory_that_is_not_row_major_is_read_where_it_lies(self) -> None:
        x = np.arange(12, dtype=np.float32).reshape(3, 4).T
        model = _core.compile_program(program("neg.default", [x], -x), {}, "test", toroid.ModelOptions())
        np.testing.assert_array_equal(model.run(x)[0], -x)


class Models(unittest.TestCase):
    def test_digits(self) -> None:
        model = toroid.load(DIGITS / "core.pt2", threads=1)
        for got, expected in zip(model.run(*arrays_of(DIGITS / "in.safetensors")), arrays_of(DIGITS / "out.safetensors")):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
        self.assertEqual(len(model.input_names), len(arrays_of(DIGITS / "in.safetensors")))
        self.assertEqual(len(model.output_names), len(arrays_of(DIGITS / "out.safetensors")))
        self.assertEqual(len(set(model.input_names + model.output_names)), len(model.input_names) + len(model.output_names))
        self.assertGreater(model.summary.operations, 0)
        self.assertLess(model.summary.kernels, model.summary.kernels_unfused)

    def test_packages(self) -> None:
        inputs, expected = arrays_of(DIGITS / "in.safetensors"), arrays_of(DIGITS / "out.safetensors")
        with tempfile.TemporaryDirectory() as folder:
            package = toroid.compile_package({"digits": DIGITS / "core.pt2"}, pathlib.Path(folder) / "m.tpk")
            package.verify()
            self.assertEqual(package.entries, ["digits"])
            session = package.session("digits")
            self.assertEqual(len(session.input_names), len(inputs))
            for got, e in zip(session.run(*inputs), expected):
                np.testing.assert_allclose(got, e, rtol=1e-4, atol=1e-5)

    def test_errors_are_exceptions_of_python(self) -> None:
        with self.assertRaises(toroid.UserError) as caught:
            toroid.load(DIGITS / "in.safetensors")
        self.assertIsInstance(caught.exception, (toroid.Error, ValueError))
        model = toroid.load(DIGITS / "core.pt2")
        with self.assertRaisesRegex(toroid.UserError, r"takes 1 tensors \(x\), 0 were given"):
            model.run()
        with self.assertRaisesRegex(toroid.UserError, "input 0 .* must have dtype f32, it has i64"):
            model.run(np.zeros(3, np.int64))
        with self.assertRaisesRegex(toroid.UserError, "expected a tensor .* got str"):
            model.run("x")
        with self.assertRaisesRegex(toroid.UserError, "mode is .*expected one of default"):
            toroid.load(DIGITS / "core.pt2", mode="fast")  # type: ignore[arg-type]
        with self.assertRaises(toroid.UserError):
            toroid.load(DIGITS / "core.pt2", options={"no_such_option": 1})
        for call in (lambda: toroid.load(3), lambda: toroid.compile_package({"a": 3}, "x.tpk")):  # type: ignore[arg-type, dict-item]
            with self.assertRaisesRegex(toroid.UserError, "takes the path of a model's file .*, not an int"):
                call()

    def test_say_what_they_are(self) -> None:
        model = toroid.load(DIGITS / "core.pt2")
        self.assertRegex(repr(model), r"Model\(inputs=\[x: f32\[.*, 1, 8, 8\]\], outputs=\[.*f32\[.*, 10\]\]\)")
        self.assertRegex(repr(model.summary), r"Summary\(operations=\d+, kernels=\d+, .*compile_ms=[\d.]+\)")
        with tempfile.TemporaryDirectory() as folder:
            package = toroid.compile_package({"digits": DIGITS / "core.pt2"}, pathlib.Path(folder) / "m.tpk")
            self.assertEqual(repr(package), "Package(entries=[digits])")
            self.assertRegex(repr(package.session()), r"Session\(inputs=\[x: f32.*outputs=\[.*f32")

    def test_ends_while_its_weights_are_packed(self) -> None:
        x, w = np.ones((4, 512), np.float32), np.ones((512, 512), np.float32)
        text = json.loads(program("mm.default", [x, w], x @ w))
        weight = {"tensor_constant": {"arg": {"name": "x1"}, "tensor_constant_name": "x1"}}
        text["graph_module"]["signature"]["input_specs"][1] = weight
        faulthandler.dump_traceback_later(30, exit=True)
        for _ in range(40):
            _core.compile_program(json.dumps(text), {"x1": w.copy()}, "test", toroid.ModelOptions(freeze=True))
        faulthandler.cancel_dump_traceback_later()

    def test_other_threads_go_on_while_one_compiles(self) -> None:
        longest, done = 0.0, threading.Event()

        def tick() -> None:
            nonlocal longest
            last = time.perf_counter()
            while not done.is_set():
                time.sleep(0.001)
                longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

        thread = threading.Thread(target=tick)
        thread.start()
        begin = time.perf_counter()
        while time.perf_counter() - begin < 0.5:
            toroid.load(DIGITS / "core.pt2")
        done.set()
        thread.join()
        self.assertLess(longest, 0.25)


KNOWS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"  # of DLPack: that of 1 says what is read-only


class ByDlpack:
    """An object that has no buffer, but DLPack."""

    def __init__(self, array: object) -> None:
        self.array = array

    def __array__(self, *args: object, **kwargs: object) -> np.ndarray:
        return self.array

    def __dlpack__(self, **kwargs: object) -> object:
        return self.array.__dlpack__(**kwargs)


class Capsule:
    """What np.from_dlpack takes a capsule from."""

    def __init__(self, capsule: object) -> None:
        self.capsule = capsule

    def __dlpack__(self, **kwargs: object) -> object:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Managed(ctypes.Structure):
    """DLManagedTensor, of DLPack 0."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_index", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class Elsewhere:
    """An array that says it lies on another device; stream: the one that it was asked for."""

    def __init__(self, device_type: int) -> None:
        self.sizes = (ctypes.c_int64 * 1)(3)
        at = ctypes.cast(self.sizes, ctypes.c_void_p)
        self.device_type = device_type
        self.managed = Managed(at, device_type, 0, 1, 2, 32, 1, at, None, 0, None, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, 0

    def __dlpack__(self, *, stream: object = None) -> object:
        self.stream = stream
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


class Arrays(unittest.TestCase):
    def test_tensor_shares_the_memory(self) -> None:
        for dtype in (np.float32, np.float64, np.float16, np.int8, np.int64, np.uint16, np.bool_, np.complex64):
            x = np.zeros((2, 3), dtype)
            t = toroid.tensor(x)
            x[1, 2] = 1
            self.assertEqual((t.shape, t.strides, t.device), ((2, 3), (3, 1), "cpu"))
            for view in (t.numpy(), np.from_dlpack(t) if dtype != np.bool_ else t.numpy()):
                self.assertEqual(view.dtype, x.dtype)
                np.testing.assert_array_equal(view, x)
        self.assertEqual(toroid.tensor(np.float32(3)[None]).shape, (1,))

    def test_memory_outlives_its_first_owner(self) -> None:
        view = toroid.tensor(toroid.tensor(np.full(1000, 7, np.int64))).numpy()
        np.testing.assert_array_equal(view, np.full(1000, 7))

    def test_read_only_memory_is_copied(self) -> None:
        contents = bytes(range(16))
        frozen = np.arange(16, dtype=np.uint8)
        frozen.flags.writeable = False
        for source in (contents, np.frombuffer(contents, np.uint8), frozen, *([ByDlpack(frozen)] if KNOWS_VERSIONS else [])):
            view = toroid.tensor(source).numpy()
            view[:] = 7
            np.testing.assert_array_equal(np.frombuffer(source, np.uint8) if isinstance(source, bytes) else np.asarray(source), np.arange(16))
        np.testing.assert_array_equal(toroid.tensor(frozen.reshape(4, 4).T).numpy(), frozen.reshape(4, 4).T)

    def test_dlpack_copies_on_demand(self) -> None:
        x = np.zeros(3, np.float32)
        for copy, expected in ((True, 0), (False, 1), (None, 1)):
            for version in ((1, 0), None) if KNOWS_VERSIONS else (None,):
                x[:] = 0
                taken = np.from_dlpack(Capsule(toroid.tensor(x).__dlpack__(max_version=version, copy=copy)))
                x[:] = 1
                self.assertEqual(taken[0], expected)

    def test_other_devices_are_refused(self) -> None:
        t = toroid.tensor(np.zeros(3, np.float32))
        t.__dlpack__(dl_device=(1, 0))
        with self.assertRaisesRegex(toroid.UserError, r"device \(2, 0\) is asked for"):
            t.__dlpack__(dl_device=(2, 0))
        with self.assertRaisesRegex(toroid.UserError, "no stream"):
            t.__dlpack__(stream=1)
        with self.assertRaisesRegex(toroid.UserError, "device type 10; tensors are exchanged"):
            toroid.tensor(Elsewhere(10))

    @unittest.skipIf(_core.cuda_device_count(), "there is a GPU, on which the array only says it lies")
    def test_arrays_of_gpus_are_made_ready_for_a_stream(self) -> None:
        array = Elsewhere(2)
        with self.assertRaises(toroid.EnvironmentError):
            toroid.tensor(array)
        self.assertEqual(array.stream, 1)

    def test_refused(self) -> None:
        with self.assertRaises(toroid.UserError):
            toroid.tensor(np.array(["text"]))
        with self.assertRaises(toroid.UserError):
            toroid.tensor(np.arange(4)[::-1])


class Examples(unittest.TestCase):
    def test_say_what_they_found(self) -> None:
        expected = {"run_model": r"right: 359 of 360, in \d+ kernels\n", "package": "scores of 5 images, .*: True\n"}
        folder = pathlib.Path(__file__).parents[2] / "examples" / "python"
        self.assertEqual({p.stem for p in folder.glob("*.py")} - {"torch_compile"}, set(expected))
        for name, said in expected.items():
            out = subprocess.run([sys.executable, folder / f"{name}.py"], capture_output=True, text=True, check=True).stdout
            self.assertRegex(out, f"^{said}$")


class CommandLine(unittest.TestCase):
    def test_is_the_program(self) -> None:
        out = subprocess.run([sys.executable, "-m", "toroid", "--help"], capture_output=True, text=True, check=True).stdout
        self.assertIn("Compiles and runs tensor programs", out)
        code = subprocess.run([sys.executable, "-m", "toroid", "run", "no_such_file.pt2"], capture_output=True).returncode
        self.assertEqual(code, 2)


if __name__ == "__main__":
    unittest.main()
