"""The pictures of docs/explanation/mathematics.md: `python -m scripts.figures`; `--check` says whether one is stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from blockhole.models.circulant import block_circulant
from scripts.svg import BLUE, GREEN, ORANGE, PINK, YELLOW, write_or_check

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images"
BLOCKS, SIZE = 2, 5
MAPS = ("Blues", "Oranges", "Greens", "Purples")
"""A colour map for each of the b² blocks."""


def _relation(seed: int, blocks: int, size: int) -> torch.Tensor:
    return torch.rand(blocks, blocks, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.2


def fourier_data() -> Any:
    """A block circulant matrix, its blocks in Fourier space, and the same numbers by frequency."""
    vectors = _relation(3, BLOCKS, SIZE)
    spectrum = torch.fft.fft(vectors).abs()
    diagonal = torch.zeros(BLOCKS * SIZE, BLOCKS * SIZE, dtype=torch.float64)
    for i in range(BLOCKS):
        for j in range(BLOCKS):
            for freq in range(SIZE):
                diagonal[i * SIZE + freq, j * SIZE + freq] = spectrum[i, j, freq]
    order = torch.tensor([block * SIZE + freq for freq in range(SIZE) for block in range(BLOCKS)])
    dense = block_circulant(vectors)
    return {name: _rounded(each) for name, each in (("R", dense), ("D", diagonal), ("S", diagonal[order][:, order]))}


def _rounded(matrix: torch.Tensor) -> list[list[float]]:
    return [[round(value, 3) for value in row] for row in matrix.tolist()]


def draw_fourier(data: Any) -> Figure:
    figure = Figure(figsize=(10.5, 4.2), layout="constrained")
    titles = (
        f"R_r: b = {BLOCKS} by {BLOCKS} circulant\nblocks of size m = {SIZE}",
        "after the Fourier transform:\ndiagonal blocks",
        f"the same, frequency by frequency:\nm = {SIZE} matrices of size b = {BLOCKS}",
    )
    for axes, (name, values), title in zip(figure.subplots(1, 3), data.items(), titles, strict=True):
        matrix = np.array(values)
        size = len(matrix)
        owner = np.add.outer(np.arange(size) // SIZE * BLOCKS, np.arange(size) // SIZE)
        if name == "S":
            owner = np.add.outer(np.arange(size) % BLOCKS * BLOCKS, np.arange(size) % BLOCKS)
        _paint(axes, matrix, owner)
        step = BLOCKS if name == "S" else SIZE
        edges = range(0, size, step)
        cells = [(i, i) for i in edges] if name == "S" else [(i, j) for i in edges for j in edges]
        for i, j in cells:
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), step, step, fill=False, linewidth=1.3))
        axes.set_title(title, fontsize=10)
    return figure


def _paint(axes: Axes, matrix: np.ndarray[Any, Any], owner: np.ndarray[Any, Any]) -> None:
    """Each block in a colour of its own: equal numbers have equal shades, and zeros are white."""
    for block, name in enumerate(MAPS):
        mine = np.ma.masked_where((owner != block) | (matrix == 0), matrix)
        axes.imshow(mine, cmap=name, vmin=-0.3 * matrix.max(), vmax=matrix.max())
    axes.set_xticks([])
    axes.set_yticks([])


def order_data() -> Any:
    """AB - BA for block circulant A and B of one size, with one block and with two by two."""
    gaps = {}
    for blocks, size in ((1, 10), (2, 5)):
        a, b = (block_circulant(_relation(seed, blocks, size)) for seed in (1, 2))
        gaps[f"b = {blocks}, m = {size}"] = _rounded(a @ b - b @ a)
    return gaps


def draw_order(data: Any) -> Figure:
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    panels = figure.subplots(1, 2)
    limit = max(abs(value) for values in data.values() for row in values for value in row)
    for axes, (name, values) in zip(panels, data.items(), strict=True):
        shown = axes.imshow(values, cmap="RdBu_r", vmin=-limit, vmax=limit)
        axes.set_title(f"AB - BA with {name}", fontsize=10)
        axes.set_xticks([])
        axes.set_yticks([])
    figure.colorbar(shown, ax=panels, shrink=0.8)
    return figure


def cost_data() -> Any:
    """Real multiplications of a hop: 4·b²·m = 4·b·n for BlockHolE, n² for RESCAL."""
    sizes = [40, 80, 120, 160, 200, 400, 800]
    return {
        "n": sizes,
        **{f"BlockHolE, b = {b}": [4 * b * n for n in sizes] for b in (1, 2, 4, 8)},
        "RESCAL": [n * n for n in sizes],
    }


def draw_cost(data: Any) -> Figure:
    figure = Figure(figsize=(6, 3.8), layout="constrained")
    axes = figure.subplots()
    curves = {name: values for name, values in data.items() if name != "n"}
    for colour, (name, values) in zip((BLUE, GREEN, YELLOW, PINK, ORANGE), curves.items(), strict=True):
        axes.plot(data["n"], values, "o-", color=colour, label=name, linewidth=1, markersize=4)
    axes.set(xscale="log", yscale="log", xlabel="n, the dimension of an entity", ylabel="multiplications of a hop")
    axes.set_xticks([40, 80, 200, 400, 800], ["40", "80", "200", "400", "800"])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    write_or_check(FOLDER / "block-circulant.svg", fourier_data(), draw_fourier)
    write_or_check(FOLDER / "order.svg", order_data(), draw_order)
    write_or_check(FOLDER / "cost.svg", cost_data(), draw_cost)


if __name__ == "__main__":
    main()
