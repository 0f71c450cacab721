"""The event tier: requests served one by one where closed form only knows averages.

What goes in: `requests.Requests` (the stream), `fleet.Fleet` (replicas, policies, limits),
`tables.StepTables` (what a step takes), `opening.Run` (seed, closed loop, what is kept). Then
`serve.replay` gives `results.ReplayResult`. Only `compiled` imports numba, at the first replay.
"""
