"""Every fact under one roof: chips, what is bought, sites, rents, parts and carbon factors.

`load` reads the tables once; a user's folder lies over ours, row by row. The room joins and
answers; it computes no cost and no time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from costdata.chips import AcceleratorFacts, accelerator_facts, chips_of, curve_faults
from costdata.engines import engine_curves, engine_facts, engine_of
from costdata.facts import Fact, Row, Tables
from costdata.failures import failure_facts, family_facts, longer_frac
from costdata.footprint import Embodied, embodied
from costdata.lint import faults_of
from costdata.offers import PLANS, Part, Rent, part_of, rents
from costdata.overlay import IMPORTS, lay_over, read_ours, read_overlay
from costdata.profiles import keeping_of, reserve_row, stack_of
from costdata.purchase import PurchaseUnit, purchase_unit
from costdata.sites import Site, site_of
from costdata.support import Support, support, support_mask
from costdata.tile_curves import tiled_chips
from costdata.times import timed_chips
from simkernel.columns import Masks
from simkernel.errors import BadFile, MissingFact, unknown
from simkernel.hardware import Chips
from simkernel.keeping import Keeping
from simkernel.memory import Reserve
from simkernel.serving_engine import Engine, EngineCurves
from simkernel.stack import Stack

GENERAL_FIGURES = (
    ("wacc", "default"), ("life", "it"), ("life", "facility"), ("residual", "after_36_months"),
    ("maintenance", "annual"), ("staff", "small_fleet"), ("colo", "us_primary"),
    ("colo", "global"),
)  # fmt: skip
GENERAL_FACTORS = (
    "boavizta/server-8gpu", "ccf/server",
    "estimate/optic-400g", "estimate/optic-800g", "estimate/fibre-cable",
)  # fmt: skip
"""What `quotes` takes for every site and chip where a study has no figure of its own."""


@dataclass(frozen=True)
class Catalog:
    """Our tables, or ours with a user's over them."""

    tables: Tables

    @cached_property
    def accelerators(self) -> tuple[str, ...]:
        """Names of all chips, in the order of the table."""
        return tuple(row.name for row in self.tables["accelerators"].values())

    @cached_property
    def sites(self) -> tuple[str, ...]:
        """Names of all sites, in the order of the table."""
        return tuple(row.name for row in self.tables["regions"].values())

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Switches, optics, cables, network cards and storage by name."""
        return {row.name: part_of(row) for row in self.tables["network"].values()}

    def resolve(self, kind: str, label: str) -> str | None:
        """The catalogue's name for a label of an accelerator or a model, None if not known.

        Case does not matter. Labels that fit two names are not guessed.
        """
        names = {row.text("name") for row in self._aliases(kind, label)}
        if kind == "accelerator":
            names |= {name for name in self.accelerators if name.lower() == label.lower()}
            names = {label} if label in self.accelerators else names
        return names.pop() if len(names) == 1 else None

    def accelerator_name(self, label: str) -> str:
        """The catalogue's spelling of a chip, aliases taken.

        Raises
        ------
        UnknownName : no such chip, with the nearest names
        """
        name = self.resolve("accelerator", label)
        if name is None:
            raise unknown("accelerator", label, self.accelerators)
        return name

    def site_name(self, label: str) -> str:
        """The catalogue's spelling of a site.

        Raises
        ------
        UnknownName : no such site, with the nearest names
        """
        if label.lower() not in self.sites:
            raise unknown("site", label, self.sites)
        return label.lower()

    def accelerator(self, name: str) -> AcceleratorFacts:
        """What is known of a chip; aliases are taken.

        Raises
        ------
        UnknownName : no such chip
        """
        return accelerator_facts(self._chip(name))

    def chips(self, names: Sequence[str]) -> Chips:
        """Chips for the physics, in the order given, curves joined by name.

        Raises
        ------
        UnknownName : no such chip
        MissingFact : curves that are not there, each by chip and table
        """
        return chips_of(self.tables, [self._chip(name) for name in names])

    def timed_chips(self, names: Sequence[str]) -> Chips:
        """The same, where times of a user's own stand before the curves.

        Raises
        ------
        UnknownName, MissingFact : as `chips`
        MissingFact : nothing was timed on any of them
        """
        return timed_chips(self.tables, [self._chip(name) for name in names])

    def tiled_chips(self, names: Sequence[str]) -> Chips:
        """The same, with products priced tile by tile.

        Raises
        ------
        UnknownName, MissingFact : as `chips`
        """
        return tiled_chips(self.tables, [self._chip(name) for name in names])

    def engine_curves(self, engine: str, names: Sequence[str]) -> EngineCurves:
        """What a serving engine's own kernels reach on chips; see `costdata.engines`.

        Raises
        ------
        UnknownName : no such chip
        """
        return engine_curves(self.tables, engine, [self._chip(name) for name in names])

    def engine(self, name: str, architecture: str) -> Engine:
        """What a serving engine adds to kernels; see `costdata.engines.engine_of`."""
        return engine_of(self.tables, name, architecture)

    def engine_facts(self, name: str, architecture: str) -> dict[str, Fact]:
        """What stands behind `engine`, with sources."""
        return engine_facts(self.tables, name, architecture)

    def stack(self, profile: str, accelerator: str, release_year: float | None = None) -> Stack:
        """What a kind of software stack reaches of a chip; see `costdata.profiles.stack_of`.

        Raises
        ------
        UnknownName : no such chip or profile
        """
        return stack_of(self.tables, profile, self._chip(accelerator), release_year)

    def keeping(self, profile: str, accelerator: str) -> Keeping:
        """In which form a kind of software stack keeps what is trained on this chip.

        Raises
        ------
        UnknownName : no such chip or profile
        """
        return keeping_of(self.tables, profile, self._chip(accelerator))

    def reserve(self, accelerator: str) -> Reserve:
        """Memory of this chip that no tensor of a plan owns.

        Raises
        ------
        UnknownName : no such chip
        """
        row = reserve_row(self.tables, self._chip(accelerator))
        figure = row.need if row else self.planning
        return Reserve(figure("framework_bytes"), figure("fragmentation_frac"))

    def purchase_unit(self, accelerator: str) -> PurchaseUnit:
        """What is bought as a whole when this chip is bought.

        Raises
        ------
        UnknownName : no such chip
        """
        return purchase_unit(self.tables, self._chip(accelerator))

    def site(self, name: str) -> Site:
        """Price, carbon, PUE and water of a site.

        Raises
        ------
        UnknownName : no such site
        MissingFact : a site without a price or an intensity
        """
        return site_of(self.tables, self.site_name(name))

    def supports(self, accelerator: str, precision: str, kernel: str) -> Support:
        """Whether a chip runs a kernel in a precision, with the reason.

        Raises
        ------
        UnknownName : no such chip, precision or kernel
        """
        return support(self.tables["support"], self._chip(accelerator), precision, kernel)

    def support_mask(self, names: Sequence[str]) -> Masks:
        """`supports` for all precisions and kernels; shape (names, PRECISIONS, KERNELS)."""
        return support_mask(self.tables["support"], [self._chip(name) for name in names])

    def rent(self, accelerator: str, plan: str) -> list[Rent]:
        """Dated prices of a chip by the hour, newest first, then cheapest; [] where none is known.

        Raises
        ------
        UnknownName : no such chip or plan
        """
        return rents(self.tables["cloud_prices"], self.accelerator_name(accelerator), plan)

    def is_obtainable(self, accelerator: str) -> bool:
        """The chip can be bought or rented at some known price."""
        if not self.purchase_unit(accelerator).rent_only:
            return True
        return any(self.rent(accelerator, plan) for plan in PLANS)

    def lacks(self, accelerator: str) -> tuple[str, ...]:
        """Why a chip cannot be planned with: curves or any price that no table has; () if it can.

        Raises
        ------
        UnknownName : no such chip
        """
        chip = self._chip(accelerator)
        faults = curve_faults(self.tables, [chip])
        if not self.is_obtainable(chip.name):
            faults.append(f"{chip.name}: neither a price to buy it at nor a rent is known")
        return tuple(faults)

    def facility(self, kind: str, item: str) -> Fact:
        """A figure of buildings, money or reliability, by kind and item or title.

        Raises
        ------
        UnknownName : no such figure
        MissingFact : the row has a range but no value
        """
        if kind not in self._figures:
            raise unknown("facility kind", kind, self._figures)
        if item not in self._figures[kind]:
            raise unknown(f"facility {kind}", item, self._figures[kind])
        row = self._figures[kind][item]
        if "value" not in row.facts:
            raise MissingFact(f"{row.name} has a range but no typical value in facility.csv")
        return row.facts["value"]

    def planning(self, name: str) -> float:
        """A planning figure that belongs to no chip and no site, such as "checkpoint_s".

        Raises
        ------
        UnknownName : no such figure
        """
        return self.planning_fact(name).number

    def planning_fact(self, name: str) -> Fact:
        """The same with its band and source.

        Raises
        ------
        UnknownName : no such figure
        """
        rows = self.tables["defaults"]
        if (name,) not in rows:
            raise unknown("planning figure", name, (row.name for row in rows.values()))
        return rows[(name,)].facts["value"]

    def expert_load(self, model: str) -> Fact:
        """Load of a model's busiest expert rank over evenly random routing's, with its ends.

        The model's own where its report says how its router is balanced, else the planning figure.
        """
        rows = self.tables["expert_loads"]
        own = rows.get((model,))
        return own.facts["value"] if own else self.planning_fact("expert_imbalance")

    def fabric(self, name: str) -> Mapping[str, Fact]:
        """What a named network between domains adds: hop_s, trunk_s.

        Raises
        ------
        UnknownName : no such fabric
        """
        rows = self.tables["fabrics"]
        if (name,) not in rows:
            raise unknown("fabric", name, (row.name for row in rows.values()))
        return rows[(name,)].facts

    def clock_following(self) -> dict[str, float]:
        """Phase of a step to the share of its time that stretches as a cap lowers the clock."""
        return {r.name: r.need("follow_frac") for r in self.tables["clock_following"].values()}

    def device_mtbf_h(self, accelerator: str) -> float:
        """Device-hours per failure of any component, of the family of a chip; a user's as given.

        Raises
        ------
        UnknownName : no such chip
        """
        own_h = self.own_planning("device_mtbf_h")
        if own_h is not None:
            return own_h
        architecture = self.accelerator(accelerator).architecture
        return self.planning("device_mtbf_h") * longer_frac(self.tables, architecture)

    def own_planning(self, name: str) -> float | None:
        """A planning figure of a user's own table; None where there is only ours, or none."""
        row = self.tables["defaults"].get((name,))
        return row.need("value") if row is not None and row.is_user else None

    def planning_facts(self) -> dict[str, Fact]:
        """Every figure with its source that costs and watts rest on at any site, on any chip."""
        rows = self.tables["defaults"].values()
        found = {f"defaults.{row.name}": row.facts["value"] for row in rows}
        found |= failure_facts(self.tables)
        found |= {
            f"clock_following.{row.name}": row.facts["follow_frac"]
            for row in self.tables["clock_following"].values()
        }
        for kind, item in GENERAL_FIGURES:
            found[f"facility.{kind}.{item}"] = self.facility(kind, item)
        for factor in GENERAL_FACTORS:
            found[f"embodied.{factor}"] = self.embodied_factor(factor)
        return found

    def embodied(self, accelerator: str, method: str = "pcf") -> Embodied:
        """Carbon of making one device by a method: pcf, act or boavizta.

        Raises
        ------
        UnknownName : no such chip or method
        MissingFact : no row of embodied.csv names the chip
        """
        return embodied(self.tables["embodied"], self._chip(accelerator), method)

    def embodied_factor(self, name: str) -> Fact:
        """One row of embodied.csv, such as "boavizta/server-8gpu" [kgCO2e].

        Raises
        ------
        UnknownName : no such row
        """
        rows = self.tables["embodied"]
        if (name,) not in rows:
            raise unknown("embodied factor", name, (row.name for row in rows.values()))
        return rows[(name,)].facts["kgco2e"]

    def facts_for(self, accelerator: str) -> dict[str, Fact]:
        """Every fact that a plan on this chip rests on, its server, curves and carbon included."""
        name = self.accelerator_name(accelerator)
        unit = self.purchase_unit(name)
        found = {f"accelerators.{k}": fact for k, fact in self.accelerator(name).facts.items()}
        found |= {f"servers.{k}": fact for k, fact in unit.facts.items()}
        found |= {f"embodied.{k}": fact for k, fact in self.embodied(name).facts.items()}
        for row in self.tables["scaleup_parts"].values():
            if unit.name in row.names("units"):
                factor = row.text("switch_embodied")
                found[f"embodied.{factor}"] = self.embodied_factor(factor)
        found |= family_facts(self.tables, self.accelerator(name).architecture)
        return found | {
            f"{table}.{'.'.join((*row.key[1:], column))}": fact
            for table, row in self._curve_rows.get(name, ())
            for column, fact in row.facts.items()
            if fact.unit
        }

    def facts_for_site(self, name: str) -> dict[str, Fact]:
        """Every fact that costs and carbon at a site rest on."""
        facts = self.site(name).facts
        return {f"regions.{column}": fact for column, fact in facts.items() if fact.unit}

    @cached_property
    def _figures(self) -> Mapping[str, Mapping[str, Row]]:
        """Rows of facility.csv by kind, then by item and by title."""
        found: dict[str, dict[str, Row]] = {}
        for row in self.tables["facility"].values():
            named = {row.text("item"): row, row.text("title"): row}
            found.setdefault(row.text("kind"), {}).update(named)
        return found

    @cached_property
    def _curve_rows(self) -> Mapping[str, list[tuple[str, Row]]]:
        """Rows of all curves by chip, each with its table."""
        found: dict[str, list[tuple[str, Row]]] = {}
        for table in _CURVES:
            for row in self.tables.get(table, {}).values():
                found.setdefault(row.key[0], []).append((table, row))
        return found

    @cached_property
    def _lower_aliases(self) -> Mapping[tuple[str, str], list[Row]]:
        """Rows of aliases.csv by kind and label in lower case."""
        found: dict[tuple[str, str], list[Row]] = {}
        for row in self.tables["aliases"].values():
            kind, label = row.key
            found.setdefault((kind, label.lower()), []).append(row)
        return found

    def _aliases(self, kind: str, label: str) -> list[Row]:
        exact = self.tables["aliases"].get((kind, label))
        return [exact] if exact else self._lower_aliases.get((kind, label.lower()), [])

    def _chip(self, label: str) -> Row:
        return self.tables["accelerators"][(self.accelerator_name(label),)]


_CURVES = ("efficiency_gemm", "efficiency_attention", "efficiency_stream", "links", "power_curves")


def load(overlay: Path | None = None) -> Catalog:
    """The catalogue; with a folder, its rows in place of ours of the same name.

    Raises
    ------
    BadFile : the folder cannot be read, or its tables have faults: all of them at once
    """
    if overlay is None:
        return _ours()
    files = [p for pattern in ("*.csv", f"{IMPORTS}/*/*.csv") for p in overlay.glob(pattern)]
    stamp = tuple(sorted((str(p.relative_to(overlay)), p.stat().st_mtime_ns) for p in files))
    return _overlaid(overlay.resolve(), stamp)


@lru_cache(maxsize=1)
def _ours() -> Catalog:
    return Catalog(read_ours())


@lru_cache(maxsize=8)
def _overlaid(folder: Path, stamp: tuple[tuple[str, int], ...]) -> Catalog:
    theirs, faults = read_overlay(folder)
    tables = lay_over(read_ours(), theirs)
    faults += faults_of(theirs, tables)
    if faults:
        raise BadFile(*faults)
    return Catalog(tables)
