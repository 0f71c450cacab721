"""Ways to walk a design space; the exhaustive sweep is the exact one."""
