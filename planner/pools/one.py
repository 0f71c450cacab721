"""Pairs one by one: evaluated by their codes, changed on one axis, and the pair of one study."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any

import numpy as np

from costdata.catalog import Catalog
from planner.axes import AFTER_PREFILL, ALL, LAYER_WISE, Level
from planner.evaluated import Evaluated
from planner.pools.counts import counts_of
from planner.pools.engine import PoolsEngine, joined, phase_engine
from planner.pools.join import Pair, evaluated, is_layer_wise, pair_of
from planner.pools.named import named_pairs
from planner.pools.phase import PoolRows, pool_rows, ready
from planner.pools.space import COUNTED, PairSpace, around_count
from planner.space.blocks import MOST_KEYS, Ints, Space, values_of
from planner.space.plan_keys import codes_of
from planner.study.pools import OF_BOTH, POOLS, TRANSFER, pool_study
from planner.study.read import Study
from simkernel.columns import Codes
from simkernel.errors import BadStudy


def evaluate(engine: PoolsEngine, columns: Mapping[str, Any], accelerator: str) -> Evaluated:
    """Nothing: a pair has two rows of columns.

    Raises
    ------
    BadStudy : always; `rows` evaluates pairs
    """
    raise BadStudy(
        "prefill and decode on pools apart are not evaluated block by block; remove the axes of "
        "the pools from this study"
    )


def rows(engine: PoolsEngine, codes: Ints) -> tuple[Evaluated, dict[str, Any]]:
    """Pairs of one pair of chips after physics, and their columns as a person reads them.

    Parameters
    ----------
    codes : (n, axes) of the space of pairs
    """
    pair = pair_at(engine, codes)
    found = evaluated(engine, pair)
    return found, named_pairs(engine, pair, codes, found, np.arange(len(codes)))


def pair_at(engine: PoolsEngine, codes: Ints) -> Pair:
    """Rows of both pools of some pairs of one pair of chips."""
    prefill, decode = (_side(engine, pool, codes) for pool in POOLS)
    transfer = engine.space.transfer_of(codes)
    return pair_of(engine, prefill, decode, is_layer_wise(engine, transfer))


def _side(engine: PoolsEngine, pool: str, codes: Ints) -> PoolRows:
    """One pool's rows of some pairs, with the replicas that the codes say."""
    own, columns = engine.pools[pool], engine.space.values(pool, codes)
    accelerator = str(own.space.levels["accelerator"][int(columns["accelerator"][0])])
    found = ready(own, pool, columns, accelerator)
    devices = np.asarray(columns["devices"])
    counts = np.where(devices > 0, devices / found.rig.plans.devices, columns[COUNTED])
    return pool_rows(own, found, counts)


def broken(space: PairSpace, row: Ints) -> tuple[str, ...]:
    """Names of the rules that a pair breaks."""
    return space.broken(row)


def changes(space: PairSpace, row: Ints) -> Iterator[tuple[str, Ints]]:
    """Pairs that differ on one axis; another chip comes in its own largest domain."""
    for axis, changed in space.neighbours(row):
        pool, _, name = axis.partition(".")
        if name in ("accelerator", "supernode_devices") and not _in_its_domain(
            space, pool, name, changed
        ):
            continue
        yield axis, changed


def _in_its_domain(space: PairSpace, pool: str, name: str, changed: Ints) -> bool:
    """The chip is sold in the domain, or `changed` gets the largest that it is sold in."""
    chip, domain = (space.axes.index(f"{pool}.{n}") for n in ("accelerator", "supernode_devices"))
    domains = space.levels[f"{pool}.supernode_devices"]
    accelerator = str(space.levels[f"{pool}.accelerator"][changed[chip]])
    sold = space.pools[pool].chips[accelerator].domain_options
    if domains[changed[domain]] in sold:
        return True
    known = [level for level in domains if level in sold]
    if name != "accelerator" or not known:
        return False
    changed[domain] = list(domains).index(max(known, key=float))
    return True


