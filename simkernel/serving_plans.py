"""One column per decision of a serving plan: how one replica is cut, and what it may hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Floats
from simkernel.hardware import Columns
from simkernel.placement import Degrees


@dataclass(frozen=True)
class ServingPlans(Columns):
    """Candidates of a serving study, one replica each; every field (n,).

    Attention is cut by `tensor_parallel` and copied `attention_data_parallel` times, each copy
    with its own requests; experts are cut over all devices of a stage by `expert_parallel` and
    `expert_tensor_parallel`. `precision_code`, `expert_precision_code` are those of the products,
    `cache_bytes_per_value` of keys and values. `max_sequences` run at most, `budget_tokens` tokens
    enter one step at most. `draft_code` says who drafts: 0 nobody that takes time, else its place
    among the model's drafters plus one; `drafted_tokens` are guessed ahead in a step, of which the
    first is right with `first_accept_frac`, each further one with `later_accept_frac` if those
    before it are. `micro_batches`, 1 or 2, hide each other's exchange between experts.
    `copied_experts` hold the busiest experts once more, over all devices of a stage.
    """

    supernode_devices: Codes
    scaleout_fabric_code: Codes
    oversubscription: Floats
    tensor_parallel: Codes
    pipeline_parallel: Codes
    attention_data_parallel: Codes
    expert_parallel: Codes
    expert_tensor_parallel: Codes
    precision_code: Codes
    expert_precision_code: Codes
    cache_bytes_per_value: Floats
    max_sequences: Floats
    budget_tokens: Floats
    collective_code: Codes
    placement_code: Codes
    draft_code: Codes
    drafted_tokens: Floats
    first_accept_frac: Floats
    later_accept_frac: Floats
    micro_batches: Codes
    copied_experts: Floats

    @property
    def devices(self) -> Codes:
        """Devices of one replica; every degree counts once, experts share the others' devices."""
        return self.tensor_parallel * self.attention_data_parallel * self.pipeline_parallel

    @property
    def degrees(self) -> Degrees:
        """Group sizes for the placement room."""
        return Degrees(
            tensor=self.tensor_parallel,
            context=np.ones_like(self.tensor_parallel),
            data=self.attention_data_parallel,
            pipeline=self.pipeline_parallel,
            expert=self.expert_parallel,
            expert_tensor=self.expert_tensor_parallel,
        )


REAL = (
    "oversubscription", "cache_bytes_per_value", "max_sequences", "budget_tokens",
    "drafted_tokens", "first_accept_frac", "later_accept_frac", "copied_experts",
)  # fmt: skip
PLAIN = {
    "supernode_devices": 8,
    "scaleout_fabric_code": 0,
    "precision_code": 0,
    "expert_precision_code": 0,
    "cache_bytes_per_value": 2.0,
    "max_sequences": 1024.0,  # vLLM V1 default max_num_seqs on large devices
    "budget_tokens": 8192.0,  # vLLM V1 and TensorRT-LLM default max_num_batched_tokens
    "collective_code": 1,  # hierarchical: what the link curves of all-reduces were fitted with
    "placement_code": 0,
    "draft_code": 0,
    "drafted_tokens": 0.0,
    "first_accept_frac": 0.0,
    "later_accept_frac": 0.0,
    "micro_batches": 1,
    "copied_experts": 0.0,
}


def serving_plan_of(**decisions: float) -> ServingPlans:
    """One plan as a table of length 1; decisions left out take the plainest value."""
    ones = dict.fromkeys(ServingPlans.__dataclass_fields__, 1.0)
    merged = {**ones, **PLAIN, **decisions}
    return ServingPlans(
        **{k: np.array([v], dtype=float if k in REAL else np.int64) for k, v in merged.items()}
    )
