"""The dimensions of every registered equation fit, proved from the names alone.

Each number gets the unit that its name ends in (pint keeps the algebra), and the function is
called in two systems of units whose second, byte, joule and dollar differ by odd factors. An
equation whose dimensions fit gives the same quantity in both. Quantities themselves are not passed
through the equations: NumPy strips them at the first np.asarray, and this proof also sees
constants that hide a unit.
"""

import dataclasses
import importlib.util
import inspect
import pkgutil
import typing

import numpy as np
import pytest
from units import scale, unit_of

from simkernel.columns import Column
from simkernel.hardware import OPERATIONS, PRECISIONS, Columns
from simkernel.ledger import Ledger
from simkernel.timed import Timed

ROOMS = (
    "simkernel.roofline",
    "simkernel.reliability",
    "simkernel.power_cap",
    "simkernel.fabrics",
    "simkernel.traffic",
    "simkernel.collectives",
    "simkernel.schedules",
    "costdata.tco",
    "costdata.carbon",
    "costdata.energy_bill",
    "costdata.network_build",
)
"""Rooms of equations; of a plug-in folder, every file."""

COMING = tuple(name for name in ("simkernel.power",) if importlib.util.find_spec(name))
"""Rooms that are proved from the moment they are there."""

FACTORS = {
    "[time]": 7.3,
    "[temperature]": 2.3,
    "[information]": 3.1,
    "[work]": 11.9,
    "[energy]": 5.7,
    "[money]": 13.3,
    "[carbon]": 17.9,
    "[mass]": 19.1,
    "[volume]": 23.3,
    "[length]": 2.9,
}
"""How much smaller each base unit is in the second system: no product of a few of them is 1."""

ROWS = 3
HOURS = 8760

PERIODS = "interest compounds per period: years and months are exponents there, not durations"
FLOP = "two flop are one multiply-add: a product of counts is a number of flop"
PURE = {
    "simkernel.roofline.gemm_work": ("[work]", FLOP),
    "simkernel.roofline.attention_work": ("[work]", FLOP),
    "simkernel.roofline.attention_backward_work": ("[work]", FLOP),
    "costdata.tco.capital_recovery_frac": ("[time]", PERIODS),
    "costdata.tco.annual_capital_usd": ("[time]", PERIODS),
    "costdata.tco.present_frac": ("[time]", PERIODS),
    "costdata.tco.present_worth_frac": ("[time]", PERIODS),
    "costdata.tco.payback_months": ("[time]", PERIODS),
    "costdata.energy_bill.hourly_energy_usd": ("[time]", "the hour is the step of the series"),
    "costdata.carbon.act_package_kgco2e": ("[carbon]", "adds a published figure per package"),
}
"""Functions in which one dimension is a pure number, and why."""

UNPROVEN = {
    "simkernel.collectives.*.phases": "a list of messages, held to traffic() in tests/agree",
    "costdata.carbon.abatement_usd_per_t": "NaN where a row avoids nothing, as some here do",
    "simkernel.power_cap.following_frac": "shares by phase: no quantity in it",
    "simkernel.schedules.*.order": "a list of passes: no quantity in it",
}
"""Functions that this test cannot call or read, and why."""

RETURNS = {
    "simkernel.schedules.*.in_flight": "batches",
}
"""Names that tell the unit of a result where the function's name does not."""

GIVEN = {
    "costdata.energy_bill.hourly_energy_usd": {"usd_per_kwh": np.linspace(0.05, 0.2, HOURS)},
    "costdata.energy_bill.month_of_hour": {"hours": HOURS},
    "costdata.energy_bill.ratcheted_w": {
        "peak_by_month_w": np.linspace(1.0, 2.0, 12),
        "contract_w": 1.5,
        "minimum_frac": 0.8,
        "ratchet_frac": 0.7,
    },
    "costdata.network_build.fabric_switches": {"radix": 64.0},
    "costdata.network_build.counted": {"radix": 64.0},
    "costdata.network_build.link_set_usd": {"usd_per_host": np.linspace(1.0, 2.0, 4)},
}
"""Arguments that must be of a certain shape for a function to run."""

INTEGERS = {"size": 8, "inside": 2, "micro_batches": 8, "members": 8}
"""Counts that must fit each other; any other is 4."""

SINGLE = {"int": 4, "bool": True, "str": OPERATIONS[0]}
"""Annotations of what is never a column."""


def modules():
    """The registered rooms that exist, plug-in files one by one."""
    for name in ROOMS + COMING:
        module = importlib.import_module(name)
        paths = getattr(module, "__path__", None)
        if paths is None:
            yield module
        else:
            yield from (
                importlib.import_module(f"{name}.{file.name}")
                for file in pkgutil.iter_modules(paths)
                if not file.name.startswith("_")
            )


def equations():
    """Every public function of the registered rooms; a collective once per operation."""
    for module in modules():
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_own = function.__module__ == module.__name__ and not name.startswith("_")
            if is_own and family(function) not in UNPROVEN:
                for operation in getattr(module, "OPERATIONS", ("",)):
                    chosen = {"operation": operation} if operation else {}
                    yield pytest.param(function, chosen, id=f"{label(function)} {operation}")


def label(function):
    return f"{function.__module__}.{function.__name__}"


