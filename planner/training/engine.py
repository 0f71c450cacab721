"""A study made ready to evaluate: model, job, chips and space, looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

import numpy as np

from costdata import catalog as catalogue
from costdata.catalog import Catalog
from costdata.configs import model_names, read_model
from costdata.failures import families_told
from costdata.profiles import SHIPPED, UNFUSED
from costdata.tile_curves import TILES, untiled
from costdata.times import imports_told
from costdata.traces import trace_name
from planner.axes import ALL, CATALOGUE, MEASURED, OFFERED, TILED
from planner.bands import is_computed
from planner.costing.null_objectives import refuse_compared
from planner.runs.prepared import Prepared
from planner.space.blocks import make_space
from planner.space.rule import ChipSizes
from planner.space.rules import model_counts
from planner.study.names import Names
from planner.study.parts import PowerLaw, TrainWorkload
from planner.study.read import Study
from simkernel import plugins
from simkernel.columns import Floats
from simkernel.errors import BadStudy, MissingFact, PlanError, unknown
from simkernel.hardware import OPERATIONS, PRECISIONS, TOPOLOGIES, Chips
from simkernel.memory import Reserve
from simkernel.models import parameters, training_flop_per_token
from simkernel.workload import TrainingJob


@dataclass(frozen=True)
class Engine(Prepared):
    """What every candidate of a training study shares; `job` as read."""

    job: TrainingJob

    @cached_property
    def flop_per_token(self) -> float:
        """Useful work of one trained token: without the input embedding, causal attention half.

        A pin of the study takes its place.
        """
        pinned = self.study.pin.get("model_flop_per_token")
        tokens = float(self.job.tokens_per_sequence)
        return float(pinned or training_flop_per_token(self.model, tokens).total)

    @cached_property
    def parameters(self) -> float:
        """Of the whole model, once."""
        return float(parameters(self.model).total)

    def job_on(self, name: str) -> TrainingJob:
        """The run on one chip: with the software stack of the study's profile."""
        return self._jobs[name]

    def reserve(self, name: str) -> Reserve:
        """Memory of one chip that no tensor of a plan owns."""
        return self._reserves[name]

    def measured(self, name: str) -> Floats:
        """1 where the chip's GEMM curve is measured at a precision, 0 where it is transferred."""
        rows = self.catalog.tables["efficiency_gemm"]
        found = [rows.get((name, precision)) for precision in PRECISIONS]
        return np.array([1.0 * (r is not None and r.text("basis") == "measured") for r in found])

    @cached_property
    def profile(self) -> str:
        """The kind of software stack of the study."""
        return _profile(self.study)

    @cached_property
    def _jobs(self) -> dict[str, TrainingJob]:
        is_fused = self.study.training.attention == "flash"
        stacks = {name: self.catalog.stack(self.profile, name) for name in self.space.chips}
        return {
            name: replace(
                self.job,
                stack=replace(stack, is_attention_fused=is_fused and stack.is_attention_fused),
                keeping=self.catalog.keeping(self.profile, name),
            )
            for name, stack in stacks.items()
        }

    @cached_property
    def _reserves(self) -> dict[str, Reserve]:
        return {name: self.catalog.reserve(name) for name in self.space.chips}


def prepare(study: Study, catalog: Catalog | None = None) -> Engine:
    """The engine of a training study.

    Raises
    ------
    BadStudy : a kind of study this version cannot evaluate
    BadStudy : a limit or an objective that this version does not compute
    MissingFact : no chip of the study can be evaluated
    """
    if study.kind != "train":
        raise BadStudy(
            f"study.kind = {study.kind!r} is read and checked but not evaluated in this version; "
            'wanted kind = "train"'
        )
    refuse_unknown_metrics(study)
    refuse_two(study, "profile", "compute")
    catalog = catalog or catalogue.load(Path(study.tables) if study.tables else None)
    work = study.training
    model = read_model(work.model)
    named = study.axes["accelerator"]
    names = catalog.accelerators if named == (ALL,) else tuple(str(n) for n in named)
    sizes, missing = sizes_of_chips(catalog, names)
    sizes = with_what_if_sizes(study, _on_profile(study, catalog, sizes, missing))
    if study.axes["compute"][0] == MEASURED:
        untimed = _untimed(catalog, tuple(sizes))
        missing |= untimed
        sizes = {name: size for name, size in sizes.items() if name not in untimed}
    if study.axes["compute"][0] == TILED:
        sizes, untiled = _with_tiles(catalog, sizes)
        missing |= untiled
    if not sizes:
        raise MissingFact(*(f"{name}: {why}" for name, why in missing.items()))
    chosen = with_accelerators(study, tuple(sizes))
    job = TrainingJob(
        tokens=work.tokens,
        tokens_per_sequence=work.tokens_per_sequence,
        max_global_batch_tokens=work.max_global_batch_tokens,
        has_draft_layers=work.mtp,
        expert_imbalance=_imbalance(work, catalog),
        expert_skew=_skew(work),
        links=study.network.rules,
    )
    return Engine(
        study=study,
        catalog=catalog,
        model=model,
        job=job,
        space=make_space(chosen, model_counts(model, work), sizes),
        missing=MappingProxyType(missing),
    )