def single_pair(study: Study) -> Any:
    """The pair of a study in which every axis has one value, or is taken at its first.

    Replicas that the study leaves open are the fewest that keep every bound, of the counts that a
    run looks at.

    Raises
    ------
    BadStudy : as `planner.space.single.single`
    """
    from planner.space.single import Single, one_of  # which stands on this room

    if any(study.axes[n] == (ALL,) for n in study.axes if n.endswith("accelerator")):
        raise BadStudy(
            'accelerator = "all" is many candidates; wanted one for each pool; add --set '
            "accelerator=NAME"
        )
    found = {pool: one_of(*_of_pool(study, pool)) for pool in POOLS}
    shown = {pool: one.taken for pool, one in found.items()}
    if _numbered([one.engine.space for one in found.values()], study) > MOST_KEYS:
        narrow = _at_first(study)
        found = {pool: one_of(*_of_pool(narrow, pool)) for pool in POOLS}
    engines = {pool: one.engine for pool, one in found.items()}
    own = {pool: codes_of(engines[pool].space, np.array([one.key])) for pool, one in found.items()}
    wide, catalog = _with_both_ways(study), next(iter(engines.values())).catalog
    one_each = {pool: (1,) for pool in POOLS}
    replicas = _fewest(joined(wide, catalog, engines, one_each), own)
    around = {pool: around_count(count) for pool, count in replicas.items()}
    engine = joined(wide, catalog, engines, around)
    codes = engine.space.codes_of_pair(
        own, {p: np.array([n]) for p, n in replicas.items()}, np.zeros(1, dtype=np.int64)
    )
    taken: dict[str, Level] = {
        f"{pool}.{name}": level
        for pool, levels in shown.items()
        for name, level in levels.items()
        if name not in OF_BOTH
    }
    for name in OF_BOTH:
        if len(study.axes[name]) > 1:
            taken[name] = study.axes[name][0]
    key = int(engine.space.keys(codes)[0])
    return Single(engine, key, MappingProxyType(taken))


COUNTS_SHOWN = 5
"""Levels of replicas of one pair: its own, those next to it, and a tenth away."""


def _numbered(spaces: list[Space], study: Study) -> int:
    """Keys that pairs of these plans, with their neighbours, need."""
    ways = len(_with_both_ways(study).axes[TRANSFER])
    return ways * prod(len(n) for s in spaces for n in s.levels.values()) * COUNTS_SHOWN**2


def _at_first(study: Study) -> Study:
    """The study with the first level of every axis alone: so a plan has fewer neighbours."""
    axes = {name: levels[:1] for name, levels in study.axes.items()}
    return replace(study, axes=MappingProxyType(axes))


def _with_both_ways(study: Study) -> Study:
    """The study with every way of sending, its own first."""
    ways = tuple(dict.fromkeys((*study.axes[TRANSFER], AFTER_PREFILL, LAYER_WISE)))
    return replace(study, axes=MappingProxyType({**study.axes, TRANSFER: ways}))


def _of_pool(study: Study, pool: str) -> tuple[Study, Any]:
    """A study of one pool, and how its engine is prepared whatever its axes are changed to."""

    def prepare(own: Study, catalog: Catalog | None = None) -> Any:
        return phase_engine(own, pool, catalog)

    return pool_study(study, pool), prepare


MOST_OF_ONE = 1 << 20
"""Replicas of one pool: a plan that needs more, or that no number helps, is shown at these."""


def _fewest(engine: PoolsEngine, own: Mapping[str, Ints]) -> dict[str, int]:
    """Replicas of both pools: as given, or the fewest devices that keep every bound."""
    sides, counts = {}, {}
    for pool in POOLS:
        pool_engine = engine.pools[pool]
        columns = values_of(pool_engine.space, own[pool])
        chip = str(pool_engine.space.levels["accelerator"][int(columns["accelerator"][0])])
        plan = ready(pool_engine, pool, columns, chip)
        at, found = counts_of(pool_engine, plan)
        found = np.clip(found, 1.0, MOST_OF_ONE)
        sides[pool], counts[pool] = pool_rows(pool_engine, plan.take(at), found), found
    first, second = _every(len(counts[POOLS[0]]), len(counts[POOLS[1]]))
    pair = pair_of(
        engine,
        sides[POOLS[0]].take(first),
        sides[POOLS[1]].take(second),
        is_layer_wise(engine, np.zeros(len(first), dtype=np.int64)),
    )
    found_pairs = evaluated(engine, pair)
    devices = found_pairs.metrics["devices"]
    rank = np.where(found_pairs.is_feasible, devices, np.inf)
    best = int(np.argmin(rank)) if np.isfinite(rank).any() else int(np.argmin(devices))
    return {
        POOLS[0]: int(counts[POOLS[0]][first[best]]),
        POOLS[1]: int(counts[POOLS[1]][second[best]]),
    }


def _every(first: int, second: int) -> tuple[Codes, Codes]:
    """Places of all pairs of so many and so many."""
    return np.repeat(np.arange(first), second), np.tile(np.arange(second), first)
