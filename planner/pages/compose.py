"""A study from a form: what a person picks, written as the file that they could have written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import streamlit as st

from planner.documents.catalog import listing

SIZES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BATCHES = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
SEARCHED = (
    "tensor_parallel = [1, 2, 4, 8]",
    "pipeline_parallel = [1, 2, 4, 8]",
    "micro_batch_sequences = [1, 2]",
    'recompute = ["none", "selective", "full"]',
    "zero_stage = [1, 3]",
)
"""What a training study varies unless its text is changed."""

KINDS = {
    "train a model": "train",
    "serve a model": "serve",
    "buy or rent hardware, whatever it does": "hardware",
}
WANTED = {
    "train": (("usd", "days", "kgco2e"), ("usd", "days", "kgco2e", "devices")),
    "serve": (("usd", "kgco2e"), ("usd", "kgco2e", "devices", "ttft_s_p95", "tpot_s_p95")),
    "hardware": (("own_npv_usd", "kgco2e"), ("own_npv_usd", "capex_usd", "kgco2e")),
}
"""Objectives to be minimised that are offered first, and all that are offered."""


def composed() -> str:
    """The widgets, and the study that they say."""
    left, right = st.columns(2)
    name = left.text_input("Name", "my-study", max_chars=60, key="compose_name")
    kind = KINDS[str(right.selectbox("I want to", list(KINDS), key="compose_kind"))]
    lines = ["[study]", f"name = {_text(name or 'my-study')}", f'kind = "{kind}"', ""]
    lines += _workload(kind) if kind != "hardware" else []
    lines += [*_axes(kind), *_costing(), *_limits(kind), *_objectives(kind)]
    return "\n".join(lines) + "\n"


def _workload(kind: str) -> list[str]:
    left, middle, right = st.columns(3)
    models = _names("model")
    first = models.index("llama-3.1-8b") if "llama-3.1-8b" in models else 0
    model = left.selectbox("Model", models, index=first, key="compose_model")
    lines = ["[workload.main]", f'kind = "{kind}"', f"model = {_text(str(model))}"]
    if kind == "train":
        tokens = middle.number_input("Tokens [10⁹]", 0.001, 1e6, 1000.0, key="compose_tokens")
        length = right.number_input("Tokens a sequence", 128, 1_000_000, 4096, key="compose_len")
        return [*lines, f"tokens = {tokens * 1e9:g}", f"tokens_per_sequence = {length:d}", ""]
    trace = middle.selectbox("Requests like", _names("trace"), key="compose_trace")
    times = right.number_input("Times as many", 0.01, 1e5, 10.0, key="compose_times")
    ttft = left.number_input("First token within, p95 [s]", 0.01, 600.0, 2.0, key="compose_ttft")
    tpot = middle.number_input("Each further, p95 [s]", 0.001, 10.0, 0.05, key="compose_tpot")
    return [
        *lines,
        f"trace = {_text(str(trace))}",
        f'scale = {{ times = {times:g}, by = "superpose" }}',
        f"slo = {{ ttft_s_p95 = {ttft:g}, tpot_s_p95 = {tpot:g} }}",
        "",
    ]


def _axes(kind: str) -> list[str]:
    left, right = st.columns(2)
    chips = left.multiselect("Chips", _names("accelerator"), ["H100-SXM"], key="compose_chips")
    lines = ["[axes]", f"accelerator = {_list(chips or ['H100-SXM'])}"]
    if kind == "serve":
        return [*lines, ""]
    sizes = right.multiselect("Devices", SIZES, [256, 512], key="compose_sizes")
    lines.append(f"devices = {_list(sorted(sizes) or [256])}")
    if kind == "train":
        batches = st.multiselect("Sequences a step", BATCHES, [512, 1024], key="compose_batch")
        lines += [f"global_batch_sequences = {_list(sorted(batches) or [512])}", *SEARCHED]
    return [*lines, ""]


def _costing() -> list[str]:
    left, right = st.columns(2)
    sites = left.multiselect("Sites", _names("site"), ["us-tx", "se"], key="compose_sites")
    ways = ("buy", "lease", "reserved", "on_demand")
    acquire = right.selectbox("How it is had", ways, key="compose_acquire")
    return [
        "[costing]",
        f"site = {_list(sites or ['us-tx'])}",
        *([] if acquire == "buy" else [f'acquire = "{acquire}"']),
        "",
    ]


def _limits(kind: str) -> list[str]:
    left, right = st.columns(2)
    days = left.number_input("Days at most (0: no limit)", 0.0, 3650.0, 0.0, key="compose_days")
    mw = right.number_input("MW at the meter at most (0: no limit)", 0.0, 1e4, 0.0,
                            key="compose_mw")  # fmt: skip
    lines = [f"days = {days:g}"] if days and kind == "train" else []
    lines += [f"peak_facility_mw = {mw:g}"] if mw else []
    return ["[limits]", *lines, ""] if lines else []


def _objectives(kind: str) -> list[str]:
    first, offered = WANTED[kind]
    chosen = st.multiselect("As little as can be", offered, first, key=f"compose_least_{kind}")
    lines = ["[objectives]", f"minimise = {_list(chosen or first)}"]
    return [*lines, 'maximise = ["peak_flop_per_s"]'] if kind == "hardware" else lines


def _names(kind: str) -> list[str]:
    return sorted(str(entry["name"]) for entry in listing(kind, None)["entries"])


def _text(word: str) -> str:
    """A TOML string: a JSON one is read the same, whatever stands in it."""
    return json.dumps(word, ensure_ascii=False)


def _list(values: Sequence[Any]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
