"""What was asked, what was found and why: one DuckDB file, only ever added to."""
