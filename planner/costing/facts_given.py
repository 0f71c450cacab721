"""Facts of the catalogue that a study rests on: all less those that its own figures replace.

Names end in "*" where all that begin so are meant. What a kind of study, or a way of having
hardware, never looks at is left out too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from costdata.api_prices import api_facts
from costdata.catalog import Catalog
from costdata.configs import model_facts
from costdata.facts import Fact
from planner.axes import ALL, CATALOGUE, NO_DRAFTS
from planner.study.read import Study

REPLACED = {
    "wacc_frac": ("facility.wacc.default",),
    "life_years": ("facility.life.it",),
    "facility_life_years": ("facility.life.facility",),
    "residual_frac": ("facility.residual.*",),
    "maintenance_frac": ("facility.maintenance.*",),
    "staff_usd_per_year": ("facility.staff.*",),
    "colo_usd_per_kw_month": ("facility.colo.*",),
    "facility_usd_per_w": ("facility.colo.*",),
    "usd_per_kwh": ("regions.usd_per_kwh",),
    "pue": ("regions.pue",),
}
"""Keys of [costing] and the facts that they stand for."""

OF_AN_OWNER = ("facility.life.facility", "facility.residual.*", "facility.maintenance.*",
               "defaults.head_node_usd")  # fmt: skip
OF_A_HOST = ("facility.colo.*", "facility.staff.*", "regions.usd_per_kwh")
OF_A_PRICE = ("accelerators.price_usd", "accelerators.price_basis", "servers.price_usd")
"""Facts that matter where hardware is owned, where its site is paid, where no price is given."""

OF_RELIABILITY = {
    "device_mtbf_h": ("failures.*", "defaults.device_mtbf_h", "failure_families.*"),
    "checkpoint_s": ("defaults.checkpoint_wait_s",),
    "storage_gbytes_per_s": ("defaults.storage_bytes_per_s_per_device",),
    "recovery_s": ("defaults.recovery_s",),
    "repair_h": ("defaults.repair_h",),
}
"""Keys of [reliability] and the facts that they stand for."""

OF_GOODPUT = (
    "defaults.checkpoint_wait_s", "defaults.storage_bytes_per_s_per_device",
    "defaults.recovery_s", "failures.*",
)  # fmt: skip
OF_A_RUN = (
    *OF_GOODPUT, "defaults.framework_bytes", "defaults.fragmentation_frac",
    "defaults.device_mtbf_h", "defaults.repair_h", "defaults.host_s_*", "failure_families.*",
)  # fmt: skip
OF_TRAINING = (
    *OF_GOODPUT, "defaults.framework_bytes", "defaults.fragmentation_frac", "defaults.host_s_*",
)  # fmt: skip
"""Facts that a service does not ask for: its engine has its own."""

OF_THE_NETWORK_W = ("defaults.storage_w_per_pb", "defaults.head_node_w")
OF_SPEED = ("efficiency_*", "links.*")
OF_BUSY_WATTS = (
    "power_curves.memory_*", "power_curves.compute_*", "power_curves.communication_w",
    "power_curves.median_error_frac", "power_curves.p90_error_frac",
)  # fmt: skip
"""Facts that only work asks for: failures, memory, watts around it, its speed, its watts."""


def planning_facts(study: Study, catalog: Catalog) -> dict[str, Fact]:
    """Figures of no chip and no site that a study rests on."""
    found = catalog.planning_facts()
    if study.kind == "serve" and not is_given(study, "api_usd_per_mtoken_input"):
        model = study.serving.model
        slug = "" if model.endswith(".json") else model_facts(model).slug
        found |= api_facts(catalog.tables["api_prices"], slug)
    return _less(found, [*_of_costing(study), *_of_planning(study, catalog)])


def chip_facts(study: Study, catalog: Catalog, chip: str) -> dict[str, Fact]:
    """Figures of a chip that a study rests on."""
    found = _less(catalog.facts_for(chip), list(_of_chip(study, catalog, chip)))
    if study.kind != "serve":
        return found
    architecture = catalog.accelerator(chip).architecture
    found |= catalog.engine_facts(study.serving.engine, architecture)
    return {**found, **draft_facts(study, catalog)}


def draft_facts(study: Study, catalog: Catalog) -> dict[str, Fact]:
    """How often drafts are right, of every way of drafting that a serving study asks for."""
    methods = {str(level).partition(":")[0] for level in study.axes["speculative"]} - {NO_DRAFTS}
    if study.serving.draft_acceptance_frac is not None:
        return {}
    rows = {method: catalog.tables["speculation"][(method,)] for method in sorted(methods)}
    return {
        f"speculation.{method}.{name}": fact
        for method, row in rows.items()
        for name, fact in row.facts.items()
        if fact.unit
    }


def fabric_facts(catalog: Catalog, name: str) -> dict[str, Fact]:
    """Figures of a network between domains; none of the catalogue's, which the curves hold."""
    return (
        {}
        if name == CATALOGUE
        else {key: catalog.fabric(name)[key] for key in ("hop_s", "trunk_s")}
    )


