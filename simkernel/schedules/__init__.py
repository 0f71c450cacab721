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
    TRAITS: what sets it apart from one forward, one backward (simkernel.schedule_traits)
`stages` are devices along the pipeline, except where devices hold two stages and nobody a copy:
there the model is cut into twice as many. A parametrised test plays `order` event by event and
holds it to `span` and `in_flight`.
"""
