"""One config.json as answers to questions of meaning, every fault collected before it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from costdata.configs.meanings import CORE_MEANINGS, MEANINGS, NEVER_DEFAULT, SUGGESTED
from simkernel.errors import BadFile, MissingFact

MAX_FACTOR = 1e4  # above any published ratio of widths
MAX_COUNT = 10**9  # above any published width or vocabulary: a typing slip, not a model


@dataclass
class Faults:
    """What is wrong with one file: keys that are missing, values that cannot be."""

    where: str
    missing: dict[str, str] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def raise_all(self) -> None:
        """Raise everything that was found, in one error.

        Raises
        ------
        BadFile : a value that cannot be; missing keys are told in the same error
        MissingFact : only keys are missing or not understood
        """
        told = tuple(
            f"{self.where}: {text}" for text in (*self.bad.values(), *self.missing.values())
        )
        if self.bad:
            raise BadFile(*told)
        if self.missing:
            raise MissingFact(*told)


@dataclass(frozen=True)
class Keys:
    """The text part of a config.json, asked by meaning, for the model or for one layer.

    Parameters
    ----------
    file : what the file says, nulls included
    defaults : what the model type's own class says where the file is silent
    is_nested : the file wrote its text_config as a difference from those defaults
    layer : where a value is a list with one entry per layer, which entry
    """

    file: Mapping[str, Any]
    defaults: Mapping[str, Any]
    faults: Faults
    model_type: str = ""
    is_nested: bool = False
    layer: int | None = None

    def at(self, layer: int) -> Keys:
        """The same file seen from one layer, with its `per_layer_config` laid over."""
        own = _own_settings(self.file.get("per_layer_config"), layer)
        return replace(self, layer=layer, file={**self.file, **own} if own else self.file)

    def with_values(self, values: Mapping[str, Any]) -> Keys:
        """The same file with some values laid over."""
        return replace(self, file={**self.file, **values})

    def value(self, *names: str) -> Any:
        """The first of these keys that the file, or else the model type, gives; None if none."""
        for name in names:
            if self.file.get(name) is not None:
                return self._pick(self.file[name])
        if any(name in self.file for name in names):
            return None
        found = (self.defaults[name] for name in names if self.defaults.get(name) is not None)
        return self._pick(next(found, None))

    def has(self, meaning: str) -> bool:
        """Whether the quantity is stated and not zero."""
        return self.optional(meaning) > 0

    def optional(self, meaning: str, default: int = 0) -> int:
        """A count, or the default where neither the file nor its type states it."""
        return self._count(meaning, self._stated(meaning), default)

    def count(self, meaning: str) -> int:
        """A count that the model cannot be without; 1 stands in after a fault is noted."""
        value = self._stated(meaning)
        if value is None or value == 0:
            name = SUGGESTED.get(meaning, MEANINGS[meaning][0])
            others = [other for other in MEANINGS[meaning] if other != name]
            also = f" (also read as {', '.join(others)})" if others else ""
            self.faults.missing.setdefault(
                meaning, f"no value for {name}{also}; the file must state it"
            )
            return 1
        return self._count(meaning, value, 1)

    def flag(self, *names: str, default: bool = False) -> bool:
        """Whether a switch is on; the first of these keys that is stated decides."""
        value = self.value(*names)
        return default if value is None else bool(value)

    def raw(self, name: str) -> Any:
        """What the file or its type gives for a key, lists whole."""
        return self.file[name] if name in self.file else self.defaults.get(name)

    def number(self, *names: str, default: int = 0) -> int:
        """A whole number that is no size, such as a period or a first layer."""
        value = self.value(*names)
        if value is None:
            return default
        if count_fault(value):
            self.faults.bad.setdefault(names[0], f"{names[0]} is {value!r}, {count_fault(value)}")
            return default
        return int(value)

    def factor(self, name: str) -> float:
        """A positive factor, 0 where it is not stated."""
        value = self.value(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if value is not None and not (is_number and 0 <= value <= MAX_FACTOR):
            self.faults.bad.setdefault(
                name, f"{name} is {value!r}, but a factor is a number from 0"
            )
            return 0.0
        return float(value or 0)

    def table(self, name: str) -> Mapping[str, Any]:
        """An object inside the file, empty where there is none."""
        value = self.file.get(name)
        return value if isinstance(value, dict) else {}

    def missing(self, key: str, text: str) -> None:
        """Note something that the file would have to say, by the key that should say it."""
        self.faults.missing.setdefault(key, text)

    def _stated(self, meaning: str) -> Any:
        names = MEANINGS[meaning]
        value = self.value(*names)
        if value is not None and any(self.file.get(name) is not None for name in names):
            return value
        is_core = meaning in NEVER_DEFAULT or (meaning in CORE_MEANINGS and not self.is_nested)
        return None if is_core else value

    def _count(self, meaning: str, value: Any, default: int) -> int:
        if value is None:
            return default
        fault = count_fault(value)
        if fault:
            name = next((n for n in MEANINGS[meaning] if self.file.get(n) is not None), meaning)
            self.faults.bad.setdefault(name, f"{name} is {value!r}, {fault}")
            return default or 1
        return int(value)

    def _pick(self, value: Any) -> Any:
        if isinstance(value, list) and self.layer is not None and self.layer < len(value):
            return value[self.layer]
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            return value[0]
        return value


def count_fault(value: object) -> str:
    """What is wrong with a value that should be a count; empty if nothing is."""
    do = "but a count is a whole number from 0; correct the file"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return do
    if value != value or value in (float("inf"), float("-inf")) or value < 0 or value > MAX_COUNT:
        return do
    return "" if value == int(value) else do


def whole_list(keys: Keys, name: str, layers: int) -> Sequence[Any] | None:
    """A list with one entry per layer, or None where the file has none; drafts' entries are cut.

    A list that is shorter than the model, or no list at all, is noted as a fault.
    """
    value = keys.file.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or len(value) < layers:
        have = f"{len(value)} entries" if isinstance(value, list) else repr(value)
        keys.faults.bad.setdefault(
            name, f"{name} has {have}, but there are {layers} layers; give one entry per layer"
        )
        return None
    return value[:layers]


def indices(value: object) -> set[int]:
    """Layer numbers from a list or from text such as "3,4,5"."""
    items: Iterable[Any] = (
        value.split(",") if isinstance(value, str) else (value if isinstance(value, list) else ())
    )
    return {int(item) for item in items if str(item).strip().lstrip("-").isdigit()}


def _own_settings(table: object, layer: int) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        return {}
    for key, own in table.items():
        if str(key).isdigit() and int(key) == layer and isinstance(own, dict):
            return own
    return {}