def site_facts(study: Study, catalog: Catalog, site: str) -> dict[str, Fact]:
    """Figures of a site that a study rests on."""
    replaced = list(_of_costing(study))
    if is_given(study, "grid_kgco2e_per_kwh"):
        is_marginal = study.costing.carbon == "location_marginal"
        replaced.append(f"regions.grid_{'marginal' if is_marginal else 'average'}*")
    return _less(catalog.facts_for_site(site), replaced)


def is_given(study: Study, key: str) -> bool:
    """The study, or each of its scenarios, has a figure of its own under [costing]."""
    return getattr(study.costing, key) is not None or f"costing.{key}" in study.scenarios


def _less(facts: Mapping[str, Any], replaced: list[str]) -> dict[str, Any]:
    whole = {name for name in replaced if not name.endswith("*")}
    starts = tuple(name[:-1] for name in replaced if name.endswith("*"))
    return {n: f for n, f in facts.items() if n not in whole and not n.startswith(starts)}


def _of_costing(study: Study) -> Iterator[str]:
    """What [costing] replaces, and what nobody asks for who does not own or host."""
    for key, names in REPLACED.items():
        if is_given(study, key):
            yield from names
    if study.costing.acquire != "buy":
        yield from OF_AN_OWNER
    if study.costing.acquire not in ("buy", "lease"):
        yield from OF_A_HOST
    if not is_given(study, "facility_usd_per_w"):
        yield "facility.life.facility"


def _of_planning(study: Study, catalog: Catalog) -> Iterator[str]:
    """What pins, prices that hold everything and the kind of study leave unasked."""
    chips = study.axes["accelerator"]
    if chips != (ALL,) and all(_is_all_in(study, catalog, str(chip)) for chip in chips):
        yield "defaults.head_node_usd"
    if study.kind == "hardware" or study.axes["power_cap_frac"] == (1,):
        yield "clock_following.*"
    if study.kind == "hardware":
        yield from OF_A_RUN
    if study.kind == "serve":
        yield from OF_TRAINING
    if "goodput_frac" in study.pin:
        yield from OF_GOODPUT
    for key, names in OF_RELIABILITY.items():
        if getattr(study.reliability, key) is not None:
            yield from names
    if "network_overhead_frac" in study.pin:
        yield from OF_THE_NETWORK_W


def _of_chip(study: Study, catalog: Catalog, chip: str) -> Iterator[str]:
    pin = study.pin
    if study.costing.acquire != "buy" or _is_priced(study, catalog, chip):
        yield from OF_A_PRICE
    if study.kind == "hardware":
        yield from (*OF_SPEED, *OF_BUSY_WATTS)
        if {"unit_w", "unit_other_w", f"unit_w.{chip}", f"unit_other_w.{chip}"} & set(pin):
            yield "power_curves.host_span_w"
        if "device_peak_w" in pin:
            yield from ("power_curves.cap_w", "accelerators.tdp_w")
    elif {"mfu_frac", "step_s"} & set(pin) and {"device_mean_w", "device_peak_w"} <= set(pin):
        yield from (*OF_SPEED, *OF_BUSY_WATTS)


def _is_priced(study: Study, catalog: Catalog, chip: str) -> bool:
    """The study says what a chip, or the server it comes in, costs."""
    own = {catalog.resolve("accelerator", name) or name for name in study.costing.price_usd}
    return bool({chip, catalog.purchase_unit(chip).name} & own) or _is_all_in(study, catalog, chip)


def _is_all_in(study: Study, catalog: Catalog, chip: str) -> bool:
    own = {*study.costing.all_in_usd_per_device, *study.costing.all_in_usd_per_unit}
    return (catalog.resolve("accelerator", chip) or chip) in own
