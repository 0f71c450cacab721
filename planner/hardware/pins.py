"""What a study may pin of a server or rack, given the chips in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costdata.catalog import Catalog
from planner.study.read import Study
from simkernel.errors import BadStudy


def refuse_small_units(study: Study, catalog: Catalog, chips: Sequence[str]) -> None:
    """Pinned units that would leave their hosts less than no power.

    `unit_w` is with all devices at full power, whatever power cap the plan runs them under: what
    the host draws is `unit_w` less the devices at full power, and a cap does not change it. Where
    `unit_other_w` is pinned too, the host is taken from it.

    Raises
    ------
    BadStudy : every one of them
    """
    faults = [fault for chip in chips for fault in _fault(study, catalog, chip)]
    if faults:
        raise BadStudy(*faults)


def _fault(study: Study, catalog: Catalog, chip: str) -> Iterator[str]:
    pin = study.pin
    key = f"unit_w.{chip}" if f"unit_w.{chip}" in pin else "unit_w"
    if key not in pin or {"unit_other_w", f"unit_other_w.{chip}"} & set(pin):
        return
    devices = catalog.purchase_unit(chip).devices
    device_w = pin.get("device_peak_w", float(catalog.chips([chip]).power.cap_w[0]))
    if pin[key] < devices * device_w:
        limit = "pin.device_peak_w" if "device_peak_w" in pin else "their limit"
        yield (
            f"pin.{key} = {pin[key]:,.10g} W is less than its own chips draw: {devices} "
            f"{chip} at {limit} of {device_w:,.10g} W are {devices * device_w:,.10g} W; give a "
            "unit with all chips at full power, uncapped, or pin.unit_other_w, the unit without "
            "its chips"
        )