def _profile(study: Study) -> str:
    """The kind of software stack, as the study names it.

    Unfused attention without a profile is that of the stack which had it.
    """
    named = str(study.axes["profile"][0])
    is_unfused = study.training.attention == "unfused"
    return UNFUSED if is_unfused and named == SHIPPED else named


def _on_profile(
    study: Study, catalog: Catalog, sizes: dict[str, ChipSizes], missing: dict[str, str]
) -> dict[str, ChipSizes]:
    """Chips that the study's software stack runs on; why not of the others goes to `missing`."""
    kept = {}
    for name, own in sizes.items():
        try:
            catalog.stack(_profile(study), name)
        except MissingFact as error:
            missing[name] = " ".join(error.faults)
        else:
            kept[name] = own
    return kept


def _imbalance(work: TrainWorkload, catalog: Catalog) -> float:
    """Load of the busiest expert rank over evenly random routing's."""
    given = work.expert_imbalance
    if given is None:
        return catalog.planning("expert_imbalance")
    return given if isinstance(given, float) else 1.0


def _skew(work: TrainWorkload) -> float:
    given = work.expert_imbalance
    return given.power_law if isinstance(given, PowerLaw) else 0.0


def catalogue_names(catalog: Catalog | None = None) -> Names:
    """How a study's names are looked up: accelerators, sites and models."""
    catalog = catalog or catalogue.load()
    return Names(catalog.accelerator_name, catalog.site_name, _model_name, trace_name)


def refuse_unknown_metrics(study: Study) -> None:
    """Every limit and objective that this version does not compute, or no plan has, in one error.

    Raises
    ------
    BadStudy : there is one
    """
    refuse_compared(study, is_computed, "in this version")


def refuse_two(study: Study, *axes: str) -> None:
    """A study is about one kind of software stack, and one source of kernel times.

    Raises
    ------
    BadStudy : any of the axes has several values
    """
    faults = [
        f"axes.{name} has {len(study.axes[name])} values; wanted one; run the study once for each "
        "and compare the runs with planner diff"
        for name in axes
        if len(study.axes[name]) > 1
    ]
    if faults:
        raise BadStudy(*faults)


def training_notes(study: Study, catalog: Catalog) -> dict[str, str]:
    """What a reader of the front has to know that no figure shows."""
    notes = {}
    rates = ("scaleup_gbytes_per_s", "scaleout_gbytes_per_s", "scaleup_topology")
    others = [name for name in rates if study.axes[name] != (CATALOGUE,)]
    if others:
        notes["not_priced"] = (
            f"{', '.join(others)}: what if; price, watts and carbon of chips and of the network "
            "between domains stay those of the catalogue"
        )
    if study.network.any_supernode:
        notes["what_if_domains"] = (
            "domain sizes that nobody sells: bought as the chip is sold, with switches, optics "
            "and copper above its servers"
        )
    notes |= chassis_notes(study) | collective_notes(study)
    if study.network.degraded:
        notes["degraded_links"] = (
            "the closed form knows nothing of them: planner replay plays them"
        )
    if study.network.all_to_all_frac:
        notes["what_if_all_to_all"] = (
            "all-to-alls reach shares of their rate by domain size that the study assumes"
        )
    if "goodput_frac" not in study.pin and study.reliability.device_mtbf_h is None:
        notes["failures"] = families_told(catalog.tables, _architectures(study, catalog))
    if study.axes["compute"][0] == MEASURED:
        notes["measured"] = imports_told(catalog.tables)
    if study.axes["compute"][0] == TILED:
        notes["tiled"] = (
            "products priced tile by tile on cores fitted alone, not inside steps: no plan is "
            "validated; everything else by curves"
        )
    zero, stages = study.axes["zero_stage"], study.axes["pipeline_parallel"]
    if max(int(z) for z in zero) >= 2 and max(int(p) for p in stages) > 1:
        notes["zero_in_pipelines"] = (
            "a pipeline keeps whole weights and gradients until its step ends: zero_stage 2 and 3 "
            "hold and move what 1 does there"
        )
    return notes


def collective_notes(study: Study) -> dict[str, str]:
    """What a named collective is used for: it does some operations, "best" does the others."""
    told = []
    for name in study.axes["collective"]:
        if name in plugins.names("collectives"):
            does = plugins.find("collectives", str(name)).OPERATIONS
            others = [one for one in OPERATIONS if one not in does]
            told.append(f"{name} for {', '.join(does)}, best for {', '.join(others)}")
    return {"collective": "; ".join(told)} if told else {}


