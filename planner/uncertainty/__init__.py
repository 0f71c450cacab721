"""How far the figures may be off, and which input is to blame: draws, tornado, indices."""
