"""What every candidate of a study shares, whatever the work: its chips, looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costdata.catalog import Catalog
from costdata.support import KERNELS
from planner.axes import MEASURED, TILED
from planner.costing.purchase import Shelf, shelf_of
from planner.space.blocks import Space
from planner.study.read import Study
from simkernel.columns import Floats
from simkernel.hardware import Chips
from simkernel.models import Model


@dataclass(frozen=True)
class Prepared:
    """A study of one model made ready to evaluate.

    Parameters
    ----------
    study, catalog, model : as read
    space : all candidates, over the chips that can be evaluated
    missing : chips left out because a fact is missing, with the fact
    """

    study: Study
    catalog: Catalog
    model: Model
    space: Space
    missing: Mapping[str, str]

    @cached_property
    def kernels(self) -> tuple[str, ...]:
        """Kernels the model needs a chip to have."""
        return kernels_of(self.model)

    def chip(self, name: str) -> Chips:
        """One chip as a table of one row."""
        return self._chips[name]

    def shelf(self, name: str) -> Shelf:
        """What is sold around one chip."""
        return self._shelves[name]

    def unsupported(self, name: str) -> Floats:
        """Kernels of the model that a chip lacks, for each precision; (len(PRECISIONS),)."""
        return self._unsupported[name]

    @cached_property
    def _chips(self) -> dict[str, Chips]:
        by_source = {MEASURED: self.catalog.timed_chips, TILED: self.catalog.tiled_chips}
        chips = by_source.get(str(self.study.axes["compute"][0]), self.catalog.chips)
        return {name: chips([name]) for name in self.space.chips}

    @cached_property
    def _shelves(self) -> dict[str, Shelf]:
        given = self.study.reliability
        return {
            name: shelf_of(self.catalog, [name], reliability=given) for name in self.space.chips
        }

    @cached_property
    def _unsupported(self) -> dict[str, Floats]:
        names = list(self.space.chips)
        needed = [KERNELS.index(kernel) for kernel in self.kernels]
        lacking = (~self.catalog.support_mask(names)[:, :, needed]).sum(axis=2) * 1.0
        return dict(zip(names, np.asarray(lacking), strict=True))


def kernels_of(model: Model) -> tuple[str, ...]:
    """Kernels a chip needs for a model, as the support matrix names them."""
    found = set()
    for kind in model.kinds:
        for core in kind.cores:
            found.add({"softmax": "gqa", "mla": "mla", "state": "state"}[core.kind])
            if core.window:
                found.add("window")
        if kind.mlp == "moe":
            found.add("moe")
    return tuple(sorted(found))
