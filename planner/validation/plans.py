"""The plan of a published measurement: what the row states, and a stated rule for what it omits.

The first part was written before any score was looked at: of the plans that fit in memory, the one
with the least tensor parallelism, then the least sharding (ZeRO 1, then 3), then the least
recompute, then the largest micro-batch up to 16,384 tokens (one sequence with a pipeline or with
tensor parallelism of 4 or more).

What follows was added after scores had been seen. A pipeline whose virtual stages are not stated
is interleaved, with chunks of at least two layers, if its micro-batches allow (Megatron-LM's
recipes); of one layer where two more would fill the stages evenly: the first chunk then holds the
embedding alone, the last one the head (The Llama 3 Herd of Models, section 3.3.2). A row that
names a vendor's release has none: the recipes of those rows leave them out (NVIDIA-NeMo/
Megatron-Bridge v0.3.0 to v0.5.0). With ZeRO 3 a pipeline is PyTorch's as torchtitan sets it up
(commit 9dec370, December 2024, config_manager.py, parallelisms/pipelining_utils.py): one forward
one backward, or two stages on each device where the row's notes say interleaved, and
as many micro-batches as stages. A row whose column `schedule`, or whose notes, name a schedule ran
it if its micro-batches allow; recipes that make a step one graph run the exchange of experts
beside other micro-batches (combined 1f1b) without a pipeline or between chunks.

Stacks without flash attention recompute in full (GPT-NeoX as in EleutherAI/pythia models/*.yml,
Megatron-LM as in Narayanan et al. 2021, section 3.5). A stated recompute is the least: where it
does not fit, not even at the low end of the band on memory, the next stronger one is taken, since
what one source calls none or selective another's kernels already compute again. Where no such plan
fits, half of the layers' activations wait in host memory, then all (Megatron-Bridge's FSDP recipes
offload 20 to 40 of 80 layers, those of tpu-recipes the input of every layer), except under
schedules that cannot offload.

MaxText counts its batch per device, that of a tensor rank as well, and runs without accumulation;
it shards weights inside a scale-up domain and copies them between domains (AI-Hypercomputer/
maxtext, base.yml: per_device_batch_size, gradient_accumulation_steps 1, ici_fsdp_parallelism and
dcn_data_parallelism -1). What tensor ranks cut there between products is the width, not the
sequence (logical_axis_rules, activation_embed over tensor): as much traffic, as little kept.

Sequence parallelism goes with tensor parallelism unless a row denies it. Every other degree left
blank is 1. The scale-up domain is the smallest on offer that holds the job, else the largest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from planner.validation.faults import SEQUENCE_WHOLE
from planner.validation.rows import TruthRow
from planner.validation.stacks import is_attention_fused, is_of_maxtext
from simkernel import plugins
from simkernel.candidates import OFFLOAD, PLAIN_SCHEDULE, RECOMPUTE
from simkernel.errors import MissingFact
from simkernel.hardware import PRECISIONS
from simkernel.models import Model

MOST_MICRO_BATCH_TOKENS = 16_384
PLAIN_ZERO = (1, 3)
PLAIN_TENSOR = (1, 2, 4, 8)
FROM_TENSOR_SINGLE = 4
"""From this tensor parallelism on a micro-batch that is not stated is one sequence."""

ACTIVATIONS = ("none", "half_activations", "activations")
"""How much of the activations waits in host memory, in the order in which it is tried."""

INTERLEAVED_STAGES = 2
"""Stages on each device of PyTorch's looped schedules, if the split is not given (as above)."""

FEWEST_CHUNK_LAYERS = 2
"""Published interleaved runs keep one to five layers in a chunk (Megatron-LM, NeMo recipes)."""

OVERLAPPED = "combined_1f1b"

NAMED_SCHEDULES = (
    ("dual_pipe_v", re.compile(r"dual[ _-]?pipe[ _-]?v", re.IGNORECASE)),
    ("dual_pipe", re.compile(r"dual[ _-]?pipe", re.IGNORECASE)),
    ("zero_bubble_h2", re.compile(r"\bZB-?(H2|2p)\b", re.IGNORECASE)),
    ("zero_bubble_v", re.compile(r"\bZB-?V\b", re.IGNORECASE)),
    ("zero_bubble", re.compile(r"zero[ _-]?bubble|\bZB-?H1\b", re.IGNORECASE)),
)
"""How sources spell the schedules that have no virtual stages; the first that fits is meant."""

PLAIN = re.compile(r"1f1b|one[ _-]forward|interleaved|\Aunknown\Z", re.IGNORECASE)
"""The same of those that virtual stages tell apart, and of none."""

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
    is_sequence_cut: bool
    is_cut_inside: bool


