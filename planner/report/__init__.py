"""A run as management reads it: decision first, then why, its basis, and what is left out."""
