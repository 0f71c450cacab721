"""From a study file to a Pareto front: study, space, search, archive, command."""