def plans_of_row(
    row: TruthRow,
    model: Model,
    domain_options: Sequence[int],
    *,
    has_host: bool = True,
    is_one_graph: bool = False,
) -> list[Decisions]:
    """Candidate plans in the order in which the rule prefers them.

    `has_host` : the host's memory and the link to it are known; `is_one_graph` : as of the stack.

    Raises
    ------
    MissingFact : what the row does not state and no rule fills, or degrees that do not fit
    """
    stated = _stated(row, domain_options)
    _refuse_experts(model, stated)
    plans = [
        _decisions(stated, tensor, zero, recompute, micro, schedule)
        | {"offload_code": OFFLOAD.index(offload)}
        for offload, tensor, zero, recompute in product(
            ACTIVATIONS if has_host else ACTIVATIONS[:1],
            _tensor(row, model, stated),
            _zero(row),
            _recompute(row),
        )
        for micro in _micro(row, stated, tensor)
        for plain in (_schedule(row, model, stated, tensor, micro),)
        for schedule in (_overlapped(plain, stated, recompute) if is_one_graph else plain,)
        if offload == ACTIVATIONS[0] or not _puts_off_weights(schedule[0])
    ]
    if not plans:
        raise MissingFact(f"{_replicas_text(row, stated)}; {_no_plan_text(row, stated)}")
    return plans


def _stated(row: TruthRow, domain_options: Sequence[int]) -> Stated:
    needed = ("n_accel", "seq_len", "global_batch_seqs")
    lacking = [name for name in needed if row.count(name) is None]
    precision = row.text("precision")
    if precision not in PRECISIONS:
        lacking.append(f"one precision of ours ({precision!r})")
    if row.text("schedule") and not (_named_schedule(row) or PLAIN.search(row.text("schedule"))):
        lacking.append(f"a schedule of ours ({row.text('schedule')!r})")
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
        is_sequence_cut=row.text("sp") not in SEQUENCE_WHOLE or is_of_maxtext(row),
        is_cut_inside=is_of_maxtext(row),
    )


def _refuse_experts(model: Model, stated: Stated) -> None:
    """Expert parallelism that the model, or the devices of a stage, cannot be cut by."""
    experts = max(kind.experts for kind in model.kinds)
    stage = stated.devices // stated.pipeline
    if stated.expert > 1 and (not experts or experts % stated.expert):
        raise MissingFact(f"ep {stated.expert}, but {model.name} has {experts} experts")
    if stage % stated.expert:
        raise MissingFact(f"ep {stated.expert} does not divide the {stage} devices of a stage")


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
    """The stated mode and the next stronger one; every mode where none is stated."""
    given = row.text("recompute")
    if given in RECOMPUTE:
        least = RECOMPUTE.index(given)
        return list(RECOMPUTE[least : least + 2])
    return list(RECOMPUTE) if is_attention_fused(row) else ["full"]


def is_as_stated(row: TruthRow, plan: Decisions) -> bool:
    """The plan keeps activations as the row says that they were kept."""
    mode = RECOMPUTE[int(plan["recompute_code"])]
    return row.text("recompute") == mode and plan["offload_code"] == 0


