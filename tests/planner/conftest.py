"""A small study, swept once: as an engine, as bill results and as runs in a database."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from small import DENSE, MOE, engine_of, planner

from planner.search.sweep import named_rows, sweep
from planner.space.blocks import bills, values_of
from planner.space.plan_keys import broken_rules, codes_of
from planner.training.evaluate import evaluate


@dataclass(frozen=True)
class Swept:
    """One study and what its sweep said, beside every candidate evaluated by itself.

    `alone` holds one dict per candidate that can exist: "key", "bill", "feasible", "metrics" of
    one number each, and "rows", its columns as a person reads them.
    """

    engine: object
    results: list
    alone: list


def alone(engine):
    """Every candidate that breaks no rule, evaluated by itself in a table of one row."""
    found = []
    space = engine.space
    for bill in bills(space):
        for key in range(bill.key, bill.key + space.plans_per_bill):
            row = codes_of(space, np.array([key]))
            if broken_rules(space, row[0]):
                continue
            columns = values_of(space, row)
            done = evaluate(engine, columns, str(bill.values["accelerator"]))
            found.append(
                {
                    "key": key,
                    "bill": bill.index,
                    "feasible": bool(done.is_feasible[0]),
                    "metrics": {name: float(v[0]) for name, v in done.metrics.items()},
                    "rows": named_rows(engine, np.array([key]), columns, done, np.array([0])),
                }
            )
    return found


def swept(text):
    """A study swept in this process."""
    engine = engine_of(text)
    return Swept(engine, list(sweep(engine, 1, lambda: False)), alone(engine))


@pytest.fixture(scope="session")
def dense():
    """The small dense study, swept."""
    return swept(DENSE)


@pytest.fixture(scope="session")
def moe():
    """The small study with experts, swept."""
    return swept(MOE)


@dataclass(frozen=True)
class Workspace:
    """A folder with a study, a database of two runs of it, and what `run --json` said of each."""

    folder: Path
    study: Path
    db: Path
    documents: list


@pytest.fixture(scope="session")
def workspace(tmp_path_factory):
    """The small dense study run twice, with one process and with two."""
    folder = tmp_path_factory.mktemp("workspace")
    study, db = folder / "small.toml", folder / "planner.duckdb"
    study.write_text(DENSE)
    answers = [planner("run", study, "--db", db, "--workers", n, "--json") for n in (1, 2)]
    assert [answer.code for answer in answers] == [0, 0]
    return Workspace(folder, study, db, [answer.document for answer in answers])
