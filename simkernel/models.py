"""The shape of a model: which matrices a token meets, and what attention remembers.

The same list of matrices gives the parameter count, the FLOPs and the bytes, so the three
cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weight:
    """One matrix, or `copies` equal ones of which a token meets `used`.

    Parameters
    ----------
    name : "q", "kv_a", "gate_up", "router", "expert_down", ...
    inputs, outputs : inner and outer width of the product a token makes with it
    split : how tensor parallelism cuts it: "column" | "row" | "replicated"; experts are cut by
        expert parallelism first: "expert_column" | "expert_row"
    copies : how many such matrices the layer holds (experts)
    used : how many of them one token meets (top_k)
    """

    name: str
    inputs: int
    outputs: int
    split: str
    copies: int = 1
    used: float = 1.0

    @property
    def parameters(self) -> int:
        """All copies."""
        return self.inputs * self.outputs * self.copies

    @property
    def active_parameters(self) -> float:
        """What one token meets."""
        return self.inputs * self.outputs * self.used


@dataclass(frozen=True)
class Core:
    """The part of a mixer that is not a matrix product with weights.

    kind "softmax": every query meets the keys before it. `window` > 0 limits them to the last
    `window` tokens, `selected_keys` > 0 to that many chosen by an indexer (sparse attention).
    kind "mla": softmax over a latent cache of `latent` values (not divided by tensor parallel).
    kind "state": linear attention or a state-space layer with a state of `state_values` per
    sequence and `state_flop_per_token` multiply-adds x 2, no cache growing with length.
    """

    kind: str
    heads: int = 0
    kv_heads: int = 0
    key_dim: int = 0
    value_dim: int = 0
    latent: int = 0
    window: int = 0
    selected_keys: int = 0
    index_heads: int = 0
    index_dim: int = 0
    state_values: int = 0
    state_flop_per_token: float = 0.0


@dataclass(frozen=True)
class LayerKind:
    """One kind of layer: its matrices, its core, its vectors (norms, biases).

    `core` is None for a layer that only has an MLP. `mlp` is "dense", "moe" or "none".
    `mlp_width` is the width between up and down of the dense MLP or of one expert.
    """

    name: str
    weights: tuple[Weight, ...]
    core: Core | None
    vector_parameters: int
    mlp: str
    mlp_width: int = 0
    gated: bool = True
    experts: int = 0
    top_k: int = 0
    shared_width: int = 0
    expert_groups: int = 1
    expert_groups_used: int = 1


@dataclass(frozen=True)
class Model:
    """A whole model. `layer_codes[i]` is the index in `kinds` of layer i, first to last.

    `draft_codes` are the kinds of multi-token-prediction layers, outside the headline count,
    `draft_extra_parameters` their projections and norms. `vision_parameters` is the tower, set
    apart: never in `layer_codes`. `other_parameters` is whatever else the headline counts
    (final norm, learned positions).
    """

    name: str
    hidden: int
    vocab: int
    tied_embeddings: bool
    max_tokens: int
    kinds: tuple[LayerKind, ...]
    layer_codes: tuple[int, ...]
    draft_codes: tuple[int, ...] = ()
    draft_extra_parameters: int = 0
    vision_parameters: int = 0
    other_parameters: int = 0
    weight_precision: str = "bf16"
