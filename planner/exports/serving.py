"""A serving plan as the script that runs it: Slurm with vLLM, SGLang or TensorRT-LLM.

One job of an array is one replica; what spreads requests over replicas stands before them and is
the reader's. Every decision of the plan is an argument; one that an engine cannot be told, or
cannot do, is refused with the reason.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from planner.study.read import Study
from simkernel.errors import BadStudy

Argument = tuple[str, str]

COMMANDS: Mapping[str, str] = {
    "vllm": "vllm serve $MODEL",
    "sglang": "python -m sglang.launch_server --model-path $MODEL",
    "trtllm": "trtllm-serve $MODEL",
}
LAUNCHERS = {"trtllm": "trtllm-llmapi-launch "}
"""TensorRT-LLM wants one process a device under MPI; the others start their own."""

ONLINE = ("fp8",)
"""Precisions that vLLM and SGLang make from a wider checkpoint while they load it."""

YAML = "$PWD/plan-${SLURM_JOB_ID}.yml"
PORT = "$((8000 + ${SLURM_ARRAY_TASK_ID:-0} % 1000))"
"""Replicas that share a host answer on different ports."""

PLACEMENT = "tp-cp-ep-dp-pp"


@dataclass(frozen=True)
class Replica:
    """One replica of a plan as an engine has to be told of it.

    Parameters
    ----------
    tensor, pipeline, copies : of attention; experts over all devices of a stage
    expert, expert_tensor : how experts are cut
    sequences, tokens : at most, of each copy of attention, in a step
    longest_tokens : prompt and answer of the longest request
    precision, cache : of products, of keys and values
    is_quantised : the checkpoint has the precision already
    is_chunked : prompts run beside decoding, in one budget
    nodes, devices_per_node : of one replica
    """

    tensor: int
    pipeline: int
    copies: int
    expert: int
    expert_tensor: int
    has_experts: bool
    sequences: int
    tokens: int
    longest_tokens: int
    precision: str
    cache: str
    is_quantised: bool
    is_chunked: bool
    nodes: int
    devices_per_node: int

    @property
    def stage(self) -> int:
        """Devices of one pipeline stage."""
        return self.tensor * self.copies


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


def serving_script(study: Study, plan: Mapping[str, Any], served: Served) -> str:
    """A Slurm script that runs the replicas of a serving plan on the study's engine.

    Parameters
    ----------
    plan : the document of `planner explain`

    Raises
    ------
    BadStudy : an engine without a command, or decisions that it cannot be told; all at once
    """
    engine = study.serving.engine.split("_")[0]
    if engine not in COMMANDS:
        raise BadStudy(
            f"--to launch has no command of engine {study.serving.engine!r}; "
            f"wanted {', '.join(COMMANDS)}"
        )
    replica = replica_of(plan["axes"], served)
    faults = [*_common_faults(plan["axes"]), *FAULTS[engine](replica)]
    if faults:
        raise BadStudy(*faults)
    tasks = replica.devices_per_node if engine == "trtllm" else 1
    given = [*ARGUMENTS[engine](replica), ("--host", "0.0.0.0"), ("--port", PORT)]
    words = [f"    {flag} {value}".rstrip() for flag, value in given]
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={shlex.quote(study.name)}",
        f"#SBATCH --array=0-{round(plan['axes']['replicas']) - 1}  # one job is one replica",
        f"#SBATCH --nodes={replica.nodes}",
        f"#SBATCH --ntasks-per-node={tasks}",
        f"#SBATCH --gpus-per-node={replica.devices_per_node}",
        f"# plan {plan['plan']} of run {plan['run']}: {plan['axes']['devices']} "
        f"{plan['axes']['accelerator']}; spread requests over replicas by "
        f"{plan['axes']['routing']}",
        "set -eu",
        _checkpoint(engine, replica, served),
        *power_limit(plan["axes"]["power_cap_frac"], served.tdp_w),
        *(_yaml(replica) if engine == "trtllm" else ()),
        *_rendezvous(engine, replica),
        f"srun {LAUNCHERS.get(engine, '')}{_command(engine, replica)} \\",
    ]
    return "\n".join([*lines, " \\\n".join(words) + ("'" if replica.nodes > 1 else "")])


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


def vllm_arguments(replica: Replica) -> list[Argument]:
    """Arguments of `vllm serve` (docs.vllm.ai, cli/serve); limits are of each attention copy."""
    found = [
        ("--tensor-parallel-size", str(replica.tensor)),
        ("--pipeline-parallel-size", str(replica.pipeline)),
        ("--max-num-seqs", str(replica.sequences)),
        ("--max-num-batched-tokens", str(replica.tokens)),
        ("--max-model-len", str(replica.longest_tokens)),
        ("--kv-cache-dtype", "fp8" if replica.cache == "fp8" else "auto"),
        ("--no-enable-prefix-caching", ""),
        ("--enable-chunked-prefill" if replica.is_chunked else "--no-enable-chunked-prefill", ""),
        *_quantisation(replica, ("--dtype", {"bf16": "bfloat16", "fp16": "float16"})),
    ]
    if replica.copies > 1:
        found.append(("--data-parallel-size", str(replica.copies)))
    if replica.has_experts and replica.expert > 1:
        found.append(("--enable-expert-parallel", ""))
    if replica.nodes > 1:
        found += _vllm_nodes(replica)
    return found


def sglang_arguments(replica: Replica) -> list[Argument]:
    """Arguments of sglang.launch_server (docs.sglang.io, server_arguments).

    Its tensor size is of all devices of a stage, and its limits are of all attention copies
    together: each takes its share.
    """
    found = [
        ("--tp-size", str(replica.stage)),
        ("--pp-size", str(replica.pipeline)),
        ("--max-running-requests", str(replica.sequences * replica.copies)),
        ("--chunked-prefill-size",
         str(replica.tokens * replica.copies if replica.is_chunked else -1)),
        ("--max-prefill-tokens", str(replica.tokens)),
        ("--context-length", str(replica.longest_tokens)),
        ("--kv-cache-dtype", "fp8_e4m3" if replica.cache == "fp8" else "auto"),
        ("--disable-radix-cache", ""),
        *_quantisation(replica, ("--dtype", {"bf16": "bfloat16", "fp16": "float16"})),
    ]  # fmt: skip
    if replica.is_chunked:
        found.append(("--enable-mixed-chunk", ""))
    if replica.copies > 1:
        found += [("--dp-size", str(replica.copies)), ("--enable-dp-attention", "")]
    if replica.has_experts:
        found.append(("--ep-size", str(replica.expert)))
    if replica.nodes > 1:
        found += [
            ("--nnodes", str(replica.nodes)),
            ("--node-rank", "$SLURM_NODEID"),
            ("--dist-init-addr", "$HEAD:20000"),
        ]
    return found


def trtllm_arguments(replica: Replica) -> list[Argument]:
    """Arguments of trtllm-serve (nvidia.github.io/TensorRT-LLM, commands/trtllm-serve).

    Its tensor size is of all devices of a stage; limits are of each attention copy.
    """
    found = [
        ("--backend", "pytorch"),
        ("--tp_size", str(replica.stage)),
        ("--pp_size", str(replica.pipeline)),
        ("--max_batch_size", str(replica.sequences)),
        ("--max_num_tokens", str(replica.tokens)),
        ("--max_seq_len", str(replica.longest_tokens)),
        ("--extra_llm_api_options", YAML),
    ]
    if replica.has_experts:
        found.append(("--ep_size", str(replica.expert)))
    return found


ARGUMENTS: Mapping[str, Callable[[Replica], list[Argument]]] = {
    "vllm": vllm_arguments,
    "sglang": sglang_arguments,
    "trtllm": trtllm_arguments,
}


def _yaml(replica: Replica) -> list[str]:
    """What TensorRT-LLM takes from a file alone."""
    return [
        f"cat > {YAML} <<'END'",
        f"enable_attention_dp: {str(replica.copies > 1).lower()}",
        f"enable_chunked_prefill: {str(replica.is_chunked).lower()}",
        "kv_cache_config:",
        f"  dtype: {'fp8' if replica.cache == 'fp8' else 'auto'}",
        "  enable_block_reuse: false",
        "END",
    ]


def _quantisation(replica: Replica, word: tuple[str, Mapping[str, str]]) -> list[Argument]:
    """How the engine is told of the products' precision; nothing where the checkpoint says it."""
    flag, widths = word
    if replica.precision in widths:
        return [(flag, widths[replica.precision])]
    is_made = replica.precision in ONLINE and not replica.is_quantised
    return [("--quantization", replica.precision)] if is_made else []


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


