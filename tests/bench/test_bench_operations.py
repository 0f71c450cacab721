"""Ten thousand fleets to which random things happen: nobody forgotten, nothing without an end."""

import importlib.util
import sys
import time
from pathlib import Path

import pytest

THERE = Path(__file__).parents[1] / "simkernel"
SCENARIOS = 10_000


@pytest.fixture(scope="module")
def scenarios():
    """The random scenarios of the replay's own tests."""
    sys.path.insert(0, str(THERE))
    try:
        spec = importlib.util.spec_from_file_location(
            "replay_scenarios", THERE / "replay_scenarios.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(THERE))


@pytest.mark.bench
def test_ten_thousand_random_scenarios_account_for_every_request(scenarios, tell):
    """One mix of policies, failures and traffic in thousands would forget a request."""
    began_s = time.process_time()
    wrong = {s: found for s in range(SCENARIOS) if (found := scenarios.accounted(s))}
    tell("random scenarios of fleets, wrong ones", f"{len(wrong)}", "0 of 10,000 wanted")
    tell("  processor-seconds", f"{time.process_time() - began_s:.0f}")
    assert wrong == {}
