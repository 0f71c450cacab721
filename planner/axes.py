"""What may be varied: one table of every axis of a study, and the values each may take.

A folder of algorithms (`simkernel/collectives`, `simkernel/schedules`) adds its own names. What a
value does to time, memory or watts is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from types import MappingProxyType

from costdata.profiles import COMPILED, HOPPER, SHIPPED, UNFUSED, VENDOR, XLA
from simkernel import plugins
from simkernel.candidates import CONTEXT_EXCHANGE, OFFLOAD
from simkernel.drafting import MOST_DRAFTED
from simkernel.hardware import PRECISIONS, SCALEOUT_FABRICS, TOPOLOGIES

Level = int | float | str
"""One value of an axis: a count, a quantity or a name."""

MOST_GBYTES_PER_S = 1e5  # a hundred times what any chip of the catalogue has; more is a slip
MOST_DEVICES = {"chassis_devices": 1024, "supernode_devices": 1_000_000}
MOST_AT_WORK = 10_000_000
"""Our choice: a server of thousands, a domain of millions of chips is a slip, and a cluster beyond
ten million is outside of every fact here."""
OFFERED = "offered"
CATALOGUE = "catalogue"
DERIVED = "derived"
ALL = "all"
MOST = "most"
CACHES = ("bf16", "fp16", "fp8")
"""Precisions of an attention cache that decoding was timed with."""

DEFAULT_SCHEDULE = "one_forward_one_backward"
DEFAULT_PLACEMENT = "tp-cp-ep-dp-pp"

ROOFLINE, MEASURED, TILED = "roofline", "measured", "tiled"
"""Sources of kernel times: curves alone, a user's times before them, or products by tiles."""

NO_DRAFTS, DRAFTS = "none", ("mtp", "eagle", "draft")
"""Ways of drafting ahead: the model's prediction layers, a trained head, a small model."""
NO_PREFIX_CACHE, LRU = "none", "lru"
ONE_BATCH, TWO_BATCHES = "none", "two_batch"
AFTER_PREFILL, LAYER_WISE = "after_prefill", "layer_wise"

TRAIN = ("train", "mixed", "fleet")
SERVE = ("serve", "mixed", "fleet")
WORK = ("train", "serve", "mixed", "fleet")
EVERY = (*WORK, "hardware")


@dataclass(frozen=True)
class Axis:
    """One decision.

    Parameters
    ----------
    name : the word used in the study file, in JSON and in the database
    unit : unit of its values, "" for counts and names
    kinds : kinds of study that have it
    values : "integer", "number" or "name"
    default : levels taken when the study leaves it out; () when the study has to give it
    doc : what it decides
    short : alias accepted by --set, "" if none
    least, most : bounds of a number, inclusive
    names : names it may take; () for any name
    words : names allowed beside numbers ("offered", "catalogue", "derived", "most")
    ready : names or numbers whose physics is in this version; () for all
    is_bill : True where it says what hardware is bought, False where it says how it is used
    """

    name: str
    unit: str
    kinds: tuple[str, ...]
    values: str
    default: tuple[Level, ...]
    doc: str
    short: str = ""
    least: float = 1
    most: float = math.inf
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    ready: tuple[Level, ...] = ()
    is_bill: bool = False


def _bill_axes() -> Iterator[Axis]:
    yield _bill("accelerator", "", "name", (), 'chips by catalogue name, or "all"')
    yield _bill("devices", "", "integer", (), "chips at work")
    yield _bill("nodes", "", "integer", (), "hosts at work, instead of devices")
    yield _bill("supernodes", "", "integer", (), "scale-up domains at work, instead of devices")
    yield _bill("supernode_devices", "", "integer", (OFFERED,), "chips in one scale-up domain")
    doc = "chips in one server or tray"
    yield replace(_bill("chassis_devices", "", "integer", (OFFERED,), doc), kinds=WORK)
    for tier, doc in (("scaleup", "inside a domain"), ("scaleout", "between domains")):
        rate = f"rate of one chip, one direction, {doc}"
        yield _bill(f"{tier}_gbytes_per_s", "GB/s", "number", (CATALOGUE,), rate)
    yield _bill("scaleup_topology", "", "name", (CATALOGUE,), "shape of a domain")
    yield _bill("scaleout_fabric", "", "name", (CATALOGUE,), "kind of network between domains")
    yield _bill("oversubscription", "", "number", (1,), "rate at the hosts over rate at the spine")


SHAPES: dict[str, tuple[str, ...]] = {
    "scaleup_topology": (CATALOGUE, *TOPOLOGIES),
    "scaleout_fabric": SCALEOUT_FABRICS,
}
"""Names that an axis of shapes takes."""


def _bill(name: str, unit: str, values: str, default: tuple[Level, ...], doc: str) -> Axis:
    """An axis of the hardware bill; its default word is the one word it takes."""
    return Axis(
        name,
        unit,
        EVERY,
        values,
        default,
        doc,
        least=1e-3 if unit else 1,
        most=MOST_GBYTES_PER_S if unit else _most(name, values),
        words=tuple(word for word in default if isinstance(word, str)),
        names=SHAPES.get(name, ()),
        is_bill=True,
    )


