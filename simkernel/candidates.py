"""One column per decision of a training plan; what follows from decisions is a property."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simkernel import plugins
from simkernel.columns import Codes, Floats, Masks
from simkernel.hardware import Columns
from simkernel.placement import Degrees

RECOMPUTE = ("none", "selective", "full")
"""Activation recomputation; a recompute axis stores the index."""

CONTEXT_EXCHANGE = ("ring", "all_to_all")
"""How context ranks meet in the attention core; a context_exchange axis stores the index.

Keys and values go round, or heads are scattered and the sequence is gathered around the core.
"""

PLAIN_SCHEDULE = "one_forward_one_backward"
"""The schedule of a plan that names none."""

OFFLOAD = (
    "none", "optimizer", "half_activations", "activations",
    "pool_optimizer", "pool_half_activations", "pool_activations",
)  # fmt: skip
"""State kept in the host's memory, or in a pool of memory; an offload axis stores the index."""

ACTIVATIONS_OFFLOADED_FRAC = np.array((0.0, 0.0, 0.5, 1.0, 0.0, 0.5, 1.0))
IS_OPTIMISER_OFFLOADED = np.array([name.endswith("optimizer") for name in OFFLOAD])
IS_IN_POOL = np.array([name.startswith("pool_") for name in OFFLOAD])


