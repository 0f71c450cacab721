"""A plan of two pools as the script that runs it: prompts and answers on servers of their own.

One shell script queues an array of Slurm jobs for each pool and a job for what stands before them.
Servers write their addresses into a folder that all hosts see; the proxy waits for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from planner.axes import AFTER_PREFILL, LAYER_WISE
from planner.exports.serving import (
    Job,
    Served,
    common_faults,
    engine_of,
    job_lines,
    port_of,
    replica_of,
)
from planner.exports.serving_engines import FAULTS, Argument, Replica
from planner.study.pools import DECODE, POOLS, PREFILL, TRANSFER
from planner.study.read import Study
from simkernel.errors import BadStudy

PORTS = {PREFILL: port_of(8000), DECODE: port_of(9000)}
MEETING_PORTS = {PREFILL: port_of(21000, 8), DECODE: port_of(31000, 8)}
"""Where the other pool asks for keys and values, and one port more for each further device."""
PROXY_PORT, DISCOVERY_PORT = 10001, 30001
"""vllm, docs/design/p2p_nccl_connector.md: fixed in its proxy."""

ADDRESS = 'ADDRESS="$(hostname -i | cut -d" " -f1)"'
READY = 'until [ "$(ls "$POOLS" | grep -c "^{pool}-")" -ge {replicas} ]; do sleep 5; done'
PROXY_KNOWN = (
    'until [ -s "$POOLS/proxy" ]; do sleep 5; done',
    'export PROXY="$(cat "$POOLS/proxy")"',
)
SOURCE = ': "${VLLM_SOURCE:?a checkout of vllm, which has the proxy}"'


@dataclass(frozen=True)
class Side:
    """What a server of one pool is told beside its own replica; fields as of `serving.Job`."""

    before: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    arguments: tuple[Argument, ...] = ()
    options: tuple[str, ...] = ()


def pools_script(study: Study, plan: Mapping[str, Any], served: Mapping[str, Served]) -> str:
    """A shell script that queues both pools of a plan and the proxy before them.

    Parameters
    ----------
    plan : the document of `planner explain`
    served : by pool

    Raises
    ------
    BadStudy : an engine without a command, or decisions that it cannot be told; all at once
    """
    engine = engine_of(study)
    axes = {pool: _axes_of(plan["axes"], pool) for pool in POOLS}
    replicas = {
        pool: replace(replica_of(axes[pool], served[pool]), is_alone=True) for pool in POOLS
    }
    way = str(plan["axes"][TRANSFER])
    faults = [
        *(f"{p}.{fault}" for p in POOLS for fault in common_faults(axes[p])),
        *(f"{p}: {fault}" for p in POOLS for fault in FAULTS[engine](replicas[p])),
        *_pair_faults(engine, way, replicas),
    ]
    if faults:
        raise BadStudy(*faults)
    counts = {pool: round(axes[pool]["replicas"]) for pool in POOLS}
    lines = _opening(plan, counts, axes)
    for pool in POOLS:
        side = SIDES[engine, way](pool, replicas[pool])
        job = Job(
            name=f"{study.name}-{pool}",
            replicas=counts[pool],
            power_cap_frac=axes[pool]["power_cap_frac"],
            notes=(f"spread requests over the pool by {axes[pool]['routing']}",),
            port=PORTS[pool],
            before=(*side.before, *_registered(pool)),
            exports=side.exports,
            arguments=side.arguments,
            options=side.options,
        )
        lines += _queued(pool, job_lines(engine, replicas[pool], served[pool], job))
    waits = [READY.format(pool=pool, replicas=counts[pool]) for pool in POOLS]
    header = ["#!/bin/bash", f"#SBATCH --job-name={study.name}-proxy", "set -eu", ADDRESS]
    return "\n".join([*lines, *_queued("proxy", [*header, *PROXIES[engine, way](waits)])])


def _axes_of(axes: Mapping[str, Any], pool: str) -> dict[str, Any]:
    """The axes of one pool, under the names that they have where there is one."""
    return {
        name.partition(".")[2]: value
        for name, value in axes.items()
        if name.startswith(f"{pool}.")
    }


def _opening(
    plan: Mapping[str, Any], counts: Mapping[str, int], axes: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Which plan it is, the folder of addresses, and where each kind of host is found."""
    told = ", ".join(f"{counts[p]} x {p} on {axes[p]['accelerator']}" for p in POOLS)
    lines = [
        "#!/bin/bash",
        f"# plan {plan['plan']} of run {plan['run']}: {told}; run it with bash on a login host",
        "set -eu",
        'export POOLS="${POOLS:-$PWD/pools-$$}"  # a folder that every host sees',
        'mkdir -p "$POOLS"',
    ]
    if axes[PREFILL]["accelerator"] != axes[DECODE]["accelerator"]:
        lines += [
            f': "${{{pool.upper()}_HOSTS:?options of sbatch for {axes[pool]["accelerator"]}, '
            'such as --partition=NAME}"'
            for pool in POOLS
        ]
    return lines


