"""How far times that were left out lie from what the others and the curve say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from costdata.catalog import Catalog
from costdata.facts import parse_table
from costdata.times import COLLECTIVES, PRODUCTS, message_times, product_times
from simkernel.columns import Codes, Floats
from simkernel.timed import Points
from simkernel.timed_over_curves import message_curve_s, product_curve_s

Cells = Sequence[Mapping[str, str]]


def product_errors(catalog: Catalog, chip: str, rows: Cells) -> dict[str, float]:
    """Errors of products: by the curve, each left out, each family of shapes left out.

    Parameters
    ----------
    rows : of product_times.csv, all of one chip

    Returns
    -------
    medians and 90th percentiles of |predicted / timed - 1| by name; those of the kernel for itself

    Notes
    -----
    A family are the products with one weight: the same inner and columns, whatever the rows.
    """
    times = product_times(parse_table(PRODUCTS, rows, {}, is_user=True)[0].values(), [chip])
    curve_s, _ = product_curve_s(catalog.chips([chip]), times)
    log_frac = np.log(times.seconds / curve_s)
    left: Floats = np.zeros(len(times))
    family: Floats = np.zeros(len(times))
    places = np.log2(np.stack([times.rows, times.inner, times.columns], axis=1))
    for precision in np.unique(times.precision_code):
        here = np.flatnonzero(times.precision_code == precision)
        points = Points(places[here], log_frac[here], times.is_in_step[here])
        shapes = (times.rows[here], times.inner[here], times.columns[here])
        alone = np.arange(len(here))
        weights = np.stack(shapes[1:], axis=1)
        _, families = np.unique(weights, axis=0, return_inverse=True)
        left[here] = _left_out(points, shapes, alone)
        family[here] = _left_out(points, shapes, families.reshape(-1))
    return {
        **_errors("curve", -log_frac),
        **_errors("left_out", left - log_frac),
        **_errors("family_left_out", family - log_frac),
    }


def message_errors(catalog: Catalog, chip: str, rows: Cells) -> dict[str, float]:
    """Errors of collectives by the curve, and with every second size left out.

    Parameters
    ----------
    rows : of collective_times.csv, all of one chip
    """
    table = parse_table(COLLECTIVES, rows, {}, is_user=True)[0]
    times = message_times(table.values(), [chip])
    curve_s, _ = message_curve_s(catalog.chips([chip]), times)
    log_frac = np.log(times.seconds / curve_s)
    keys = np.stack([times.operation_code, times.inside, times.domains], axis=1)
    between: list[float] = []
    for key in np.unique(keys, axis=0):
        here = np.flatnonzero((keys == key).all(axis=1))
        here = here[np.argsort(times.payload_bytes[here])]
        sizes = np.log2(times.payload_bytes[here])
        found = np.interp(sizes[1:-1:2], sizes[::2], log_frac[here][::2])
        between += (found - log_frac[here][1:-1:2]).tolist()
    return {**_errors("curve", -log_frac), **_errors("every_second_left_out", np.array(between))}


def _left_out(points: Points, shapes: tuple[Floats, Floats, Floats], families: Codes) -> Floats:
    """Log ratio of each point as those of other families say; 0, the curve, where none are."""
    found = np.zeros(len(points.log_frac))
    for family in np.unique(families):
        here = np.flatnonzero(families == family)
        kept = points.without(here)
        if len(kept.log_frac):
            found[here] = kept.at(*(extent[here] for extent in shapes)).log_frac
    return found


def _errors(name: str, log_errors: Floats) -> dict[str, float]:
    if not len(log_errors):
        return {}
    errors = np.abs(np.exp(log_errors) - 1.0)
    return {
        f"{name}_median_frac": float(np.median(errors)),
        f"{name}_p90_frac": float(np.quantile(errors, 0.9)),
    }
