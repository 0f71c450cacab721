"""What a team has measured already, turned into tables of its own: one file a format.

`kinds/` is the registry: a file's name is the word of `planner import`. Nothing in a file that is
read is run, unpickled, unpacked to disk or followed as a path.
"""
