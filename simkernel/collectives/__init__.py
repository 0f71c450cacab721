"""Collective algorithms, one file each: closed form and the flows it creates, side by side.

Every file exports
    OPERATIONS            the operations it can do
    IN_BEST               True where "best" may choose it, False where a study has to name it
    traffic(operation, wires, group, payload_bytes, remote_frac) -> Traffic      closed form
    phases(operation, members, domain_size, payload_bytes, way) -> [[(src, dst, bytes), ...], ...]
Tests in tests/agree play the flows on links and hold the two together. `payload_bytes` per rank:
the whole buffer for all_reduce, all_gather (result) and reduce_scatter (input); everything a rank
sends, its own part included, for all_to_all; the message for send. `remote_frac` (all_to_all):
distinct bytes over copies among those leaving the domain, 1 if nothing is sent twice. Flows of a
phase begin together, and a phase when the last one has ended; see `_flows.Way` for the rest.

Why "best" leaves some out: curves of links were measured with the library's own choice among all
of them (trees, reduction in the switch). A faster one on the same curve would count it twice.
"""
