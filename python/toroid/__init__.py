"""Toroid: a compiler and runtime for tensor programs.

    import numpy as np, toroid
    model = toroid.load("model.pt2")          # of torch.export.save, or ONNX
    (logits,) = model.run(np.zeros((1, 3, 224, 224), np.float32))

With PyTorch: torch.compile(model, backend="toroid"); toroid.explain() tells what became of it. Packages of what torch.export gives:
toroid.aot_compile().
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union

from ._core import (
    EnvironmentError,
    Error,
    InternalError,
    Model,
    ModelOptions,
    Package,
    Session,
    Summary,
    Tensor,
    UserError,
    cuda_device_count,
    has_operation,
    list_options,
    load_model as _load_model,
    manual_seed,
    save_package as _save_package,
    set_option,
    tensor,
)
from ._report import Explanation, GraphReport, explain, reset_explain

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = [
    "EnvironmentError", "Error", "Explanation", "GraphReport", "InternalError", "Model", "ModelOptions", "Package", "Session", "Summary",
    "Tensor", "UserError", "aot_compile", "compile_package", "cuda_device_count", "explain", "has_operation", "list_options", "load", "manual_seed",
    "open_package", "reset_explain", "set_option", "tensor",
]  # fmt: skip

Path = Union[str, "os.PathLike[str]"]
Mode = Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"]
Fusion = Literal["none", "per-node", "all"]
Option = Union[str, int, bool]


def load(
    path: Path,
    inputs: Sequence[Any] = (),
    *,
    device: str = "cpu",
    mode: Mode = "default",
    freeze: bool = True,
    templates: bool = True,
    fusion: Fusion = "all",
    threads: int = 0,
    options: Mapping[str, Option] | None = None,
) -> Model:
    """Reads a model of torch.export.save (.pt2) or ONNX, and compiles it.

    inputs: arrays that an ONNX model is made for where its sizes follow from their contents. device: "cpu" or "cuda:0". freeze: weights
    are constants, which are folded and packed. threads: at most so many; 0: all. options: those of docs/options.md, by name. UserError for
    a file that is no model, and for operations that Toroid lacks.
    """
    return _load_model(_file(path, "load"), list(inputs), _model_options(device, mode, freeze, templates, fusion, threads, options))


def compile_package(
    model: Path | Mapping[str, Path],
    path: Path,
    *,
    targets: Sequence[str] = ("native",),
    device: str = "cpu",
    mode: Mode = "default",
    freeze: bool = True,
    templates: bool = True,
    fusion: Fusion = "all",
    weights_beside: bool = False,
    options: Mapping[str, Option] | None = None,
) -> Package:
    """Compiles a model, or several by name, into a package, and opens it.

    targets: "native", "x86-64-v4", "x86-64-v3" or "x86-64", the best one first. weights_beside: large weights become
    files in the folder `weights` beside the package, which packages share. Nothing is compiled when the package runs.
    """
    files = model if isinstance(model, Mapping) else {"main": model}
    models = {name: _file(p, "compile_package") for name, p in files.items()}
    settings = _model_options(device, mode, freeze, templates, fusion, 0, options)
    _save_package(models, os.fspath(path), settings, list(targets), weights_beside)
    return open_package(path)


def aot_compile(
    program: ExportedProgram | Mapping[str, ExportedProgram],
    path: Path,
    *,
    targets: Sequence[str] = ("native",),
    device: str = "cpu",
    mode: Mode = "default",
    freeze: bool = True,
    templates: bool = True,
    fusion: Fusion = "all",
    weights_beside: bool = False,
    options: Mapping[str, Option] | None = None,
) -> Package:
    """Compiles what torch.export.export() gives, or several by name, into a package, and opens it.

        program = torch.export.export(module.eval(), (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch", max=256)}})
        package = toroid.aot_compile(program, "model.tpk")

    The rest as compile_package has it, which takes files in place of programs. UserError for a module that was not exported.
    """
    import torch

    programs = program if isinstance(program, Mapping) else {"main": program}
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for i, (name, one) in enumerate(programs.items()):
            if not isinstance(one, torch.export.ExportedProgram):
                raise UserError(f"aot_compile takes what torch.export.export(module, arguments) gives, not {_article(one)}")
            files[name] = os.path.join(folder, f"{i}.pt2")
            torch.export.save(one, files[name])
        return compile_package(
            files, path, targets=targets, device=device, mode=mode, freeze=freeze, templates=templates, fusion=fusion,
            weights_beside=weights_beside, options=options,
        )  # fmt: skip


def open_package(path: Path, *, weights_folder: Path = "") -> Package:
    """Opens a package. UserError for a file that is none, or that this library cannot take.

    weights_folder: of the weights that it has beside it; else the folder `weights` where it lies.
    """
    return Package.open(os.fspath(path), os.fspath(weights_folder))


def _article(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


def _file(path: object, function: str) -> str:
    """The path of a model's file. UserError that says what to do with a model that is in no file."""
    if isinstance(path, (str, os.PathLike)):
        return os.fspath(path)
    kinds = [f"{c.__module__}.{c.__qualname__}" for c in type(path).__mro__]
    exported = any(k.startswith("torch.export.") and k.endswith(".ExportedProgram") for k in kinds)
    program = "program" if exported else "torch.export.export(module, arguments)"
    if function == "load":
        remedy = f"torch.export.save({program}, FILE.pt2), or call torch.compile(module, backend=\"toroid\")"
    else:
        remedy = f"toroid.aot_compile({program}, FILE.tpk)"
    is_torch = any(k.startswith("torch.") for k in kinds)
    what = f"; for {'an exported program' if exported else 'a module of PyTorch'}: {remedy}" if is_torch else ""
    raise UserError(f"{function} takes the path of a model's file (.pt2 of torch.export.save, or ONNX), not {_article(path)}{what}")


def _model_options(
    device: str, mode: Mode, freeze: bool, templates: bool, fusion: Fusion, threads: int, options: Mapping[str, Option] | None
) -> ModelOptions:
    return ModelOptions(
        device=device, mode=mode, freeze=freeze, templates=templates, fusion=fusion, threads=threads, options=dict(options or {})
    )
