"""The parts of a report in the order in which management reads them."""

from __future__ import annotations

from planner.report.basis import accuracy, carbon, left_out, power, register, reproduce
from planner.report.blocks import Block, Paper
from planner.report.candidates import candidates, trade_off
from planner.report.decision import decision
from planner.report.gather import Gathered
from planner.report.settings import rent, settings
from planner.report.words import Say
from planner.report.worth import bridge, cash, scenarios, sensitivity

PARTS = (
    decision, candidates, trade_off, settings, cash, rent, sensitivity, scenarios, bridge, power,
    carbon, accuracy, register, left_out, reproduce,
)  # fmt: skip


def paper(got: Gathered, language: str) -> Paper:
    """A report ready to be set.

    Raises
    ------
    UnknownName : a language that it does not have
    """
    say = Say(language)
    blocks: list[Block] = []
    for part in PARTS:
        blocks += part(got, say)
    date = f"{got.record.started:%Y-%m-%d}"
    return Paper(
        say("title", study=got.record.start.study),
        say("subtitle", run=got.record.run, date=date),
        language,
        blocks,
    )