def _most(name: str, values: str) -> float:
    """Bound of a count of chips, hosts or domains."""
    return MOST_DEVICES.get(name, MOST_AT_WORK) if values == "integer" else math.inf


def _split_axes() -> Iterator[Axis]:
    for name, short, doc in (
        ("tensor_parallel", "tp", "chips that split each matrix"),
        ("pipeline_parallel", "pp", "stages the layers are cut into"),
        ("context_parallel", "cp", "chips that split each sequence"),
        ("expert_parallel", "ep", "chips that share out the experts"),
        ("expert_tensor_parallel", "etp", "chips that split each expert"),
    ):
        yield Axis(name, "", WORK, "integer", (1,), doc, short)
    doc = "replicas, devices / (tensor x pipeline x context); given values keep only these"
    yield Axis("data_parallel", "", WORK, "integer", (DERIVED,), doc, "dp", words=(DERIVED,))


def _train_axes() -> tuple[Axis, ...]:
    return (
        Axis(
            "schedule", "", TRAIN, "name", (DEFAULT_SCHEDULE,),
            "order of passes in the pipeline", names=plugins.names("schedules"),
        ),
        Axis(
            "virtual_stages", "", TRAIN, "integer", (1,),
            "pieces of the model each pipeline stage holds", "vp",
        ),
        Axis(
            "first_stage_layers", "", TRAIN, "integer", (0,),
            "layers of the first pipeline stage; 0: its share", least=0,
        ),
        Axis(
            "last_stage_layers", "", TRAIN, "integer", (0,),
            "layers of the last pipeline stage; 0: fewer by what the head weighs", least=0,
        ),
        Axis(
            "micro_batch_sequences", "", TRAIN, "integer", (1,),
            "sequences in one pass", "mbs",
        ),
        Axis(
            "global_batch_sequences", "", TRAIN, "integer", (),
            "sequences in one optimiser step", "gbs",
        ),
    )  # fmt: skip


def _use_axes() -> tuple[Axis, ...]:
    return (
        Axis(
            "placement", "", WORK, "name", (DEFAULT_PLACEMENT,),
            "which group sits on neighbouring chips, innermost first", names=_placements(),
        ),
        Axis(
            "sequence_parallel", "", TRAIN, "name", ("on",),
            "tensor ranks share out the tokens of norms and residuals too", names=("on", "off"),
        ),
        Axis(
            "context_exchange", "", TRAIN, "name", ("ring",),
            "around the attention core: keys and values go round, or heads are scattered",
            names=CONTEXT_EXCHANGE,
        ),
        Axis(
            "zero_stage", "", TRAIN, "integer", (1,),
            "what replicas share out: 0 nothing, 1 optimiser, 2 + gradients, 3 + weights",
            least=0, most=3,
        ),
        Axis(
            "shard_devices", "", TRAIN, "integer", (0,),
            "replicas that share out one copy of what zero_stage says; 0: all of them", least=0,
        ),
        Axis(
            "recompute", "", TRAIN, "name", ("none",),
            "activations computed again instead of kept", names=("none", "selective", "full"),
        ),
        Axis(
            "precision", "", EVERY, "name", ("bf16",), "of the matrix products", names=PRECISIONS,
        ),
        Axis(
            "collective", "", WORK, "name", ("best",),
            "algorithm of the collectives", names=("best", *plugins.names("collectives")),
        ),
        Axis(
            "power_cap_frac", "", EVERY, "number", (1,),
            "power limit over the chip's rated power", short="cap", least=0.3, most=1,
        ),
        Axis(
            "profile", "", WORK, "name", (SHIPPED,),
            "kind of software stack; shipped is XLA on a TPU, else the vendor's newest",
            names=(SHIPPED, VENDOR, HOPPER, COMPILED, XLA, UNFUSED),
        ),
        Axis(
            "compute", "", WORK, "name", (ROOFLINE,),
            "source of kernel times: curves of chips, your own times, or products by tiles",
            names=(ROOFLINE, MEASURED, TILED),
        ),
        Axis(
            "offload", "", TRAIN, "name", ("none",),
            "state kept in the host's memory, or in a pool of memory", names=OFFLOAD,
        ),
    )  # fmt: skip


