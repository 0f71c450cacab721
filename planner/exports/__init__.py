"""A plan in the files of others: cost rows, bills of materials, launch scripts."""
