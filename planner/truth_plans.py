"""The plan of a published measurement: what the row states, and a stated rule for what it omits.

The first part was written before any score was looked at: of the plans that fit in memory, the one
with the least tensor parallelism, then the least sharding (ZeRO 1, then 3), then the least
recompute, then the largest micro-batch up to 16,384 tokens (one sequence with a pipeline or with
tensor parallelism of 4 or more).

What follows was added after scores had been seen. A pipeline whose virtual stages are not stated
is interleaved, with chunks of at least two layers, if its micro-batches allow (Megatron-LM's
recipes). A row that names a vendor's release has none: the recipes of those rows leave them out
(NVIDIA-NeMo/Megatron-Bridge v0.3.0 to v0.5.0). With ZeRO 3 a pipeline is PyTorch's as torchtitan
sets it up (commit 9dec370, December 2024, config_manager.py, parallelisms/pipelining_utils.py):
one forward one backward, or two stages on each device where the row's notes say interleaved, and
as many micro-batches as stages. Stacks without flash attention recompute in full (GPT-NeoX as in
EleutherAI/pythia models/*.yml, Megatron-LM as in Narayanan et al. 2021, section 3.5). A stated
selective recompute that needs twice the memory of the chip is full.

Every other degree left blank is 1. The scale-up domain is the smallest on offer that holds the
job, else the largest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from planner.truth_rows import TruthRow
from planner.truth_stacks import is_attention_fused
from simkernel import plugins
from simkernel.candidates import RECOMPUTE
from simkernel.errors import MissingFact
from simkernel.hardware import PRECISIONS
from simkernel.models import Model

MOST_MICRO_BATCH_TOKENS = 16_384
PLAIN_ZERO = (1, 3)
PLAIN_TENSOR = (1, 2, 4, 8)
FROM_TENSOR_SINGLE = 4
"""From this tensor parallelism on a micro-batch that is not stated is one sequence."""

SELECTIVE = "selective"
SELECTIVE_MEMORY_FRAC = 2.0
"""A run that says selective, and would need more than so many times the memory of its chip with
ours, had a policy of its own that keeps less: it is taken as full."""

INTERLEAVED_STAGES = 2
"""Stages on each device of PyTorch's looped schedules, if the split is not given (as above)."""

FEWEST_CHUNK_LAYERS = 2
"""Published interleaved runs keep one to five layers in a chunk (Megatron-LM, NeMo recipes)."""

Decisions = dict[str, float]


@dataclass(frozen=True)
class Stated:
    """What a row says of its plan; degrees of which it says nothing are 1."""

    devices: int
    domain: int
    pipeline: int
    context: int
    expert: int
    batch: int
    sequence_tokens: int
    precision_code: int


def plans_of_row(row: TruthRow, model: Model, domain_options: Sequence[int]) -> list[Decisions]:
    """Candidate plans in the order in which the rule prefers them; one if all is stated.

    Raises
    ------
    MissingFact : what the row does not state and no rule fills, or degrees that do not fit
    """
    stated = _stated(row, domain_options)
    plans = [
        _decisions(
            stated, tensor, zero, recompute, micro, _chunks(row, model, stated, tensor, micro)
        )
        for tensor, zero, recompute in product(
            _tensor(row, model, stated), _zero(row), _recompute(row)
        )
        for micro in _micro(row, stated, tensor)
    ]
    if not plans:
        raise MissingFact(f"{_replicas_text(row, stated)}; no micro-batch divides the batch")
    return plans


def _stated(row: TruthRow, domain_options: Sequence[int]) -> Stated:
    needed = ("n_accel", "seq_len", "global_batch_seqs")
    lacking = [name for name in needed if row.count(name) is None]
    precision = row.text("precision")
    if precision not in PRECISIONS:
        lacking.append(f"one precision of ours ({precision!r})")
    if not domain_options:
        lacking.append("a scale-up domain of the chip")
    if lacking:
        raise MissingFact(f"not stated: {', '.join(lacking)}")
    devices = row.count("n_accel") or 1
    holds = [size for size in sorted(domain_options) if size >= devices]
    return Stated(
        devices=devices,
        domain=holds[0] if holds else max(domain_options),
        pipeline=row.count("pp") or 1,
        context=row.count("cp") or 1,
        expert=row.count("ep") or 1,
        batch=row.count("global_batch_seqs") or 1,
        sequence_tokens=row.count("seq_len") or 1,
        precision_code=PRECISIONS.index(precision),
    )


