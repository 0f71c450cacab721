"""What a layer exchanges with other devices: tensor, context, expert and pipeline traffic.

Every function is one or a few collectives on the group's own links, as a pass. Data-parallel
traffic depends on a whole stage and sits with the layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import numpy as np

from simkernel import plugins
from simkernel.columns import Codes, Column, Masks
from simkernel.keeping import WIDE_BYTES
from simkernel.models import Core, LayerKind, Model
from simkernel.passes import Pass, sent
from simkernel.placement import Group
from simkernel.share import Share, imbalance
from simkernel.traffic import Traffic, Wires, as_timed


def collective(
    share: Share, operation: str, group: Group, payload_bytes: Column, remote_frac: Column = 1.0
) -> Pass:
    """One collective by the algorithm of the candidate, or the fastest where it says "best".

    Times of a library, where there are any, stand for "best" alone: it chose for itself.
    """
    wires = share.network.wires(operation, group)
    codes = share.collective_code
    best, named = (
        {
            code: module.traffic(operation, wires, group, payload_bytes, remote_frac)
            for code, module in _options(operation)
            if is_in_best == module.IN_BEST and (is_in_best or code in share.collective_codes)
        }
        for is_in_best in (True, False)
    )
    chosen = _best(best, codes)
    timed = share.network.timed
    if timed is not None:
        as_was = as_timed(chosen, timed, operation, wires, group, payload_bytes, remote_frac)
        chosen = _taken(codes == len(plugins.names("collectives")), chosen, as_was)
    for code, option in named.items():
        chosen = _taken(codes == code, chosen, option)
    return sent(chosen)


def _options(operation: str) -> Iterator[tuple[int, ModuleType]]:
    """Algorithms that can do an operation, by code."""
    for code, name in enumerate(plugins.names("collectives")):
        module = plugins.find("collectives", name)
        if operation in module.OPERATIONS:
            yield code, module


def fastest(operation: str, wires: Wires, group: Group, payload_bytes: Column) -> Traffic:
    """One collective by whatever algorithm is the fastest of those that "best" chooses from."""
    options = {
        code: module.traffic(operation, wires, group, payload_bytes)
        for code, module in _options(operation)
        if module.IN_BEST
    }
    return _best(options, np.full(len(group.size), len(plugins.names("collectives"))))


def boundary_send(share: Share, model: Model) -> Pass:
    """Activations of one micro-batch from a stage to the next; see `_sent_whole`."""
    payload = share.cut_tokens * model.hidden * WIDE_BYTES
    sent_part = collective(share, "send", share.placement.pipeline, payload)
    return sent_part + _sent_whole(share, model)


def all_sends(share: Share, model: Model, chunks: Codes, turns: Codes) -> Pass:
    """Every send of one micro-batch, activations forward and gradients back, stage average.

    A walk through the stages is made once per chunk; it leaves each domain but the last, and the
    next walk starts in the first one again, or turns where it is: `turns` times nothing is sent.
    """
    group, payload = share.placement.pipeline, share.cut_tokens * model.hidden * WIDE_BYTES
    far = np.where(group.domains > 1, chunks * group.domains - 1 - turns, 0)
    near = chunks * group.size - 1 - turns - far
    parts = _sends(share, payload, 2.0 * near / group.size, 2.0 * far / group.size)
    return parts + _sent_whole(share, model).times(2.0 * (near + far) / group.size)


def _sent_whole(share: Share, model: Model) -> Pass:
    """What makes a sent activation whole again: every tensor rank sends its part, all gather.

    Under sequence parallelism a part is all that a rank works on (Narayanan et al. 2021, 4.1).
    """
    if np.all(share.is_sequence_cut):
        return Pass()
    payload = share.tokens * model.hidden * WIDE_BYTES
    gather = collective(share, "all_gather", share.placement.tensor, payload)
    return gather.times(~share.is_sequence_cut * 1.0)


def mirrored(share: Share, copies: Codes, held_bytes: Column) -> Pass:
    """Half of a device's shard sent to the device that holds the same stages.

    Devices that serve a stage from either end of the pipeline share its optimiser state: each
    sends the gradients of one half and gets its weights back. The two lie in one domain where
    the pipeline has one, or the middle one of an odd number.

    Parameters
    ----------
    copies : (n,) devices along the pipeline that hold the same stage, 1 or 2
    held_bytes : (n,) shard of one device over its own replicas [bytes]
    """
    domains, is_held_twice = share.placement.pipeline.domains, (copies > 1) * 1.0
    near_frac = np.where(domains % 2 == 1, 1.0 / domains, 0.0)
    return _sends(
        share, held_bytes / 2.0, near_frac * is_held_twice, (1.0 - near_frac) * is_held_twice
    )


def _sends(share: Share, payload_bytes: Column, near: Column, far: Column) -> Pass:
    """Messages along the pipeline: so many inside a domain, so many to another."""
    size = share.placement.pipeline.size
    beside = collective(share, "send", Group(size, size), payload_bytes)
    across = collective(share, "send", Group(size, np.ones_like(size)), payload_bytes)
    return beside.times(near) + across.times(far)


def tensor_traffic(share: Share, model: Model, kind: LayerKind) -> Pass:
    """All-gather before and reduce-scatter after each sub-block (Korthikanti et al. 2022, 4.2).

    Without sequence parallelism one all-reduce after it (Shoeybi et al. 2019, section 3).
    """
    payload = share.tokens * model.hidden * WIDE_BYTES
    group = share.placement.tensor
    gather = collective(share, "all_gather", group, payload)
    scatter = collective(share, "reduce_scatter", group, payload)
    moved = _in_pieces(share, gather + scatter)
    if not np.all(share.is_sequence_cut):
        is_cut = share.is_sequence_cut * 1.0
        whole = collective(share, "all_reduce", group, payload)
        moved = moved.times(is_cut) + whole.times(1.0 - is_cut)
    return moved.times(float(_gathers(kind)))


def _in_pieces(share: Share, moved: Pass) -> Pass:
    """Tensor traffic cut into as many pieces as ranks, each beside the product of another.

    Only the first piece has nothing to run beside; of the rest the contended share is left.
    The wires stay as busy, so a product too short to hide them does not.

    References
    ----------
    Wang et al., Overlap Communication with Dependent Computation via Decomposition in Large Deep
    Learning Models, ASPLOS 2023, pages 93-106.
    """
    if not share.stack.overlaps_tensor:
        return moved
    first = 1.0 / share.tensor
    return replace(
        moved, floor_s=moved.floor_s * (first + share.stack.contention_frac * (1.0 - first))
    )


def tensor_backward(share: Share, model: Model, kind: LayerKind) -> Pass:
    """As forward, plus the input gathered once more beside the gradient products.

    Without sequence parallelism every rank has kept it whole.
    """
    payload = share.tokens * model.hidden * WIDE_BYTES
    again = collective(share, "all_gather", share.placement.tensor, payload)
    hidden = Pass(
        inside_s=again.inside_s,
        outside_s=again.outside_s,
        inside_bytes=again.inside_bytes,
        outside_bytes=again.outside_bytes,
    )
    again_count = share.is_sequence_cut * float(_gathers(kind))
    return tensor_traffic(share, model, kind) + hidden.times(again_count)


def context_traffic(share: Share, core: Core, factor: float) -> Pass:
    """Keys and values passed round the context group (or their gradients as well).

    Latent keys and values are expanded before they go round: a rank expands its own tokens alone
    (NVIDIA/TransformerEngine#1552; passing latents instead is a proposal there, #2064).

    Nothing goes round where heads are scattered instead: see `head_traffic`. The state of a scan
    is passed on either way.
    """
    if core.kind == "state":
        values: Column = core.state_values * share.sequences / share.tensor
    else:
        kv_heads = core.heads if core.kind == "mla" else core.kv_heads
        heads = kv_heads / np.minimum(share.tensor, kv_heads)
        values = share.sequences * share.sequence_tokens * heads
        values = values * (core.key_dim + core.value_dim)
    payload = values * WIDE_BYTES * factor
    round_ = collective(share, "all_gather", share.placement.context, payload)
    if not scatters_heads(share, core):
        return round_
    return round_.times((share.head_ranks == 1) * 1.0)


def scatters_heads(share: Share, core: Core) -> bool:
    """Some candidate scatters the heads of this core over its context ranks."""
    return core.kind != "state" and share.has_scattered_heads


def held_kv_heads(share: Share, kv_heads: int) -> Column:
    """Key-value heads that a device works on: of its tensor rank, less where heads are scattered.

    Fewer heads than ranks are copied, one to each rank.
    """
    held = kv_heads / np.minimum(share.tensor, kv_heads)
    return np.maximum(held / share.head_ranks, 1.0) if share.has_scattered_heads else held


def head_traffic(share: Share, core: Core) -> Pass:
    """Heads scattered over the context ranks and the sequence gathered, before and after the core.

    Queries, keys and values of a rank's own tokens go out before the core, its output comes back
    after it; backward the gradients of all four go the other way, and nothing else: what was
    exchanged is kept. A rank sends each other one as many key-value heads as that one works on.
    Latent keys and values are expanded before they are sent.

    References
    ----------
    Jacobs et al., DeepSpeed Ulysses, arXiv 2309.14509, section 3.2; copied key-value heads:
    Bekman et al., Arctic Long Sequence Training, arXiv 2506.13996, section 3.2.1.
    """
    heads = core.heads / share.tensor
    kv_heads = core.heads if core.kind == "mla" else core.kv_heads
    kv_heads_sent = held_kv_heads(share, kv_heads) * share.head_ranks
    group, own = share.placement.context, share.tokens * WIDE_BYTES * (share.head_ranks > 1)
    dims = float(core.key_dim + core.value_dim)
    queries = collective(share, "all_to_all", group, own * heads * core.key_dim)
    keys = collective(share, "all_to_all", group, own * kv_heads_sent * dims)
    output = collective(share, "all_to_all", group, own * heads * core.value_dim)
    return (queries + keys + output).times((share.head_ranks > 1) * 1.0)


def expert_traffic(share: Share, model: Model, kind: LayerKind) -> Pass:
    """Dispatch to the experts and combine back, on the busiest rank.

    Dispatch at the width of the GEMM input, combine in bf16 (DeepSeek-V3 report, section 3.3.3).
    Expert tensor ranks gather what was dispatched and scatter what is combined.
    """
    group, busiest = share.placement.expert, imbalance(share, kind)
    copies = share.cut_tokens * kind.top_k * model.hidden * busiest
    sent_frac = _sent_frac(share, kind)
    domains = group.domains.astype(float)
    remote = distinct_domains(domains, kind) / kind.top_k / sent_frac
    remote_frac = np.minimum(np.where(domains > 1, remote, 1.0), 1.0)
    both = Pass()
    for width in (share.input_bytes, WIDE_BYTES):
        once = collective(share, "all_to_all", group, copies * sent_frac * width, remote_frac)
        both = both + _as_slow_as_stack(share, once)
    spread = share.placement.expert_tensor
    inner = copies * share.expert_tensor * WIDE_BYTES
    gather = collective(share, "all_gather", spread, inner)
    return both + gather + collective(share, "reduce_scatter", spread, inner)


def _sent_frac(share: Share, kind: LayerKind) -> Column:
    """Share of a token's copies that are sent, where a device takes one for all its experts.

    DeepEP and its kin send a token to a device once and add up its experts' results there before
    they send them back; NCCL's all-to-all moves one copy per expert.

    References
    ----------
    deepseek-ai/DeepEP, csrc/kernels (is_token_in_rank); how many devices: as for domains.
    """
    if not share.stack.sends_once:
        return 1.0
    return np.minimum(distinct_domains(share.expert * 1.0, kind) / kind.top_k, 1.0)


def _as_slow_as_stack(share: Share, moved: Pass) -> Pass:
    """An exchange between experts, as slow as the stack makes it."""
    frac = share.stack.exchange_frac
    return replace(
        moved,
        inside_s=moved.inside_s * frac,
        outside_s=moved.outside_s * frac,
        floor_s=moved.floor_s * frac,
    )


def distinct_domains(domains: Column, kind: LayerKind) -> Column:
    """Scale-up domains one token's experts lie in, when they lie over `domains` of them.

    Parameters
    ----------
    domains : (n,) that the expert group touches

    Notes
    -----
    Evenly random routing: K of E experts drawn without putting back hit D = x (1 - P) of x
    domains, P the chance that none of the E/x experts of a domain is drawn. With node-limited
    routing (g of G groups) only the experts and domains of g groups are drawn from. A router that
    picks its groups by their best experts hits up to a tenth more domains.

    References
    ----------
    Hypergeometric; DeepSeek-V3 report, section 3.2.2, for the limit on groups.
    """
    groups, used = kind.expert_groups, kind.expert_groups_used
    drawn_from = kind.experts * used / groups
    left = np.maximum(np.where(domains >= groups, domains * used / groups, domains), 1.0)
    per_domain = drawn_from / left
    missed = np.ones_like(left)
    for i in range(kind.top_k):
        missed = missed * np.clip((drawn_from - per_domain - i) / (drawn_from - i), 0.0, 1.0)
    hit = left * (1.0 - missed)
    return np.where(domains < groups, hit * _groups_near(domains, groups, used), hit)


def _groups_near(domains: Column, groups: int, used: int) -> Column:
    """Share of fewer domains than groups that hold any of the g groups drawn of G."""
    per_domain = np.maximum(groups / domains, 1.0)
    missed = np.ones_like(per_domain)
    for i in range(used if used < groups else 0):
        missed = missed * np.clip((groups - per_domain - i) / (groups - i), 0.0, 1.0)
    return 1.0 - missed if used < groups else np.ones_like(per_domain)


def _gathers(kind: LayerKind) -> int:
    """Sub-blocks whose input is gathered over the tensor group and whose output is scattered."""
    return (kind.core is not None) + (kind.mlp == "dense" or kind.shared_width > 0)


def _best(options: dict[int, Traffic], codes: Codes) -> Traffic:
    """The named option where it can do the operation, else the fastest."""
    items = iter(options.items())
    _, chosen = next(items)
    for code, other in items:
        is_named = codes == code
        is_better = other.elapsed_s < chosen.elapsed_s
        is_kept = np.isin(codes, [c for c in options if c != code])
        take = is_named | (is_better & ~is_kept)
        chosen = _taken(take, chosen, other)
    return chosen


def _taken(take: Masks, chosen: Traffic, other: Traffic) -> Traffic:
    """The other where the mask says so."""
    return Traffic(*(np.where(take, b, a) for a, b in _paired(chosen, other)))


def _paired(a: Traffic, b: Traffic) -> Iterator[tuple[Column, Column]]:
    names = ("inside_s", "outside_s", "elapsed_s", "inside_bytes", "outside_bytes")
    told = ("timed_s", "guessed_s") if a.has_times or b.has_times else ()
    return ((getattr(a, n), getattr(b, n)) for n in (*names, *told))
