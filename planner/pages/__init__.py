"""What a person sees of a run: one page per question; no physics and no SQL."""
