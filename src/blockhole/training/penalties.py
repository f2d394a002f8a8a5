"""What large parameters cost: λ times a norm of what a positive touches, averaged over the batch."""

from __future__ import annotations

from torch import Tensor


def squared_norm(vectors: Tensor) -> Tensor:
    """Σ ‖x‖² over the rows: [count, width] → []."""
    return vectors.square().sum()


def cubed_norm(vectors: Tensor, parts: int) -> Tensor:
    """Σ ‖x‖₃³ over the rows, with the modulus of complex numbers: [count, width] → [].

    A row of `parts` = 2 holds real parts, then imaginary parts (Lacroix et al. 2018, N3).
    """
    if parts == 1:
        return vectors.abs().pow(3).sum()
    # |z|³ = (|z|²)^{3/2}: its derivative is finite at 0, where that of |z| is not.
    return vectors.reshape(len(vectors), parts, -1).square().sum(dim=1).pow(1.5).sum()
