"""Charts as Altair specifications over plain rows: what pages and reports both draw with."""
