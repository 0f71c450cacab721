"""Pipeline schedules, one file each: closed form and pass order, side by side.

Every file exports
    span(first_s, inner_s, last_s, stages, chunks, micro_batches) -> (span_s, bubble_s)
        first_s, inner_s, last_s: (n,) forward + backward seconds of one micro-batch on a whole
        stage; span_s from the first forward to the last backward, bubble_s what the slowest
        stage waits in it
    in_flight(stage, stages, chunks, micro_batches) -> (n,) micro-batches whose activations a
        stage keeps at its peak, in units of the whole stage
    order(stage, stages, chunks, micro_batches) -> [("forward" | "backward", chunk, micro_batch)]
A parametrised test plays `order` event by event and holds it to `span` and `in_flight`.
"""
