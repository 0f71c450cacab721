"""Where a plan can be had: the sites of its study, in each of its scenarios.

A plan is one choice of hardware and of how it works; money and carbon differ by place. A person
names a place as `planner show` prints it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from types import MappingProxyType
from typing import Any

from planner.study.read import Study
from simkernel.errors import UnknownName

_PAIRS = re.compile(r",\s*(?=[A-Za-z_])")
"""What parts the figures of a scenario; thousands are parted by commas too."""


@dataclass(frozen=True)
class Asked:
    """A plan of a run and the place at which it is looked at.

    Parameters
    ----------
    plan : its name
    site, scenario : "" where the plan is judged at the best site, in the first scenario
    on_front : the places of the run's front that hold the plan: "place" (1 for the first), "site"
        and "scenario"
    """

    plan: str
    site: str
    scenario: str
    on_front: tuple[dict[str, Any], ...]


def asked(
    run: str, study: Study, front: Mapping[str, Any], plan: str, site: str, scenario: str
) -> Asked:
    """The plan that a person means, and where.

    Parameters
    ----------
    front : columns of the stored front
    plan : its name, or its place on the front, 1 for the first
    site, scenario : as typed; "" for that of the plan's first fitting row on the front

    Raises
    ------
    UnknownName : no such place on the front, site or scenario; each with what there is
    """
    name, rows = _plan_rows(run, front, plan)
    site = _known_site(study, site)
    scenario = _known_scenario(study, scenario)
    fitting = (r for r in rows if site in ("", r["site"]) and scenario in ("", r["scenario"]))
    row = next(fitting, rows[0] if plan.isdigit() else {})
    every = _plan_rows(run, front, name)[1]
    return Asked(name, site or row.get("site") or "", scenario or row.get("scenario") or "", every)


def study_at(study: Study, site: str, scenario: str) -> Study:
    """The study at one site ("" for all) and in one scenario ("" for the first).

    Figures of the scenario stand in the study's own tables.

    Raises
    ------
    UnknownName : the words are not those of exactly one scenario
    """
    if site:
        study = replace(study, costing=replace(study.costing, site=(site,)))
    every = scenario_studies(study)
    if not scenario:
        return every[0]
    found = [one for one in every if scenario_words(one) == scenario]
    if len(found) != 1:
        raise UnknownName(
            f"scenario {scenario!r} is {len(found)} of this run; wanted one of: "
            f"{'; '.join(scenarios_of(study))}; use planner run again"
        )
    return found[0]


def scenarios_of(study: Study) -> tuple[str, ...]:
    """All scenarios in words, as `planner show` prints them; () for a study without any."""
    return tuple(scenario_words(one) for one in scenario_studies(study) if study.scenarios)


def scenario_studies(study: Study) -> list[Study]:
    """One study per combination of scenarios, each with its figures in its own tables."""
    found = []
    for values in product(*study.scenarios.values()):
        chosen = dict(zip(study.scenarios, values, strict=True))
        own: dict[str, Any] = {
            k.partition(".")[2]: v for k, v in chosen.items() if k.startswith("costing.")
        }
        limits = {k.partition(".")[2]: v for k, v in chosen.items() if k.startswith("limits.")}
        fixed = MappingProxyType({key: (value,) for key, value in chosen.items()})
        found.append(
            replace(
                study,
                costing=replace(study.costing, **own),
                limits=MappingProxyType({**study.limits, **limits}),
                scenarios=fixed,
            )
        )
    return found


def scenario_words(study: Study) -> str:
    """The scenario of a study that is in one: "rent_usd_per_device_hour = 2.5"."""
    return ", ".join(
        f"{key.partition('.')[2]} = {value:,.10g}" for key, (value,) in study.scenarios.items()
    )


def _plan_rows(
    run: str, front: Mapping[str, Any], plan: str
) -> tuple[str, tuple[dict[str, Any], ...]]:
    """A plan's name and its rows on the front; of a place on the front, that row alone."""
    names = [str(name) for name in front.get("plan", ())]
    if not plan.isdigit():
        return plan, tuple(_row(front, i) for i, name in enumerate(names) if name == plan)
    if not 1 <= int(plan) <= len(names):
        raise UnknownName(
            f"plan {plan} of run {run}: its front has {len(names)} rows; see planner show {run}"
        )
    return names[int(plan) - 1], (_row(front, int(plan) - 1),)


def _row(front: Mapping[str, Any], i: int) -> dict[str, Any]:
    scenario = str(front["scenario"][i]) if "scenario" in front else None
    return {"place": i + 1, "site": str(front["site"][i]), "scenario": scenario}


def _known_site(study: Study, site: str) -> str:
    sites = study.costing.site
    if site and site not in sites:
        raise UnknownName(f"site {site!r} is not of this run; it has {', '.join(sites)}")
    return site


def _known_scenario(study: Study, scenario: str) -> str:
    """The scenario in words that a person's words name; "" stays ""."""
    if not scenario:
        return ""
    if not study.scenarios:
        raise UnknownName(f"scenario {scenario!r}: this run has none; leave it out")
    wanted = dict(_figures_of(scenario))
    every = scenario_studies(study)
    found = [scenario_words(one) for one in every if _agrees(one, wanted)]
    if len(found) == 1:
        return found[0]
    what = "names several of this run" if found else "is not of this run"
    known = "; ".join(found or scenarios_of(study))
    raise UnknownName(f"scenario {scenario!r} {what}; wanted one of: {known}")


def _figures_of(words: str) -> Iterator[tuple[str, float]]:
    """Each key with its figure; a part that is no such pair agrees with nothing."""
    for pair in _PAIRS.split(words):
        key, _, value = pair.partition("=")
        try:
            figure = float(value.replace(",", "").replace("_", ""))
        except ValueError:
            figure = math.nan
        yield key.strip(), figure


def _agrees(study: Study, wanted: Mapping[str, float]) -> bool:
    """A study in one scenario has every figure named, by its key with or without its table."""
    own = {key: value for key, (value,) in study.scenarios.items()}
    own |= {key.partition(".")[2]: value for key, value in own.items()}
    return all(math.isclose(own.get(k, math.nan), v, rel_tol=1e-9) for k, v in wanted.items())