@dataclass(frozen=True)
class TrainingPlans(Columns):
    """Candidates of a training study; every field (n,). Codes index the tuples they name.

    `supernode_devices` is the scale-up domain; `sequence_parallel` is 1 where norms and residuals
    are cut over the tensor group, 0 where every rank of it works on all tokens;
    `first_stage_layers` and `last_stage_layers` are 0 where `stages` cuts them; `schedule_code`
    and `collective_code` index `plugins.names`, a collective code one past the last means the best
    of all.
    """

    devices: Codes
    supernode_devices: Codes
    scaleout_fabric_code: Codes
    oversubscription: Floats
    tensor_parallel: Codes
    pipeline_parallel: Codes
    context_parallel: Codes
    expert_parallel: Codes
    expert_tensor_parallel: Codes
    sequence_parallel: Codes
    virtual_stages: Codes
    first_stage_layers: Codes
    last_stage_layers: Codes
    micro_batch_sequences: Codes
    global_batch_sequences: Codes
    context_exchange_code: Codes
    zero_stage: Codes
    shard_devices: Codes
    recompute_code: Codes
    offload_code: Codes
    schedule_code: Codes
    precision_code: Codes
    placement_code: Codes
    collective_code: Codes
    power_cap_frac: Floats

    @property
    def data_parallel(self) -> Codes:
        """Replicas: what the other degrees leave of the devices."""
        degrees = self.tensor_parallel * self.pipeline_parallel * self.context_parallel
        return self.devices // degrees

    @property
    def head_ranks(self) -> Codes:
        """Context ranks over which heads are scattered around the core; 1 where keys go round."""
        is_scattered = self.context_exchange_code == CONTEXT_EXCHANGE.index("all_to_all")
        return np.where(is_scattered, self.context_parallel, 1)

    @property
    def micro_batches(self) -> Codes:
        """Micro-batches of one replica in one step."""
        return self.global_batch_sequences // (self.data_parallel * self.micro_batch_sequences)

    @cached_property
    def stages_held(self) -> Codes:
        """Stages that one device serves: 1, or 2 from either end of the pipeline."""
        return plugins.constants("schedules", "TRAITS.stages_held", self.schedule_code)

    @cached_property
    def stage_copies(self) -> Codes:
        """Devices along a pipeline that serve the same stage."""
        return plugins.constants("schedules", "TRAITS.stage_copies", self.schedule_code)

    @cached_property
    def has_folds(self) -> bool:
        """In some plan a device serves two stages."""
        return bool(np.any(self.stages_held > 1))

    @cached_property
    def runs_pairs(self) -> Masks:
        """Forward and backward passes run beside each other."""
        return plugins.constants("schedules", "TRAITS.runs_pairs", self.schedule_code)

    @cached_property
    def has_pairs(self) -> bool:
        """Some plan runs pairs."""
        return bool(np.any(self.runs_pairs))

    @property
    def frees_in_pairs(self) -> Masks:
        """Pairs keep a layer of one micro-batch as they free one of another."""
        return plugins.constants("schedules", "TRAITS.frees_in_pairs", self.schedule_code)

    @property
    def model_stages(self) -> Codes:
        """Stages that the model is cut into, virtual ones apart."""
        if not self.has_folds:
            return self.pipeline_parallel
        return self.pipeline_parallel * self.stages_held // self.stage_copies

    @property
    def given_layers(self) -> tuple[Codes, Codes]:
        """Layers of the first and of the last stage, 0 where they are not given."""
        return self.first_stage_layers, self.last_stage_layers

    @property
    def state_copies(self) -> Codes:
        """Whole copies of what ZeRO shares out; 1 where all data-parallel ranks share it.

        `shard_devices` ranks share one copy, 0 stands for all of them.
        """
        ranks = self.data_parallel * self.context_parallel
        return np.where(self.shard_devices > 0, ranks // np.maximum(self.shard_devices, 1), 1)

    @property
    def is_gradient_cut(self) -> Masks:
        """Gradients are reduced and sharded after every micro-batch: ZeRO-2 and 3 in one stage.

        A pipeline keeps whole gradients over its micro-batches and reduces them once.
        """
        return (self.zero_stage >= 2) & (self.pipeline_parallel == 1)

    @property
    def is_weight_cut(self) -> Masks:
        """Weights are gathered anew for every pass: ZeRO-3 in one stage.

        A pipeline keeps what it has gathered until the step ends, as torchtitan does by default
        (reshard_after_forward off with pipeline parallelism).
        """
        return (self.zero_stage >= 3) & (self.pipeline_parallel == 1)

    @property
    def offloaded_activation_frac(self) -> Floats:
        """Share of the layers whose activations wait in host memory or a pool."""
        return ACTIVATIONS_OFFLOADED_FRAC[self.offload_code]

    @property
    def is_optimiser_on_host(self) -> Masks:
        """Optimiser state lives in host memory or a pool, where the host updates it."""
        return IS_OPTIMISER_OFFLOADED[self.offload_code]

    @property
    def is_in_pool(self) -> Masks:
        """What is offloaded lives in the memory pool, not in the host."""
        return IS_IN_POOL[self.offload_code]

    @property
    def degrees(self) -> Degrees:
        """Group sizes for the placement room."""
        return Degrees(
            tensor=self.tensor_parallel,
            context=self.context_parallel,
            data=self.data_parallel,
            pipeline=self.pipeline_parallel,
            expert=self.expert_parallel,
            expert_tensor=self.expert_tensor_parallel,
        )


def plan_of(**decisions: float) -> TrainingPlans:
    """One plan as a table of length 1; decisions left out take the plainest value."""
    plain: dict[str, float] = {
        "oversubscription": 1.0,
        "power_cap_frac": 1.0,
        "scaleout_fabric_code": 0,
        "first_stage_layers": 0,
        "last_stage_layers": 0,
        "zero_stage": 1,
        "shard_devices": 0,
        "context_exchange_code": 0,
        "recompute_code": 0,
        "offload_code": 0,
        "schedule_code": plugins.code("schedules", PLAIN_SCHEDULE),
        "precision_code": 0,
        "placement_code": 0,
        "collective_code": 0,
    }
    ones = dict.fromkeys(TrainingPlans.__dataclass_fields__, 1.0)
    real = {"oversubscription", "power_cap_frac"}
    merged = {**ones, **plain, **decisions}
    return TrainingPlans(
        **{k: np.array([v], dtype=float if k in real else np.int64) for k, v in merged.items()}
    )
