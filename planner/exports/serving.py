"""A serving plan as the script that runs it: Slurm with vLLM, SGLang or TensorRT-LLM.

One job of an array is one replica; what spreads requests over replicas stands before them and is
the reader's. Every decision of the plan is an argument; one that an engine cannot be told, or
cannot do, is refused with the reason. Prompts and answers on pools apart: `serving_pools`.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planner.exports.serving_engines import (
    ARGUMENTS,
    FAULTS,
    ONLINE,
    Argument,
    Replica,
    yaml_lines,
)
from planner.study.read import Study
from simkernel.errors import BadStudy

COMMANDS: Mapping[str, str] = {
    "vllm": "vllm serve $MODEL",
    "sglang": "python -m sglang.launch_server --model-path $MODEL",
    "trtllm": "trtllm-serve $MODEL",
}
LAUNCHERS = {"trtllm": "trtllm-llmapi-launch "}
"""TensorRT-LLM wants one process a device under MPI; the others start their own."""


def port_of(base: int, each: int = 1) -> str:
    """A port of a replica that no other on its host has, which `each` ports are kept for."""
    apart = f" * {each}" if each > 1 else ""
    return f"$(({base} + ${{SLURM_ARRAY_TASK_ID:-0}} % 1000{apart}))"


PORT = port_of(8000)

PLACEMENT = "tp-cp-ep-dp-pp"


@dataclass(frozen=True)
class Served:
    """What a script needs beside the plan itself.

    Parameters
    ----------
    model : the checkpoint on Hugging Face, "" where only a config.json is known
    weight_precision : of that checkpoint
    has_experts, longest_tokens : of the model, of the traffic
    devices_per_host, tdp_w : of the chip
    """

    model: str
    weight_precision: str
    has_experts: bool
    longest_tokens: int
    devices_per_host: int
    tdp_w: float


@dataclass(frozen=True)
class Job:
    """Replicas of one kind as an array of Slurm jobs; one job is one replica.

    Parameters
    ----------
    name, replicas, power_cap_frac : of the array
    notes : comments of the script
    port : on which a replica answers
    before : lines of the job before the server starts
    exports : variables that every host of a replica sets by itself
    arguments : of the server, beside those of the replica
    options : lines of the file that TensorRT-LLM reads, beside those of the replica
    """

    name: str
    replicas: int
    power_cap_frac: float
    notes: tuple[str, ...]
    port: str = PORT
    before: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
    options: tuple[str, ...] = ()


def serving_script(study: Study, plan: Mapping[str, Any], served: Served) -> str:
    """A Slurm script that runs the replicas of a serving plan on the study's engine.

    Parameters
    ----------
    plan : the document of `planner explain`

    Raises
    ------
    BadStudy : an engine without a command, or decisions that it cannot be told; all at once
    """
    engine, axes = engine_of(study), plan["axes"]
    replica = replica_of(axes, served)
    faults = [*common_faults(axes), *FAULTS[engine](replica)]
    if faults:
        raise BadStudy(*faults)
    job = Job(
        name=study.name,
        replicas=round(axes["replicas"]),
        power_cap_frac=axes["power_cap_frac"],
        notes=(
            f"plan {plan['plan']} of run {plan['run']}: {axes['devices']} {axes['accelerator']}; "
            f"spread requests over replicas by {axes['routing']}",
        ),
    )
    return "\n".join(job_lines(engine, replica, served, job))


def engine_of(study: Study) -> str:
    """The engine that a study names, without its release.

    Raises
    ------
    BadStudy : one without a command
    """
    engine = study.serving.engine.split("_")[0]
    if engine not in COMMANDS:
        raise BadStudy(
            f"--to launch has no command of engine {study.serving.engine!r}; "
            f"wanted {', '.join(COMMANDS)}"
        )
    return engine


def job_lines(engine: str, replica: Replica, served: Served, job: Job) -> list[str]:
    """A Slurm script of an array of replicas, line by line; the last command starts the server."""
    tasks = replica.devices_per_node if engine == "trtllm" else 1
    given = [*ARGUMENTS[engine](replica), *job.arguments]
    given += [("--host", "0.0.0.0"), ("--port", job.port)]
    words = [f"    {flag} {value}".rstrip() for flag, value in given]
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={shlex.quote(job.name)}",
        f"#SBATCH --array=0-{job.replicas - 1}  # one job is one replica",
        f"#SBATCH --nodes={replica.nodes}",
        f"#SBATCH --ntasks-per-node={tasks}",
        f"#SBATCH --gpus-per-node={replica.devices_per_node}",
        *(f"# {note}" for note in job.notes),
        "set -eu",
        _checkpoint(engine, replica, served),
        *power_limit(job.power_cap_frac, served.tdp_w),
        *(yaml_lines(replica, job.options) if engine == "trtllm" else ()),
        *_rendezvous(engine, replica),
        *job.before,
        *(() if _is_wrapped(engine, replica) else (f"export {word}" for word in job.exports)),
        f"srun {LAUNCHERS.get(engine, '')}{_command(engine, replica, job.exports)} \\",
    ]
    quote = "'" if _is_wrapped(engine, replica) else ""
    return [*lines, " \\\n".join(words) + quote]


def power_limit(power_cap_frac: float, tdp_w: float) -> list[str]:
    """The line that caps a GPU's power; none for a plan without a cap."""
    if power_cap_frac >= 1:
        return []
    watts = round(power_cap_frac * tdp_w)
    return [f"srun --ntasks-per-node=1 sudo nvidia-smi --power-limit={watts}  # W of each GPU"]