def _queued(name: str, lines: list[str]) -> list[str]:
    """A job as the text that sbatch reads."""
    end = f"{name.upper()}_JOB"
    hosts = "" if name == "proxy" else f"${{{name.upper()}_HOSTS:-}} "
    return [f"sbatch {hosts}<<'{end}'", *lines, end]


def _registered(pool: str) -> tuple[str, ...]:
    """A server tells where it answers and where its keys and values are asked for."""
    return (
        ADDRESS,
        f'echo "$ADDRESS {PORTS[pool]} {MEETING_PORTS[pool]}" '
        f'> "$POOLS/{pool}-${{SLURM_ARRAY_TASK_ID:-0}}"',
    )


def _nixl(pool: str, replica: Replica) -> Side:
    """Answers read keys and values of a done prompt (vllm@026c83f, nixl_connector_usage.md)."""
    return Side(
        exports=(
            'VLLM_NIXL_SIDE_CHANNEL_HOST="$(hostname -i | cut -d" " -f1)"',
            f"VLLM_NIXL_SIDE_CHANNEL_PORT={MEETING_PORTS[pool]}",
        ),
        arguments=(
            ("--kv-transfer-config.kv_connector", "NixlConnector"),
            ("--kv-transfer-config.kv_role", VLLM_ROLES[pool]),
        ),
    )


def _p2p_nccl(pool: str, replica: Replica) -> Side:
    """Prompts send every layer when it is computed (vllm@02dc4a1, p2p_nccl_connector.py)."""
    more = "--kv-transfer-config.kv_connector_extra_config"
    return Side(
        before=PROXY_KNOWN,
        arguments=(
            ("--kv-transfer-config.kv_connector", "P2pNcclConnector"),
            ("--kv-transfer-config.kv_role", VLLM_ROLES[pool]),
            ("--kv-transfer-config.kv_port", MEETING_PORTS[pool]),
            (f"{more}.proxy_ip", "$PROXY"),
            (f"{more}.proxy_port", str(DISCOVERY_PORT)),
            (f"{more}.http_port", PORTS[pool]),
            (f"{more}.send_type", "PUT_ASYNC"),
        ),
    )


VLLM_ROLES = {PREFILL: "kv_producer", DECODE: "kv_consumer"}


def _sglang(pool: str, replica: Replica) -> Side:
    """sglang@08edc50, docs/advanced_features/pd_disaggregation.md."""
    return Side(
        arguments=(
            ("--disaggregation-mode", pool),
            ("--disaggregation-transfer-backend", "nixl"),
            ("--disaggregation-bootstrap-port", MEETING_PORTS[pool]),
        )
    )


def _trtllm(pool: str, replica: Replica) -> Side:
    """TensorRT-LLM@0434b98, docs/source/features/disagg-serving.md: the buffer holds a prompt."""
    transfer = (
        "cache_transceiver_config:",
        "  backend: NIXL",
        f"  max_tokens_in_buffer: {replica.longest_tokens}",
    )
    alone = ("disable_overlap_scheduler: true",) if pool == PREFILL else ()
    return Side(options=(*alone, *transfer))


SIDES: Mapping[tuple[str, str], Callable[[str, Replica], Side]] = {
    ("vllm", AFTER_PREFILL): _nixl,
    ("vllm", LAYER_WISE): _p2p_nccl,
    ("sglang", AFTER_PREFILL): _sglang,
    ("trtllm", AFTER_PREFILL): _trtllm,
}
"""How an engine sends keys and values in the way of a plan."""


