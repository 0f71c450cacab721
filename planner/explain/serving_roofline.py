"""Where a serving plan stands under the roof of its chip, and what its steps send by tier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.explain.roofline import Roofline
from planner.serving.engine import ServeEngine
from planner.serving.evaluate import fleet_of, lane_of, shared
from planner.serving.plans import serving_plans, serving_rig
from planner.serving.watts import mean_shares
from planner.space.blocks import values_of
from planner.space.plan_keys import codes_of
from simkernel.lane_pace import Pace
from simkernel.passes import Pass
from simkernel.serving_rig import Rig
from simkernel.step_parts import ATTENTION, HEAD, step_parts


@dataclass(frozen=True)
class Served:
    """A device in the busiest window.

    Parameters
    ----------
    roof : shares of all time, kernels and gaps between them
    inside_bytes_per_step, outside_bytes_per_step : sent by a device in a mean step, inside and
        outside the scale-up domain
    tokens_per_step : that it holds: of decoding sequences and of prompts
    """

    roof: Roofline
    inside_bytes_per_step: float
    outside_bytes_per_step: float
    tokens_per_step: float


def serving_roofline(engine: ServeEngine, key: int) -> Served:
    """The roofline of one serving plan, and its bytes by tier.

    Parameters
    ----------
    key : design key of the plan in the engine's space

    Notes
    -----
    Of the fleet that the closed form sizes. What one stage of a pipeline hands to the next is not
    among the bytes: it is of the order of a layer's activations, once in a step.

    References
    ----------
    Williams, Waterman and Patterson, Communications of the ACM 52, 2009.
    """
    codes = codes_of(engine.space, np.array([key]))
    columns = values_of(engine.space, codes)
    name = str(engine.space.levels["accelerator"][codes[0, 0]])
    plans = serving_plans(engine, columns)
    rig = serving_rig(engine, columns, plans, name)
    lanes = plans.attention_data_parallel * plans.pipeline_parallel * 1.0
    lane = shared(engine, columns, lane_of(engine, rig), lanes)
    at = fleet_of(engine, columns, plans, lane).busiest
    _, memory, compute, network, _ = (float(share[0]) for share in mean_shares(lane, at))
    roof = Roofline(
        peak_flop_per_s=float(rig.chips.peak_flop_per_s[0, plans.precision_code[0]]),
        hbm_bytes_per_s=float(np.asarray(rig.chips.hbm_bytes_per_s).reshape(-1)[0]),
        compute_frac=compute,
        memory_frac=memory,
        network_frac=network,
    )
    tokens = at.standing.mean_tokens + at.carrying_frac * at.mean_carried_tokens
    sent = _sent(rig, at, tokens, engine.load.peak.mix.context_tokens)
    inside, outside = (float(np.sum(part)) for part in (sent.inside_bytes, sent.outside_bytes))
    return Served(roof, inside, outside, float(np.asarray(tokens).reshape(-1)[0]))


def _sent(rig: Rig, at: Pace, tokens: np.ndarray, context_tokens: float) -> Pass:
    """The passes of a mean step: layers of all its tokens, the head of its decoding sequences."""
    context = np.full(len(rig.plans), float(context_tokens))
    by_tokens = step_parts(rig, np.asarray(tokens, float), context)
    layers = [part for name, part in by_tokens.items() if name not in (HEAD, ATTENTION)]
    by_rows = step_parts(rig, np.asarray(at.decoding_sequences, float), context)
    return sum(layers, start=Pass()) + by_rows[HEAD] + by_rows.get(ATTENTION, Pass())
