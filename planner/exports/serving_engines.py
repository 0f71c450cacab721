"""What each serving engine is told of a replica, and what it cannot do.

Limits are of one copy of attention in vLLM and TensorRT-LLM, of all copies together in SGLang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Argument = tuple[str, str]

ONLINE = ("fp8",)
"""Precisions that vLLM and SGLang make from a wider checkpoint while they load it."""

YAML = "$PWD/plan-${SLURM_JOB_ID}.yml"


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
    is_chunked : prompts are cut to one budget
    is_alone : prompts and answers have replicas of their own
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
    is_alone: bool = False

    @property
    def stage(self) -> int:
        """Devices of one pipeline stage."""
        return self.tensor * self.copies


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
    if replica.is_chunked and not replica.is_alone:
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


def yaml_lines(replica: Replica, more: Sequence[str]) -> list[str]:
    """What TensorRT-LLM takes from a file alone."""
    return [
        f"cat > {YAML} <<'END'",
        f"enable_attention_dp: {str(replica.copies > 1).lower()}",
        f"enable_chunked_prefill: {str(replica.is_chunked).lower()}",
        "kv_cache_config:",
        f"  dtype: {'fp8' if replica.cache == 'fp8' else 'auto'}",
        "  enable_block_reuse: false",
        *more,
        "END",
    ]


def _quantisation(replica: Replica, word: tuple[str, Mapping[str, str]]) -> list[Argument]:
    """How the engine is told of the products' precision; nothing where the checkpoint says it."""
    flag, widths = word
    if replica.precision in widths:
        return [(flag, widths[replica.precision])]
    is_made = replica.precision in ONLINE and not replica.is_quantised
    return [("--quantization", replica.precision)] if is_made else []


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
