"""The backend of torch.compile: torch.compile(model, backend="toroid"). Importing this module registers it."""

from torch._dynamo.backends.registry import list_backends, register_backend

from .._report import Explanation, GraphReport, explain, reset_explain
from ._backend import backend

__all__ = ["Explanation", "GraphReport", "backend", "explain", "reset_explain"]

if "toroid" not in list_backends(exclude_tags=None):
    register_backend(backend, name="toroid")
