"""What `planner report` answers: where the report is and what it decides."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner.archive.store import Archive
from planner.report.decision import sentence
from planner.report.write import write_report


def report(
    db: Path, run: str, to: Path, language: str = "en", plan: str = "", site: str = ""
) -> dict[str, Any]:
    """Write a report; raises as `write_report`."""
    got = write_report(Archive(db), run, to, language, plan, site)
    return {
        "run": got.record.run,
        "plan": got.word("plan"),
        "site": got.word("site"),
        "rule": got.choice.rule,
        "decision": sentence(got, language),
        "file": str(to),
        "bytes": to.stat().st_size,
    }


def report_text(document: Mapping[str, Any]) -> str:
    """The same for a terminal."""
    return f"{document['decision']}\n{document['file']}: {document['bytes']:,} bytes\n"
