"""A plan as the script that runs it: Slurm and Megatron-Core arguments of a training plan.

What the plan decides is written out: degrees, batch, lengths, precision, recompute, sharding.
Data, tokenizer and the shape of the model stay with whoever runs it, in two variables that have
to be set. A decision that Megatron-Core has no argument for is refused, not left out.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from planner.exports.serving import power_limit
from planner.study.read import Study
from simkernel.errors import BadStudy

Argument = tuple[str, str]

PRECISIONS: Mapping[str, tuple[Argument, ...]] = {
    "bf16": (("--bf16", ""),),
    "fp16": (("--fp16", ""),),
    "fp8": (("--bf16", ""), ("--fp8-format", "hybrid"), ("--fp8-recipe", "tensorwise")),
    "fp8_block": (("--bf16", ""), ("--fp8-format", "e4m3"), ("--fp8-recipe", "blockwise")),
    "mxfp8": (("--bf16", ""), ("--fp8-format", "e4m3"), ("--fp8-recipe", "mxfp8")),
    "nvfp4": (("--bf16", ""), ("--fp4-format", "e2m1"), ("--fp4-recipe", "nvfp4")),
}
"""Megatron-LM@d98e8a6 megatron/training/arguments.py and core transformer_config.py."""

RECOMPUTE: Mapping[str, tuple[Argument, ...]] = {
    "none": (),
    "selective": (("--recompute-granularity", "selective"),),
    "full": (
        ("--recompute-granularity", "full"),
        ("--recompute-method", "uniform"),
        ("--recompute-num-layers", "1"),
    ),
}
REDUCE: tuple[Argument, ...] = (("--overlap-grad-reduce", ""),)
GATHER: tuple[Argument, ...] = (
    ("--use-distributed-optimizer", ""), *REDUCE, ("--overlap-param-gather", ""),
)  # fmt: skip
FULLY: tuple[Argument, ...] = (
    ("--use-megatron-fsdp", ""), *GATHER, ("--no-gradient-accumulation-fusion", ""),
    ("--ckpt-format", "fsdp_dtensor"),
)  # fmt: skip
"""Megatron-LM@d98e8a6 megatron/training/arguments.py: what --use-megatron-fsdp asserts."""

STRATEGY = "--data-parallel-sharding-strategy"
SHARDING: Mapping[int, tuple[Argument, ...]] = {
    0: REDUCE,
    1: GATHER,
    2: (*FULLY, (STRATEGY, "optim_grads")),
    3: (*FULLY, (STRATEGY, "optim_grads_params")),
}
COPIES = "--num-distributed-optimizer-instances"
"""Megatron-Core parallel_state.py: data x context ranks in so many groups of neighbours."""

CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"

VENDOR = "NVIDIA"
"""Whose GPUs the script is for: its environment is CUDA's."""

SCHEDULES: Mapping[str, tuple[Argument, ...]] = {
    "one_forward_one_backward": (),
    "interleaved": (),
    "combined_1f1b": (("--overlap-moe-expert-parallel-comm", ""),),
}
"""transformer_config.py asks of the last what the plan's rules do: experts, no full recompute."""

CONTEXT = {"ring": "p2p", "all_to_all": "a2a"}  # Megatron-Core, --cp-comm-type
PLACEMENT = "tp-cp-ep-dp-pp"  # Megatron-Core parallel_state.py: the default order of ranks

DEGREES = {
    "--tensor-model-parallel-size": "tensor_parallel",
    "--pipeline-model-parallel-size": "pipeline_parallel",
    "--context-parallel-size": "context_parallel",
    "--expert-model-parallel-size": "expert_parallel",
    "--expert-tensor-parallel-size": "expert_tensor_parallel",
    "--micro-batch-size": "micro_batch_sequences",
    "--global-batch-size": "global_batch_sequences",
}
"""Arguments that are an axis of the plan as it stands."""

STAGE_LAYERS = {
    "--decoder-first-pipeline-num-layers": "first_stage_layers",
    "--decoder-last-pipeline-num-layers": "last_stage_layers",
}
"""The same, where they are given."""


def launch_script(
    study: Study, plan: Mapping[str, Any], devices_per_host: int, tdp_w: float
) -> str:
    """A Slurm script that runs a training plan with Megatron-Core.

    Parameters
    ----------
    plan : the document of `planner explain`
    tdp_w : rated power of a device, which a cap is a share of

    Raises
    ------
    BadStudy : another kind of study, or decisions that Megatron-Core cannot be told; all at once
    """
    words = [f"{flag} {value}".rstrip() for flag, value in megatron_arguments(study, plan)]
    asked = (
        ': "${MODEL_ARGS:?layers, widths, heads and experts, as your checkpoint has them}"',
        ': "${DATA_ARGS:?data, tokenizer, checkpoints}"',
    )
    command = "pretrain_gpt.py $MODEL_ARGS $DATA_ARGS"
    return training_job(study, plan, devices_per_host, tdp_w, asked, command, words)


