"""Policies that pick a replica at each arrival, one a file, named in a study.

Each says with READS_CACHE whether it asks what replicas have in their caches, and offers one
function in the subset of Python that numba compiles:

pick(serial, draw_frac, waiting, running, free_blocks, missing)
    The replica for the request that is the `serial`-th to be routed. `draw_frac` is a draw from 0
    to below 1, made beforehand from the seed; the arrays, (r,), count what each replica has in
    its queue, in its batch and free in its pool, and tokens that it would have to compute where
    the policy asks for them.
"""
