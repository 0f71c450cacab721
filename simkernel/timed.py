"""Products and collectives that somebody timed, held against the curves of their chip.

What is kept is the logarithm of timed over predicted: between points it varies slowly, whatever
the size, and far from all of them nothing is left of it, so a curve is the prior. Not known here:
where times come from, and how a curve is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from simkernel.columns import Codes, Column, Floats, taken
from simkernel.placement import Group

REACH = 2.0
"""Doublings of one extent over which a lone point loses half of its say; own choice: tiles of a
product are a few doublings wide, and the points of a sweep one or two apart."""

SHARPNESS = 4
"""Power of the distance that weights fall with: above the three extents, so that far points in
their number never outweigh near ones (Shepard, 1968)."""


@dataclass(frozen=True)
class Near:
    """What points say of some places; (n,) each.

    Parameters
    ----------
    log_frac : of timed over predicted
    in_step_frac : share of it that was timed inside a whole step
    unknown_frac : share that no point has a say in, 0 at a point and 1 far from all
    """

    log_frac: Floats
    in_step_frac: Floats
    unknown_frac: Floats


@dataclass(frozen=True)
class Points:
    """Timed products of one chip and precision.

    Parameters
    ----------
    places : (p, 3) logarithms to base 2 of rows, inner and columns
    log_frac : (p,) of timed over predicted, of the kernel for itself
    is_in_step : (p,) 1 where it was timed inside a whole step, 0 where alone
    """

    places: Floats
    log_frac: Floats
    is_in_step: Floats

    def at(self, rows: Column, inner: Column, columns: Column) -> Near:
        """What the points say of some products; (n,) each.

        Notes
        -----
        Inverse distances to the fourth power, and a weight of its own for the curve, that of a
        point `REACH` doublings away.

        References
        ----------
        Shepard, A two-dimensional interpolation function for irregularly-spaced data, ACM 1968.
        """
        shapes = np.stack(np.broadcast_arrays(*np.atleast_1d(rows, inner, columns)), axis=1)
        once, back = np.unique(shapes.astype(float), axis=0, return_inverse=True)
        apart = np.log2(np.maximum(once, 1e-9))[:, None, :] - self.places[None, :, :]
        weights = (np.sum(apart**2, axis=2) + 1e-9) ** (-SHARPNESS / 2)
        all_weights = weights.sum(axis=1) + REACH**-SHARPNESS
        weights /= all_weights[:, None]
        found = Near(
            weights @ self.log_frac,
            weights @ self.is_in_step,
            REACH**-SHARPNESS / all_weights,
        )
        back = back.reshape(-1)
        return Near(found.log_frac[back], found.in_step_frac[back], found.unknown_frac[back])

    def without(self, left_out: Codes) -> Points:
        """The points but for some."""
        kept = np.setdiff1d(np.arange(len(self.log_frac)), left_out)
        return Points(self.places[kept], self.log_frac[kept], self.is_in_step[kept])


@dataclass(frozen=True)
class Line:
    """Timed messages of one operation in groups of one shape, by rising size.

    Parameters
    ----------
    inside, domains : members in a scale-up domain, and domains
    log_bytes, log_frac : (p,) of the payload, and of timed over predicted
    """

    inside: int
    domains: int
    log_bytes: Floats
    log_frac: Floats

    def at(self, log_bytes: Floats) -> Floats:
        """Straight between sizes, and as at the last one beyond them; (n,)."""
        return np.interp(log_bytes, self.log_bytes, self.log_frac)

    def beyond(self, log_bytes: Floats) -> Floats:
        """Doublings by which sizes lie outside the timed ones; (n,)."""
        return np.abs(log_bytes - np.clip(log_bytes, self.log_bytes[0], self.log_bytes[-1]))


@dataclass(frozen=True)
class PartLine:
    """A part of a step on one chip, by rising length of the sequence; (k,) each.

    Parameters
    ----------
    log_tokens : logarithm to base 2 of the length
    log_frac : of timed over predicted
    """

    log_tokens: Floats
    log_frac: Floats


@dataclass(frozen=True)
class Timed:
    """All that was timed on the chips of a table.

    Parameters
    ----------
    codes : (n,) chip of every row
    products : (chip, precision) to points
    lines : (chip, operation) to lines
    parts : (chip, part of a step) to lines; see `timed_parts`
    precision_codes : (n,) of rows that ask for a product; see `of_precision`
    reached_frac : (n,) that a product reaches inside a step, of the kernel for itself
    """

    codes: Codes
    products: Mapping[tuple[int, int], Points]
    lines: Mapping[tuple[int, str], tuple[Line, ...]]
    parts: Mapping[tuple[int, str], PartLine] = field(default_factory=dict)
    precision_codes: Column = 0
    reached_frac: Column = 1.0

    def take(self, rows: Codes | int) -> Timed:
        """The same for some rows of the table of chips."""
        return replace(self, codes=np.atleast_1d(self.codes[rows]))

    def rows_taken(self, rows: Codes) -> Timed:
        """The same for some rows, whatever has one; the tables stay whole. See `columns.taken`."""
        return replace(
            self,
            codes=taken(self.codes, rows),
            precision_codes=taken(self.precision_codes, rows),
            reached_frac=taken(self.reached_frac, rows),
        )

    def of_precision(self, precision_codes: Column, reached_frac: Column) -> Timed:
        """The same, for products of a precision a row inside steps."""
        return replace(self, precision_codes=precision_codes, reached_frac=reached_frac)

    def product_s(
        self, shape: tuple[Column, Column, Column], in_step_s: Column, alone_s: Column
    ) -> tuple[Floats, Floats]:
        """Seconds of some products, and the share of each that no point has a say in.

        Both of the shape that all arguments together have.

        Parameters
        ----------
        shape : rows, inner and columns, (n,) or numbers
        in_step_s, alone_s : by the curves, inside a step and for themselves [s]
        """
        like, (codes, precisions, rows, inner, columns, in_step, alone) = _flat(
            self.codes, self.precision_codes, *shape, in_step_s, alone_s
        )
        found, unknown = np.array(in_step, dtype=float), np.ones(len(in_step))
        for (chip, precision), points in self.products.items():
            is_here = (codes == chip) & (precisions == precision)
            if not np.any(is_here):
                continue
            near = points.at(rows[is_here], inner[is_here], columns[is_here])
            blend = in_step[is_here] + near.in_step_frac * (alone[is_here] - in_step[is_here])
            found[is_here] = blend * np.exp(near.log_frac)
            unknown[is_here] = near.unknown_frac
        return found.reshape(like), unknown.reshape(like)

    def message_frac(
        self, operation: str, group: Group, payload_bytes: Column
    ) -> tuple[Floats, Floats]:
        """Timed over predicted seconds of some collectives, 1 where none was timed.

        Beside it the share of each that no line has a say in: 0 between timed sizes and groups.

        Parameters
        ----------
        group : (n,) members and how many of them share a domain
        payload_bytes : (n,) or number [bytes]
        """
        like, (codes, inside, domains, payload) = _flat(
            self.codes, group.inside, group.domains, payload_bytes
        )
        log_bytes = np.log2(np.maximum(np.asarray(payload, dtype=float), 1.0))
        found, unknown = np.zeros(len(log_bytes)), np.ones(len(log_bytes))
        for (chip, name), lines in self.lines.items():
            if name != operation:
                continue
            shapes = np.unique(np.stack([inside, domains], axis=1)[codes == chip], axis=0)
            for q, k in shapes:
                is_here = (codes == chip) & (inside == q) & (domains == k)
                found[is_here], unknown[is_here] = _between(
                    lines, int(q), int(k), log_bytes[is_here]
                )
        return np.exp(found).reshape(like), unknown.reshape(like)


def _flat(*columns: Column) -> tuple[tuple[int, ...], list[Floats]]:
    """Columns of one shape as single rows, and that shape."""
    wide = np.broadcast_arrays(*np.atleast_1d(*columns))
    return wide[0].shape, [np.ravel(column) for column in wide]


def _between(
    lines: tuple[Line, ...], inside: int, domains: int, log_bytes: Floats
) -> tuple[Floats, Floats]:
    """Of the lines of a like shape the two nearest, by the logarithm of the members.

    Groups inside a domain are alike; of those that span domains, those with as many members in
    each. Beyond the last line its ratio is held. Where no line is alike the curve stands.

    Returns
    -------
    logarithm of timed over predicted, and the share that no line has a say in; (n,) each
    """
    nothing = np.zeros(len(log_bytes))
    if inside * domains <= 1:
        return nothing, nothing
    alike = sorted(
        (line.inside * line.domains, i)
        for i, line in enumerate(lines)
        if (line.domains == 1) == (domains == 1) and (domains == 1 or line.inside == inside)
    )
    if not alike:
        return nothing, nothing + 1.0
    size = inside * domains
    sizes = [members for members, _ in alike]
    above = min(int(np.searchsorted(sizes, size)), len(alike) - 1)
    below = max(above - 1, 0) if sizes[above] > size else above
    low, high = lines[alike[below][1]], lines[alike[above][1]]
    share = 0.0
    if sizes[above] > sizes[below]:
        share = float(np.log(size / sizes[below]) / np.log(sizes[above] / sizes[below]))
    share = min(max(share, 0.0), 1.0)
    apart = abs(np.log2(size) - np.clip(np.log2(size), np.log2(sizes[0]), np.log2(sizes[-1])))
    beyond = np.hypot(np.minimum(low.beyond(log_bytes), high.beyond(log_bytes)), apart)
    unknown = beyond**SHARPNESS / (beyond**SHARPNESS + REACH**SHARPNESS)
    return (1.0 - share) * low.at(log_bytes) + share * high.at(log_bytes), unknown
