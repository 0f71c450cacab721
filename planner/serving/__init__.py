"""Serving studies: load, closed form, sizing, and replay of what survives."""