def family(function):
    """The label, with the file of a plug-in folder left open."""
    floor, *inner, name = label(function).split(".")
    return label(function) if len(inner) < 2 else f"{floor}.{inner[0]}.*.{name}"


# Arguments, made from names and annotations.


def arguments(function, rng, **chosen):
    """One value per parameter."""
    kinds = annotations(function)
    chosen = GIVEN.get(family(function), {}) | chosen
    return {
        name: chosen[name] if name in chosen else made(name, *kinds[name], rng)
        for name in inspect.signature(function).parameters
    }


def annotations(owner):
    """Of each parameter or field: what it is, and the words it is written in."""
    words = inspect.get_annotations(owner)
    kinds = typing.get_type_hints(owner)
    return {
        name: (kind, getattr(words[name], "__forward_arg__", str(words[name])))
        for name, kind in kinds.items()
    }


def made(name, kind, words, rng, columns=None):
    """A value such as the name and the annotation ask for."""
    shape = (ROWS,) if columns is None else (ROWS, columns)
    if "Timed" in words:  # what somebody timed: none, or nothing of these chips
        return None if "None" in words else Timed(np.zeros(ROWS, dtype=int), {}, {})
    if "Tile" in words and "None" in words:  # products by curves
        return None
    if has_fields(kind):
        parts = annotations(kind).items()
        return kind(
            **{field: made(field, *part, rng, width(kind, field)) for field, part in parts}
        )
    if typing.get_origin(kind) is tuple:
        return tuple(made(name, part, "Column", rng) for part in typing.get_args(kind))
    if words in SINGLE:
        return INTEGERS.get(name, SINGLE[words])
    if "np.str_" in words:
        return np.full(shape, "a name")
    if "Codes" in words:
        return np.full(shape, 0 if name.endswith(("code", "codes")) else INTEGERS.get(name, 4))
    low, high = (0.2, 0.9) if "frac" in name else (1.0, 5.0)
    return rng.uniform(low, high, (HOURS,) if name.endswith("_by_hour") else shape)


def width(kind, field):
    """Second axis of a table's field, None for plain columns."""
    if kind.__name__ == "LinkCurve":
        return len(OPERATIONS)
    is_by_precision = kind.__name__ == "GemmCurve" or field == "peak_flop_per_s"
    return len(PRECISIONS) if issubclass(kind, Columns) and is_by_precision else None


def rescaled(name, value, factors):
    """The same value in the second system of units."""
    if has_fields(value):
        parts = fields_of(value).items()
        return type(value)(**{field: rescaled(field, part, factors) for field, part in parts})
    if isinstance(value, tuple):
        return tuple(rescaled(name, part, factors) for part in value)
    is_number = isinstance(value, float) or getattr(value, "dtype", None) == np.float64
    return value * scale(unit_of(name), factors) if is_number else value


def has_fields(value):
    return dataclasses.is_dataclass(value) or hasattr(value, "_fields")


def fields_of(value):
    return vars(value) if dataclasses.is_dataclass(value) else value._asdict()


def quantities(name, value):
    """Every number of a result with its unit: of a table by field, of a ledger by its unit."""
    if isinstance(value, Ledger):
        for term, part in value.terms.items():
            yield term, np.asarray(part), unit_of(f"x_{value.unit}")
    elif has_fields(value):
        for field, part in fields_of(value).items():
            yield from quantities(field, part)
    elif isinstance(value, tuple):
        for part in value:
            yield from quantities(name, part)
    else:
        yield name, np.asarray(value), unit_of(name)


@pytest.mark.parametrize(("function", "chosen"), list(equations()))
def test_the_dimensions_of_an_equation_fit(function, chosen):
    """Bytes would be added to seconds, or watts read as kilowatt-hours."""
    given = arguments(function, np.random.default_rng(5), **chosen)
    pure, _ = PURE.get(family(function), ("", ""))
    factors = FACTORS | ({pure: 1.0} if pure else {})
    other = {name: rescaled(name, value, factors) for name, value in given.items()}
    name = RETURNS.get(family(function), function.__name__)
    one, two = (list(quantities(name, function(**values))) for values in (given, other))
    assert len(one) == len(two) > 0
    for (name, before, unit_before), (_, after, _) in zip(one, two, strict=True):
        if before.dtype.kind == "f":
            assert unit_before is not None, f"{name}: no unit in the name"
            assert np.isfinite(before).all(), f"{name}: {before}"
            wanted = before * scale(unit_before, factors)
            assert after == pytest.approx(wanted, rel=1e-9), name
        else:
            assert np.array_equal(before, after), name


def test_the_proof_finds_a_wrong_equation():
    """A test that lets everything through proves nothing."""

    def wrong_s(moved_bytes: Column, link_bytes_per_s: Column):
        return moved_bytes / link_bytes_per_s + 0.001 * moved_bytes

    with pytest.raises(AssertionError, match="wrong_s"):
        test_the_dimensions_of_an_equation_fit(wrong_s, {})


def test_the_exceptions_are_of_functions_that_are_there():
    """An excuse would outlive the function it was made for."""
    there = {family(param.values[0]) for param in equations()}
    assert {*PURE, *RETURNS, *GIVEN} <= there
