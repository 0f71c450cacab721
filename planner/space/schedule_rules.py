"""Which schedules can run at all: what each file of a schedule says it needs, as named masks."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from planner.axes import DEFAULT_SCHEDULE, Level
from planner.space.rule import Columns, Context, Mask, Rule, micro_batch_of_all
from simkernel import plugins
from simkernel.candidates import ACTIVATIONS_OFFLOADED_FRAC, OFFLOAD


def schedule_rules() -> tuple[Rule, ...]:
    """Rules on a schedule, its stages and what it can run beside its passes."""
    return (
        Rule(
            "virtual_stages_exceed_layers",
            ("pipeline_parallel", "schedule", "virtual_stages"),
            _every_chunk_has_a_layer,
            "a virtual stage would hold no layer",
        ),
        Rule(
            "virtual_stages_need_interleaving",
            ("pipeline_parallel", "schedule", "virtual_stages"),
            _virtual_stages_fit,
            "only an interleaved pipeline has virtual stages, and it needs several",
        ),
        Rule(
            "schedule_needs_expert_parallel",
            ("expert_parallel", "schedule"),
            lambda c, x: (c["expert_parallel"] > 1) | ~of_schedule("needs_expert_parallel", c, x),
            "there is no exchange of experts to run beside other work (combined 1f1b)",
        ),
        Rule(
            "schedule_forbids_full_recompute",
            ("schedule", "recompute"),
            _recompute_fits,
            "passes that run beside each other cannot run whole layers again (combined 1f1b)",
        ),
        Rule(
            "schedule_forbids_offloaded_activations",
            ("schedule", "offload"),
            _offload_fits,
            "gradients of weights that are put off would need activations from the host a second "
            "time, or keep them on the device (zero bubble, dual pipes)",
        ),
        Rule(
            "stage_layers_do_not_add_up",
            (
                "pipeline_parallel",
                "schedule",
                "virtual_stages",
                "first_stage_layers",
                "last_stage_layers",
            ),
            _stage_layers_add_up,
            "given layers need a pipeline of several stages, one to a device, and leave every "
            "other virtual stage at least one layer",
        ),
        Rule(
            "schedule_needs_even_stages",
            ("pipeline_parallel", "schedule"),
            lambda c, x: c["pipeline_parallel"] % of_schedule("stage_multiple", c, x) == 0,
            "a pipeline fed from both ends has as many stages on either side of its middle",
        ),
    )


def of_schedule(trait: str, c: Columns, x: Context) -> Any:
    """A trait of each row's schedule, as in simkernel.schedule_traits."""
    names = x.levels["schedule"]
    return np.array([getattr(_schedule(name).TRAITS, trait) for name in names])[c["schedule"]]


def _schedule(name: Level) -> ModuleType:
    return plugins.find("schedules", str(name))


def _every_chunk_has_a_layer(c: Columns, x: Context) -> Mask:
    stages = c["pipeline_parallel"] * of_schedule("stages_held", c, x)
    stages = stages // of_schedule("stage_copies", c, x)
    return np.asarray(
        (c["pipeline_parallel"] == 1) | (stages * c["virtual_stages"] <= x.model.layers)
    )


def _stage_layers_add_up(c: Columns, x: Context) -> Mask:
    first, last = c["first_stage_layers"], c["last_stage_layers"]
    stages, chunks = c["pipeline_parallel"], c["virtual_stages"]
    is_several = (stages > 1) & (of_schedule("stages_held", c, x) == 1)
    others = stages - (first > 0) - (last > 0)
    left = x.model.layers - first - last
    is_whole = np.where(others > 0, left >= others * chunks, left == 0)
    is_cut = [(n == 0) | (n >= chunks) for n in (first, last)]
    return np.asarray(((first + last) == 0) | (is_several & is_whole & is_cut[0] & is_cut[1]))


def _virtual_stages_fit(c: Columns, x: Context) -> Mask:
    several = (c["virtual_stages"] > 1) & (c["pipeline_parallel"] > 1)
    is_whole = c["virtual_stages"] == 1
    is_alone = is_whole & (c["pipeline_parallel"] == 1) & ~of_schedule("needs_pipeline", c, x)
    is_chunked = of_schedule("is_chunked", c, x)
    return np.asarray(np.where(is_chunked, several | is_alone, is_whole))


def _recompute_fits(c: Columns, x: Context) -> Mask:
    is_full = np.array([name == "full" for name in x.levels["recompute"]])[c["recompute"]]
    return np.asarray(~is_full | of_schedule("runs_full_recompute", c, x))


def _offload_fits(c: Columns, x: Context) -> Mask:
    frac = ACTIVATIONS_OFFLOADED_FRAC[[OFFLOAD.index(str(n)) for n in x.levels["offload"]]]
    return np.asarray((frac[c["offload"]] == 0.0) | ~of_schedule("puts_off_weights", c, x))


def pipeline_filled(c: Columns, x: Context) -> Mask:
    """Each row's schedule can be run with so many micro-batches."""
    micro_batches = c["global_batch_sequences"] // micro_batch_of_all(c)
    stages, codes = c["pipeline_parallel"], c["schedule"]
    filled: Mask = micro_batches < 0
    for code, name in enumerate(x.levels["schedule"]):
        filled = filled | ((codes == code) & _schedule(name).fills(stages, micro_batches))
    return np.asarray(filled)


def schedule_is_first(c: Columns, x: Context) -> Mask:
    """Without a pipeline only one schedule, the plainest, stands for all."""
    names = x.levels["schedule"]
    plain = [name for name in names if not _schedule(name).TRAITS.is_chunked]
    wanted = DEFAULT_SCHEDULE if DEFAULT_SCHEDULE in names else (plain or names)[0]
    is_own = (c["pipeline_parallel"] > 1) | ~of_schedule("needs_pipeline", c, x)
    return np.asarray(is_own | (c["schedule"] == names.index(wanted)))
