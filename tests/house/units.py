"""The grammar of names: from `usd_per_device_hour` to dollars per hour.

A name is words, a unit, then perhaps `_per_` and more units: the last word before `_per_` and
every word after it are looked up here. Things that are counted (devices, layers, tokens) are pure
numbers. pint keeps the algebra; its own registry is not loaded, so an unknown word is unknown.
"""

import pint

REGISTRY = pint.UnitRegistry(None, on_redefinition="raise")
for definition in (
    "s = [time]",
    "hour = 3600 * s",
    "day = 24 * hour",
    "year = 365 * day",
    "month = year / 12",
    "j = [energy]",
    "w = j / s",
    "kw = 1000 * w",
    "mw = 1000 * kw",
    "kwh = kw * hour",
    "mwh = mw * hour",
    "byte = [information]",
    "pb = 1e15 * byte",
    "flop = [work]",
    "usd = [money]",
    "kgco2e = [carbon]",
    "kg = [mass]",
    "t = 1000 * kg",
    "l = [volume]",
    "cm = [length]",
    "mm = 0.1 * cm",
    "k = [temperature]",
    "count = []",
):
    REGISTRY.define(definition)

WORDS = {
    **{word: word for word in ("s", "j", "w", "kw", "mw", "kwh", "mwh", "flop", "usd", "l", "mm")},
    **{word: word for word in ("byte", "pb", "kgco2e", "kg", "t", "hour", "day", "month", "year")},
    "tonne": "t",
    **{f"{word}s": word for word in ("byte", "hour", "day", "month", "year")},
    **{"c": "k", "k": "k"},  # degrees Celsius: only differences enter equations
    "mm2": "mm ** 2",
    "cm2": "cm ** 2",
    "frac": "count",
    "code": "count",
    "codes": "count",
}
"""Unit words as names write them, and what they are."""

COUNTED = (
    *("device", "token", "mtoken", "unit", "host", "value", "sequence", "request", "task"),
    *("input", "output", "total"),
)
"""What may stand after `_per_` without being a unit: it is counted."""

STATISTICS = ("mean", "p50", "p95", "p99", "low", "high", "max", "min")
"""Words that may follow the unit."""

PLAIN = {
    **dict.fromkeys(("active_parameters", "rows", "columns", "inner", "radix", "window"), "count"),
    **dict.fromkeys(("usd_per_tonne", "carbon_usd_per_t"), "usd / kgco2e"),  # tonnes of CO2e
    **dict.fromkeys(("output", "usable_per_unit"), "count"),
    **dict.fromkeys(("key_dim", "value_dim", "oversubscription", "pue", "lost"), "count"),
    "power_oversubscription": "count",
    **dict.fromkeys(("compute_exponent", "memory_exponent", "columns_half"), "count"),
    **dict.fromkeys(("rows_half", "inner_half", "tokens_half"), "count"),
    **dict.fromkeys(("expert_imbalance", "expert_skew", "skew"), "count"),
    **dict.fromkeys(("dense", "expert", "used"), "count"),  # parameters, simkernel/memory.py
    **dict.fromkeys(("per_micro_batch", "again"), "byte"),  # activations, simkernel/memory.py
    **dict.fromkeys(("cv", "peak_over"), "count"),  # peak_over_mean, simkernel/arrivals.py
    **dict.fromkeys(("operational", "embodied"), "kgco2e"),
    "target": "count",  # as its policy has it, simkernel/autoscaling
    **dict.fromkeys(("under", "over"), "count"),  # of any function, simkernel/false_position.py
}
"""Names without a unit word whose unit must be told: the short end of the nomenclature."""


def unit_of(name):
    """The pint unit a name carries, or None when it carries none.

    A plural without a unit word is a count; a mask is one too.
    """
    name = name.lower()
    for statistic in STATISTICS:
        name = name.removesuffix(f"_{statistic}")
    name = name.split("_by_")[0] if name.split("_by_")[-1] in ("hour", "month") else name
    above, *below = name.split("_per_")
    if name in PLAIN:
        return REGISTRY.parse_units(PLAIN[name])
    unit = _counted(above) or _word(above.split("_")[-1])
    for part in below:
        for word in part.split("_"):
            divisor = REGISTRY.parse_units("count") if word in COUNTED else _word(word)
            unit = None if unit is None or divisor is None else unit / divisor
    return unit


def _word(word):
    return REGISTRY.parse_units(WORDS[word]) if word in WORDS else None


def _counted(words):
    """Plurals such as devices or devices_used, and masks such as has_head, are numbers."""
    if words.startswith("devices_"):
        return REGISTRY.parse_units("count")
    last = words.split("_")[-1]
    is_plural = last.endswith("s") and len(last) > len("gbs") and last not in WORDS
    is_mask = words.startswith(("is_", "has_", "fits_"))
    return REGISTRY.parse_units("count") if is_plural or is_mask else None


def dimension(unit):
    """Powers of the base dimensions, e.g. {"[time]": -1.0}."""
    return {name: float(power) for name, power in REGISTRY.get_dimensionality(unit).items()}


def scale(unit, factors):
    """What a number in this unit is multiplied by when the base units shrink by `factors`."""
    product = 1.0
    for name, power in dimension(unit).items():
        product *= factors[name] ** power
    return product
