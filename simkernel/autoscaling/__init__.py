"""Policies that say how many replicas should be on, one a file, named in a study.

Asked every few seconds of the stream's time, outside of the compiled loop. Each offers

wanted(watched, target)
    Replicas that should be on; whoever asks keeps it between the least and the most there are.
    `watched` is `simkernel.operations.outages.Watched`, `target` a number that the file names.
"""
