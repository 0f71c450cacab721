"""Policies that let requests in or turn them away at the door, one a file, named in a study.

Each offers one function in the subset of Python that numba compiles:

lets_in(asked, seen, picked, terms)
    Whether a request may join the queue of the replica that the router picked, as a place among
    those seen; `asked`, `seen` and `terms` as in `simkernel.replay.state`. Who is turned away does
    not come back. Requests that come from a replica that failed are not asked about again.
"""
