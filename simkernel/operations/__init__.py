"""Whoever runs a serving fleet: what happens to it, and what is done, outside of the inner loop.

Not compiled: a change here leaves the kept machine code as it is.
"""
