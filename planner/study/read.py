"""From a study file to a Study: every fault at once, each with its line; nothing left unsaid.

What is returned is fully resolved: every axis has its levels, every key its value. A name is only
checked against the catalogue when the catalogue's names are handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as File
from types import MappingProxyType
from typing import Any

from planner.axes import Level
from planner.metrics import SHORTFALL, metric_names
from planner.study.axes_given import axes_kind, read_axes
from planner.study.failures import read_reliability
from planner.study.faults import Faults, Place, nearest, parse_toml, part
from planner.study.fleet import Fleet
from planner.study.fleet_read import read_fleet
from planner.study.lines import Path, line_of, lines_of
from planner.study.mixed import Mixed, read_mixed
from planner.study.names import Names
from planner.study.network import Network, with_preset
from planner.study.numbers import numbers, pins, scenarios
from planner.study.parts import (
    DEFAULT_OBJECTIVES,
    Costing,
    Header,
    Objectives,
    Reliability,
    Search,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from planner.study.places import read_costing
from planner.study.traffic import check_serving, traces_named, with_files
from simkernel.errors import BadFile

SECTIONS = (
    *("study", "workload", "axes", "costing", "limits", "targets", "objectives", "pin"),
    *("scenarios", "search", "reliability", "fleet", "mixed", "network", "presets"),
)

HEADER = ("name", "kind", "seed", "tables", "preset")

ALGORITHMS_OF = {"sweep": (), "evolve": ("nsga2", "age_moea"), "sample": ("nsga2", "nsga3")}
"""Algorithms of each driver; its own is the first."""


@dataclass(frozen=True)
class Study:
    """What is wanted and what may be varied.

    Parameters
    ----------
    name, kind, seed : as in [study]
    tables : folder of the user's own fact tables from the root, "" for none
    workloads : by name; empty for kind "hardware"
    axes : levels of every axis of the kind, in the order of `planner.axes`; one of devices,
        nodes, supernodes; words such as "offered" and "derived" stand for themselves
    costing, objectives : their tables, resolved
    limits : metric to worst value allowed: an upper bound, or a lower bound for what is better
        when larger (`planner.metrics.is_at_least`)
    targets : metric to a value that is wished for, told of every plan and required of none
    pin : derived quantity to the value it is set to; "unit_w.GB200" for a figure of one chip
    scenarios : "costing.KEY" or "limits.METRIC" to its values: what is not for the buyer to
        choose; every combination is costed apart and has a front of its own
    search : how candidates are found
    reliability : failures, checkpoints, spares
    fleet : the calendar of a purchase plan, the default one for other kinds
    mixed : a cluster that serves and trains, NONE for other kinds
    network : what its links are taken to be
    preset, presets : the one laid over the study, and all as written
    text : the study as written
    folder : where relative paths of the study start
    """

    name: str
    kind: str
    seed: int
    tables: str
    workloads: Mapping[str, Workload]
    axes: Mapping[str, tuple[Level, ...]]
    costing: Costing
    limits: Mapping[str, float]
    targets: Mapping[str, float]
    objectives: Objectives
    pin: Mapping[str, float]
    scenarios: Mapping[str, tuple[float, ...]]
    search: Search
    reliability: Reliability
    fleet: Fleet
    mixed: Mixed
    network: Network
    preset: str
    presets: Mapping[str, Any]
    text: str
    folder: File

    @property
    def training(self) -> TrainWorkload:
        """The one workload of a training study."""
        (work,) = (w for w in self.workloads.values() if isinstance(w, TrainWorkload))
        return work

    @property
    def serving(self) -> ServeWorkload:
        """The one workload of a serving study."""
        (work,) = (w for w in self.workloads.values() if isinstance(w, ServeWorkload))
        return work


def read_study(path: str | File, names: Names | None = None) -> Study:
    """The study in a file.

    Parameters
    ----------
    path : a TOML file
    names : the catalogue's names; without them any name is taken

    Raises
    ------
    BadFile : the file cannot be read
    BadStudy : everything that is wrong with it, each with its line
    """
    file = File(path)
    return study_from_text(_text_of(file), str(path), file.absolute().parent, names)


def study_from_text(text: str, label: str, folder: File, names: Names | None = None) -> Study:
    """The study in a text; `label` stands before the line in faults.

    Raises
    ------
    BadStudy : everything that is wrong with it, each with its line
    """
    document, readable, torn = parse_toml(text)
    lines = lines_of(readable)
    faults = Faults(lambda path: f"{label}:{line_of(lines, path)}", is_torn=bool(torn))
    for line, problem in torn:
        faults.found.append(f"{label}:{line}: {problem}; wanted TOML; mend the line")
    return _checked(with_preset(document, faults), faults, text, folder, names or Names())


def study_from_document(
    document: Mapping[str, Any], place: Place, text: str, folder: File, names: Names | None = None
) -> Study:
    """The study in a parsed document; `place` says where a path stands.

    Raises
    ------
    BadStudy : everything that is wrong with it
    """
    return _checked(document, Faults(place), text, folder, names or Names())


def tables_named_in(path: str | File) -> File | None:
    """The folder of own tables that a study file names, before anything else of it is checked."""
    try:
        text = File(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # `read_study` says why
    return tables_named(text, File(path).absolute().parent)


def tables_named(text: str, folder: File) -> File | None:
    """The same in the text of a study whose relative paths start in a folder."""
    document, _, _ = parse_toml(text)
    header = document.get("study", {})
    tables = header.get("tables", "") if isinstance(header, Mapping) else ""
    if not isinstance(tables, str) or not tables:
        return None
    return File(_from(folder, tables))


def _from(folder: File, path: str) -> str:
    """A path of the study from the root; never from the working folder."""
    return str((folder / File(path).expanduser()).resolve()) if path else ""


def _text_of(file: File) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")  # some editors write a mark first
    except OSError as error:
        raise BadFile(f"{file} cannot be read: {error.strerror}; give a study file") from error
    except UnicodeDecodeError as error:
        raise BadFile(
            f"{file} is not UTF-8 text (byte {error.start}); wanted a TOML file; save it as UTF-8"
        ) from error


def _checked(
    document: Mapping[str, Any], faults: Faults, text: str, folder: File, names: Names
) -> Study:
    for key in document:
        if key not in SECTIONS:
            faults.unknown_key((key,), SECTIONS, "table")
    tables = {key: _table(document, key, faults) for key in SECTIONS}
    header = part(Header, tables["study"], ("study",), faults)
    kind = header.kind if header else _kind_or_train(tables["study"])
    study = Study(
        name=header.name if header else "",
        kind=kind,
        seed=header.seed if header else 0,
        tables=_from(folder, header.tables) if header else "",
        workloads=_workloads(tables["workload"], kind, faults, folder, names),
        axes=read_axes(
            tables["axes"], axes_kind(tables, kind), faults, names, is_fleet=kind == "fleet"
        ),
        costing=read_costing(tables["costing"], faults, names.site, names.accelerator),
        limits=numbers(tables["limits"], "limits", metric_names(kind), faults),
        targets=numbers(tables["targets"], "targets", metric_names(kind), faults),
        objectives=_objectives(
            tables["objectives"], kind, faults, has_targets=bool(tables["targets"])
        ),
        pin=pins(tables["pin"], axes_kind(tables, kind), faults, names.accelerator),
        scenarios=scenarios(tables, kind, faults),
        search=_search(tables["search"], faults),
        reliability=read_reliability(tables["reliability"], kind, faults, tables["pin"]),
        fleet=read_fleet(tables, kind, faults, names.accelerator, names.site),
        mixed=read_mixed(tables["mixed"], kind, faults),
        network=part(Network, tables["network"], ("network",), faults) or Network(),
        preset=header.preset if header else "",
        presets=tables["presets"],
        text=text,
        folder=folder,
    )
    faults.raise_if_any()
    return study


def _table(document: Mapping[str, Any], key: str, faults: Faults) -> dict[str, Any]:
    given = document.get(key, {})
    if isinstance(given, Mapping):
        return dict(given)
    faults.add((key,), given, "is a value", f"wanted a table; write [{key}]")
    return {}


def _kind_or_train(table: Mapping[str, Any]) -> str:
    """A kind to go on with, so that the other tables are checked too."""
    kind = table.get("kind")
    return str(kind) if kind in DEFAULT_OBJECTIVES else "train"


def _workloads(
    tables: Mapping[str, Any], kind: str, faults: Faults, folder: File, names: Names
) -> Mapping[str, Workload]:
    _count_workloads(tables, kind, faults)
    found: dict[str, Workload] = {}
    for name, table in tables.items():
        path = ("workload", name)
        if not isinstance(table, Mapping):
            faults.add(path, table, "is a value", f"wanted a table; write [workload.{name}]")
            continue
        shape = _workload_shape(table, kind, path, faults)
        if shape is ServeWorkload:
            table = _with_traces(table, path, faults, folder, names)
        work = part(shape, _with_model(table, path, faults, folder, names), path, faults)
        if isinstance(work, ServeWorkload) and kind != "serve" and not work.operations.is_quiet:
            faults.say(
                (*path, "operations"),
                f"a {kind} study plays no failures, ranks, admission or autoscale",
                'remove it; a study of kind = "serve" does',
            )
        if work is not None:
            found[name] = work
    return MappingProxyType(found)


def _count_workloads(tables: Mapping[str, Any], kind: str, faults: Faults) -> None:
    if kind == "hardware" and tables:
        faults.say(("workload",), "a hardware study has no workload", "remove [workload.…]")
    if kind in ("train", "serve") and len(tables) > 1:
        faults.say(
            ("workload",),
            f"a {kind} study has {len(tables)} workloads",
            'wanted one; split the study, or use kind = "mixed"',
        )
    if kind == "mixed" and tables:
        faults.say(("workload",), "a mixed study knows serving by its devices", "remove "
                   "[workload.…]; a fleet study has workloads that train in troughs")  # fmt: skip
    if kind in ("train", "serve") and not tables:
        faults.missing(("workload",), 'a table such as [workload.main] with model = "…"')


def _workload_shape(
    table: Mapping[str, Any], kind: str, path: Path, faults: Faults
) -> type[TrainWorkload] | type[ServeWorkload]:
    given = table.get("kind", kind)
    if kind in ("train", "serve") and given in ("train", "serve") and given != kind:
        faults.add((*path, "kind"), given, f"the study's kind is {kind!r}", f"write {kind!r}")
    return ServeWorkload if given == "serve" else TrainWorkload


def _with_model(
    table: Mapping[str, Any], path: Path, faults: Faults, folder: File, names: Names
) -> dict[str, Any]:
    """The table with its model in the catalogue's spelling, or as a path from the root."""
    model = table.get("model")
    if not isinstance(model, str) or not model:
        return dict(table)
    if model.endswith(".json") or model.startswith(("./", "../", "/", "~")):
        model = str((folder / File(model).expanduser()).resolve())
    return {**table, "model": faults.looked_up(names.model, model, (*path, "model"))}