def _serve_axes() -> tuple[Axis, ...]:
    return (
        Axis(
            "batching", "", SERVE, "name", ("chunked_prefill",), "policy that forms batches",
            names=plugins.names("batching"), ready=("chunked_prefill", "continuous", "sarathi"),
        ),
        Axis("max_batch", "", SERVE, "integer", (256,), "requests decoded together, at most"),
        Axis("token_budget", "", SERVE, "integer", (8192,), "tokens in one pass, at most"),
        Axis(
            "kv_precision", "", SERVE, "name", ("bf16",), "of the attention cache",
            names=PRECISIONS, ready=CACHES,
        ),
        Axis(
            "attention_data_parallel", "", SERVE, "integer", (1,), "replicas of the attention part"
        ),
        Axis(
            "replicas", "", SERVE, "integer", (DERIVED,), "copies of the service, from the load",
            words=(DERIVED,),
        ),
        Axis(
            "speculative", "", SERVE, "name", (NO_DRAFTS,),
            "who drafts how many tokens ahead in each step: mtp:1, eagle:3, draft:4",
            names=(NO_DRAFTS, *(f"{m}:{k}" for m in DRAFTS for k in range(1, MOST_DRAFTED + 1))),
        ),
        Axis(
            "batch_overlap", "", SERVE, "name", (ONE_BATCH,),
            "two micro-batches hide each other's exchange between experts, or one batch",
            names=(ONE_BATCH, TWO_BATCHES),
        ),
        Axis(
            "redundant_experts", "", SERVE, "integer", (0,),
            "slots for second copies of the busiest experts, in all", least=0,
        ),
        Axis(
            "prefix_cache", "", SERVE, "name", (NO_PREFIX_CACHE,),
            "blocks of prompts that begin alike are shared, the least recently used go first",
            names=(NO_PREFIX_CACHE, LRU),
        ),
        Axis(
            "kv_tiers", "", SERVE, "name", ("device",), "where the cache may be kept",
            ready=("device",),
        ),
        Axis(
            "routing", "", SERVE, "name", ("least_loaded",), "policy that picks a replica",
            names=plugins.names("routing"),
        ),
        Axis(
            "kv_transfer", "", SERVE, "name", (AFTER_PREFILL,),
            "when keys and values go from prefill to decode: after the prompt, or layer by layer",
            names=(AFTER_PREFILL, LAYER_WISE),
        ),
    )  # fmt: skip


def _placements() -> tuple[str, ...]:
    """Every nesting of tp, cp, dp and pp, the default first; experts fold over cp and dp."""
    orders = ("-".join(order) for order in permutations(("tp", "cp", "dp", "pp")))
    every = (order.replace("dp", "ep-dp") for order in orders)
    return (DEFAULT_PLACEMENT, *(order for order in every if order != DEFAULT_PLACEMENT))


AXES: Mapping[str, Axis] = MappingProxyType(
    {
        axis.name: axis
        for axis in (
            *_bill_axes(),
            *_split_axes(),
            *_train_axes(),
            *_use_axes(),
            *_serve_axes(),
        )
    }
)
"""Every axis by name, in the order a space binds them: hardware bill first, free choices last."""

SHORT_NAMES: Mapping[str, str] = MappingProxyType(
    {axis.short: axis.name for axis in AXES.values() if axis.short}
)
"""Aliases accepted by --set: tp, pp, vp, cp, ep, etp, dp, mbs, gbs, cap."""

ALIASES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "schedule": {
            "1f1b": DEFAULT_SCHEDULE,  # a Python file cannot start with a digit
            "zb_h1": "zero_bubble",
            "zb_h2": "zero_bubble_h2",
            "zb_v": "zero_bubble_v",
            "dualpipe": "dual_pipe",
            "dualpipev": "dual_pipe_v",
        },
        "speculative": {"off": NO_DRAFTS, **{method: f"{method}:1" for method in DRAFTS}},
        "placement": {name.replace("ep-", ""): name for name in AXES["placement"].names},
    }
)
"""Other spellings of names, by axis: expert groups always fold inside the replicas."""

COUNTS = ("devices", "nodes", "supernodes")
"""Three ways to say how many chips; a study gives one of them."""


def axes_of(kind: str) -> tuple[Axis, ...]:
    """The axes that a kind of study has, in order.

    A study of hardware alone may ask for as much as its limits allow, one of serving for as much
    as its load needs.
    """
    found = tuple(axis for axis in AXES.values() if kind in axis.kinds)
    if kind == "serve":
        return tuple(replace(a, words=(DERIVED,)) if a.name == "devices" else a for a in found)
    if kind != "hardware":
        return found
    return tuple(replace(a, words=(MOST,)) if a.name in COUNTS else a for a in found)


def wanted(axis: Axis) -> str:
    """What an axis accepts, in words, for an error message."""
    if axis.values == "name":
        return _wanted_names(axis)
    noun = "whole numbers" if axis.values == "integer" else "numbers"
    bounds = f"of at least {axis.least:g}"
    if axis.most < math.inf:
        bounds = f"from {axis.least:g} to {axis.most:g}"
    words = "".join(f' or "{word}"' for word in axis.words)
    return f'{noun} {bounds}: one, a list or {{ from, to, step = "x2" | number }}{words}'


def _wanted_names(axis: Axis) -> str:
    if not axis.names:
        return "a name or a list of names"
    shown = ", ".join(axis.names[:10]) + (", …" if len(axis.names) > 10 else "")
    return f"one or a list of: {shown}"