def _column(pool: str, column: int) -> str:
    return f"$(cut -d' ' -f{column} \"$POOLS\"/{pool}-*)"


def _nixl_proxy(waits: list[str]) -> list[str]:
    return [
        SOURCE,
        *waits,
        "python $VLLM_SOURCE/tests/v1/kv_connector/nixl_integration/toy_proxy_server.py \\",
        f"    --host 0.0.0.0 --port {PROXY_PORT} \\",
        f"    --prefiller-hosts {_column(PREFILL, 1)} --prefiller-ports {_column(PREFILL, 2)} \\",
        f"    --decoder-hosts {_column(DECODE, 1)} --decoder-ports {_column(DECODE, 2)}",
    ]


def _p2p_nccl_proxy(waits: list[str]) -> list[str]:
    """Servers find the proxy, not the other way round."""
    folder = "$VLLM_SOURCE/examples/online_serving/disaggregated_serving_p2p_nccl_xpyd"
    return [
        SOURCE,
        'echo "$ADDRESS" > "$POOLS/proxy"',
        f"python {folder}/disagg_proxy_p2p_nccl_xpyd.py",
    ]


def _sglang_proxy(waits: list[str]) -> list[str]:
    return [
        *waits,
        "python -m sglang_router.launch_router --pd-disaggregation \\",
        f"    --host 0.0.0.0 --port {PROXY_PORT} \\",
        '    $(awk \'{print "--prefill http://" $1 ":" $2, $3}\' "$POOLS"/prefill-*) \\',
        '    $(awk \'{print "--decode http://" $1 ":" $2}\' "$POOLS"/decode-*)',
    ]


def _trtllm_proxy(waits: list[str]) -> list[str]:
    servers = {"context_servers": PREFILL, "generation_servers": DECODE}
    lines = [*waits, "{", "  echo hostname: 0.0.0.0", f"  echo port: {PROXY_PORT}"]
    lines += ["  echo backend: pytorch"]
    for name, pool in servers.items():
        lines += [
            f"  echo {name}:",
            f'  echo "  num_instances: $(ls "$POOLS"/{pool}-* | wc -l)"',
            '  echo "  urls:"',
            f'  awk \'{{print "    - \\"" $1 ":" $2 "\\""}}\' "$POOLS"/{pool}-*',
        ]
    return [*lines, '} > "$POOLS/proxy.yml"', 'trtllm-serve disaggregated -c "$POOLS/proxy.yml"']


PROXIES: Mapping[tuple[str, str], Callable[[list[str]], list[str]]] = {
    ("vllm", AFTER_PREFILL): _nixl_proxy,
    ("vllm", LAYER_WISE): _p2p_nccl_proxy,
    ("sglang", AFTER_PREFILL): _sglang_proxy,
    ("trtllm", AFTER_PREFILL): _trtllm_proxy,
}
"""What stands before the pools, as each engine comes with it."""


def _pair_faults(engine: str, way: str, replicas: Mapping[str, Replica]) -> list[str]:
    """What the two pools together cannot do on an engine."""
    prompts, answers = (replicas[pool] for pool in POOLS)
    faults = []
    if (engine, way) not in SIDES:
        faults.append(
            f"kv_transfer is {way}, which {engine} does not do: it sends when a prompt is done; "
            f"run the study with --set kv_transfer={AFTER_PREFILL} and export a plan of that run"
        )
    if engine == "vllm" and max(prompts.pipeline, answers.pipeline) > 1:
        faults.append(
            "vllm sends no keys and values between pipelines (its issue 40674); export a plan "
            "with pipeline_parallel 1 in both pools"
        )
    cuts = [(one.tensor, one.copies) for one in (prompts, answers)]
    if engine == "vllm" and way == LAYER_WISE and (cuts[0] != cuts[1] or cuts[0][1] > 1):
        faults.append(
            f"vllm sends layer by layer between equal tensor_parallel and single copies alone "
            f"(P2pNcclConnector), not from {cuts[0][0]} x {cuts[0][1]} to {cuts[1][0]} x "
            f"{cuts[1][1]}; export a plan with both alike, or run the study with --set "
            f"kv_transfer={AFTER_PREFILL}"
        )
    return faults
