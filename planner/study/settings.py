"""Settings given on the command line: tp=8, costing.site=se, pin.goodput_frac=0.9.

A setting replaces what the study says; the result is checked as a whole, as a file would be.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from planner.axes import AXES, COUNTS, SHORT_NAMES
from planner.metrics import PINNABLE
from planner.study.faults import Faults, nearest
from planner.study.lines import Path
from planner.study.names import Names
from planner.study.network import with_preset
from planner.study.parts import Costing
from planner.study.pools import POOLS
from planner.study.read import SECTIONS, Study, study_from_document
from planner.study.written import study_document
from simkernel.errors import BadStudy

PRICES = ("price_usd", "all_in_usd_per_device", "all_in_usd_per_unit")
"""Tables of prices by chip; of one chip a later one stands before an earlier one."""

BY_CHIP = (
    *(f"costing.{name}" for name in PRICES),
    *(f"pin.{pin.name}" for pin in PINNABLE.values() if pin.is_per_chip),
)
"""Tables whose keys are names of chips, dots and all."""


def parse_set(setting: str) -> tuple[tuple[str, ...], Any]:
    """Path and value of one setting.

    Parameters
    ----------
    setting : "AXIS=VALUE" or "TABLE.KEY=VALUE"; a value is TOML, a bare word a name, and words
        between commas a list

    Returns
    -------
    ("axes", "tensor_parallel"), 8 for "tp=8"

    Raises
    ------
    BadStudy : no such key, or no value
    """
    key, sign, text = setting.partition("=")
    if not sign or not text.strip():
        raise BadStudy(f"--set {setting}: has no value; wanted AXIS=VALUE; write e.g. tp=8")
    return _path(key.strip(), setting), _value(text.strip())


def with_settings(study: Study, settings: Sequence[str], names: Names | None = None) -> Study:
    """The study with some keys replaced.

    Parameters
    ----------
    study : left as it is
    settings : as for `parse_set`; the last one of a key wins
    names : the catalogue's names, as for `read_study`

    Raises
    ------
    BadStudy : everything that is wrong with the settings or with what they make of the study
    """
    pairs = _parsed(settings)
    document = _without_none(study_document(study))
    for _, path, value in pairs:
        if path == ("study", "preset"):
            _put(document, path, value)
            document = _laid_over(document, str(value))
    for _, path, value in pairs:
        _put(document, path, value)
    origin = {path: setting for setting, path, _ in pairs}
    changed = study_from_document(
        document,
        lambda path: _place(study, origin, path),
        study.text,
        study.folder,
        names,
    )
    idle = [fault for each in pairs for fault in _idle_prices(changed, each, names or Names())]
    if idle:
        raise BadStudy(*idle)
    return changed


def price_in_force(costing: Costing, chip: str) -> str:
    """The table of [costing] that holds the price of a chip; "" where it gives none."""
    given = [name for name in PRICES if chip in getattr(costing, name)]
    return given[-1] if given else ""


def _laid_over(document: dict[str, Any], preset: str) -> dict[str, Any]:
    """The document with the tables of one of its presets over its own."""
    faults = Faults(lambda _: f"--set study.preset={preset}")
    laid = with_preset(document, faults)
    faults.raise_if_any()
    return laid


def _idle_prices(
    study: Study, parsed: tuple[str, tuple[str, ...], Any], names: Names
) -> Iterator[str]:
    """Chips whose price a setting gives while another price of the study stands before it."""
    setting, path, value = parsed
    if path[0] != "costing" or path[1] not in PRICES:
        return
    for chip in map(names.accelerator, path[2:] or value):
        held = price_in_force(study.costing, chip)
        if chip in getattr(study.costing, path[1]) and held != path[1]:
            yield (
                f"--set {setting}: costing.{path[1]}.{chip} has no effect: the study gives "
                f"{held}.{chip}, which holds it; set costing.{held}.{chip}"
            )


def _parsed(settings: Sequence[str]) -> list[tuple[str, tuple[str, ...], Any]]:
    parsed: list[tuple[str, tuple[str, ...], Any]] = []
    faults: list[str] = []
    for setting in settings:
        try:
            parsed.append((setting, *parse_set(setting)))
        except BadStudy as error:
            faults.extend(error.faults)
    if faults:
        raise BadStudy(*faults)
    return parsed


def _path(key: str, setting: str) -> tuple[str, ...]:
    first, _, rest = key.partition(".")
    if first == "axes" and rest:
        return ("axes", *_axis_path(rest, setting))
    for table in BY_CHIP:
        if key.startswith(f"{table}."):
            first, name = table.split(".")
            chip = key.removeprefix(f"{table}.")
            return (first, f"{name}.{chip}") if first == "pin" else (first, name, chip)
    if first in SECTIONS and rest:
        return (first, *rest.split("."))
    return ("axes", *_axis_path(key, setting))


def _axis_path(key: str, setting: str) -> tuple[str, ...]:
    pool, _, name = key.rpartition(".")
    full = SHORT_NAMES.get(name, name)
    if full not in AXES or pool not in ("", *POOLS):
        known = (*AXES, *SHORT_NAMES, *(f"{section}." for section in SECTIONS))
        raise BadStudy(f"--set {setting}: {key!r} is no axis; {nearest(key, known)}")
    return (pool, full) if pool else (full,)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return [_value(part.strip()) for part in text.split(",")] if "," in text else text


def _put(document: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if path[0] in ("costing", "limits"):
        document.get("scenarios", {}).get(path[0], {}).pop(path[-1], None)
    table = document
    for part in path[:-1]:
        table = table.setdefault(part, {})
    if path[0] == "axes" and path[-1] in COUNTS:
        for count in COUNTS:
            table.pop(count, None)
    if path[0] == "axes" and len(path) == 3:
        document["axes"].pop(f"{path[1]}.{path[2]}", None)
    is_one_name = path[0] == "objectives" and isinstance(value, str)
    table[path[-1]] = [value] if is_one_name else value


def _place(study: Study, origin: Mapping[tuple[str, ...], str], path: Path) -> str:
    """Where a path came from: the setting that named it, or the study."""
    for length in range(len(path), 0, -1):
        known = tuple(str(part) for part in path[:length])
        if known in origin:
            return f"--set {origin[known]}"
    return f"study {study.name}"


def _without_none(document: dict[str, Any]) -> dict[str, Any]:
    """A copy of the resolved study without the keys that stand for the catalogue's figure."""
    copied = copy.deepcopy(document)
    return {
        key: {name: _drop(item) for name, item in table.items() if item is not None}
        for key, table in copied.items()
    }


def _drop(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: value for name, value in item.items() if value is not None}
    return item
