"""How far results are from what is expected, in one number."""

from __future__ import annotations

import torch


def distance(ours: torch.Tensor, expected: torch.Tensor, floor: float = 1e-30) -> float:
    """The largest difference, relative to the largest finite number that is expected (at least `floor`).

    Infinity where sizes differ, and where NaNs or infinities are not at the same places. Numbers that are not floats are equal (0) or not (1).
    """
    if ours.shape != expected.shape:
        return float("inf")
    if not expected.is_floating_point() and not expected.is_complex():
        return float((ours != expected).any())
    ours = ours.to(expected.dtype)
    if not torch.equal(ours.isnan(), expected.isnan()):
        return float("inf")
    differ = (ours != expected) & ~ours.isnan()
    if not differ.any():
        return 0.0
    if not (ours[differ].isfinite() & expected[differ].isfinite()).all():
        return float("inf")
    largest = expected[expected.isfinite()].abs().max().item()
    return (ours[differ] - expected[differ]).abs().max().item() / max(floor, largest)
