"""Another simulator's rules, replayed: every one of its requests comes out as it did there."""

import numpy as np
import pytest
from serving_cases import VIDUR_FLEET, same, vidur_requests, vidur_tables

from simkernel.replay.opening import Run
from simkernel.replay.serve import replay

ORDER_OF_SUMS_S = 1e-9
"""Float order over 14,062 additions; measured: 1.1e-12 s."""


def test_against_vidur_every_request_has_its_times():
    """Batching, blocks, contexts or the order of events would differ from the published rules."""
    requests, ttft_s, e2e_s = vidur_requests()
    result = replay(requests, VIDUR_FLEET, vidur_tables())
    assert result.totals.steps.tolist() == [14_062]
    assert np.max(np.abs(result.ttft_s - ttft_s)) < ORDER_OF_SUMS_S
    assert np.max(np.abs(result.e2e_s - e2e_s)) < ORDER_OF_SUMS_S
    assert not np.any(result.preemptions)
    assert not np.any(result.totals.extended_steps)


@pytest.mark.long
@pytest.mark.parametrize(
    "run",
    [Run(is_compiled=False), Run(can_skip=False), Run(has_token_times=True), Run(logged_steps=99)],
    ids=["interpreted", "step by step", "with token times", "with a log"],
)
def test_however_it_is_run_the_result_is_the_same_to_the_bit(run):
    """Compiling, or running like steps as one, would change a latency."""
    requests, _, _ = vidur_requests()
    plain = replay(requests, VIDUR_FLEET, vidur_tables())
    assert same(plain, replay(requests, VIDUR_FLEET, vidur_tables(), run))
