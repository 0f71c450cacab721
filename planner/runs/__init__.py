"""A run from study to stored front, for every kind of study."""
