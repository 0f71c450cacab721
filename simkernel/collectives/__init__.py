"""Collective algorithms, one file each: closed form and the flows it creates, side by side.

Every file exports
    OPERATIONS            the operations it can do
    traffic(operation, wires, group, payload_bytes, remote_frac) -> Traffic      closed form
    phases(operation, members, domain_size, payload_bytes) -> [[(src, dst, bytes), ...], ...]
A parametrised test holds the two together. `payload_bytes` per rank: the whole buffer for
all_reduce, all_gather (result) and reduce_scatter (input); everything a rank sends, its own part
included, for all_to_all; the message for send. `remote_frac` (all_to_all): distinct bytes over
copies among those leaving the domain, 1 if nothing is sent twice.
"""
