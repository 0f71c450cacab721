"""Bytes per network tier of a whole step: the closed form against every rank sending its own.

Ranks of worlds up to 64 are listed with their coordinates, groups are read off the coordinates,
and every collective of a step is sent flow by flow as its own file says. Which layers a stage
holds and which algorithm is taken are not in question here, only who sends how much to whom.
"""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from costdata.catalog import load
from planner.space.blocks import bills, blocks, columns, make_space
from planner.space.rule import ChipSizes
from planner.space.rules import model_counts
from planner.study.read import study_from_text
from planner.training.evaluate import training_plans
from simkernel import plugins
from simkernel.candidates import CONTEXT_EXCHANGE
from simkernel.exchange import distinct_domains
from simkernel.memory import Reserve
from simkernel.models import Core, LayerKind, Model, Weight
from simkernel.placement import ORDERS
from simkernel.stages import chunk_sizes, head_layers
from simkernel.train import training_step
from simkernel.workload import TrainingJob

HIDDEN, HEADS, KV_HEADS, VOCAB, TOKENS, LAYERS = 512, 8, 4, 4096, 1024, 8
EXPERTS, TOP_K, WIDTH, SHARED = 16, 4, 256, 256
BF16_BYTES, FP32_BYTES = 2, 4
JOB = TrainingJob(1e9, TOKENS, 1e12)
ROWS = 240
STUDY = """
[study]
name = "ranks"
kind = "train"
[workload.w]
model = "m"
tokens = 1e9
tokens_per_sequence = 1024
[axes]
accelerator = "H100-SXM"
devices = [1, 2, 4, 8, 16, 32, 64]
supernode_devices = [1, 4, 8, 16, 64]
tensor_parallel = [1, 2, 4]
pipeline_parallel = [1, 2, 4]
context_parallel = [1, 2, 4]
context_exchange = ["ring", "all_to_all"]
sequence_parallel = ["on", "off"]
expert_parallel = [1, 2, 4, 8, 16]
expert_tensor_parallel = [1, 2]
schedule = ["1f1b", "interleaved", "combined_1f1b", "zero_bubble", "dual_pipe", "dual_pipe_v"]
virtual_stages = [1, 2]
micro_batch_sequences = [1, 2]
global_batch_sequences = [128, 256]
zero_stage = [0, 1, 3]
shard_devices = [0, 2, 4, 8]
placement = ["tp-cp-dp-pp", "tp-cp-pp-dp", "tp-pp-cp-dp", "cp-tp-dp-pp", "tp-dp-cp-pp"]
collective = ["ring", "hierarchical", "direct"]
"""


def model(experts):
    """Eight layers, grouped keys and values; two dense ones and six with experts, or all dense."""
    dim = HIDDEN // HEADS
    attention = (
        Weight("q", HIDDEN, HIDDEN, "column"),
        Weight("kv", HIDDEN, 2 * KV_HEADS * dim, "column"),
        Weight("o", HIDDEN, HIDDEN, "row"),
    )
    core = Core("softmax", HEADS, KV_HEADS, dim, dim)
    mlp = (Weight("gate_up", HIDDEN, 2 * WIDTH, "column"), Weight("down", WIDTH, HIDDEN, "row"))
    dense = LayerKind("dense", (*attention, *mlp), core, 2 * HIDDEN, "dense", WIDTH)
    mixture = (
        Weight("router", HIDDEN, EXPERTS, "replicated"),
        Weight("shared_gate_up", HIDDEN, 2 * SHARED, "column"),
        Weight("shared_down", SHARED, HIDDEN, "row"),
        Weight("expert_gate_up", HIDDEN, 2 * WIDTH, "expert_column", EXPERTS, TOP_K),
        Weight("expert_down", WIDTH, HIDDEN, "expert_row", EXPERTS, TOP_K),
    )
    moe = LayerKind(
        name="moe",
        weights=(*attention, *mixture),
        core=core,
        vector_parameters=2 * HIDDEN,
        mlp="moe",
        mlp_width=WIDTH,
        experts=EXPERTS,
        top_k=TOP_K,
        shared_width=SHARED,
    )
    codes = (0,) * LAYERS if not experts else (0, 0, *(1,) * (LAYERS - 2))
    return Model("m", HIDDEN, VOCAB, False, TOKENS, (dense, moe), codes)


