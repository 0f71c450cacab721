"""Formats that can be imported; a file's name, with dashes, is the kind.

Each module has:

    SETTINGS      words that may stand beside the files, each with its meaning
    read(files, given)
                  -> planner.imports.found.Found; BadFile with every fault of all files
"""
