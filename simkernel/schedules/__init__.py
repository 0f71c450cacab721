"""Pipeline schedules, one file each: closed form and pass order, side by side.

Every file exports
    span(times, stages, chunks, micro_batches) -> Span
        times: passes of one micro-batch on the first, an inner and the last stage (StageTimes)
    in_flight(stage, stages, chunks, micro_batches) -> (n,) micro-batches whose activations a
        stage keeps at its peak, in units of the whole stage
    order(stage, stages, chunks, micro_batches) -> [("forward" | "backward", chunk, micro_batch)]
A parametrised test plays `order` event by event and holds it to `span` and `in_flight`.
"""
