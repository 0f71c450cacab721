"""What sets one pipeline schedule apart from another, for the rooms that never learn its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Traits:
    """Traits of a schedule; the defaults are those of one forward, one backward.

    Parameters
    ----------
    is_chunked : a stage is cut into several virtual stages
    stage_multiple : the stages come in multiples of it
    stages_held : stages that one device serves: 1, or 2 for a stage and its mirror, the i-th from
        the other end
    stage_copies : devices that serve the same stage
    runs_pairs : items of two are forward and backward passes whose exchange is overlapped
    frees_in_pairs : a pair goes layer by layer, and keeps a layer of its forward pass as it frees
        one of its backward pass
    needs_expert_parallel : it is refused where experts are not shared out
    needs_pipeline : with one stage it is the plain schedule
    runs_full_recompute : whole layers can be run again in it
    puts_off_weights : some gradients of weights come long after those of their inputs
    steps_run_on : a device begins its next step when it has ended this one, whatever the others
        do; `span` is then from the end of a device's step to the end of its next
    """

    is_chunked: bool = False
    stage_multiple: int = 1
    stages_held: int = 1
    stage_copies: int = 1
    runs_pairs: bool = False
    frees_in_pairs: bool = False
    needs_expert_parallel: bool = False
    needs_pipeline: bool = True
    runs_full_recompute: bool = True
    puts_off_weights: bool = False
    steps_run_on: bool = False
