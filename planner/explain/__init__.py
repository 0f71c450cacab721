"""Why a plan is what it is, what would change it, and what it gains over another."""
