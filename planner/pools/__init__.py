"""Prefill and decode on pools apart: each pool a serving plan of one phase, and their join."""
