"""Decompositions of gradients that neither Toroid nor PyTorch's tables have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten
_MEAN, _MAX = 1, 2  # modes of bags


def _bags(offsets: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """The bag of each index."""
    positions = torch.arange(indices.shape[0], dtype=offsets.dtype, device=offsets.device)
    return torch.searchsorted(offsets, positions, right=True) - 1


def _counts(values: torch.Tensor, size: Any, weights: torch.Tensor) -> torch.Tensor:
    """How often each number below `size` is among the values."""
    return torch.zeros([size], dtype=weights.dtype, device=weights.device).index_add(0, values, weights)


def embedding_bag_backward(
    grad: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    offset2bag: torch.Tensor,
    bag_size: torch.Tensor,
    maximum_indices: torch.Tensor,
    num_weights: Any,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    per_sample_weights: torch.Tensor | None,
    padding_idx: int = -1,
) -> torch.Tensor:
    """The gradient of the table. Sums are in f32 where the table is of halves."""
    if sparse:
        return NotImplemented
    wide = grad.to(torch.float32) if grad.dtype in (torch.float16, torch.bfloat16) else grad
    table = torch.zeros([num_weights, grad.shape[1]], dtype=wide.dtype, device=grad.device)
    if mode == _MAX:
        taken = torch.where(bag_size.unsqueeze(1) > 0, wide, 0.0)
        return table.scatter_add(0, maximum_indices.clamp(min=0).to(torch.int64), taken).to(grad.dtype)
    bags = _bags(offsets, indices)
    counted = (indices != padding_idx).to(wide.dtype)
    scale = counted
    if mode == _MEAN:
        scale = scale / _counts(bags, grad.shape[0], counted).clamp(min=1)[bags]
    if per_sample_weights is not None:
        scale = scale * per_sample_weights
    if scale_grad_by_freq:
        scale = scale / _counts(indices, num_weights, torch.ones_like(counted))[indices]
    return table.index_add(0, indices, wide[bags] * scale.unsqueeze(1)).to(grad.dtype)


def embedding_bag_per_sample_weights_backward(
    grad: torch.Tensor,
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    offset2bag: torch.Tensor,
    mode: int,
    padding_idx: int = -1,
) -> torch.Tensor:
    """The gradient of the factors of a sum: products of a bag's gradient with the row."""
    products = (grad[_bags(offsets, indices)] * weight[indices]).sum(1)
    return torch.where(indices != padding_idx, products, 0.0)


def weight_norm_backward(
    grad: torch.Tensor, direction: torch.Tensor, length: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of a weight's direction and length. Sums are of the dtype of the norms, which may be wider than the weight's."""
    others = [d for d in range(direction.dim()) if d != dim % direction.dim()]
    along = (grad.to(norms.dtype) * direction).sum(others, keepdim=True) / norms
    grad_direction = (length / norms) * (grad - direction * (along / norms))
    return grad_direction.to(direction.dtype), along.to(length.dtype)


GRADIENTS: dict[Any, Callable[..., Any]] = {
    _aten._embedding_bag_backward.default: embedding_bag_backward,
    _aten._embedding_bag_per_sample_weights_backward.default: embedding_bag_per_sample_weights_backward,
    _aten._weight_norm_interface_backward.default: weight_norm_backward,
}
