"""Graphs from one file format into another."""

from __future__ import annotations

from pathlib import Path

from blockhole.errors import DataError
from blockhole.graph.readers import read_split
from blockhole.graph.writers import writable_format, write_graph


def convert(source: Path, destination: Path) -> dict[str, object]:
    """Write the facts of `source` to the file `destination`, in the format of its suffix.

    The facts of a folder are those of its train, valid and test files, in this order; facts labelled -1 are left out.
    """
    file_format = writable_format(destination)
    if destination.exists() and source.exists() and destination.samefile(source):
        raise DataError(f"{destination}: is the file to convert; name another one to write.")
    graph = read_split(source).graph("train", "valid", "test")
    write_graph(graph, destination)
    return {
        "source": str(source),
        "destination": str(destination),
        "format": file_format.layout.value,
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "facts": len(graph),
    }
