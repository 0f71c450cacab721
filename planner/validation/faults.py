"""What a row of measurements cannot say: each fault as given, wanted, do; nothing is repaired.

A setting that no run can have would be scored as another one, and a number in another unit as if
it were a slow or a fast run: such a row is not predicted, and its fault is the reason. A blank
cell is no fault where a stated default stands for it. A word of a source that is not ours takes
the default of a blank, and is told.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from planner.validation.spelled_units import unit_wanted
from simkernel.candidates import RECOMPUTE

Cells = Mapping[str, str]

NUMBERS = (
    "value", "n_accel", "tp", "pp", "dp", "cp", "ep", "vpp", "zero_stage", "seq_len",
    "global_batch_seqs", "micro_batch", "params_b", "n_layers", "hidden", "n_heads",
    "n_kv_heads", "ffn_hidden", "vocab", "head_dim", "scaleout_gbytes_per_s",
    "input_len", "output_len", "isl", "osl", "concurrency", "n_gpu_clean", "attention_dp_size",
    "n_gpu", "avg_batch", "avg_output_len", "tok_s", "joules_per_token", "power_w_per_gpu",
    "moe_ep_size", "pp_size", "silicon_ttft_ms", "silicon_tpot_ms", "n_experts", "top_k",
)  # fmt: skip
"""Columns whose cells are numbers above 0, or blank."""

MAY_BE_ZERO = ("zero_stage", "attention_dp_size", "moe_ep_size", "n_experts", "top_k")
"""Columns whose 0 means none."""

WHOLE = (
    "n_accel", "tp", "pp", "dp", "cp", "ep", "vpp", "zero_stage", "seq_len", "global_batch_seqs",
    "micro_batch", "n_layers", "hidden", "n_heads", "n_kv_heads", "ffn_hidden", "vocab",
    "head_dim", "n_experts", "top_k", "n_gpu_clean", "attention_dp_size", "moe_ep_size", "pp_size",
)  # fmt: skip
"""Columns that count something; 8.0 is 8, 8.5 is nothing."""

MEASURED = ("value", "silicon_tpot_ms", "tok_s", "power_w_per_gpu", "joules_per_token")
"""Columns that hold what was measured: a row without it measures nothing."""


NAMING = ("case_id", "metric", "what", "scope", "workload", "task", "avg_batch")
"""Columns that name what a row measured; a file has some of them."""

UNKNOWN = "unknown"
"""Word of a source that says nothing; the same as a blank."""

SEQUENCE_CUT, SEQUENCE_WHOLE = ("1", "1.0", "yes", "on"), ("0", "0.0", "no", "off")
WORDS = {
    "mtp": ("0", "1", "0.0", "1.0"),
    "use_ttft": ("yes", "no"),
    "zero_stage": ("0", "1", "2", "3", "0.0", "1.0", "2.0", "3.0"),
}
"""Columns with a set of words, or blank: whether there are draft layers, whether a first token is
scored, and the stages of ZeRO (Rajbhandari et al. 2020, arXiv 1910.02054)."""


def _any_of(*words: str) -> re.Pattern[str]:
    return re.compile("|".join(rf"\A{re.escape(word)}\Z" for word in words))


UNFUSED_ATTENTION = re.compile(r"\bunfused\b", re.IGNORECASE)
STACK = re.compile(rf"fused|flash|\A{UNKNOWN}\Z", re.IGNORECASE)
"""What a text of `stack` has to say: whether attention was fused."""

RELEASE = re.compile(r"(2\d)\.(0[1-9]|1[0-2])(?:\.\d\d)?")
"""Year, month and perhaps a patch, as the vendor numbers its containers: 25.11, 26.04.01. What a
release gains in a year is known about 2026, and not carried to other decades."""

TOLD: Mapping[str, tuple[re.Pattern[str], str]] = {
    "sp": (_any_of(*SEQUENCE_CUT, *SEQUENCE_WHOLE, UNKNOWN), "1, yes, on, 0, no, off"),
    "recompute": (_any_of(*RECOMPUTE, UNKNOWN), ", ".join((*RECOMPUTE, UNKNOWN))),
    "flop_convention": (_any_of("full", "causal", UNKNOWN), f"full, causal, {UNKNOWN}"),
    "stack": (STACK, "unfused, fused or flash in it"),
    "software_release": (re.compile(rf"\A{RELEASE.pattern}\Z"), "a form like 25.11 or 26.04.01"),
}
"""Columns in a source's own words: sequence parallelism, recompute, what of the scores a FLOP
rate counts, attention, the vendor's release; what is read of each, and that in words."""