def chassis_notes(study: Study) -> dict[str, str]:
    """What servers of another size are taken to be."""
    if study.axes["chassis_devices"] == (OFFERED,):
        return {}
    return {
        "what_if_chassis": (
            "servers of sizes that are not the catalogue's: price, watts, height, network ports "
            "and carbon of a device with its share of the server stay those of the one that is "
            "sold; what joins more devices than that one is a domain network of its own"
        )
    }


def _architectures(study: Study, catalog: Catalog) -> dict[str, str]:
    """Of every chip that the study names."""
    named = study.axes["accelerator"]
    names = catalog.accelerators if named == (ALL,) else tuple(str(name) for name in named)
    return {name: catalog.accelerator(name).architecture for name in names}


def sizes_of_chips(
    catalog: Catalog, names: tuple[str, ...]
) -> tuple[dict[str, ChipSizes], dict[str, str]]:
    """Sizes of the chips that have all facts the physics needs, and what the others lack."""
    sizes: dict[str, ChipSizes] = {}
    missing: dict[str, str] = {}
    for name in names:
        facts = catalog.accelerator(name)
        try:
            lacking = _lacking(catalog.chips([name]))
        except PlanError as error:
            lacking = str(error)
        if lacking or not facts.domain_options:
            missing[name] = lacking or "no scale-up domain is known"
            continue
        peaks = catalog.chips([name]).peak_flop_per_s[0]
        known = tuple(p for p, peak in zip(PRECISIONS, peaks, strict=True) if np.isfinite(peak))
        chip = catalog.chips([name])
        has_host = bool(np.isfinite(chip.host_link_bytes_per_s * chip.host_memory_bytes)[0])
        has_pool = has_host and bool(
            np.isfinite(chip.pool_bytes_per_s * chip.pool_memory_bytes)[0]
        )
        sizes[name] = ChipSizes(
            domain_options=facts.domain_options,
            devices_per_host=facts.devices_per_host,
            precisions=known,
            has_host=has_host,
            has_pool=has_pool,
            unit_devices=catalog.purchase_unit(name).devices,
            ports_per_host=facts.nics_per_host or 0,
            topology=TOPOLOGIES[int(chip.scaleup_topology_code[0])],
        )
    return sizes, missing


def _with_tiles(
    catalog: Catalog, sizes: Mapping[str, ChipSizes]
) -> tuple[dict[str, ChipSizes], dict[str, str]]:
    """Chips whose tiles were fitted, in those precisions alone; why not of the others."""
    kept, missing = {}, {}
    for name, own in sizes.items():
        fitted = {key[1] for key in catalog.tables[TILES] if key[0] == name}
        if known := tuple(p for p in own.precisions if p in fitted):
            kept[name] = replace(own, precisions=known)
        else:
            missing[name] = untiled(catalog.tables, name)
    return kept, missing


def _untimed(catalog: Catalog, names: tuple[str, ...]) -> dict[str, str]:
    """Chips on which nothing was timed, with what to do."""
    found = {}
    for name in names:
        try:
            catalog.timed_chips([name])
        except MissingFact as error:
            found[name] = str(error)
    return found


def with_what_if_sizes(study: Study, sizes: dict[str, ChipSizes]) -> dict[str, ChipSizes]:
    """Every size of domain or server that the study names as if sold, where it asks for that."""
    if study.network.any_chassis:
        boxes = tuple(size for size in study.axes["chassis_devices"] if isinstance(size, int))
        sizes = {name: replace(one, chassis_options=boxes) for name, one in sizes.items()}
    if not study.network.any_supernode:
        return sizes
    named = {size for size in study.axes["supernode_devices"] if isinstance(size, int)}
    return {
        name: replace(one, domain_options=tuple(sorted({*one.domain_options, *named})))
        for name, one in sizes.items()
    }


def _lacking(chip: Chips) -> str:
    """Names of the physical facts that a chip lacks, joined; "" if it has them all."""
    needed = (
        "memory_bytes",
        "hbm_bytes_per_s",
        "scaleup_bytes_per_s",
        "scaleup_peer_bytes_per_s",
        "scaleout_bytes_per_s",
    )
    found = [name for name in needed if not np.all(np.isfinite(getattr(chip, name)))]
    power = chip.power
    found += [n for n in ("idle_w", "cap_w") if not np.all(np.isfinite(getattr(power, n)))]
    return ", ".join(f"{name} is not known" for name in found)


def with_accelerators(study: Study, names: tuple[str, ...]) -> Study:
    """The study with its accelerators named one by one."""
    return replace(study, axes=MappingProxyType({**study.axes, "accelerator": names}))


def _model_name(name: str) -> str:
    """The name as it is, once the model could be read; the reader's own words if not."""
    if name.endswith(".json") or name in model_names():
        return name
    try:
        read_model(name)
    except FileNotFoundError as error:
        raise unknown("model", name, model_names()) from error
    return name
