"""The words of the command line, one file per family; nothing is computed here."""
