"""Toroid: a compiler and runtime for tensor programs.

    import numpy as np, toroid
    model = toroid.load("model.pt2")          # of torch.export.save, or ONNX
    (logits,) = model.run(np.zeros((1, 3, 224, 224), np.float32))

With PyTorch: torch.compile(model, backend="toroid"); toroid.explain() tells what became of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

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

__all__ = [
    "EnvironmentError", "Error", "Explanation", "GraphReport", "InternalError", "Model", "ModelOptions", "Package", "Session", "Summary",
    "Tensor", "UserError", "compile_package", "cuda_device_count", "explain", "has_operation", "list_options", "load", "manual_seed",
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
    return _load_model(os.fspath(path), list(inputs), _model_options(device, mode, freeze, templates, fusion, threads, options))


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
    models = {name: os.fspath(p) for name, p in model.items()} if isinstance(model, Mapping) else {"main": os.fspath(model)}
    settings = _model_options(device, mode, freeze, templates, fusion, 0, options)
    _save_package(models, os.fspath(path), settings, list(targets), weights_beside)
    return open_package(path)


def open_package(path: Path, *, weights_folder: Path = "") -> Package:
    """Opens a package. UserError for a file that is none, or that this library cannot take.

    weights_folder: of the weights that it has beside it; else the folder `weights` where it lies.
    """
    return Package.open(os.fspath(path), os.fspath(weights_folder))


def _model_options(
    device: str, mode: Mode, freeze: bool, templates: bool, fusion: Fusion, threads: int, options: Mapping[str, Option] | None
) -> ModelOptions:
    return ModelOptions(
        device=device, mode=mode, freeze=freeze, templates=templates, fusion=fusion, threads=threads, options=dict(options or {})
    )
