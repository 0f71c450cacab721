"""Policies that form the batch of a step, one a file; the file's name is the name in a study.

Each offers the same two functions over the arrays of `simkernel.replay.state`, in the subset of
Python that numba compiles; `simkernel/replay` compiles whatever is in this folder.

refusal(prompt_tokens, output_tokens, limits)
    Why a request can never be served, as a code of `simkernel.replay.results.REFUSALS`, or 0.
form(replica, jobs, lists, limits, seats, cache)
    Fills `request` and `tokens` of the replica's seats, moves requests between waiting and
    running, takes and frees blocks, and gives the number of sequences in the step. `cache` is
    None where prompts share no beginnings; the moves of `_house` know what to do with it.

A policy may look at nothing but these arrays. While nobody arrives or finishes and blocks are
left, it must form a batch of decodes again as it was: the replay runs such steps as one.
"""