DERIVED = ("etp", "ep", "edp")
"""Coordinates of experts, counted over the ranks of one stage."""


@dataclass(frozen=True)
class World:
    """Every rank of a plan: its coordinates and its scale-up domain."""

    plan: SimpleNamespace
    ranks: tuple[dict[str, int], ...]

    def groups(self, *varying):
        """Lists of ranks that differ only in the given coordinates, in rank order."""
        found = {}
        for at in self.ranks:
            key = tuple(v for name, v in at.items() if name not in (*varying, "rank", *DERIVED))
            found.setdefault(key, []).append(at["rank"])
        return list(found.values())

    def expert_groups(self, varying):
        """The same for experts: ranks of a stage that differ in ep, etp or edp."""
        found = {}
        for at in self.ranks:
            key = tuple(at[name] for name in ("pp", *DERIVED) if name != varying)
            found.setdefault(key, []).append(at["rank"])
        return list(found.values())


def world(plan, order):
    """Ranks numbered with the innermost dimension fastest, experts folded over each stage."""
    sizes = {"tp": plan.tp, "cp": plan.cp, "dp": plan.dp, "pp": plan.pp}
    stage_order = [name for name in order if name != "pp"]
    ranks = []
    for rank, at in enumerate(product(*(range(sizes[name]) for name in reversed(order)))):
        where = dict(zip(reversed(order), at, strict=True))
        index, step = 0, 1
        for name in stage_order:
            index, step = index + where[name] * step, step * sizes[name]
        where["etp"] = index % plan.etp
        where["ep"] = index // plan.etp % plan.ep
        where["edp"] = index // (plan.etp * plan.ep)
        ranks.append({"rank": rank, **where})
    return World(plan, tuple(ranks))


@cache
def played(name, operation, domains):
    """Bytes that each member sends inside and outside its domain, per byte of payload; (2, n).

    `domains` is the domain of each member, in rank order.
    """
    members, here = len(domains), domains.count(domains[0])
    sent = np.zeros((2, members))
    for step in plugins.find("collectives", name).phases(operation, members, here, 1.0):
        for source, target, share in step:
            sent[int(domains[source] != domains[target]), source] += share
    return sent


class Undecided(Exception):
    """The plan's collective cannot do an operation that several others do differently."""


def sent_by(name, operation, domains, far_frac):
    """Bytes of each member per byte of payload by the named file, else by any that does it.

    Where those would send differently the choice is a matter of time, and the plan is left out.
    Only two levels send a token once to a domain: `far_frac` of its copies.
    """
    options = {
        n: played(n, operation, domains) * [[1.0], [far_frac if n == "hierarchical" else 1.0]]
        for n in plugins.names("collectives")
        for module in (plugins.find("collectives", n),)
        if operation in module.OPERATIONS and (n == name or module.IN_BEST)
    }
    if name in options:
        return options[name]
    first, *others = options.values()
    if not all(np.allclose(other, first) for other in others):
        raise Undecided
    return first


