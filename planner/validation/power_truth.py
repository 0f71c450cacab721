"""Metered power as cases: serving runs of devices, and training runs of whole nodes.

Rows of the energy benchmark have no licence: they are read from the path given. Prompts are not
published per row; their lengths by task are estimates (rules/metered_tasks.csv).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from costdata.catalog import Catalog
from costdata.configs import read_model
from planner.calibration.kernels import TABLES
from planner.validation.rows import TruthRow
from planner.validation.serving_truth import Case, case_of
from simkernel.errors import MissingFact, PlanError

DEVICE_W, J_PER_TOKEN = "device_mean_w", "j_per_token"
NODE_MEAN_W, NODE_PEAK_W = "node_mean_w", "node_peak_w"

METERED = {"H100": "H100-SXM", "B200": "B200-SXM"}
"""Labels of the power file and ours; other labels there are other parts or other limits."""

ENGINE = "vllm"
DEVICES_ONLY = "GPU only"
"""How the scope of a row begins whose watts are those of the devices."""

TASKS = TABLES / "rules" / "metered_tasks.csv"
CLASSES = TABLES / "rules" / "utilisation_classes.csv"

NODE_METRICS = {"mean power per": NODE_MEAN_W, "95th-percentile power per node": NODE_PEAK_W}
"""How the rows of whole nodes begin that are predicted."""


def is_metered(row: TruthRow) -> bool:
    """A row of a file of metered power, of either kind."""
    return is_run(row) or is_node(row)


def is_run(row: TruthRow) -> bool:
    """Metered devices that serve."""
    return "joules_per_token" in row.cells


def is_node(row: TruthRow) -> bool:
    """Metered nodes that train."""
    return "scope" in row.cells and "workload" in row.cells


def metered_rows(rows: Sequence[TruthRow]) -> tuple[TruthRow, ...]:
    """The rows with the columns by which scores are grouped; models by our names."""
    return tuple(replace(r, cells={**r.cells, **_common(r)}) for r in rows)


def _common(row: TruthRow) -> dict[str, str]:
    if is_node(row):
        return {
            "source_group": f"{_maker(row)} {cooling_of(row)}".strip(),
            "model": row.text("workload"),
            "engine": "",
            "metric": "node",
        }
    return {
        "source_group": row.text("source"),
        "model": _model_name(row.text("model")),
        "accelerator": row.text("gpu"),
        "metric": "metered",
        "batch_or_concurrency": row.text("max_batch") or row.text("avg_batch"),
        "precision": row.text("weight_precision"),
        "output_len": row.text("task"),
        "parallel": " ".join(row.text(name) for name in ("n_gpu", "tp", "ep")),
    }


def _model_name(text: str) -> str:
    """The catalogue's name; of a model that it does not know what the row says."""
    try:
        return read_model(text).name
    except PlanError:
        return text


def run_of(row: TruthRow, catalog: Catalog) -> Case:
    """A metered serving run made ready.

    Raises
    ------
    MissingFact : watts of more than the devices, an unknown device, or an unknown task
    """
    if not row.text("power_scope").startswith(DEVICES_ONLY) or row.text("gpu") not in METERED:
        raise MissingFact(f"{row.text('power_scope')} on {row.text('gpu')} is not predicted")
    prompts = prompt_tokens()
    if row.text("task") not in prompts:
        raise MissingFact(f"prompts of task {row.text('task')} are not known")
    served = {
        "batch_or_concurrency": row.text("avg_batch"),
        "model_slug": row.text("model"),
        "accelerator_id": METERED[row.text("gpu")],
        "n_accel": row.text("n_gpu"),
        "precision": row.text("weight_precision"),
        "input_len": str(prompts[row.text("task")]),
        "output_len": row.text("avg_output_len"),
        "metric": "throughput_tok_s",
        "value": row.text("tok_s"),
    }
    case = case_of(replace(row, cells={**row.cells, **served}), catalog)
    measured = {
        DEVICE_W: float(row.cells["power_w_per_gpu"]),
        J_PER_TOKEN: float(row.cells["joules_per_token"]),
    }
    # Files with 8-bit weights leave keys and values in 16 bits unless the server is told.
    plan = {**case.plan, "cache_bytes_per_value": 2.0}
    return replace(case, row=row, plan=plan, measured=measured)


@cache
def prompt_tokens() -> Mapping[str, float]:
    """Mean prompt of each task of the energy benchmark."""
    with TASKS.open(newline="", encoding="utf-8") as file:
        return {row["task"]: float(row["prompt_tokens"]) for row in csv.DictReader(file)}


@dataclass(frozen=True)
class NodeCase:
    """A metered training run of nodes of eight: chip, cooling, and how busy its class is.

    `busy_frac` is of the whole logged run, start-up and evaluation included.
    """

    row: TruthRow
    accelerator: str
    cooling: str
    busy_frac: float
    regime: str = "dense"
    kind: str = "node"


@dataclass(frozen=True)
class NodeFigure:
    """What one row says of a node: the metric and its watts."""

    case: NodeCase
    metric: str
    watts: float


def node_of(row: TruthRow, catalog: Catalog) -> NodeFigure:
    """A metered node made ready.

    Raises
    ------
    MissingFact : another figure than mean or p95 watts, watts behind the power supply, a cooling
        or class of work that is not known
    """
    what, scope = row.text("what"), row.text("scope")
    metric = next((m for start, m in NODE_METRICS.items() if what.startswith(start)), "")
    if not metric:
        raise MissingFact(f"{what} is not a figure that is predicted")
    if scope.endswith("DC"):
        raise MissingFact("watts behind the power supply; the AC row of the run is predicted")
    case = NodeCase(
        row, catalog.accelerator_name(row.text("accelerator")), cooling_of(row), busy_frac(row)
    )
    return NodeFigure(case, metric, row.value)


def cooling_of(row: TruthRow) -> str:
    """How the node of a row is cooled: "air", "liquid" (immersion or water), "" unknown."""
    text = row.text("source").lower()
    if "immersion" in text or "water" in text:
        return "liquid"
    return "air" if "air" in text else ""


def busy_frac(row: TruthRow) -> float:
    """Share of a logged run in which devices work at full load, by the class of the run.

    Raises
    ------
    MissingFact : no class fits
    """
    devices = row.number("n_accel") or 0.0
    with CLASSES.open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["workload"] in row.text("workload") and devices <= float(line["most_devices"]):
                return float(line["busy_frac"])
    raise MissingFact(f"{row.text('workload')} on {devices:.0f} devices has no utilisation class")


def _maker(row: TruthRow) -> str:
    """The submitter, as the source of the row names it."""
    return next((m for m in ("smc", "Dell", "Lenovo") if m in row.text("source")), "other")
