"""Which chip and model of the catalogue a file speaks of, and how devices lie in domains."""

from __future__ import annotations

from collections.abc import Iterable

from costdata.configs import read_model
from planner.imports.found import Given
from planner.imports.numbers import whole_number
from simkernel.errors import BadFile, BadStudy, PlanError, unknown
from simkernel.hardware import PRECISIONS

MOST_COUNT = 10**9
"""Of devices or stages that a setting names: more is a slip; own choice."""


def chip_named(given: Given, labels: Iterable[str], where: str) -> str:
    """The catalogue's name of the one chip that a file names, or that is given beside it.

    Parameters
    ----------
    labels : device names as a file has them
    where : the file, for the fault

    Raises
    ------
    UnknownName : a chip is given that the catalogue does not have
    BadFile : no chip is named, an unknown one, or several
    """
    if given.text("accelerator"):
        return given.catalog.accelerator_name(given.text("accelerator"))
    found = sorted(set(labels))
    if not found:
        raise BadFile(f"{where} names no device; give one (--set accelerator=H100-SXM)")
    if len(found) > 1:
        raise BadFile(f"{where} names several devices ({', '.join(found)}); import one at a time")
    name = given.catalog.resolve("accelerator", found[0])
    if name is None:
        raise BadFile(
            f"{where}: {found[0]!r} is no name of the catalogue; give one "
            "(--set accelerator=H100-SXM)"
        )
    return name


def model_named(given: Given, told: str, where: str) -> str:
    """The catalogue's name of a model that a file names; no file is opened for it.

    Raises
    ------
    BadFile : no model of that name
    """
    found = given.catalog.resolve("model", told) or told.strip("/").replace("/", "--")
    try:
        if found.endswith(".json"):
            raise unknown("model", found, ())
        read_model(found)
    except PlanError as error:
        raise BadFile(
            f"{where}: model {told!r} is not in the catalogue; give --set model=NAME, a name that "
            "planner catalog list model has"
        ) from error
    return found


def precision_given(given: Given, name: str, otherwise: str) -> str:
    """A setting as a precision of products; `otherwise` where it was not given.

    Raises
    ------
    UnknownName : the catalogue has no peaks in such a precision, with the nearest that it has
    """
    found = given.text(name) or otherwise
    if found not in PRECISIONS:
        raise unknown(name, found, PRECISIONS)
    return found


def count_given(given: Given, name: str) -> int | None:
    """A setting as a whole number above zero; None where it was not given.

    Raises
    ------
    BadStudy : it is no such number
    """
    text = given.text(name)
    if not text:
        return None
    count = whole_number(text)
    if not count or count >= MOST_COUNT:
        raise BadStudy(
            f"{name} = {text[:40]!r} is no whole number from 1 to {MOST_COUNT - 1:,}; "
            f"write --set {name}=8"
        )
    return count


def inside_domain(given: Given, chip: str, ranks: int, hosts: int, where: str) -> int:
    """Members of a group that share a scale-up domain.

    A host is a domain where the chip is sold in no larger one; where it is, nothing in a file
    says which: then it has to be given.

    Raises
    ------
    BadFile : the group does not fill its domains alike, or the domain is not known
    """
    facts = given.catalog.accelerator(chip)
    domain = count_given(given, "domain_devices")
    if domain is None and hosts > 1:
        if max(facts.domain_options, default=1) > facts.devices_per_host:
            raise BadFile(
                f"{where}: {ranks} ranks on {hosts} hosts of {chip}, which is sold in domains of "
                f"{', '.join(map(str, facts.domain_options))}; give --set domain_devices=N"
            )
        domain = -(-ranks // hosts)
    inside = min(ranks, domain or ranks)
    if ranks % inside:
        raise BadFile(
            f"{where}: {ranks} ranks do not fill domains of {inside} alike; time a group that does"
        )
    return inside
