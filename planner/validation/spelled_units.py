"""Units as sources spell them: whether a row's unit is the one that its metric is read in.

Nothing is converted: a figure in another unit is refused with the unit that is wanted, so that
no step of 1,420 ms is scored as one of 1,420 s. A blank unit is the one the metric's name states.
"""

from __future__ import annotations

import re

PER_DEVICE = r"(?:/| per )(?:gpu|chip|device|accelerator|npu|tpu)"
PER_S = r"(?:/s|/sec|/second| per second)"
TOKENS_PER_S = rf"tok(?:en)?s?{PER_S}"
TFLOP_PER_S = rf"t(?:era)?flops?(?:{PER_S})?(?:{PER_DEVICE})?"
GIB = rf"gib(?:{PER_DEVICE})?"
DEVICE_HOURS = r"(?:[\w.-]+ )?(?:gpu|chip|device|accelerator|npu|tpu)[- ]hours"
MS = ("ms", r"ms|milliseconds?")

SPELLED = {
    "step_time_s": ("s/step", r"(?:s|secs?|seconds?)(?:(?:/| per )(?:step|iteration|iter|it))?"),
    "tokens_per_s_per_gpu": ("tokens/s/GPU", TOKENS_PER_S + PER_DEVICE),
    "tokens_per_s_total": ("tokens/s", TOKENS_PER_S),
    "tokens_per_s_ambiguous": ("tokens/s", TOKENS_PER_S),
    "model_tflops_per_gpu": ("TFLOP/s/GPU", TFLOP_PER_S),
    "hw_tflops_per_gpu": ("TFLOP/s/GPU", TFLOP_PER_S),
    "mfu_percent": ("%", r"%|percent"),
    "gpu_hours_total": ("GPU-hours", DEVICE_HOURS),
    "gpu_hours_per_Ttok": (
        "GPU-hours per 1T tokens",
        rf"{DEVICE_HOURS}(?:/| per )(?:1 ?)?(?:t(?:era)?|trillion) ?tok(?:en)?s?",
    ),
    "peak_mem_gib_per_gpu": ("GiB/GPU", GIB),
    "param_opt_mem_gib_per_gpu": ("GiB/GPU", GIB),
    "activation_mem_gib_per_gpu": ("GiB/GPU", GIB),
    "throughput_tok_s": (
        "output tok/s", rf"(?:(?:in|out)put )?{TOKENS_PER_S}(?: per \d+-gpu node\b.*)?",
    ),
    "throughput_tok_s_per_gpu": ("output tok/s/GPU", rf"(?:output )?{TOKENS_PER_S}{PER_DEVICE}"),
}  # fmt: skip
"""Metric to its unit, and to every spelling of it, in lower case."""

OF_A_REQUEST = re.compile(r"(?:ttft|tpot|e2e)_ms_\w+")
"""Metrics of serving whose unit is a millisecond, whatever the statistic."""


def unit_wanted(metric: str, unit: str) -> str:
    """The unit of a metric where a row states another one; "" where all is well.

    What stands in brackets after a unit says how it was measured, and is no part of it.
    """
    known = SPELLED.get(metric) or (MS if OF_A_REQUEST.fullmatch(metric) else None)
    text = " ".join(unit.partition("(")[0].lower().split())
    if known is None or not text or re.fullmatch(known[1], text):
        return ""
    return known[0]
