"""The lists of faults that comparable tools were caught with, and the names of all our tests."""

import re
import tomllib
from pathlib import Path

TESTS = Path(__file__).parents[1]


def faults_of(name):
    """The faults of one list: thread, kind, tests, and "pending" with an issue where some wait."""
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))["fault"]


def every_test():
    """Names of all tests of the house."""
    texts = (path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    return {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}


def missing_tests(faults):
    """Tests that a list names and the house does not have, by thread."""
    known = every_test()
    lacking = {fault["thread"]: set(fault["tests"]) - known for fault in faults}
    return {thread: names for thread, names in lacking.items() if names}