def _tensor(row: TruthRow, model: Model, stated: Stated) -> list[int]:
    given = row.count("tp")
    if given is not None:
        return [given]
    heads = [core.heads for kind in model.kinds for core in kind.cores if core.heads]
    free = stated.devices // (stated.pipeline * stated.context)
    return [t for t in PLAIN_TENSOR if free % t == 0 and all(h % t == 0 for h in heads)]


def _zero(row: TruthRow) -> list[int]:
    given = row.count("zero_stage")
    return list(PLAIN_ZERO) if given is None else [given]


def _recompute(row: TruthRow) -> list[str]:
    given = row.text("recompute")
    if given == SELECTIVE:
        return [given, "full"]
    if given in RECOMPUTE:
        return [given]
    return list(RECOMPUTE) if is_attention_fused(row) else ["full"]


def _micro(row: TruthRow, stated: Stated, tensor: int) -> Iterator[int]:
    """Micro-batches in sequences, largest first; none where the batch does not divide."""
    split = tensor * stated.pipeline * stated.context
    data, left = divmod(stated.devices, split)
    if left or stated.batch % max(data, 1) or row.count("dp") not in (None, data):
        return
    own = stated.batch // data
    given = row.count("micro_batch")
    if given is not None:
        options = [given]
    elif stated.pipeline > 1 and row.text("zero_stage") == "3":
        options = [max(own // stated.pipeline, 1)]
    elif stated.pipeline > 1 or tensor >= FROM_TENSOR_SINGLE:
        options = [1]
    else:
        tokens = stated.sequence_tokens / stated.context
        most = max(int(MOST_MICRO_BATCH_TOKENS // tokens), 1)
        options = list(range(min(most, own), 0, -1))
    yield from (n for n in options if own % n == 0)


def _chunks(row: TruthRow, model: Model, stated: Stated, tensor: int, micro: int) -> int:
    """Virtual stages: as stated, as PyTorch's with ZeRO 3, else as leave two layers a chunk."""
    given = row.count("vpp")
    if given is None and row.text("software_release"):
        given = 1
    if given is None and row.text("zero_stage") == "3":
        given = INTERLEAVED_STAGES if "interleaved" in row.text("notes").lower() else 1
    if stated.pipeline == 1 or given is not None:
        return given or 1 if stated.pipeline > 1 else 1
    data = stated.devices // (tensor * stated.pipeline * stated.context)
    if stated.batch // (data * micro) % stated.pipeline:
        return 1
    return max(model.layers // (stated.pipeline * FEWEST_CHUNK_LAYERS), 1)


def _decisions(
    stated: Stated, tensor: int, zero: int, recompute: str, micro: int, chunks: int
) -> Decisions:
    """One plan in the columns of simkernel.candidates.TrainingPlans."""
    schedule = "interleaved" if chunks > 1 else "one_forward_one_backward"
    return {
        "devices": stated.devices,
        "supernode_devices": stated.domain,
        "tensor_parallel": tensor,
        "pipeline_parallel": stated.pipeline,
        "context_parallel": stated.context,
        "expert_parallel": stated.expert,
        "virtual_stages": chunks,
        "micro_batch_sequences": micro,
        "global_batch_sequences": stated.batch,
        "zero_stage": zero,
        "recompute_code": RECOMPUTE.index(recompute),
        "schedule_code": plugins.code("schedules", schedule),
        "precision_code": stated.precision_code,
        "collective_code": len(plugins.names("collectives")),
    }


def _replicas_text(row: TruthRow, stated: Stated) -> str:
    return (
        f"{stated.devices} devices with tp {row.text('tp') or '?'}, pp {stated.pipeline}, "
        f"cp {stated.context}, dp {row.text('dp') or '?'} and a batch of {stated.batch}"
    )
