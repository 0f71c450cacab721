"""What is asked of a cluster."""

import pytest

from simkernel.workload import percentile_frac


@pytest.mark.parametrize(
    ("statistic", "frac"),
    [("p1", 0.01), ("p5", 0.05), ("p50", 0.5), ("p95", 0.95), ("p999", 0.999)],
)
def test_a_percentile_is_read_one_way(statistic, frac):
    """p5 would be the median."""
    assert percentile_frac(statistic) == pytest.approx(frac)
