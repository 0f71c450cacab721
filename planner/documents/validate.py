"""What `planner validate` answers, as one document, as text, and as a file of rows."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from costdata import catalog as catalogue
from planner.validation.orders import Scored
from planner.validation.protocols import predict
from planner.validation.request_logs import read_rows
from planner.validation.rows import chosen, sound
from planner.validation.scores import scores
from planner.validation.training import Validation
from simkernel.errors import BadFile, BadStudy

ROW_COLUMNS = (
    "case_id", "source_group", "model", "accelerator", "metric", "profile", "regime", "measured",
    "predicted", "ratio", "is_infeasible",
)  # fmt: skip


def validate(
    truth: Sequence[Path], protocol: str, where: Sequence[str], rows_to: Path | None = None
) -> dict[str, Any]:
    """Predicted against measured, as the document of the contract.

    Parameters
    ----------
    truth : files of training measurements
    protocol : "shipped" (nothing fitted), "fitted", "leave_one_out:COLUMN" or
        "one_factor:COLUMN,…"; see `planner.validation.protocols`
    where : COLUMN=VALUE, narrowing or overriding which rows are used
    rows_to : a CSV file to write one line per predicted row to

    Raises
    ------
    BadStudy : another protocol, a condition that is none, or too few rows to fit on
    BadFile : a file that is no file of measurements, or `rows_to` that cannot be written
    """
    if rows_to is not None and (not rows_to.parent.is_dir() or rows_to.is_dir()):
        raise BadFile(f"--rows {rows_to}: wanted a file in a folder that is there; make it")
    rows = chosen(read_rows(truth), where)
    if not rows:
        raise BadStudy("no row is left to validate; widen --where")
    told = sound(rows)
    found = predict(told.rows, catalogue.load(), protocol)
    found = replace(found, unsupported=(*told.faulty, *found.unsupported))
    if rows_to is not None:
        try:
            _write(rows_to, found.predictions)
        except OSError as error:
            lost = f"--rows {rows_to} cannot be written: {error}; give another file"
            raise BadFile(lost) from error
    return {**document(len(rows), found, protocol), "notes": list(told.notes)}


def document(rows: int, found: Validation[Any], protocol: str) -> dict[str, Any]:
    """The JSON document of a validation."""
    infeasible = [p.row.case_id for p in found.predictions if p.is_infeasible]
    return {
        "rows": rows,
        "predicted": rows - len(found.unsupported),
        "unsupported": [{"case_id": case, "why": why} for case, why in found.unsupported],
        "infeasible": list(dict.fromkeys(infeasible)),
        "protocol": protocol,
        "metrics": scores(found.predictions),
    }


def validate_text(document: Mapping[str, Any]) -> str:
    """Error tables, what was not predicted and why, and what was called infeasible."""
    lines = [
        f"{document['predicted']} of {document['rows']} rows predicted, "
        f"protocol {document['protocol']}"
    ]
    for metric, found in document["metrics"].items():
        lines += ["", _line(metric, HEAD), _line("all", _cells(found))]
        for group, values in found["groups"].items():
            lines.append(f"by {group}")
            lines += [_line(f"  {value}", _cells(part)) for value, part in values.items()]
        lines += _order_lines(found)
    if document["unsupported"]:
        lines += ["", "not predicted"]
        lines += [f"  {item['case_id']}: {item['why']}" for item in document["unsupported"]]
    if document["notes"]:
        lines += ["", "words that are not ours", *(f"  {note}" for note in document["notes"])]
    if document["infeasible"]:
        lines += ["", "ran, but memory is predicted to be too small"]
        lines += [f"  {case}" for case in document["infeasible"]]
    return "\n".join(lines)


def _order_lines(found: Mapping[str, Any]) -> list[str]:
    """How runs that differ in one setting are ranked, and how speed scales with devices."""
    ranked, scaled = found["factorial"], found["scaling"]
    lines = []
    if ranked["groups"]:
        lines.append(
            f"{ranked['groups']} factorial groups, tau at least {ranked['tau_least']:.2f}"
        )
        lines += [
            f"  {o['group']} by {o['setting']}, {o['n']} rows: tau {o['tau']:.2f}"
            for o in ranked["below"]
        ]
    if scaled["pairs"]:
        most = scaled["log_error_most"]
        lines.append(f"{scaled['pairs']} scaling pairs, off by {most:.3f} in log at most")
        lines += [
            f"  {s['group']} {s['few']} to {s['many']}: {s['log_error']:+.3f}"
            for s in scaled["beyond"]
        ]
    return lines


HEAD = ("n", "mape", "median", "p90", "bias", "in 80%", "in 90%", "tau")


def _cells(part: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("mape", "median_ape", "p90_ape", "bias", "coverage_80", "coverage_90")
    tau = part["rank_tau"]
    shown = [f"{100 * part[name]:.1f}%" for name in names]
    return (str(part["n"]), *shown, "" if tau is None else f"{tau:.2f}")


def _line(name: str, cells: Sequence[str]) -> str:
    return f"{name:28.28}" + "".join(f"{cell:>9}" for cell in cells)


def _write(path: Path, predictions: Sequence[Scored]) -> None:
    """One line per row: measured, predicted, the whole plan and the terms of its step."""
    plans = list(dict.fromkeys(name for p in predictions for name in p.plan))
    terms = list(dict.fromkeys(name for p in predictions for name in p.terms_s))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*ROW_COLUMNS, *plans, *(f"{name}_s" for name in terms)])
        for p in predictions:
            texts = [p.row.text(n) for n in ROW_COLUMNS[:5]]
            texts += [p.case.kind, p.case.regime]
            numbers = [p.measured, p.predicted, p.ratio, int(p.is_infeasible)]
            settings = [p.plan.get(n, "") for n in plans]
            writer.writerow([*texts, *numbers, *settings, *(p.terms_s.get(n, "") for n in terms)])