def replica_of(axes: Mapping[str, Any], served: Served) -> Replica:
    """One replica of a plan.

    Raises
    ------
    BadStudy : a replica that neither shares a host nor fills whole ones
    """
    tensor, pipeline, copies = (
        int(axes[name])
        for name in ("tensor_parallel", "pipeline_parallel", "attention_data_parallel")
    )
    devices = tensor * pipeline * copies
    if devices > served.devices_per_host and devices % served.devices_per_host:
        raise BadStudy(
            f"a replica of {devices} devices fills no whole hosts of {served.devices_per_host}; "
            "export a plan whose replica does"
        )
    return Replica(
        tensor=tensor,
        pipeline=pipeline,
        copies=copies,
        expert=int(axes["expert_parallel"]),
        expert_tensor=int(axes["expert_tensor_parallel"]),
        has_experts=served.has_experts,
        sequences=int(axes["max_batch"]),
        tokens=int(axes["token_budget"]),
        longest_tokens=served.longest_tokens,
        precision=str(axes["precision"]),
        cache=str(axes["kv_precision"]),
        is_quantised=served.weight_precision == axes["precision"],
        is_chunked=axes["batching"] == "chunked_prefill",
        nodes=math.ceil(devices / served.devices_per_host),
        devices_per_node=min(devices, served.devices_per_host),
    )


def _checkpoint(engine: str, replica: Replica, served: Served) -> str:
    """Which weights are loaded: the catalogue's where they are of the plan's precision."""
    is_made = engine != "trtllm" and replica.precision in ONLINE
    is_wide = replica.precision in ("bf16", "fp16") and served.weight_precision in ("bf16", "fp16")
    if served.model and (replica.is_quantised or is_made or is_wide):
        return f': "${{MODEL:={served.model}}}"'
    return f': "${{MODEL:?a checkpoint with weights in {replica.precision}}}"'


def _rendezvous(engine: str, replica: Replica) -> list[str]:
    if replica.nodes == 1 or engine == "trtllm":
        return []
    return ['export HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1) MODEL']


def _is_wrapped(engine: str, replica: Replica) -> bool:
    """Each node has to know its own number, so a shell of its own reads it."""
    return replica.nodes > 1 and engine != "trtllm"


def _command(engine: str, replica: Replica, exports: Sequence[str]) -> str:
    if not _is_wrapped(engine, replica):
        return COMMANDS[engine]
    return f"bash -c '{''.join(f'export {word}; ' for word in exports)}{COMMANDS[engine]}"


def common_faults(axes: Mapping[str, Any]) -> list[str]:
    """Decisions that no engine is told of here."""
    known: Mapping[str, tuple[Any, ...]] = {
        "batching": ("chunked_prefill", "continuous"),
        "placement": (PLACEMENT,),
        "speculative": ("none",),
        "prefix_cache": ("none",),
        "kv_tiers": ("device",),
    }
    return [
        f"{name} is {axes[name]}, which no engine is told of here; export a plan with "
        f"{' or '.join(choices)}"
        for name, choices in known.items()
        if name in axes and axes[name] not in choices
    ]
