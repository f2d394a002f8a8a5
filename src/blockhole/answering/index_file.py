"""The index in a run's folder: built once, mapped by every process that asks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Literal, final

from pydantic import BaseModel, ConfigDict, Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from blockhole.answering.approximate import ApproximateIndex
from blockhole.answering.derived import read_derived, weights_id
from blockhole.answering.exact import ExactIndex
from blockhole.answering.vectors import Vectors
from blockhole.errors import DamagedRun, RunError
from blockhole.graph.knowledge_graph import KnowledgeGraph
from blockhole.graph.replacing import replacing
from blockhole.paths.walks import sample_walks

IndexKind = Literal["exact", "hnsw", "ivf"]

INDEX = "index.json"
_QUERIES = 200
"""Queries that the recall of an approximate index is measured on."""


@final
class IndexRecord(BaseModel):
    """The contents of index.json; `file` lies beside it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: str
    kind: IndexKind
    file: str
    width: int | None = Field(default=None, description="efSearch of hnsw or nprobe of ivf")
    recall: float = Field(default=1.0, description="share of the true best ten that is found")


@final
@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """What a folder holds: the whole matrix of candidates for an exact index, or an approximate one."""

    exact: ExactIndex | None
    approximate: ApproximateIndex | None

    def copied(self) -> LoadedIndex:
        """The same with candidates of its own, no longer a view of a file; approximate ones stay as faiss maps them."""
        exact = None if self.exact is None else ExactIndex(self.exact.vectors.clone())
        return LoadedIndex(exact, self.approximate)


def build_index(folder: Path, vectors: Vectors, graph: KnowledgeGraph, kind: IndexKind, seed: int = 0) -> IndexRecord:
    """Build the index of the run in `folder`; it replaces the one there was."""
    identity = weights_id(folder)
    name = f"index-{kind}-{identity[:12]}.{'safetensors' if kind == 'exact' else 'faiss'}"
    candidates = vectors.all_candidates()
    if kind == "exact":
        record = IndexRecord(weights=identity, kind=kind, file=name)
        with replacing(folder / name) as temporary:
            save_file({"candidates": candidates.contiguous()}, temporary)
    else:
        walks = sample_walks(graph, _QUERIES, lengths=(1, 3), seed=seed)
        index, recall = ApproximateIndex.build(kind, candidates, vectors.queries(walks))
        record = IndexRecord(weights=identity, kind=kind, file=name, width=index.width, recall=recall)
        with replacing(folder / name) as temporary:
            index.save(temporary)
    with replacing(folder / INDEX) as temporary:
        temporary.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    for old in folder.glob("index-*"):
        if old.name != name:
            old.unlink()
    return record


def load_index(folder: Path) -> LoadedIndex | None:
    """The index of the run in `folder`, if it has one; one of other weights than the run's is refused."""
    remedy = f"build it again with: blockhole index {quote(str(folder))}"
    record = read_derived(folder / INDEX, IndexRecord, remedy)
    if record is None:
        return None
    if record.weights != weights_id(folder):
        raise RunError(f"the index of {folder} is older than its weights; {remedy} --kind {record.kind}")
    path = folder / record.file
    if not path.is_file():
        raise DamagedRun(f"{path} is missing; {remedy} --kind {record.kind}")
    if record.kind == "exact":
        return LoadedIndex(ExactIndex(_mapped(path, remedy)), None)
    try:
        return LoadedIndex(None, ApproximateIndex.load(record.kind, path, record.width or 1))
    except RuntimeError:  # faiss names the line of its source where it stopped
        raise DamagedRun(f"{path} cannot be read; {remedy} --kind {record.kind}") from None


def _mapped(path: Path, remedy: str) -> Tensor:
    try:
        with safe_open(path, framework="pt") as file:
            candidates: Tensor = file.get_tensor("candidates")
            return candidates
    except SafetensorError as failure:
        raise DamagedRun(f"{path} cannot be read ({failure}); {remedy}") from None