EDGE_STAGES = 2
"""Chunks of a pipeline that may hold the embedding or the head alone: 16 stages of 8 chunks for
126 layers in NVIDIA-NeMo/Megatron-Bridge's recipes of Llama 3.1 405B."""


def row_faults(cells: Cells) -> list[str]:
    """All faults of one row, in words."""
    return [fault for check in CHECKS for fault in check(cells)]


def name_of(cells: Cells) -> tuple[str, ...]:
    """What a row measured; a figure of the same name given twice would count twice."""
    return tuple(_text(cells, name) for name in NAMING)


def unread_words(cells: Cells) -> dict[str, str]:
    """Columns whose word is not ours, each with what would have been: they count as blank."""
    return {
        name: f"{name}: {_text(cells, name)!r} is not known and taken as blank; wanted {wanted}"
        for name, (known, wanted) in TOLD.items()
        if _text(cells, name) and not known.search(_text(cells, name))
    }


def _text(cells: Cells, name: str) -> str:
    return cells.get(name, "").strip()


def _number(cells: Cells, name: str) -> float | None:
    """A cell as a number; None where it is blank or none."""
    try:
        return float(_text(cells, name))
    except ValueError:
        return None


def _amounts(cells: Cells) -> Iterable[str]:
    for name in NUMBERS:
        text, value = _text(cells, name), _number(cells, name)
        least = "0 or more" if name in MAY_BE_ZERO else "above 0"
        if text and not (value is not None and _is_amount(value, name in MAY_BE_ZERO)):
            yield f"{name}: {text!r} is not a number {least}; give one, or leave it blank"


def _is_amount(value: float, may_be_zero: bool) -> bool:
    return math.isfinite(value) and (value > 0 or (may_be_zero and value == 0))


def _measured(cells: Cells) -> Iterable[str]:
    for name in MEASURED:
        if name in cells and not _text(cells, name):
            yield f"{name}: blank; wanted what was measured; give it, or take the row out"


def _first_token(cells: Cells) -> Iterable[str]:
    if _text(cells, "use_ttft") == "yes" and not _text(cells, "silicon_ttft_ms"):
        yield "silicon_ttft_ms: blank, but use_ttft is yes; give it, or set use_ttft to no"


def _whole(cells: Cells) -> Iterable[str]:
    for name in WHOLE:
        value = _number(cells, name)
        if value is not None and math.isfinite(value) and not value.is_integer():
            yield f"{name}: {_text(cells, name)!r} is not a whole number; give a count"


def _unit(cells: Cells) -> Iterable[str]:
    unit, metric = _text(cells, "unit"), _text(cells, "metric")
    wanted = unit_wanted(metric, unit)
    if wanted:
        yield f"unit: {unit!r} is no unit of {metric}; wanted {wanted}; convert the value"


def _words(cells: Cells) -> Iterable[str]:
    for name, known in WORDS.items():
        text = _text(cells, name)
        if text and text not in known:
            listed = ", ".join(word for word in known if not word.endswith(".0"))
            yield f"{name}: {text!r} is not known; wanted one of {listed}, or a blank"


def _degrees(cells: Cells) -> Iterable[str]:
    """Degrees that contradict each other; one left blank is 1."""
    chunks, stages = _number(cells, "vpp") or 1.0, _number(cells, "pp") or 1.0
    if chunks > 1 and stages == 1:
        yield f"vpp: {chunks:g} virtual stages with pp 1; wanted pp above 1, or vpp 1 or blank"
    layers = _number(cells, "n_layers")
    if layers and chunks > 1 and chunks * stages > layers + EDGE_STAGES:
        yield f"vpp: {chunks:g} x pp {stages:g} is more than the {layers:g} layers; give fewer"
    ranks, experts = _number(cells, "ep") or 1.0, _number(cells, "n_experts")
    devices = _number(cells, "n_accel")
    if devices and ranks > devices:
        yield f"ep: {ranks:g} on {devices:g} devices; wanted at most n_accel"
    elif experts and experts % ranks:
        yield f"ep: {ranks:g} does not divide n_experts {experts:g}; give a divisor of it"


CHECKS: Sequence[Callable[[Cells], Iterable[str]]] = (
    _amounts,
    _measured,
    _first_token,
    _whole,
    _unit,
    _words,
    _degrees,
)
"""Every check of one row."""
