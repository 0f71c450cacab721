"""A study of two pools made ready: a serving engine for each phase, and the space of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from planner.pools.space import PairSpace, pair_space
from planner.serving.engine import ServeEngine, refuse_unknown_metrics, serving_notes
from planner.serving.engine import prepare as prepare_pool
from planner.serving.load import Load, ServeLoad, serve_load
from planner.study.pools import DECODE, POOLS, PREFILL, TRANSFER, pool_study, unsaid_pool
from planner.study.read import Study
from simkernel.errors import BadStudy
from simkernel.models import Model
from simkernel.serving_mix import Mix, mix_of

FABRIC = (
    "one fabric joins both pools: each pays its share, by hosts, of one that reaches all; between "
    "chips of two vendors, that their cards talk to each other is taken, not known"
)

MOVED = (
    "keys and values go over the scale-out wires of both ends, at each end one request after "
    "another over that end's own wires; blocks of the prompt are reserved at the destination "
    "first and held at both ends until all is there; the time to first token ends with it"
)


@dataclass(frozen=True)
class PoolsEngine:
    """What every pair of plans shares.

    Parameters
    ----------
    study, catalog, model, load : as for a fleet that does both
    pools : the engine of each phase, with the load of that phase
    space : all pairs
    missing : chips left out because a fact is missing, with the fact
    """

    study: Study
    catalog: Catalog
    model: Model
    load: ServeLoad
    pools: Mapping[str, ServeEngine]
    space: PairSpace
    missing: Mapping[str, str]


def prepare(study: Study, catalog: Catalog | None = None) -> PoolsEngine:
    """The engine of a study with pools.

    Raises
    ------
    BadStudy : devices that are of no pool
    BadStudy, UnknownName, MissingFact : as a serving study's own, of either pool
    """
    refuse_unknown_metrics(study)
    faults = unsaid_pool(study)
    if not study.serving.operations.is_quiet:
        faults = [
            *faults,
            "operations: failures, ranks, admission and autoscale are not played on pools apart; "
            "remove the table, or give no axis a pool of its own",
        ]
    if faults:
        raise BadStudy(*faults)
    catalog = catalog or catalogue.load(Path(study.tables) if study.tables else None)
    pools = {pool: phase_engine(study, pool, catalog) for pool in POOLS}
    return joined(study, catalog, pools)


def joined(
    study: Study,
    catalog: Catalog,
    pools: Mapping[str, ServeEngine],
    counts: Mapping[str, Sequence[int]] | None = None,
) -> PoolsEngine:
    """Two engines of one phase each as one of pairs; `counts` as of `pair_space`."""
    spaces = {pool: engine.space for pool, engine in pools.items()}
    return PoolsEngine(
        study=study,
        catalog=catalog,
        model=pools[PREFILL].model,
        load=serve_load(study),
        pools=MappingProxyType(dict(pools)),
        space=pair_space(spaces, study.axes[TRANSFER], counts),
        missing=MappingProxyType(
            {k: why for engine in pools.values() for k, why in engine.missing.items()}
        ),
    )


def phase_engine(study: Study, pool: str, catalog: Catalog | None = None) -> ServeEngine:
    """One pool's engine: its own axes, and the load of its phase."""
    own = pool_study(study, pool)
    found = prepare_pool(own, catalog)
    return replace(found, load=phase_load(found.load, pool))


def phase_load(load: ServeLoad, pool: str) -> ServeLoad:
    """What one pool is asked: prompts and a token each, or answers to prompts that are there.

    Bounds that need both pools are nobody's here.
    """
    latency = {PREFILL: "ttft_s", DECODE: "tpot_s"}[pool]
    bounds = tuple(bound for bound in load.bounds if bound.latency == latency)
    if pool == DECODE:
        return replace(load, bounds=bounds)
    prompts = load.demand.requests.prompt_tokens
    window = slice(load.window.start_row, load.window.end_row)
    return replace(
        load,
        bounds=bounds,
        peak=Load(load.peak.requests_per_s, _of_prompts(prompts[window])),
        mean=Load(load.mean.requests_per_s, _of_prompts(prompts)),
        longest_tokens=load.longest_prompt_tokens + 1,
    )


def _of_prompts(prompt_tokens: np.ndarray) -> Mix:
    """Prompts of which only the first token is wanted."""
    return mix_of(prompt_tokens, np.ones_like(prompt_tokens))


def pools_notes(study: Study, catalog: Catalog) -> dict[str, str]:
    """What a reader of the front has to know that no figure shows."""
    return {**serving_notes(study, catalog), "pools": f"{FABRIC}; {MOVED}"}
