"""Money, carbon and water over a physical front, and again under other prices."""