class Meter:
    """Bytes every rank has sent, inside and outside its domain; (2, world)."""

    def __init__(self, plan):
        self.plan = plan
        self.bytes = np.zeros((2, plan.world))

    def collective(self, operation, groups, payload, far_frac=lambda domains: 1.0):
        """One collective on every group, with the payload of the stage it is on."""
        for ranks in groups:
            size = payload(ranks)
            if size and len(ranks) > 1:
                first = ranks[0] // self.plan.used
                domains = tuple(rank // self.plan.used - first for rank in ranks)
                far = far_frac(len(set(domains)))
                sent = sent_by(self.plan.collective, operation, domains, far)
                self.bytes[:, ranks] += sent * size

    def send(self, source, target, payload):
        """One message."""
        is_far = source // self.plan.used != target // self.plan.used
        self.bytes[int(is_far), source] += payload


def stage_layers(plan, shape):
    """Kinds of the layers of every stage."""
    stages = [[] for _ in range(plan.stages)]
    at = 0
    for i, size in enumerate(chunk_sizes(LAYERS, plan.stages * plan.vp, head_layers(shape))):
        kinds = [shape.kinds[code] for code in shape.layer_codes[at : at + size]]
        stages[i % plan.stages] += kinds
        at += size
    return stages


def on_device(plan, by_stage, i):
    """Of the stage of a device, and of the i-th from the other end where it serves two."""
    return by_stage[i] + by_stage[-1 - i] if plan.held > 1 else by_stage[i]


def walk(plan):
    """Devices that a micro-batch meets, first to last."""
    down = [*range(plan.pp)]
    return down + down[::-1] if plan.stages > plan.pp else down * plan.vp


def sent_by_ranks(plan, order, shape):
    """(2, world) bytes of one step, inside and outside the domains, from coordinates alone."""
    ranks, meter = world(plan, order), Meter(plan)
    stages = stage_layers(plan, shape)
    stage_of = [at["pp"] for at in ranks.ranks]

    def per_layer(each):
        """Payload of a group: `each(kind)` bytes over the layers of its stage, all step long."""
        return lambda group: (
            plan.count
            / plan.holders
            * sum(each(k) for k in on_device(plan, stages, stage_of[group[0]]))
        )

    tokens = plan.mbs * TOKENS / plan.cp
    tensor = ranks.groups("tp")
    wide = tokens * HIDDEN * BF16_BYTES
    # Both sub-blocks gather and scatter, forward and backward; backward gathers inputs again.
    # Ranks that work on all tokens add up what each sub-block gives, forward and backward.
    meter.collective("all_gather", tensor, per_layer(lambda kind: 3 * 2 * wide * plan.sp))
    meter.collective("reduce_scatter", tensor, per_layer(lambda kind: 2 * 2 * wide * plan.sp))
    meter.collective("all_reduce", tensor, per_layer(lambda kind: 2 * 2 * wide * (1 - plan.sp)))
    heads = KV_HEADS / min(plan.tp, KV_HEADS)
    keys = plan.mbs * TOKENS * heads * 2 * (HIDDEN // HEADS) * BF16_BYTES
    # Keys and values go round forward; backward they do again, and their gradients with them.
    goes_round = plan.exchange == "ring"
    context = ranks.groups("cp")
    meter.collective("all_gather", context, per_layer(lambda kind: 3 * keys * goes_round))
    scattered = (1 - goes_round) * scattered_bytes(plan)
    meter.collective("all_to_all", context, per_layer(lambda kind: scattered))
    expert_bytes(plan, ranks, meter, per_layer, tokens / plan.tp)
    sync_bytes(plan, ranks, meter, stages, stage_of)
    lines, group_of = ranks.groups("pp"), {rank: group for group in tensor for rank in group}
    for here, there in (pair for line in lines for pair in pairwise(line[i] for i in walk(plan))):
        for source, target in ((here, there), (there, here)):
            if here != there:
                meter.send(source, target, plan.count * wide / plan.tp)
                # Each rank of a tensor group sends a part, for its own share of one gather.
                part = plan.count * wide / plan.tp * (1 - plan.sp)
                meter.collective("all_gather", [group_of[target]], lambda group, p=part: p)
    return meter.bytes


def scattered_bytes(plan):
    """What a rank sends a layer where heads are scattered, its own part included, both ways.

    Counted head by head: a query head and its result go to the one rank that works on it, a
    key-value head to every rank that works on a query head of its group. The gradients of all
    four come back the same way. Ranks of a tensor group take runs of heads, their context ranks
    runs of those.
    """
    ranks, dim = plan.tp * plan.cp, HIDDEN // HEADS
    works_on = [set(range(r * HEADS // ranks, (r + 1) * HEADS // ranks)) for r in range(ranks)]
    tensor_rank = works_on[: plan.cp]
    queries = sum(len(heads) for heads in tensor_rank)
    keys = sum(len({head * KV_HEADS // HEADS for head in heads}) for heads in tensor_rank)
    values = (2 * queries + 2 * keys) * dim
    return 2 * values * plan.mbs * TOKENS / plan.cp * BF16_BYTES


def expert_bytes(plan, ranks, meter, per_layer, own_tokens):
    """Dispatch and combine, forward and backward, and what expert tensor ranks share of them."""
    copies = own_tokens * TOP_K * HIDDEN * BF16_BYTES * busiest(plan, own_tokens)
    kind = model(experts=True).kinds[1]

    def shared(domains):
        """One copy to each domain that holds an expert of the token, over all copies."""
        return min(distinct_domains(domains, kind) / TOP_K, 1.0) if domains > 1 else 1.0

    each = per_layer(lambda k: 4 * copies * (k.mlp == "moe"))
    meter.collective("all_to_all", ranks.expert_groups("ep"), each, shared)
    inner = per_layer(lambda k: 2 * copies * plan.etp * (k.mlp == "moe"))
    for operation in ("all_gather", "reduce_scatter"):
        meter.collective(operation, ranks.expert_groups("etp"), inner)


def busiest(plan, own_tokens):
    """Load of the busiest expert rank over the mean, by the extreme value the code quotes."""
    draws = own_tokens * plan.ep * plan.etp * TOP_K
    return 1 + np.sqrt(2 * np.log(plan.ep) * (plan.ep - 1) / draws)


def sync_bytes(plan, ranks, meter, stages, stage_of):
    """Gradients reduced and weights gathered over all copies of them."""
    dense = [sum(dense_parameters(plan, k) for k in kinds) for kinds in stages]
    expert = [sum(expert_parameters(plan, k) for k in kinds) for kinds in stages]
    dense[0] += VOCAB * HIDDEN / plan.tp
    dense[-1] += VOCAB * HIDDEN / plan.tp
    # A pipeline keeps whole weights and gradients until its step ends.
    each_time = plan.zero == 3 and plan.pp == 1
    gathers = 2 * plan.count if each_time else int(plan.zero > 0)
    reduces = plan.count if each_time else 1
    reduction = "all_reduce" if plan.zero == 0 else "reduce_scatter"
    for held, groups in (
        (dense, ranks.groups("cp", "dp")),
        (expert, ranks.expert_groups("edp")),
    ):
        runs = [run for group in groups for run in runs_of(group, plan.copies)]
        same = [
            list(row) for group in groups for row in zip(*runs_of(group, plan.copies), strict=True)
        ]
        for operation, members, each in (
            ("all_gather", runs, gathers * BF16_BYTES),
            (reduction, runs, reduces * FP32_BYTES),
            ("all_reduce", same, reduces * FP32_BYTES / (len(runs[0]) * plan.holders)),
        ):
            meter.collective(
                operation,
                members,
                lambda group, h=held, e=each: e * on_device(plan, h, stage_of[group[0]]),
            )
        mirror_bytes(plan, ranks, meter, held, len(runs[0]))


def mirror_bytes(plan, ranks, meter, held, replicas):
    """Shards of gradients and weights between the two devices that hold the same stages."""
    widths = (FP32_BYTES, FP32_BYTES if plan.zero == 0 else BF16_BYTES)
    for line in ranks.groups("pp") if plan.holders > 1 else []:
        for i, (source, target) in enumerate(zip(line, line[::-1], strict=True)):
            shard = on_device(plan, held, i) / replicas
            meter.send(source, target, shard / 2 * sum(widths))


def runs_of(group, copies):
    """A group in rank order cut into as many equal runs of neighbours as copies of the state."""
    size = len(group) // copies
    return [group[i : i + size] for i in range(0, len(group), size)]


def dense_parameters(plan, kind):
    """Of one layer on one rank: matrices cut by tensor ranks, heads of keys never, norms whole."""
    cut = {"column": plan.tp, "row": plan.tp, "replicated": 1}
    total = kind.vector_parameters
    for weight in kind.weights:
        if weight.name == "kv":
            total += weight.parameters / min(plan.tp, KV_HEADS)
        elif weight.split in cut:
            total += weight.parameters / cut[weight.split]
    return total


def expert_parameters(plan, kind):
    """Of one layer on one rank."""
    held = sum(w.parameters for w in kind.weights if w.split.startswith("expert"))
    return held / (plan.ep * plan.etp)


def rows_of(shape):
    """Random plans of the space, and their coordinates as the enumeration reads them."""
    study = study_from_text(STUDY, "x", Path("/"))
    sizes = {"H100-SXM": ChipSizes((1, 4, 8, 16, 64), 8)}
    space = make_space(study, model_counts(shape, study.training), sizes)
    parts = [
        training_plans(SimpleNamespace(space=space), columns(space, block))
        for bill in bills(space)
        for block in blocks(space, bill)
        if len(block)
    ]
    names = parts[0].__dataclass_fields__
    whole = {n: np.concatenate([getattr(p, n) for p in parts]) for n in names}
    every = type(parts[0])(**whole)
    rng = np.random.default_rng(7)
    return every.take(rng.choice(len(every), size=ROWS, replace=False))


def plan_at(plans, step, i):
    """One row in short names."""
    return SimpleNamespace(
        world=int(plans.devices[i]),
        used=int(step.used_per_domain[i]),
        tp=int(plans.tensor_parallel[i]),
        cp=int(plans.context_parallel[i]),
        exchange=CONTEXT_EXCHANGE[plans.context_exchange_code[i]],
        sp=int(plans.sequence_parallel[i] or plans.tensor_parallel[i] == 1),
        dp=int(plans.data_parallel[i]),
        pp=int(plans.pipeline_parallel[i]),
        vp=int(plans.virtual_stages[i]),
        held=int(plans.stages_held[i]),
        holders=int(plans.stage_copies[i]),
        stages=int(plans.model_stages[i]),
        ep=int(plans.expert_parallel[i]),
        etp=int(plans.expert_tensor_parallel[i]),
        mbs=int(plans.micro_batch_sequences[i]),
        count=int(plans.micro_batches[i]),
        zero=int(plans.zero_stage[i]),
        copies=int(plans.state_copies[i]),
        collective=plugins.names("collectives")[plans.collective_code[i]],
    )


@pytest.mark.long
@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
def test_bytes_per_tier_equal_what_every_rank_sends(experts):
    """A plan would be advised for traffic that its ranks, where they sit, do not have."""
    shape = model(experts)
    plans = rows_of(shape)
    step = training_step(JOB, shape, load().chips(["H100-SXM"]), plans, Reserve(0.0, 0.0))
    seen = 0
    for i in range(len(plans)):
        plan = plan_at(plans, step, i)
        try:
            sent = sent_by_ranks(plan, ORDERS[plans.placement_code[i]], shape)
        except Undecided:
            continue
        seen += 1
        inside, outside = sent.mean(axis=1)
        assert step.inside_bytes[i] == pytest.approx(inside, rel=1e-12), plan
        assert step.outside_bytes[i] == pytest.approx(outside, rel=1e-12), plan
    assert seen > ROWS / 2


@pytest.mark.parametrize(
    ("experts", "top_k", "groups", "used"), [(16, 4, 1, 1), (64, 8, 1, 1), (256, 8, 8, 4)]
)
@pytest.mark.parametrize("domains", [2, 4, 8, 16])
def test_a_token_goes_to_as_many_domains_as_random_scores_send_it(
    experts, top_k, groups, used, domains
):
    """Bytes on the scale-out network would not be those of a router that is evenly random.

    The closed form draws with replacement and groups without looking at their scores: it is low
    by up to a tenth.
    """
    rng = np.random.default_rng(3)
    scores = rng.random((4000, groups, experts // groups))
    best_two = np.sort(scores, axis=2)[:, :, -2:].sum(axis=2)  # DeepSeek-V3 report, section 2.1.2
    beaten = np.argsort(-best_two, axis=1)[:, used:]
    np.put_along_axis(scores, beaten[:, :, None], -1.0, axis=1)
    chosen = np.argsort(-scores.reshape(len(scores), experts), axis=1)[:, :top_k]
    reached = np.zeros((len(scores), domains), dtype=bool)
    np.put_along_axis(reached, chosen // (experts // domains), True, axis=1)
    kind = LayerKind("moe", (), None, 0, "moe", 1, True, experts, top_k, 0, groups, used)
    closed = distinct_domains(np.array([float(domains)]), kind)[0]
    assert closed == pytest.approx(reached.sum(axis=1).mean(), rel=0.1)
