"""What `planner report` answers: where the report is and what it decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planner.archive.store import Archive
from planner.report.arrangement import arranged, arrangement_bytes, arrangement_of
from planner.report.decision import sentence
from planner.report.purchase import purchase_report
from planner.report.write import refuse_without_libraries, write_bytes, write_report


def report(
    db: Path, run: str, to: Path, language: str = "en", plan: str = "", site: str = ""
) -> dict[str, Any]:
    """Write a report; raises as `write_report`.

    Returns
    -------
    what was chosen and where it stands, and under "spread" what each uncertain input does to the
    cost: shares of its variance [1], mean effect and unevenness [$]
    """
    archive = Archive(db)
    with archive.reading() as held:
        kind = held.run(run).start.kind
    if kind == "fleet":
        return purchase_report(archive, run, to, language, plan)
    if kind == "mixed":
        return _arrangement(archive, run, to, language, plan)
    got = write_report(archive, run, to, language, plan, site)
    return {
        "run": got.record.run,
        "plan": got.word("plan"),
        "site": got.word("site"),
        "rule": got.choice.rule,
        "decision": sentence(got, language),
        "spread": [asdict(one) for one in got.sources],
        "file": str(to),
        "bytes": to.stat().st_size,
    }


def _arrangement(archive: Archive, run: str, to: Path, language: str, plan: str) -> dict[str, Any]:
    """The same of a cluster that serves and trains."""
    refuse_without_libraries()
    found = arranged(archive, run, plan)
    form = to.suffix.removeprefix(".").lower()
    write_bytes(to, arrangement_bytes(found, form, language))
    return {
        "run": found.record.run,
        "plan": str(found.front["plan"][found.row]),
        "site": str(found.front["site"][found.row]),
        "rule": "asked" if found.is_asked else "knee",
        "decision": arrangement_of(found, language),
        "spread": [],
        "file": str(to),
        "bytes": to.stat().st_size,
    }


def report_text(document: Mapping[str, Any]) -> str:
    """The same for a terminal."""
    return f"{document['decision']}\n{document['file']}: {document['bytes']:,} bytes\n"
