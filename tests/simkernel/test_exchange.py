"""How far a token's experts are spread."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import moe_model

from simkernel.exchange import distinct_domains

KIND = moe_model(experts=256, top_k=8).kinds[0]
DOMAINS = np.array([2.0, 4.0, 8.0, 16.0, 32.0])


def test_experts_drawn_freely_hit_as_many_domains_as_the_hypergeometric_says():
    """256 experts, 8 of them: 1.99, 3.62, 5.30, 6.52, 7.27 domains of 2 to 32."""
    assert distinct_domains(DOMAINS, KIND) == pytest.approx(
        [1.99, 3.62, 5.30, 6.52, 7.27], abs=0.006
    )


def test_node_limited_routing_agrees_with_a_monte_carlo_of_deepseek_v3():
    """4 of 8 groups: 1.93, 2.93, 3.63, 5.34, 6.61 domains; else dispatch is priced too dear."""
    limited = replace(KIND, expert_groups=8, expert_groups_used=4)
    found = distinct_domains(DOMAINS, limited)
    assert found == pytest.approx([1.93, 2.93, 3.63, 5.34, 6.61], rel=0.035)


def test_one_domain_holds_all():
    """A group inside one domain would send outside."""
    assert distinct_domains(np.ones(1), KIND) == pytest.approx([1.0])
