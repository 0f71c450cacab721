"""A progress bar on stderr: bills done, candidates, rate and time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from planner.runs.run import Progress as Told


@contextmanager
def shown_progress(is_quiet: bool) -> Iterator[Told | None]:
    """A function to call after every bill; None where nobody is looking at a terminal."""
    console = Console(stderr=True)
    if is_quiet or not console.is_terminal:
        yield None
        return
    columns = (
        TextColumn("[bold]sweep"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total} bills"),
        TextColumn("{task.fields[evaluated]} evaluated, {task.fields[rate]}/s"),
        TextColumn("front {task.fields[front]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    started = time.perf_counter()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("sweep", total=None, evaluated="0", rate="0", front="0")

        def tell(done: int, bills: int, evaluated: int, front: int) -> None:
            rate = evaluated / max(time.perf_counter() - started, 1e-9)
            bar.update(
                task,
                total=bills,
                completed=done,
                evaluated=f"{evaluated:,}",
                rate=f"{rate:,.0f}",
                front=f"{front:,}",
            )

        yield tell
