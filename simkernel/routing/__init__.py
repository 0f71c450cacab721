"""Policies that pick a replica at each arrival, one a file, named in a study.

Each says with READS_CACHE whether it asks what replicas have in their caches, and offers one
function in the subset of Python that numba compiles:

pick(asked, seen)
    The place, among the replicas seen, of the one for the request that is asked about; both as in
    `simkernel.replay.state`. Only replicas that take requests are seen, at least one.
"""
