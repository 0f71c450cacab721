"""What a step of one replica takes, in dense tables: the replay looks up and knows no physics.

A step is a batch of sequences: some decode one token each, some prefill a chunk of their prompt.
Its seconds are a sum of four looked-up parts,

    token_s[tokens] + sequence_s[sequences that get a token]
        + decode_s[decodes, their mean context] + prefill_s[cached context, root of chunks squared]

and no less than `least_step_s`, with a prompt `least_prefill_s`; of copies that step together the
longest decides, and what they share is added once (`TogetherTables`). Its joules are the same sum
over the tables of joules. Whoever knows a model and a chip fills the tables from its passes, the
host's part included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.errors import BadStudy


@dataclass(frozen=True)
class StepJoules:
    """Energy of a step, table by table in the shapes of `StepTables` [J].

    Parameters
    ----------
    token_j, sequence_j, decode_j, prefill_j : as the tables of seconds
    idle_w : what the whole replica draws while no step runs, and while the host holds one up [W]
    """

    token_j: Floats
    sequence_j: Floats
    decode_j: Floats
    prefill_j: Floats
    idle_w: float


@dataclass(frozen=True)
class TogetherTables:
    """What copies of attention share, on the grid of tokens; `token_s` is without it.

    Parameters
    ----------
    experts_s, exchange_s : (t,) products of experts of as many tokens of every copy, and the
        exchange of a copy with so many [s]
    experts_j, exchange_j : (t,) the same in energy of the whole replica [J]
    covers_s : (t,) of a copy's own layers, while no wire is busy [s]
    layers_frac : of the layers, those with experts
    hides_frac : of the exchange that two micro-batches may run beside the rest; 0 for one
    """

    experts_s: Floats
    exchange_s: Floats
    experts_j: Floats
    exchange_j: Floats
    covers_s: Floats
    layers_frac: float = 1.0
    hides_frac: float = 0.0


@dataclass(frozen=True)
class StepTables:
    """Step times of one replica on grids of whole numbers, each grid strictly rising.

    Parameters
    ----------
    tokens : (t,) tokens computed in a step, prefill and decode together
    token_s : (t,) all that depends on them alone: projections, experts, collectives, launch [s]
    sequences : (b,) sequences
    sequence_s : (b,) all that is done for each sequence that gets a token: head, sampling [s]
    decode_contexts : (k,) mean tokens in the cache of the decoding sequences, the new one included
    decode_s : (b, k) attention of that many decoding sequences [s]
    prefill_contexts : (p,) tokens in the caches of all chunks before this step, summed
    prefill_chunks : (c,) root of the summed squares of the chunks
    prefill_s : (p, c) attention of the chunks of a step [s]
    several_prefills_frac : of `prefill_s` where more than one sequence prefills
    context_rounding_tokens : each chunk's context is rounded up to a multiple before it is summed
    is_interpolated : between grid points linearly; otherwise the next point up (whole tokens: the
        mean context is cut, the root of the chunks rounded), as profiled tables are read
    least_step_s : no step takes less, whatever the device does: the host's time [s]
    least_prefill_s : the same of a step that carries a prompt, launched kernel by kernel [s]
    joules : energies of the same steps, or None when none are asked for
    together : what copies share that step together, or None where each steps for itself

    Raises
    ------
    BadStudy : shapes that do not fit, grids that do not rise, times that are negative or not
        finite; every fault at once

    Notes
    -----
    Below the first grid point its value holds; beyond the last one the last two are extended in a
    line, and the result counts the steps that needed it. A part is looked up only where it has
    work: no decode, no `decode_s`.
    """

    tokens: Codes
    token_s: Floats
    sequences: Codes
    sequence_s: Floats
    decode_contexts: Codes
    decode_s: Floats
    prefill_contexts: Codes
    prefill_chunks: Codes
    prefill_s: Floats
    several_prefills_frac: float = 1.0
    context_rounding_tokens: int = 1
    is_interpolated: bool = True
    least_step_s: float = 0.0
    least_prefill_s: float = 0.0
    joules: StepJoules | None = None
    together: TogetherTables | None = None

    def __post_init__(self) -> None:
        faults = [*_grid_faults(self), *_table_faults(self), *_number_faults(self)]
        if faults:
            raise BadStudy(*faults)

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape each table must have, by the name of the part."""
        sequences = len(self.sequences)
        return {
            "token": (len(self.tokens),),
            "sequence": (sequences,),
            "decode": (sequences, len(self.decode_contexts)),
            "prefill": (len(self.prefill_contexts), len(self.prefill_chunks)),
        }


GRIDS = ("tokens", "sequences", "decode_contexts", "prefill_contexts", "prefill_chunks")


def _grid_faults(tables: StepTables) -> list[str]:
    faults = []
    for name in GRIDS:
        points = np.asarray(getattr(tables, name))
        is_whole = points.ndim == 1 and len(points) > 0 and bool(np.all(points == points // 1))
        if not is_whole or points[0] < 0 or np.any(np.diff(points) <= 0):
            faults.append(f"grid {name} is no rising row of whole numbers from 0; give it so")
    return faults


def _table_faults(tables: StepTables) -> list[str]:
    faults = []
    for part, shape in tables.shapes().items():
        given = {f"{part}_s": np.asarray(getattr(tables, f"{part}_s"))}
        if tables.joules is not None:
            given[f"{part}_j"] = np.asarray(getattr(tables.joules, f"{part}_j"))
        for name, table in given.items():
            if table.shape != shape:
                faults.append(f"table {name} has shape {table.shape}; its grids ask for {shape}")
            elif not np.all(np.isfinite(table) & (table >= 0)):
                faults.append(f"table {name} has negative or missing entries; fill every one")
    return faults + _together_faults(tables)


def _together_faults(tables: StepTables) -> list[str]:
    together, faults = tables.together, []
    if together is None:
        return []
    for name in ("experts_s", "exchange_s", "experts_j", "exchange_j", "covers_s"):
        table = np.asarray(getattr(together, name))
        if table.shape != np.shape(tables.tokens) or not np.all(np.isfinite(table) & (table >= 0)):
            faults.append(f"table {name} is not a row of numbers from 0, one for each of tokens")
    if not (0 <= together.hides_frac <= 1 and 0 <= together.layers_frac <= 1):
        faults.append("hides_frac and layers_frac of copies lie from 0 to 1; give shares")
    return faults


def _number_faults(tables: StepTables) -> list[str]:
    numbers = {
        "several_prefills_frac": tables.several_prefills_frac,
        "least_step_s": tables.least_step_s,
        "least_prefill_s": tables.least_prefill_s,
        "idle_w": 0.0 if tables.joules is None else tables.joules.idle_w,
    }
    faults = [
        f"{name} is {value}; give a finite number from 0"
        for name, value in numbers.items()
        if not (np.isfinite(value) and value >= 0)
    ]
    if tables.context_rounding_tokens < 1:
        faults.append(
            f"context_rounding_tokens is {tables.context_rounding_tokens}; give at least 1"
        )
    return faults
