"""SplitMix64 on tensors: random bits that are functions of a counter, the same on every device."""

from __future__ import annotations

from torch import Tensor


def splitmix64(counter: Tensor) -> Tensor:
    """64 random bits for each counter, an unsigned number stored as a signed one; arithmetic wraps."""
    z = counter * -0x61C8864680B583EB
    z = (z ^ shift(z, 30)) * -0x40A7B892E31B1A47
    z = (z ^ shift(z, 27)) * -0x6B2FB644ECCEEE15
    return z ^ shift(z, 31)


def shift(z: Tensor, bits: int) -> Tensor:
    """z >> bits of an unsigned number that is stored as a signed one."""
    return (z >> bits) & ((1 << (64 - bits)) - 1)


def below(counter: Tensor, choices: Tensor | int) -> Tensor:
    """The numbers 0 … choices - 1 that stand at `counter`: the upper 32 of its bits, scaled."""
    return (shift(splitmix64(counter), 32) * choices) >> 32
