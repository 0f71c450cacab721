"""What is asked of a cluster: a training run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingJob:
    """One training run of one model.

    Parameters
    ----------
    tokens : to train on in all
    tokens_per_sequence : sequence length
    max_global_batch_tokens : beyond it tokens-to-quality no longer holds
    is_attention_fused : flash-type attention; False is the 2020-22 stack that stores the squared
        scores, softmax and dropout
    has_draft_layers : multi-token prediction layers are trained too
    dense_host_s, moe_host_s : the host needs so long to launch the kernels of one layer of one
        micro-batch, forward and backward together; devices cannot be faster [s]
    """

    tokens: float
    tokens_per_sequence: int
    max_global_batch_tokens: float
    is_attention_fused: bool = True
    has_draft_layers: bool = False
    dense_host_s: float = 0.0
    moe_host_s: float = 0.0
