"""What is asked of a cluster: a training run."""

from __future__ import annotations

from dataclasses import dataclass

from simkernel.stack import ISOLATED, Stack


@dataclass(frozen=True)
class TrainingJob:
    """One training run of one model.

    Parameters
    ----------
    tokens : to train on in all
    tokens_per_sequence : sequence length
    max_global_batch_tokens : beyond it tokens-to-quality no longer holds
    has_draft_layers : multi-token prediction layers are trained too
    stack : the software it runs on
    """

    tokens: float
    tokens_per_sequence: int
    max_global_batch_tokens: float
    has_draft_layers: bool = False
    stack: Stack = ISOLATED
