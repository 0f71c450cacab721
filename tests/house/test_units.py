"""A name says its unit: every quantity that travels between functions ends in a known one."""

import ast

import pytest
from rooms import is_public, rooms
from units import dimension, unit_of

QUANTITIES = ("Column", "Floats", "float")
"""Annotations of numbers that may have a unit; integers are counts and codes."""

ACTORS = (
    "factor",
    "multiplier",
    "share_of_forward",
    "byte_factor",
    "flop_factor",
    "like",
    "count",
    "value",
)
"""Parameters that take any unit or give none, because the function is linear in them."""

ENDS = ("low", "typ", "typical", "high")
"""Ends of a range whose unit stands beside them, in a fact or in the name of the whole."""


def quantities(room):
    """Parameters and fields that hold numbers, with their line."""
    for names, function in room.functions:
        arguments = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
        if is_public(names):
            yield from ((a.arg, a.lineno) for a in arguments if _is_quantity(a.annotation))
    for node in room.nodes:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            fields = [line for line in node.body if isinstance(line, ast.AnnAssign)]
            yield from ((f.target.id, f.lineno) for f in fields if _is_quantity(f.annotation))


def _is_quantity(annotation):
    return annotation is not None and ast.unparse(annotation) in QUANTITIES


@pytest.mark.parametrize("room", rooms("simkernel", "costdata"), ids=lambda room: room.name)
def test_every_quantity_says_its_unit(room):
    """Seconds would meet milliseconds on one object, bytes meet gigabytes."""
    silent = [
        f"{room.name}:{line} {name}"
        for name, line in quantities(room)
        if unit_of(name) is None and name not in ACTORS + ENDS
    ]
    assert not silent, "end the name in its unit, or tell its unit in tests/house/units.py"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("step_s", {"[time]": 1}),
        ("link_bytes_per_s", {"[information]": 1, "[time]": -1}),
        ("peak_flop_per_s", {"[work]": 1, "[time]": -1}),
        ("usd_per_device_hour", {"[money]": 1, "[time]": -1}),
        ("demand_usd_per_kw_month", {"[money]": 1, "[energy]": -1}),
        ("grid_kgco2e_per_kwh", {"[carbon]": 1, "[energy]": -1}),
        ("ttft_s_p95", {"[time]": 1}),
        ("facility_w_by_hour", {"[energy]": 1, "[time]": -1}),
        ("die_cm2", {"[length]": 2}),
        ("mfu_frac", {}),
        ("layers", {}),
    ],
)
def test_names_are_read_as_a_person_reads_them(name, wanted):
    """The proof of dimensions would rest on a misread name."""
    assert dimension(unit_of(name)) == wanted


@pytest.mark.parametrize("name", ["step", "step_ms", "memory_gb", "power", "usd_per_moon"])
def test_a_name_without_a_known_unit_is_found(name):
    """The check above would let everything through."""
    assert unit_of(name) is None
