"""What large parameters cost: λ times a norm of what a positive touches, averaged over the batch."""

from __future__ import annotations

from torch import Tensor


def dura_weight(per_entity: float, positives_per_entity: float) -> float:
    """The weight per positive of a prior with this strength per entity, 0.02 at most.

    The more positives speak for an entity, the less each has to carry: a weight that serves a sparse graph wipes out a
    dense one. Weights beyond 0.02 help some graphs (WN11 up to 0.1) and ruin others (FB13), so they have to be named.
    """
    return min(0.02, per_entity / positives_per_entity)


def squared_norm(vectors: Tensor) -> Tensor:
    """Σ ‖x‖² over the rows: [count, width] → []."""
    return vectors.square().sum()


def summed_norm(table: Tensor, index: Tensor) -> Tensor:
    """Σ_i ‖table[index_i]‖², each row times how often it occurs, so that none is copied: [count, width], [n] → []."""
    times = table.new_zeros(len(table)).index_add_(0, index, table.new_ones(len(index)))
    return times @ table.square().sum(dim=1)


def cubed_norm(vectors: Tensor, parts: int) -> Tensor:
    """Σ ‖x‖₃³ over the rows, with the modulus of complex numbers: [count, width] → [].

    A row of `parts` = 2 holds real parts, then imaginary parts (Lacroix et al. 2018, N3).
    """
    if parts == 1:
        return vectors.abs().pow(3).sum()
    # |z|³ = (|z|²)^{3/2}: its derivative is finite at 0, where that of |z| is not.
    return vectors.reshape(len(vectors), parts, -1).square().sum(dim=1).pow(1.5).sum()
