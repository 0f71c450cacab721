"""What a level of the axis `speculative` means: who drafts, how many tokens, how often right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from costdata.catalog import Catalog
from costdata.configs import read_model
from planner.axes import NO_DRAFTS, Level
from planner.study.parts import ServeWorkload
from simkernel.drafting import eagle_head, prediction_layers
from simkernel.errors import BadStudy
from simkernel.models import Model


@dataclass(frozen=True)
class Drafting:
    """One way to draft.

    Parameters
    ----------
    code : place of the drafter among the model's, plus one; 0 for none
    drafted_tokens : guessed ahead in a step
    first_accept_frac, later_accept_frac : how often they are right
    """

    code: int = 0
    drafted_tokens: float = 0.0
    first_accept_frac: float = 0.0
    later_accept_frac: float = 0.0


def method_of(level: Level) -> tuple[str, int]:
    """Method and number of drafted tokens of a level such as "mtp:2"."""
    method, _, drafted = str(level).partition(":")
    return method, int(drafted or 0)


def methods_of(levels: Sequence[Level]) -> tuple[str, ...]:
    """Methods of a study that draft with a model, in the order of its levels."""
    return tuple(dict.fromkeys(method_of(level)[0] for level in levels if level != NO_DRAFTS))


def draftings(
    levels: Sequence[Level], work: ServeWorkload, catalog: Catalog
) -> tuple[Drafting, ...]:
    """What each level of a study means, in their order."""
    methods = methods_of(levels)
    found = []
    for level in levels:
        method, drafted = method_of(level)
        if level == NO_DRAFTS:
            found.append(Drafting())
            continue
        row = catalog.tables["speculation"][(method,)]
        first, later = row.need("first_accept_frac"), row.need("later_accept_frac")
        if work.draft_acceptance_frac is not None:
            first = later = work.draft_acceptance_frac
        found.append(Drafting(methods.index(method) + 1, float(drafted), first, later))
    return tuple(found)


def with_drafters(model: Model, levels: Sequence[Level], work: ServeWorkload) -> Model:
    """The model with a drafter for each method that the study asks for.

    Raises
    ------
    BadStudy : a model without prediction layers is to use them, or no draft model is named
    """
    return replace(model, drafters=tuple(DRAFTERS[m](model, work) for m in methods_of(levels)))


def _own_layers(model: Model, work: ServeWorkload) -> Model:
    if not model.draft_codes:
        raise BadStudy(
            f'axes.speculative has "mtp", and {model.name} has no prediction layers; wanted '
            '"none", "eagle:3" or "draft:3"'
        )
    return prediction_layers(model)


def _small_model(model: Model, work: ServeWorkload) -> Model:
    if not work.draft_model:
        raise BadStudy(
            'axes.speculative has "draft", and the workload names no draft_model; give a small '
            'model of the same vocabulary, e.g. draft_model = "meta-llama--Meta-Llama-3.1-8B"'
        )
    small = read_model(work.draft_model)
    if small.vocab < model.vocab - MOST_PADDING or small.vocab > model.vocab + MOST_PADDING:
        raise BadStudy(
            f"draft_model {small.name} has {small.vocab} tokens in its vocabulary, {model.name} "
            f"has {model.vocab}; a draft has to be made of the same tokens"
        )
    return small


MOST_PADDING = 1024
"""Entries by which vocabularies of one tokeniser differ: tables are padded to round sizes."""

DRAFTERS: Mapping[str, Callable[[Model, ServeWorkload], Model]] = MappingProxyType(
    {
        "mtp": _own_layers,
        "eagle": lambda model, _: eagle_head(model),
        "draft": _small_model,
    }
)
"""Who drafts, by method of speculation.csv."""
