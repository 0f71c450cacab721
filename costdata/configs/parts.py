"""A part of a layer as it is being put together, and the small pieces that all parts share."""

from __future__ import annotations

from dataclasses import dataclass

from simkernel.models import Core, Weight


@dataclass(frozen=True)
class Part:
    """The matrices, vectors and core of a mixer or an MLP."""

    name: str
    weights: tuple[Weight, ...] = ()
    vectors: int = 0
    core: Core | None = None

    def beside(self, other: Part) -> Part:
        """Both parts in one; only one of them may have a core."""
        return Part(
            f"{self.name}+{other.name}",
            self.weights + other.weights,
            self.vectors + other.vectors,
            self.core or other.core,
        )


def column(name: str, inputs: int, outputs: int) -> Weight:
    """A matrix whose outputs tensor parallelism divides."""
    return Weight(name, inputs, outputs, "column")


def row(name: str, inputs: int, outputs: int) -> Weight:
    """A matrix whose inputs tensor parallelism divides."""
    return Weight(name, inputs, outputs, "row")


def whole(name: str, inputs: int, outputs: int) -> Weight:
    """A matrix that every device of a tensor-parallel group holds."""
    return Weight(name, inputs, outputs, "replicated")
