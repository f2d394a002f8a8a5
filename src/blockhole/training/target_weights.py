"""How much the loss of a positive weighs, by how often the train graph names its target."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blockhole.graph.knowledge_graph import KnowledgeGraph


def target_weights(graph: KnowledgeGraph, rare: float, device: torch.device) -> Tensor | None:
    """w(o) = rare + (1 - rare) · count(o) / max count, with count(o) the facts that o is an end of: [E], at most 1.

    Few facts fix the row of a rare target, and are fitted by heart: a smaller weight leaves more of that row to the
    penalty, which all positives carry alike (Zhang et al. 2020 train so, with rare = 0.1). Absent where rare is 1.
    """
    if rare == 1:
        return None
    count = np.bincount(graph.triples[:, [0, 2]].ravel(), minlength=graph.num_entities)
    weight: NDArray[np.float32] = (rare + (1 - rare) * count / count.max()).astype(np.float32)
    return torch.from_numpy(weight).to(device)
