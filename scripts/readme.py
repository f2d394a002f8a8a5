"""The tables and the plot of the README, from the records and the benchmarks: `python -m scripts.readme`.

Each stands between `<!-- NAME -->` and `<!-- /NAME -->`. `--check` only says whether one is stale, by its exit status.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from experiments.records import Summary, look_up, read_records, summarise
from experiments.tables import OVERALL
from scripts.reference.markdown import table
from scripts.svg import BLUE, ORANGE, write_or_check

ROOT = Path(__file__).resolve().parents[1]
README, PLOT = ROOT / "README.md", ROOT / "docs" / "images" / "speed.svg"
DATA = ("wn11", "fb13")
OURS = {
    "blockhole-2x25": "BlockHolE, b=2 m=25",
    "best-without-words": "BlockHolE, best without words",
    "best": "BlockHolE, best",
}


def main() -> None:
    summary = summarise(read_records(ROOT / "experiments" / "records"))
    text = README.read_text(encoding="utf-8")
    written = text
    for name, part in {"results": results(summary), "speed": speed()}.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not marked.search(written):
            sys.exit(f"the README has no place for {name}: <!-- {name} --> and <!-- /{name} -->")
        written = marked.sub(lambda match, part=part: f"{match[1]}\n{part}\n{match[2]}", written)  # type: ignore[misc]
    if written != text:
        if "--check" in sys.argv:
            sys.exit("the tables of the README are stale; run: make reference")
        README.write_text(written, encoding="utf-8")
    write_or_check(PLOT, epochs(), draw_epochs)


def results(summary: Summary) -> str:
    """MQ / P@10 over the whole path test, ours with their seeds, then what others printed, best first."""
    rows = []
    for column, name in OURS.items():
        seeds = [look_up(summary, "ranking", data, column, "all", "seeds") for data in DATA]
        figures = [_all_paths(summary, data, column) for data in DATA]
        counted = " and ".join(dict.fromkeys(_counted(count) for count in seeds))
        rows.append((f"{name} ({counted})", *map(_pair, figures)))
    others = sorted(OVERALL.items(), key=lambda each: -max(mq for mq, _ in each[1].values()))
    rows += [(name, *(_pair(figures.get(data)) for data in DATA)) for name, figures in others]
    return table(("all paths, MQ / P@10 in per cent", "WN11", "FB13"), rows)


def _all_paths(summary: Summary, data: str, column: str) -> list[float | None]:
    return [look_up(summary, "ranking", data, column, "all", name) for name in ("mq", "p_at_10")]


def _counted(seeds: int | None) -> str:
    return "no record" if seeds is None else "one seed" if seeds == 1 else f"{seeds} seeds"


def _one(figure: float | None) -> str:
    return "missing" if figure is None else f"{figure:.1f}"


def _pair(figures: Any) -> str:
    return "–" if figures is None else " / ".join(map(_one, figures))


def _benchmark(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text(encoding="utf-8"))


def epochs() -> dict[str, float]:
    """Seconds of an epoch of WN11's edges, one thread, batches of 8,192."""
    measured = _benchmark("train_cpu")
    runs = [run for run in (*measured["peers"], *measured["ours"]) if run["threads"] == 1]
    return {run["label"]: round(run["epoch_seconds"], 3) for run in runs if run["batch_size"] == 8192}


def speed() -> str:
    """What is measured of speed, with what was measured beside it."""
    gpu, evaluated = _benchmark("train_gpu")["fb13"], _benchmark("evaluate")
    epoch = epochs()
    rows = [
        (
            "an epoch of WN11's edges, one CPU thread, 5 negatives",
            f"{epoch['BlockHolE b=2 m=25, adagrad']:.2f} s",
            ", ".join(f"{name} {seconds:.1f} s" for name, seconds in epoch.items() if name.startswith("Py")),
        ),
        (
            "an epoch of full softmax over FB13's 6.27 million paths, one H200",
            f"{min(gpu['fused']['seconds']):.1f} s",
            f"plain PyTorch {gpu['plain']['seconds']:.1f} s",
        ),
        (
            "filtered completion, queries a second, one thread",
            f"{evaluated['completion_one_thread']['queries_per_second']:,.0f}",
            f"PyKEEN {evaluated['pykeen_one_thread']['queries_per_second']:,.0f}",
        ),
        ("FB13's path test ranked, two CPU cores", f"{evaluated['ranking']['fb13'][0]['seconds']:.0f} s", ""),
    ]
    return table(("", "here", "beside it"), rows)


def draw_epochs(data: dict[str, float]) -> Figure:
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    axes = figure.subplots()
    ordered = sorted(data.items(), key=lambda each: each[1])
    colours = [ORANGE if name.startswith("Py") else BLUE for name, _ in ordered]
    bars = axes.barh([name for name, _ in ordered], [seconds for _, seconds in ordered], color=colours)
    axes.bar_label(bars, fmt="%.2f s", padding=3)
    axes.set(xscale="log", xlabel="seconds per epoch of WN11's edges, one CPU thread")
    axes.margins(x=0.15)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main()
