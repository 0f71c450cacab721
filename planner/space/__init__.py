"""Which candidates can exist: axes multiplied, rules that need no physics, names of plans."""
