"""Rules of links that a study may decree instead of the physical ones, for the sake of comparison.

By default a group's traffic goes over the links between its ranks. Other simulators decide it
otherwise, and published figures rest on such rules: naming one makes them comparable, and marks
every plan that was priced with it. Where links go by group size no domain comes late either, and
hidden traffic takes nothing from products: those simulators know neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkernel.columns import Codes, Column


@dataclass(frozen=True)
class LinkRules:
    """What decides which links a group uses, and how fast they are.

    Parameters
    ----------
    is_by_group_size : replicas that average gradients are inside a domain where their number is no
        larger than the domain, wherever their ranks sit, and else all in domains of their own.
        Not physical: ranks that far apart do not share a domain
    exchange_frac : domain sizes, and what an all-to-all inside one of them reaches of what its
        topology gives; 1 for sizes that are not named
    """

    is_by_group_size: bool = False
    exchange_frac: tuple[tuple[int, float], ...] = ()

    def exchange_frac_of(self, domain_devices: Codes) -> Column:
        """Share of its rate that an all-to-all reaches in domains of some sizes."""
        found: Column = 1.0
        for size, frac in self.exchange_frac:
            found = np.where(domain_devices == size, frac, found)
        return found


PHYSICAL = LinkRules()
"""Links from where ranks sit, domains alike but for their size and topology."""
