"""From a study file to a Study: every fault at once, each with its line."""