def training_job(
    study: Study,
    plan: Mapping[str, Any],
    devices_per_host: int,
    tdp_w: float,
    asked: Sequence[str],
    command: str,
    words: Sequence[str],
) -> str:
    """A Slurm script that starts one process for each device of a plan.

    Parameters
    ----------
    asked : lines that ask for what the plan does not decide
    command, words : the Python script, and what it is told

    Raises
    ------
    BadStudy : some hosts would be part full
    """
    nodes, tasks = _hosts(int(plan["axes"]["devices"]), devices_per_host)
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={shlex.quote(study.name)}",
        f"#SBATCH --nodes={nodes}",
        "#SBATCH --ntasks-per-node=1",
        f"#SBATCH --gpus-per-node={tasks}",
        f"# plan {plan['plan']} of run {plan['run']}: {plan['axes']['devices']} "
        f"{plan['axes']['accelerator']}, data parallel {plan['axes']['data_parallel']}",
        "set -eu",
        *asked,
        *power_limit(plan["axes"]["power_cap_frac"], tdp_w),
        _connections(plan["axes"]),
        'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)',
        f"srun torchrun --nnodes $SLURM_NNODES --nproc-per-node {tasks} \\",
        '    --rdzv-backend c10d --rdzv-id $SLURM_JOB_ID --rdzv-endpoint "$HEAD:29500" \\',
        f"    {command} \\",
    ]
    return "\n".join([*lines, " \\\n".join(f"    {word}" for word in words)])


def megatron_arguments(study: Study, plan: Mapping[str, Any]) -> tuple[Argument, ...]:
    """Arguments of Megatron-Core for what a plan decides; flags without a value have "".

    Raises
    ------
    BadStudy : another kind of study, or decisions without an argument, all at once
    """
    if study.kind != "train":
        raise BadStudy(f"--to launch writes training plans; this is a study of {study.kind}")
    axes = plan["axes"]
    faults = _faults(axes)
    if faults:
        raise BadStudy(*faults)
    work = study.training
    length = str(int(work.tokens_per_sequence))
    found = [(flag, str(int(axes[axis]))) for flag, axis in DEGREES.items()]
    found += [("--seq-length", length), ("--max-position-embeddings", length)]
    found += [("--train-samples", str(math.ceil(work.tokens / work.tokens_per_sequence)))]
    found += [*PRECISIONS[axes["precision"]], *RECOMPUTE[axes["recompute"]]]
    found += [*SHARDING[int(axes["zero_stage"])], *_copies(axes)]
    if axes["tensor_parallel"] > 1 and axes["sequence_parallel"] == "on":
        found.append(("--sequence-parallel", ""))
    if axes["expert_parallel"] > 1:
        found.append(("--moe-token-dispatcher-type", "alltoall"))
    found += SCHEDULES[axes["schedule"]]
    if axes["context_parallel"] > 1:
        found.append(("--cp-comm-type", CONTEXT[axes["context_exchange"]]))
    if axes["virtual_stages"] > 1:
        found.append(("--num-virtual-stages-per-pipeline-rank", str(int(axes["virtual_stages"]))))
    found += [
        (flag, str(int(axes[axis]))) for flag, axis in STAGE_LAYERS.items() if axes.get(axis)
    ]
    return tuple(found)


def _copies(axes: Mapping[str, Any]) -> list[Argument]:
    """Copies of what is shared out among some neighbours instead of among all ranks."""
    shared = int(axes.get("shard_devices", 0))
    if not shared:
        return []
    return [(COPIES, str(int(axes["data_parallel"] * axes["context_parallel"]) // shared))]


def _connections(axes: Mapping[str, Any]) -> str:
    """How launches are queued: sharded weights refuse the one queue that others want."""
    if int(axes["zero_stage"]) > 1:
        return f"unset {CONNECTIONS}  # Megatron-FSDP does not start with 1"
    if SCHEDULES[axes["schedule"]]:
        return f"export {CONNECTIONS}=32  # two passes run side by side"
    return f"export {CONNECTIONS}=1  # sequence parallelism wants launches in order"


def _faults(axes: Mapping[str, Any]) -> list[str]:
    """Decisions that Megatron-Core has no argument for."""
    known = {
        "precision": tuple(PRECISIONS),
        "recompute": tuple(RECOMPUTE),
        "zero_stage": tuple(SHARDING),
        "schedule": tuple(SCHEDULES),
        "placement": (PLACEMENT,),
        "offload": ("none",),
    }
    return [
        f"{name} is {axes[name]}, which has no argument of Megatron-Core here; "
        f"export a plan with {' or '.join(str(choice) for choice in choices)}"
        for name, choices in known.items()
        if name in axes and axes[name] not in choices
    ]


def _hosts(devices: int, per_host: int) -> tuple[int, int]:
    """Nodes and tasks on each.

    Raises
    ------
    BadStudy : some nodes would be part full
    """
    if devices < per_host:
        return 1, devices
    if devices % per_host:
        raise BadStudy(
            f"{devices} devices are no whole hosts of {per_host}; export a plan on a multiple"
        )
    return devices // per_host, per_host