def _with_traces(
    table: Mapping[str, Any], path: Path, faults: Faults, folder: File, names: Names
) -> dict[str, Any]:
    """The table with its trace files from the root; faults of traffic and latencies noted."""
    for inner, name in traces_named(table):
        faults.looked_up(names.trace, name, (*path, *inner))
    check_serving(table, path, faults)
    return with_files(table, folder)


def _search(table: Mapping[str, Any], faults: Faults) -> Search:
    found: Search = part(Search, table, ("search",), faults) or Search()
    wanted = ALGORITHMS_OF.get(found.driver)
    if found.algorithm and wanted is not None and found.algorithm not in wanted:
        path: Path = ("search", "algorithm")
        problem = f"{found.driver} does not have it"
        faults.add(path, found.algorithm, problem, f"wanted {' or '.join(wanted)}" if wanted
                   else "leave it out")  # fmt: skip
    return found


def _objectives(
    table: Mapping[str, Any], kind: str, faults: Faults, *, has_targets: bool
) -> Objectives:
    if not table:
        return DEFAULT_OBJECTIVES[kind]
    found: Objectives | None = part(Objectives, table, ("objectives",), faults)
    if found is None:
        return DEFAULT_OBJECTIVES[kind]
    wanted = (*found.minimise, *found.maximise)
    known = metric_names(kind)
    for key, names in (("minimise", found.minimise), ("maximise", found.maximise)):
        for index, name in enumerate(names):
            is_by_targets = has_targets and (key, name) == ("minimise", SHORTFALL.name)
            if name not in known and not is_by_targets:
                path = ("objectives", key, index, name)
                faults.say(
                    path[:3], f"{name!r} is no metric of a {kind} study", nearest(name, known)
                )
    if len(set(wanted)) < len(wanted) or not wanted:
        faults.say(
            ("objectives",), "[objectives] is empty or names a metric twice", "name each once"
        )
    return found
