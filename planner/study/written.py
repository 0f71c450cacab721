"""A resolved study as plain data and as JSON, its hash, and back again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path as File
from typing import Any

from planner.study.fleet import Fleet
from planner.study.mixed import NONE
from planner.study.network import Network
from planner.study.parts import Reliability, Search, ServeWorkload, Workload
from planner.study.read import HEADER, SECTIONS, Study, study_from_document


def study_document(study: Study) -> dict[str, Any]:
    """The study fully resolved, as plain data that reads back as the same study."""
    return {
        "study": {n: getattr(study, n) for n in HEADER if n != "preset" or study.preset},
        "workload": {name: _workload_document(work) for name, work in study.workloads.items()},
        "axes": {name: list(levels) for name, levels in study.axes.items()},
        "costing": {**asdict(study.costing), "site": list(study.costing.site)},
        "limits": dict(study.limits),
        "objectives": {key: list(names) for key, names in asdict(study.objectives).items()},
        "pin": dict(study.pin),
        **({"targets": dict(study.targets)} if study.targets else {}),
        **_scenarios_document(study),
        **_unless_plain("search", study.search, Search()),
        **_unless_plain("reliability", study.reliability, Reliability()),
        **_unless_plain("fleet", study.fleet, Fleet()),
        **_unless_plain("mixed", study.mixed, NONE),
        **_unless_plain("network", study.network, Network()),
        **({"presets": dict(study.presets)} if study.presets else {}),
    }


def _workload_document(work: Workload) -> dict[str, Any]:
    """A workload; one to which nothing happens as it was before there were operations."""
    found = asdict(work)
    if isinstance(work, ServeWorkload):
        operations = _plain(found.pop("operations"))
        if not work.operations.is_quiet:
            found["operations"] = operations
    return found


def _unless_plain(name: str, table: Any, plain: Any) -> dict[str, Any]:
    """One of the tables a study need not have; nothing where it says nothing."""
    return {} if table == plain else {name: _plain(asdict(table))}


def _plain(value: Any) -> Any:
    """Nested tables without keys that are None, tuples as lists."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _scenarios_document(study: Study) -> dict[str, Any]:
    """[scenarios] as tables; nothing where there are none."""
    found: dict[str, dict[str, list[float]]] = {}
    for key, values in study.scenarios.items():
        section, _, name = key.partition(".")
        found.setdefault(section, {})[name] = list(values)
    return {"scenarios": found} if found else {}


def study_to_json(study: Study) -> str:
    """One JSON document: the resolved study, its hash and the text it was written in."""
    document = {**study_document(study), "sha256": study_sha256(study), "text": study.text}
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def study_from_json(text: str) -> Study:
    """The study that `study_to_json` wrote.

    Raises
    ------
    BadStudy : the document is not such a study
    """
    document = json.loads(text)
    body = {key: _without_null(value) for key, value in document.items() if key in SECTIONS}
    return study_from_document(body, lambda path: "json", document.get("text", ""), File("/"))


def study_sha256(study: Study) -> str:
    """Hash of what the study means: comments and spelling do not change it."""
    canonical = json.dumps(study_document(study), sort_keys=True, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _without_null(value: Any) -> Any:
    """Plain data without the keys whose value is null: TOML has none."""
    if isinstance(value, dict):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    return value
