"""Published figures, typed in from where they were printed; in per cent unless said otherwise."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A figure, and the place it was printed at."""

    figure: float
    place: str


_TABLE_3 = "Table 3 (tab:exp-path-rank)"
_TABLE_4 = "Table 4 (tab:analysis)"

_RANKING_HEADER = tuple(
    (data, part, metric)
    for data in ("wn11", "fb13")
    for part in ("base", "deduction", "induction")
    for metric in ("p_at_10", "mq")
)
_RANKING_ROWS = {
    "distmult-50": (45.6, 83.0, 33.5, 97.7, 29.6, 79.8, 62.7, 91.6, 63.6, 86.4, 59.3, 86.5),
    "complex-50": (60.9, 83.1, 68.7, 99.2, 46.1, 79.7, 76.8, 93.0, 71.5, 90.0, 70.5, 88.9),
    "rescal-50": (51.8, 74.2, 43.2, 97.9, 51.2, 76.8, 65.2, 91.1, 66.9, 88.4, 69.8, 89.0),
    "blockhole-2x25": (80.9, 83.4, 70.2, 99.5, 54.9, 81.0, 79.2, 93.2, 75.0, 91.5, 71.3, 90.0),
    "blockhole-4x25": (80.5, 75.6, 69.3, 99.2, 54.5, 77.4, 76.2, 92.1, 72.1, 90.5, 70.9, 89.5),
}

PAPER: dict[tuple[str, ...], Published] = {
    ("ranking", data, column, part, metric): Published(figure, _TABLE_3)
    for column, figures in _RANKING_ROWS.items()
    for (data, part, metric), figure in zip(_RANKING_HEADER, figures, strict=True)
} | {
    ("order", "fb13", "complex-50", "accuracy_positive"): Published(96.7, _TABLE_4),
    ("order", "fb13", "complex-50", "accuracy_negative"): Published(3.3, _TABLE_4),
    ("order", "fb13", "blockhole-2x25", "accuracy_positive"): Published(100.0, _TABLE_4),
    ("order", "fb13", "blockhole-2x25", "accuracy_negative"): Published(100.0, _TABLE_4),
}
"""The figures of the paper (Hayashi and Shimbo 2019), by where they stand in `blockhole results --json`.

Its figures of classification accuracy and of run time are drawings without numbers.
"""

OVERALL: dict[str, dict[str, tuple[float, float]]] = {
    "CoKE (Wang et al. 2019)": {"wn11": (94.2, 67.9), "fb13": (95.0, 77.7)},
    "ROP ARC2-GRU (Yin et al. 2018)": {"fb13": (89.6, 54.9)},
    "TransE, on paths (Guu et al. 2015)": {"wn11": (93.3, 43.5), "fb13": (88.0, 50.5)},
    "Bilinear-Diag, on paths (Guu et al. 2015)": {"wn11": (90.4, 31.1), "fb13": (84.8, 38.6)},
    "Bilinear, on paths (Guu et al. 2015)": {"wn11": (89.4, 54.3), "fb13": (83.5, 42.1)},
}
"""MQ and P@10 of the whole path test, deduction and induction together, as others printed them."""

COMPLETION: dict[str, dict[str, float]] = {
    "ComplEx with relation prediction (Chen et al. 2021)": {"fb15k-237": 0.388},
    "ComplEx-DURA": {"fb15k-237": 0.371, "wn18rr": 0.491},
    "RESCAL-DURA": {"fb15k-237": 0.368, "wn18rr": 0.498},
    "ComplEx-N3": {"fb15k-237": 0.37, "wn18rr": 0.49},
}
"""Filtered MRR as others printed it, as a fraction."""

TRIPLES: dict[str, dict[str, float]] = {
    "DistMult-HRS": {"wn11": 88.9, "fb13": 89.0},
    "NTN": {"wn11": 86.2, "fb13": 90.0},
    "TransD": {"wn11": 86.4, "fb13": 89.1},
    "DistMult": {"wn11": 87.1, "fb13": 86.2},
}
"""Accuracy of triple classification as others printed it."""
