"""Pipeline schedules, one file each: closed form and pass order, side by side.

Every file exports
    span(times, stages, chunks, micro_batches) -> Span
        times: passes of one micro-batch on the first, an inner and the last stage (StageTimes)
    in_flight(stage, stages, chunks, micro_batches) -> (n,) micro-batches whose activations a
        stage keeps at its peak, in units of the whole stage
    fills(stages, micro_batches) -> (n,) whether the order can be run with so many
    order(stage, stages, chunks, micro_batches) -> what a device runs, one after the other
        an item is one (kind, chunk, micro_batch), or two that run beside each other; kinds are
        "forward", "backward", and the halves of a backward pass, "input" and "weight"
    IS_CHUNKED: a stage is cut into several virtual stages
    STAGE_MULTIPLE: the stages come in multiples of it
    STAGES_HELD: stages that one device serves: 1, or 2 for a stage and its mirror, the i-th from
        the other end
    STAGE_COPIES: devices that serve the same stage
    RUNS_PAIRS: items of two are forward and backward passes whose exchange is overlapped
    FREES_IN_PAIRS: a pair goes layer by layer, and keeps a layer of its forward pass as it frees
        one of its backward pass
    NEEDS_EXPERT_PARALLEL: it is refused where experts are not shared out
    NEEDS_PIPELINE: with one stage it is the plain schedule
    RUNS_FULL_RECOMPUTE: whole layers can be run again in it
    PUTS_OFF_WEIGHTS: some gradients of weights come long after those of their inputs
    STEPS_RUN_ON: a device begins its next step when it has ended this one, whatever the others do;
        `span` is then from the end of a device's step to the end of its next
`stages` are devices along the pipeline, except where devices hold two stages and nobody a copy:
there the model is cut into twice as many. A parametrised test plays `order` event by event and
holds it to `span` and `in_flight`.
"""
