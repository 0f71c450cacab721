"""What every folder of tests may ask for: golden files, figures told at the end, steady cases."""

import gc

import pytest
from hypothesis import HealthCheck, settings

# The same cases at every run, however busy the machine is: time is measured by benchmarks alone.
settings.register_profile(
    "house", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")

FIGURES = pytest.StashKey[list[tuple[str, str, str]]]()


def pytest_addoption(parser):
    parser.addoption(
        "--refresh-golden",
        action="store_true",
        help="write the golden fronts of tests/studies anew; read what changed before you keep it",
    )


@pytest.fixture
def refresh_golden(pytestconfig):
    """True where golden files are to be written instead of compared."""
    return pytestconfig.getoption("--refresh-golden")


@pytest.fixture
def tell(pytestconfig):
    """tell(what, figure, bar): one line of the table that closes a benchmark run."""
    lines = pytestconfig.stash.setdefault(FIGURES, [])
    return lambda what, figure, bar="": lines.append((what, figure, bar))


def pytest_collection_finish():
    """Thousands of tests live to the end: looking through them for rubbish takes a third of it."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter, config):
    lines = config.stash.get(FIGURES, [])
    if lines:
        terminalreporter.section("measured here")
    for what, figure, bar in lines:
        terminalreporter.write_line(f"{what:<58}{figure:>14}  {bar}")
