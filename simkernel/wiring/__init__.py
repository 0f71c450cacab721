"""Fabrics as directed links and routes: what a replay of flows runs on.

A fabric is described once (`description`); its links (`scaleup`, `scaleout`), the way between two
devices (`routing`) and what has to be bought for it (`parts`) come from that one description.
"""
