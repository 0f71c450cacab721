"""The part on serving of the page on accuracy: by model, chip and engine, shipped and left out.

`python -m planner.validation.serving_page TRUTH... tests/truth/serve_left_out.csv` measures what
is missed on every model when the engines are fitted without it, which takes minutes; the page
reads that.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from costdata import catalog as catalogue
from planner.calibration.serving_fit import read_priors
from planner.validation.factors import one_factor
from planner.validation.protocols import predict
from planner.validation.request_logs import read_rows
from planner.validation.rows import chosen
from planner.validation.scores import scores

Cells = Mapping[str, str]
FILES = ("serve_sweeps.csv", "serve.csv")
LEFT_OUT = "serve_left_out.csv"
METRICS = {
    "tpot_s": "time per output token",
    "ttft_s": "time to first token",
    "output_tokens_per_s": "throughput at full load",
}
GROUPS = ("model", "accelerator", "engine")
FIGURES = ("n", "mape", "median_ape", "p90_ape", "bias", "coverage_80", "coverage_90")
FACTORS = ("accelerator,engine", "model,accelerator,engine")
LEFT = "leave_one_out:model"


def left_out_rows(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Scores of every metric and group, each model predicted by engines fitted without it."""
    found = predict(chosen(read_rows(paths), []), catalogue.load(), LEFT).predictions
    rows = []
    for metric, whole in scores(found).items():
        rows.append(_row(metric, "all", "", whole))
        for group, values in whole["groups"].items():
            rows += [_row(metric, group, value, part) for value, part in values.items()]
        mine = [p for p in found if p.metric == metric]
        rows += [_row(metric, "one_factor", f, _after_factor(mine, f)) for f in FACTORS]
    return rows


def _row(metric: str, group: str, value: str, part: Mapping[str, Any]) -> dict[str, Any]:
    figures = {n: round(part[n], 4) if part.get(n) is not None else "" for n in FIGURES}
    return {"metric": metric, "group": group, "value": value, **figures}


def _after_factor(found: Sequence[Any], columns: str) -> dict[str, float]:
    """Scores of what one factor per combination of values leaves."""
    keys = [" ".join(p.row.text(c) for c in columns.split(",")) for p in found]
    left = np.exp(one_factor(np.log([p.ratio for p in found]), np.asarray(keys)))
    missed = np.abs(left - 1.0)
    return {
        "n": len(left),
        "mape": float(missed.mean()),
        "median_ape": float(np.median(missed)),
        "p90_ape": float(np.quantile(missed, 0.9)),
        "bias": float(left.mean() - 1.0),
    }


def section(folder: Path) -> str:
    """The part on serving as Markdown.

    Parameters
    ----------
    folder : of the measurements, the left-out scores and the logs
    """
    rows = chosen(read_rows([folder / name for name in FILES]), [])
    shipped = predict(rows, catalogue.load(), "shipped")
    with (folder / LEFT_OUT).open(newline="", encoding="utf-8") as file:
        left = {(r["metric"], r["group"], r["value"]): r for r in csv.DictReader(file)}
    found = scores(shipped.predictions)
    parts = [HEAD]
    for metric, title in METRICS.items():
        parts += [f"\n### {title.capitalize()}\n", TABLE, *_lines(metric, found[metric], left)]
    parts += [FACTOR, *_factor_lines(left), LOGS, *_log_lines(folder), FITTED, *_parameter_lines()]
    return "\n".join([*parts, WEAK, *_weak_lines(left), *_unpredicted(shipped.unsupported)])


def _lines(metric: str, found: Mapping[str, Any], left: Mapping[Any, Cells]) -> list[str]:
    """All rows, then by model, chip and engine."""
    lines = [_line("all", found, left[metric, "all", ""])]
    for group in GROUPS:
        for value, part in found["groups"][group].items():
            lines.append(_line(f"{group} {value}", part, left[metric, group, value]))
    return lines


def _line(name: str, part: Mapping[str, Any], left: Cells) -> str:
    cells = [name, str(part["n"])]
    for row in (part, left):
        cells += [f"{100 * float(row[n]):.1f}%" for n in ("mape", "median_ape")]
        cells.append(f"{100 * float(row['bias']):+.1f}%")
    inside = [f"{100 * float(left[n]):.0f}%" for n in ("coverage_80", "coverage_90")]
    return f"| {' | '.join([*cells, *inside])} |"


def _factor_lines(left: Mapping[Any, Cells]) -> list[str]:
    lines = []
    for metric, title in METRICS.items():
        for columns in FACTORS:
            row = left[metric, "one_factor", columns]
            cells = [f"{100 * float(row[n]):.1f}%" for n in ("mape", "median_ape", "p90_ape")]
            lines.append(f"| {title} | {columns.replace(',', ', ')} | {' | '.join(cells)} |")
    return lines