def _micro(row: TruthRow, stated: Stated, tensor: int) -> Iterator[int]:
    """Micro-batches in sequences, largest first; none where the batch does not divide."""
    split = tensor * stated.pipeline * stated.context
    data, left = divmod(stated.devices, split)
    if left or stated.batch % max(data, 1) or row.count("dp") not in (None, data):
        return
    own = stated.batch // data
    given = row.count("micro_batch")
    if given is not None:
        per_device = tensor * stated.context if is_of_maxtext(row) else 1
        options = [given * per_device] if own % (given * per_device) == 0 else [given]
    elif stated.pipeline > 1 and row.text("zero_stage") == "3":
        options = [max(own // stated.pipeline, 1)]
    elif stated.pipeline > 1 or tensor >= FROM_TENSOR_SINGLE:
        options = [1]
    else:
        tokens = stated.sequence_tokens / stated.context
        most = max(int(MOST_MICRO_BATCH_TOKENS // tokens), 1)
        options = list(range(min(most, own), 0, -1))
    yield from (n for n in options if own % n == 0)


def _schedule(
    row: TruthRow, model: Model, stated: Stated, tensor: int, micro: int
) -> tuple[str, int]:
    """Schedule and virtual stages: as stated, as PyTorch's, else two layers a chunk."""
    stages = stated.pipeline
    if stages == 1:
        return PLAIN_SCHEDULE, 1
    count = stated.batch // (stated.devices // (tensor * stages * stated.context) * micro)
    named = _named_schedule(row)
    if named and _can_run(named, stages, count):
        return named, 1
    given = _stated_chunks(row)
    if given is None and count % stages == 0:
        given = _plain_chunks(model.layers, stages)
    chunks = max(given or 1, 1)
    return ("interleaved" if chunks > 1 else PLAIN_SCHEDULE), chunks


def _plain_chunks(layers: int, stages: int) -> int:
    """Chunks of two layers; of one, where layers leave out just the first chunk and the last."""
    if layers % stages and (layers + 2) % stages == 0:
        return (layers + 2) // stages
    return layers // (stages * FEWEST_CHUNK_LAYERS)


def _stated_chunks(row: TruthRow) -> int | None:
    given = row.count("vpp")
    if given is None and row.text("software_release"):
        return 1
    if given is None and row.text("zero_stage") == "3":
        return INTERLEAVED_STAGES if "interleaved" in row.text("notes").lower() else 1
    return given


def _overlapped(schedule: tuple[str, int], stated: Stated, recompute: str) -> tuple[str, int]:
    """The schedule with the exchange of experts beside other micro-batches, where it can be."""
    name, chunks = schedule
    is_able = recompute != RECOMPUTE[-1] and stated.expert > 1
    return (OVERLAPPED, chunks) if is_able and (stated.pipeline == 1 or chunks > 1) else schedule


def _named_schedule(row: TruthRow) -> str:
    """The schedule that a row names; "" where it names none of ours."""
    text = row.text("schedule") or row.text("notes")
    return next((name for name, spelled in NAMED_SCHEDULES if spelled.search(text)), "")


def _puts_off_weights(schedule: str) -> bool:
    """It would need offloaded activations a second time: see planner.space.rules."""
    return bool(plugins.find("schedules", schedule).TRAITS.puts_off_weights)


def _can_run(schedule: str, stages: int, micro_batches: int) -> bool:
    module = plugins.find("schedules", schedule)
    return stages % module.TRAITS.stage_multiple == 0 and bool(module.fills(stages, micro_batches))


def _decisions(
    stated: Stated, tensor: int, zero: int, recompute: str, micro: int, schedule: tuple[str, int]
) -> Decisions:
    """One plan in the columns of simkernel.candidates.TrainingPlans."""
    name, chunks = schedule
    return {
        "devices": stated.devices,
        "supernode_devices": stated.domain,
        "tensor_parallel": tensor,
        "pipeline_parallel": stated.pipeline,
        "context_parallel": stated.context,
        "sequence_parallel": float(stated.is_sequence_cut or tensor == 1),
        "expert_parallel": stated.expert,
        "virtual_stages": chunks,
        "micro_batch_sequences": micro,
        "global_batch_sequences": stated.batch,
        "zero_stage": zero,
        "shard_devices": _shard_devices(stated, tensor, zero),
        "recompute_code": RECOMPUTE.index(recompute),
        "schedule_code": plugins.code("schedules", name),
        "precision_code": stated.precision_code,
        "collective_code": len(plugins.names("collectives")),
    }


def _shard_devices(stated: Stated, tensor: int, zero: int) -> int:
    """Ranks that share a copy of the weights: those of one domain, or 0 for all."""
    inside = stated.domain // (tensor * stated.pipeline)
    is_several = stated.devices > stated.domain and inside > 1
    return inside if stated.is_cut_inside and zero == PLAIN_ZERO[-1] and is_several else 0


def _replicas_text(row: TruthRow, stated: Stated) -> str:
    return (
        f"{stated.devices} devices with tp {row.text('tp') or '?'}, pp {stated.pipeline}, "
        f"cp {stated.context}, dp {row.text('dp') or '?'} and a batch of {stated.batch}"
    )


def _no_plan_text(row: TruthRow, stated: Stated) -> str:
    """Which of them do not fit: the degrees, the replicas, or the micro-batch."""
    tensor, copies, micro = (row.count(name) for name in ("tp", "dp", "micro_batch"))
    if tensor is None:
        return f"no tp of {', '.join(map(str, PLAIN_TENSOR))} shares out devices and batch"
    split = tensor * stated.pipeline * stated.context
    data, left = divmod(stated.devices, split)
    if left or copies not in (None, data):
        product = f"{split * copies} devices" if copies else f"groups of {split}"
        return f"tp x pp x cp x dp makes {product}, not the {stated.devices} of n_accel"
    if stated.batch % data:
        return f"the batch is not shared out evenly by {data} replicas"
    return f"micro_batch {micro or '?'} does not divide the {stated.batch // data} of a replica"
