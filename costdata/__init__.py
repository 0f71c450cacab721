"""Facts with a source, and the arithmetic of money and carbon."""