def _log_lines(folder: Path) -> list[str]:
    """Every statistic of every log under three protocols."""
    logs = read_rows(sorted((folder / "serve_requests").glob("*_requests.jsonl")))
    protocols = ("shipped", LEFT, "one_factor:model")
    errors = [predict(logs, catalogue.load(), name).predictions for name in protocols]
    lines = []
    for shipped, other, own in zip(*errors, strict=True):
        if not shipped.metric.endswith("_s"):
            cells = [f"{100 * (p.ratio - 1.0):+.1f}%" for p in (shipped, other, own)]
            name = f"{shipped.row.text('model')} | {shipped.metric} | {shipped.measured:.4g} s"
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _parameter_lines() -> list[str]:
    return [
        f"| {row['parameter']} | {row['prior']} | {row['fitted']} | {row['reason']} |"
        for row in read_priors().rows
    ]


def _weak_lines(left: Mapping[Any, Cells]) -> list[str]:
    """Models that are missed by more than a quarter when left out."""
    return [
        f"- {value}, {METRICS[metric]}: {100 * float(row['mape']):.0f}% over {row['n']} rows, "
        f"bias {100 * float(row['bias']):+.0f}%."
        for (metric, group, value), row in left.items()
        if group == "model" and metric in METRICS and float(row["mape"]) > WEAK_FRAC
    ]


WEAK_FRAC = 0.25


def _unpredicted(unsupported: Sequence[tuple[str, str]]) -> list[str]:
    reasons = sorted({why for _, why in unsupported})
    return ["", f"Not predicted: {len(unsupported)} rows.", *(f"- {why}" for why in reasons)]


HEAD = """
## Serving

Positive bias of a latency is too slow, of throughput too fast. *Shipped* is the error of the
tables in the repository, fitted on these rows; *left out* that on a model when every engine was
fitted without it: expect that or worse on a model of your own. The 90% band comes from models
left out, the 80% band is 0.78 of it in logarithms (a normal distribution); *in 80%* and *in 90%*
say how many left-out rows lie inside."""

TABLE = """\
| rows of | n | shipped mean | median | bias | left out mean | median | bias | in 80% | in 90% |
|---|---|---|---|---|---|---|---|---|---|"""

FACTOR = """
### After one factor of your own

What is left of the left-out error when one measurement corrects the level of each combination.

| figure | one factor per | mean | median | 90% within |
|---|---|---|---|---|"""

LOGS = """
### Logs of single requests

Two runs of vLLM 0.19.0 on RTX PRO 6000, 300 requests each, replayed request by request. Error of
each statistic: as shipped, with one efficiency fitted on the other log, and on its own.

| model | statistic | measured | shipped | of the other log | of its own |
|---|---|---|---|---|---|"""

FITTED = """
### What serving was calibrated on

Kernels of the engines (products, experts, attention, all-reduces) come from operator timings and
saw none of these rows: engine_curves.csv. What a step adds was fitted on the rows above by
`python -m planner.calibration.serving_fit`; each parameter belongs to all engines, to one or to an
architecture, none to a model, a source or a row. Which there are, and some priors, were chosen
with the rows in sight; so was a floor of launches under every step with prompts. Releases that no
row dates count as of the start of 2026. The logs had no part in the fit; that their release took
a slower all-reduce was read off operator timings of that release, after the error on two cards
had been seen.

| parameter | prior | fitted | why the prior |
|---|---|---|---|"""

WEAK = """
### Weak spots of serving

- Time to first token holds what clients, warm-up and start-ups add: runs before January 2026 had
  no warm-up, and the first crowd of some waited for kernels to be compiled.
- Prompts on Llama-3.1-70B under vLLM come out 10 to 45% too slow on four and eight H100 or H200,
  a tenth too fast on one: as if what tensor ranks do not cut took half the time, the rest more.
- The floor of TensorRT-LLM's kernels is 5% of the isolated one: launches are in the layer's.
- Small kernels of latent attention are taken to shorten from a tenth of a millisecond a layer in
  September 2025 to a few microseconds in spring 2026: seen on DeepSeek alone, by estimated dates.
- DeepSeek-V3.1 in nvfp4 with attention copies is two rows of one release; whether it drafts
  tokens or keeps prefixes is not stated. Offline runs of the same layout come out near. Sending
  tokens to those ranks alone that hold their experts would explain a tenth and fit those worse.
- RTX PRO 6000 in nvfp4: one stage comes out up to a quarter too slow, more stages less so.
- Models that are missed by more than a quarter when left out:
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the left-out scores; 2 if not called with measurements and a target."""
    given = [Path(a) for a in (sys.argv[1:] if arguments is None else arguments)]
    if len(given) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    rows = left_out_rows(given[:-1])
    with given[-1].open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
