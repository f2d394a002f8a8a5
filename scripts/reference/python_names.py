"""docs/reference/python.md: every public name, with its signature and docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Protocol

import blockhole
from blockhole import errors

HEAD = """# Python names

Written by `python -m scripts.reference` from the docstrings; a test fails when it is stale, or when the documentation
uses a name that is missing here. `import blockhole` is cheap: each name is imported when it is first used.
"""

GROUPS: dict[str, tuple[str, ...]] = {
    # What `blockhole` itself holds comes first; these are the names below it that the guides use.
    "Graphs and data": (
        "blockhole.graph.knowledge_graph.KnowledgeGraph",
        "blockhole.graph.knowledge_graph.SplitGraph",
        "blockhole.data.dataset.DataSet",
        "blockhole.queries.paths.PathQueries",
        "blockhole.queries.exact.answers",
        "blockhole.queries.exact.plan_answers",
        "blockhole.queries.language.Query",
        "blockhole.queries.language.parse",
        "blockhole.files.frames.to_graph",
        "blockhole.files.frames.to_polars",
        "blockhole.files.frames.to_pandas",
        "blockhole.files.frames.to_networkx",
    ),
    "Asking": (
        "blockhole.answering.answers.Answer",
        "blockhole.answering.answers.Answers",
        "blockhole.data.dataset.KnownAnswers",
        "blockhole.answering.engine.Question",
        "blockhole.answering.engine.Verdict",
        "blockhole.answering.sparql.results.Solution",
        "blockhole.answering.sparql.results.Solutions",
        "blockhole.answering.sparql.results.Truth",
        "blockhole.answering.sparql.results.Statement",
        "blockhole.answering.sparql.results.Statements",
        "blockhole.answering.new_facts.with_facts",
        "blockhole.answering.proofs.Explanation",
        "blockhole.answering.connections.Connection",
        "blockhole.answering.export.Exported",
        "blockhole.answering.export.DatabaseQueries",
    ),
    "Models": (
        "blockhole.models.contract.Model",
        "blockhole.models.contract.Widths",
        "blockhole.models.blockhole.BlockHolE",
        "blockhole.models.catalogue.build_model",
        "blockhole.models.merging.merge_models",
    ),
    "Evaluation": (
        "blockhole.evaluation.truth.build_truth",
        "blockhole.evaluation.truth.queries_of",
        "blockhole.evaluation.ranking.rank",
        "blockhole.evaluation.ranking.Ranks",
        "blockhole.evaluation.path_ranking.evaluate_ranking",
        "blockhole.evaluation.path_ranking.ranking_figures",
        "blockhole.evaluation.report.Report",
        "blockhole.evaluation.report.Comparison",
    ),
}


class _Plain:
    """An annotation that is printed as it was written, without quotes and without what `errors.checked` adds."""

    def __init__(self, text: str) -> None:
        self.text = re.sub(r"Annotated\[(\w+), \w+\]", r"\1", re.sub(r"\b(Count|Seed)\b", "int", text))

    def __repr__(self) -> str:
        return self.text


def python_page() -> str:
    sections = [HEAD, "## blockhole\n"]
    for name in blockhole.__all__:
        value = getattr(blockhole, name)
        if isinstance(value, str):
            sections.append(f"### `blockhole.{name}`\n\nThe version of the package, a string.\n")
        else:
            sections.extend(_described(f"blockhole.{name}", value))
    for group, names in GROUPS.items():
        sections.append(f"## {group}\n")
        for name in names:
            module, _, attribute = name.rpartition(".")
            sections.extend(_described(name, getattr(import_module(module), attribute)))
    tree = inspect.cleandoc(errors.__doc__ or "").partition("::\n\n")[2]
    sections.append(f"## Errors\n\nAll are in `blockhole.errors`.\n\n```text\n{inspect.cleandoc(tree)}\n```\n")
    return "\n".join(sections)


def _described(name: str, value: Any) -> Iterator[str]:
    short = name.rpartition(".")[2]
    yield f"### `{name}`\n\n{_signature(short, value)}{_docstring(name, value)}\n"
    if inspect.isclass(value):
        for member, raw in vars(value).items():
            if member.startswith("_") or not _is_method(raw):
                continue
            method = getattr(raw, "__func__", getattr(raw, "fget", getattr(raw, "func", raw)))
            called = not isinstance(raw, property) and not hasattr(raw, "func")
            head = _signature(f"{short}.{member}", method) if called else f"```py\n{short}.{member}\n```\n\n"
            yield f"{head}{_docstring(f'{name}.{member}', method)}\n"


def _is_method(raw: object) -> bool:
    """Methods, class methods, properties and cached properties; not fields of a dataclass or a pydantic model."""
    return inspect.isfunction(raw) or isinstance(raw, classmethod | staticmethod | property) or hasattr(raw, "attrname")


def _docstring(name: str, value: object) -> str:
    text = inspect.getdoc(value)
    if not text:
        raise SystemExit(f"{name} is public and has no docstring")
    return text.replace("::\n", ":\n")


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value) and (issubclass(value, BaseException) or Protocol in value.__bases__):
        return ""  # nobody makes one
    signature = inspect.signature(value)
    words: list[str] = []
    for each in signature.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        annotation = getattr(each.annotation, "__forward_arg__", each.annotation)  # fields of a named tuple
        words.append(str(each.replace(annotation=_Plain(annotation)) if isinstance(annotation, str) else each))
    arrow = (
        "" if signature.return_annotation in (signature.empty, "None", None) else f" -> {signature.return_annotation}"
    )
    line = f"{name}({', '.join(words)}){arrow}"
    if len(line) > 100:
        line = f"{name}(\n{''.join(f'    {word},' + chr(10) for word in words)}){arrow}"
    return f"```py\n{line}\n```\n\n"
