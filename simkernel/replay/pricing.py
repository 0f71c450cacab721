"""Seconds and joules of one step, looked up: plain Python in the subset that numba compiles."""

from __future__ import annotations

import math

from simkernel.columns import Floats
from simkernel.replay.state import Grid, Prices


def step_price(
    tokens: int,
    sampled: int,
    decodes: int,
    decode_context_tokens: int,
    prefills: int,
    prefill_context_tokens: int,
    squared_chunk_tokens: float,
    prices: Prices,
) -> tuple[float, float, bool]:
    """What one step costs, no less than the host takes for it.

    Parameters as of `parts_price`.

    Returns
    -------
    seconds, joules, whether a table was read beyond its last grid point
    """
    step_s, step_j, is_beyond = parts_price(
        tokens,
        sampled,
        decodes,
        decode_context_tokens,
        prefills,
        prefill_context_tokens,
        squared_chunk_tokens,
        prices,
    )
    least_s = least_step_s(prefills, prices)
    if step_s < least_s:
        step_j += prices.idle_w * (least_s - step_s)
        step_s = least_s
    return step_s, step_j, is_beyond


def least_step_s(prefills: int, prices: Prices) -> float:
    """What the host takes for a step at least, longer where it carries prompts."""
    if prefills > 0:
        return max(prices.least_step_s, prices.least_prefill_s)
    return prices.least_step_s


def parts_price(
    tokens: int,
    sampled: int,
    decodes: int,
    decode_context_tokens: int,
    prefills: int,
    prefill_context_tokens: int,
    squared_chunk_tokens: float,
    prices: Prices,
) -> tuple[float, float, bool]:
    """What the parts of one step cost, summed.

    Parameters
    ----------
    tokens : computed in the step
    sampled : sequences that get an output token
    decodes, decode_context_tokens : sequences that decode; their caches summed, new tokens too
    prefills, prefill_context_tokens : sequences that prefill; their caches before, each rounded up
    squared_chunk_tokens : squares of their chunks, summed

    Returns
    -------
    seconds, joules, whether a table was read beyond its last grid point
    """
    at, share, is_beyond = _place_on(prices.tokens, tokens, prices)
    step_s, step_j = _between(prices.token[0], at, share), 0.0
    if prices.has_joules:
        step_j = _between(prices.token[1], at, share)
    if sampled > 0:
        at, share, is_out = _place_on(prices.sequences, sampled, prices)
        step_s += _between(prices.sequence[0], at, share)
        is_beyond = is_beyond or is_out
        if prices.has_joules:
            step_j += _between(prices.sequence[1], at, share)
    if decodes > 0:
        add_s, add_j, is_out = _decode_price(decodes, decode_context_tokens, prices)
        step_s, step_j, is_beyond = step_s + add_s, step_j + add_j, is_beyond or is_out
    if prefills > 0:
        add_s, add_j, is_out = _prefill_price(
            prefills, prefill_context_tokens, squared_chunk_tokens, prices
        )
        step_s, step_j, is_beyond = step_s + add_s, step_j + add_j, is_beyond or is_out
    return step_s, step_j, is_beyond


def shared_price(
    longest_s: float, most_tokens: int, mean_tokens: float, prices: Prices
) -> tuple[float, float]:
    """What copies that step together take for their experts and the exchange between them.

    Parameters
    ----------
    longest_s : what the longest copy takes by itself, the host's time included
    most_tokens, mean_tokens : of the copy with most, and of all alike

    Returns
    -------
    seconds, joules

    Notes
    -----
    Two micro-batches hide the exchange behind experts and own layers without wires and behind
    attention, for which everything of the longest copy beyond its layers stands here.
    """
    at, share, _ = _place_on(prices.tokens, mean_tokens, prices)
    experts_s = _between(prices.experts[0], at, share)
    joules = _between(prices.experts[1], at, share)
    at, share, _ = _place_on(prices.tokens, most_tokens, prices)
    exchange_s = _between(prices.exchange[0], at, share)
    joules += _between(prices.exchange[1], at, share)
    hidden_s = 0.0
    if prices.hides_frac > 0.0 and most_tokens >= 2:
        beyond_s = max(longest_s - _between(prices.token[0], at, share), 0.0)
        covers_s = _between(prices.covers, at, share) + beyond_s
        beside_s = experts_s + prices.layers_frac * covers_s
        hidden_s = prices.hides_frac * min(exchange_s, beside_s)
        joules -= prices.idle_w * hidden_s
    return experts_s + exchange_s - hidden_s, joules


def _decode_price(decodes: int, context_tokens: int, prices: Prices) -> tuple[float, float, bool]:
    """Attention of the decoding sequences: seconds, joules, whether beyond the table."""
    mean = context_tokens / decodes
    if not prices.is_interpolated:
        mean = math.floor(mean)
    row, row_share, is_out = _place_on(prices.sequences, decodes, prices)
    at, share, is_far = _place_on(prices.decode_contexts, mean, prices)
    step_s, step_j = _within(prices.decode[0], row, row_share, at, share), 0.0
    if prices.has_joules:
        step_j = _within(prices.decode[1], row, row_share, at, share)
    return step_s, step_j, is_out or is_far


def _prefill_price(
    prefills: int, context_tokens: int, squared_chunk_tokens: float, prices: Prices
) -> tuple[float, float, bool]:
    """Attention of the chunks: seconds, joules, whether beyond the table."""
    root = math.sqrt(squared_chunk_tokens)
    if not prices.is_interpolated:
        root = math.floor(root + 0.5)
    row, row_share, is_out = _place_on(prices.prefill_contexts, context_tokens, prices)
    at, share, is_far = _place_on(prices.prefill_chunks, root, prices)
    times = prices.several_prefills_frac if prefills > 1 else 1.0
    step_s, step_j = times * _within(prices.prefill[0], row, row_share, at, share), 0.0
    if prices.has_joules:
        step_j = times * _within(prices.prefill[1], row, row_share, at, share)
    return step_s, step_j, is_out or is_far


def _place_on(grid: Grid, value: float, prices: Prices) -> tuple[int, float, bool]:
    """Where a value lies on a grid.

    Returns
    -------
    the point before it, the share of the way to the next (above 1 beyond the last point), whether
    it lies beyond; without interpolation the point at or above it, and no share
    """
    points, start, last = prices.points, grid.start, grid.last
    if value <= points[start] or last == start:
        return 0, 0.0, value > points[start]
    if value > points[last]:
        gap = points[last] - points[last - 1]
        return last - 1 - start, (value - points[last - 1]) / gap, True
    if grid.spacing_tokens > 0.0:
        way = (value - points[start]) / grid.spacing_tokens
        at = int(way)
        if prices.is_interpolated or way == at:
            return at, way - at, False
        return at + 1, 0.0, False
    low, high = start, last
    while high - low > 1:
        middle = (low + high) // 2
        if points[middle] < value:
            low = middle
        else:
            high = middle
    if not prices.is_interpolated:
        return high - start, 0.0, False
    return low - start, (value - points[low]) / (points[high] - points[low]), False


def _between(row: Floats, at: int, share: float) -> float:
    """A row of a table between two points; never below zero where it is extended."""
    if share == 0.0:
        return row[at]
    return max(row[at] + share * (row[at + 1] - row[at]), 0.0)


def _within(table: Floats, row: int, row_share: float, at: int, share: float) -> float:
    """A table between four points."""
    here = _between(table[row], at, share)
    if row_share == 0.0:
        return here
    return max(here + row_share * (_between(table[row + 1], at, share) - here), 0.0)