def _command(engine: str, replica: Replica) -> str:
    """Each node has to know its own number, so a shell of its own reads it."""
    is_wrapped = replica.nodes > 1 and engine != "trtllm"
    return f"bash -c '{COMMANDS[engine]}" if is_wrapped else COMMANDS[engine]


def _vllm_nodes(replica: Replica) -> list[Argument]:
    """Attention copies on several hosts, else one copy over several hosts."""
    one = replica.tensor * replica.pipeline
    if replica.copies > 1:
        local = replica.devices_per_node // one
        return [
            ("--data-parallel-size-local", str(local)),
            ("--data-parallel-address", "$HEAD"),
            ("--data-parallel-rpc-port", "13345"),
            ("--data-parallel-start-rank", f"$((SLURM_NODEID * {local}))"),
            ("$([ $SLURM_NODEID -gt 0 ] && echo --headless)", ""),
        ]
    return [
        ("--nnodes", str(replica.nodes)),
        ("--node-rank", "$SLURM_NODEID"),
        ("--master-addr", "$HEAD"),
        ("$([ $SLURM_NODEID -gt 0 ] && echo --headless)", ""),
    ]


def _common_faults(axes: Mapping[str, Any]) -> list[str]:
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


def _vllm_faults(replica: Replica) -> list[str]:
    faults = []
    whole = (replica.stage, 1), (1, replica.stage)
    if replica.has_experts and (replica.expert, replica.expert_tensor) not in whole:
        faults.append(
            f"vllm cuts experts by expert_parallel over all {replica.stage} devices of a stage or "
            f"not at all; the plan has {replica.expert} x {replica.expert_tensor}"
        )
    if replica.copies > 1 and replica.tensor * replica.pipeline > replica.devices_per_node:
        faults.append("vllm runs each attention copy inside one host; the plan's spans several")
    return faults


def _sglang_faults(replica: Replica) -> list[str]:
    if replica.has_experts and replica.stage % replica.expert:
        return [f"sglang wants expert_parallel to divide {replica.stage}, not {replica.expert}"]
    return []


def _trtllm_faults(replica: Replica) -> list[str]:
    if replica.copies > 1 and replica.tensor > 1:
        return [
            "trtllm copies attention on every device of a stage or cuts it over all; the plan "
            f"cuts {replica.copies} copies by {replica.tensor}; export one with tensor_parallel 1 "
            "or attention_data_parallel 1"
        ]
    return []


FAULTS: Mapping[str, Callable[[Replica], list[str]]] = {
    "vllm": _vllm_faults,
    "sglang": _sglang_faults,
    "trtllm": _trtllm_faults,
}
"""What an engine cannot do."""
