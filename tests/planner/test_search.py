"""Drivers behind the seam, where other optimisers were found to fail; threads by repository."""

from dataclasses import replace

import numpy as np
import pytest
from small import DENSE, ROOT, ended, engine_of, planner, planner_process, with_lines

from planner.archive.store import Archive
from planner.pareto import hypervolume, nondominated
from planner.runs.run import run_study
from planner.search.choice import Budget, chosen
from planner.search.drivers import make_driver
from planner.search.evolve import Evolution, unbeaten_sites
from planner.search.legal import layouts_of
from planner.search.seam import Explored, Scores, explore
from planner.space.blocks import bills, blocks, keys_of
from planner.space.plan_keys import broken_rules, plan_key

DRIVERS = (("evolve", "age_moea"), ("evolve", "nsga2"), ("sample", "nsga2"), ("sample", "nsga3"))

HUGE = with_lines(
    DENSE,
    accelerator='accelerator = "all"',
    devices="devices = { from = 512, to = 16384, step = 512 }",
    supernode_devices='supernode_devices = "offered"\noversubscription = [1, 1.5, 2, 3]',
    tensor_parallel="tensor_parallel = [1, 2, 4, 8]\ncontext_parallel = [1, 2, 4, 8]",
    pipeline_parallel="pipeline_parallel = [1, 2, 4, 8, 16, 32]\n"
    'schedule = ["1f1b", "interleaved", "gpipe"]\nvirtual_stages = [1, 2, 4]',
    micro_batch_sequences="micro_batch_sequences = [1, 2, 4, 8, 16]",
    global_batch_sequences="global_batch_sequences = { from = 8, to = 16384, step = 8 }",
    recompute='recompute = ["none", "selective", "full"]\n'
    'precision = ["bf16", "fp8_block", "fp8"]\n'
    'collective = ["best", "ring", "direct"]\n'
    "power_cap_frac = { from = 0.5, to = 1.0, step = 0.01 }\n"
    'placement = ["tp-cp-dp-pp", "tp-cp-pp-dp"]',
    zero_stage="zero_stage = [0, 1, 2, 3]",
)
"""More combinations than any sweep can list."""


def searching(driver, algorithm, text=DENSE, seed=1):
    """A study that names its driver."""
    tables = f'[search]\ndriver = "{driver}"\nalgorithm = "{algorithm}"\npopulation = 12\n'
    return engine_of(with_lines(text, seed=f"seed = {seed}") + tables)


def run_of(engine, folder, **options):
    """A run in a database of its own."""
    return run_study(engine, Archive(folder / "x.duckdb"), workers=1, **options)


@pytest.mark.long
@pytest.mark.parametrize(("driver", "algorithm"), DRIVERS)
def test_a_driver_asks_for_every_plan_once_and_for_legal_ones_only(driver, algorithm):
    """Crossover of dependent axes leaves layouts that cannot be (optuna#2371); points are asked
    for again and again (optuna#2021, pymoo's own archive).
    """
    engine = searching(driver, algorithm)
    made, explored, asked = make_driver(driver, engine), Explored(engine), []
    for _ in range(4):
        codes = made.ask()
        assert not any(broken_rules(engine.space, row) for row in codes)
        asked += keys_of(engine.space, codes).tolist()
        made.tell(codes, explored.scores(codes))
    assert len(asked) > 20
    assert len(set(asked)) == len(asked)


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["nsga2", "age_moea"])
def test_the_last_plans_of_a_small_space_are_found(algorithm):
    """Two of 720 plans were never asked for, and the space was called exhausted."""
    engine = searching("evolve", algorithm)
    made, explored, asked = make_driver("evolve", engine), Explored(engine), []
    while len(codes := made.ask()):
        asked += keys_of(engine.space, codes).tolist()
        made.tell(codes, explored.scores(codes))
    space = engine.space
    legal = np.concatenate([b.keys for bill in bills(space) for b in blocks(space, bill)])
    assert sorted(asked) == sorted(legal.tolist())


@pytest.mark.long
@pytest.mark.parametrize(("driver", "algorithm"), DRIVERS)
def test_the_same_seed_asks_for_the_same_plans(driver, algorithm):
    """NSGA-III of pymoo 0.6.2 came to another front with every run (pymoo#794)."""
    told = []
    for seed in (5, 5, 6):
        engine = searching(driver, algorithm, seed=seed)
        explored = Explored(engine)
        left = iter((False, False, False))
        list(explore(explored, make_driver(driver, engine), lambda left=left: next(left, True)))
        told.append(list(explored.known))
    assert told[0] == told[1]
    assert told[0] != told[2]


@pytest.mark.long
@pytest.mark.parametrize(("driver", "algorithm"), DRIVERS)
def test_where_nothing_is_feasible_the_nearest_plans_and_limits_are_told(
    driver, algorithm, tmp_path
):
    """The list of best trials was empty, and nobody knew why (optuna#6242, pymoo#129)."""
    engine = searching(driver, algorithm, with_lines(DENSE, days="days = 0.01"))
    done = run_of(engine, tmp_path, budget=Budget(40))
    assert not done.front
    plans = done.summary.nearest["plans"]
    assert len(plans) == 10
    assert {plan["binding"] for plan in plans} == {"days"}
    worst = [plan["worst_excess"] for plan in plans]
    assert worst == sorted(worst)
    assert done.summary.rejected["days"] == done.summary.evaluated


@pytest.mark.parametrize("algorithm", ["age_moea", "nsga2"])
def test_copies_with_five_objectives_are_sorted(algorithm):
    """384 points of 5 objectives with copies ended in a crash (pymoo#797, moocore#74)."""
    engine = searching("evolve", algorithm)
    made = Evolution(layouts_of(engine.space), 5, 1, algorithm, 48)
    rng = np.random.default_rng(0)
    for _ in range(3):
        codes = made.ask()
        few = rng.integers(0, 2, (len(codes), 1, 5)).astype(float)
        made.tell(codes, Scores(few, np.zeros((len(codes), 1))))
    points = np.repeat(rng.random((48, 5)), 8, axis=0)
    assert nondominated(points).sum() == nondominated(np.unique(points, axis=0)).sum()


@pytest.mark.long
@pytest.mark.parametrize("algorithm", ["age_moea", "nsga2"])
def test_scores_without_a_number_do_not_end_a_search(algorithm):
    """A plan without a price would end the run, or win it (optuna#2169, #3738)."""
    engine = searching("evolve", algorithm)
    made = Evolution(layouts_of(engine.space), 3, 1, algorithm, 8)
    for excess in (np.inf, 0.0, np.inf):
        codes = made.ask()
        points = np.full((len(codes), 2, 3), np.inf if excess else 1.0)
        made.tell(codes, Scores(points, np.full((len(codes), 2), excess)))
    assert len(made.ask()) == 8


def test_a_reference_of_whole_numbers_measures_the_same_volume():
    """Hypervolume with a reference in integers was wrong (optuna#2421)."""
    points = np.array([[0.25, 0.5], [0.5, 0.25], [0.5, 0.25], [3.0, 0.0]])
    assert hypervolume(points, 1) == hypervolume(points, 1.0) == pytest.approx(0.5)
    assert hypervolume(np.zeros((2, 3), dtype=int), 2) == pytest.approx(8.0)
    assert hypervolume(np.empty((0, 3)), 1) == 0.0


def test_a_plan_enters_once_for_each_site_that_is_not_beaten():
    """A clean site and a cheap one would compete as one."""
    points = np.array([[[1.0, 3.0], [2.0, 1.0], [2.0, 2.0]], [[1.0, 1.0]] * 3])
    excess = np.array([[0.0, 0.0, 0.0], [0.5, 0.2, 0.3]])
    rows, sites = unbeaten_sites(Scores(points, excess))
    assert list(zip(rows.tolist(), sites.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1)]


@pytest.mark.long
def test_a_space_of_1e15_is_searched_within_its_budget(tmp_path):
    """A sweep of it would not end within a lifetime, and nothing would say so."""
    engine = engine_of(HUGE)
    assert engine.space.enumerated > 1e15
    done = run_of(engine, tmp_path, budget=Budget(100))
    assert done.summary.notes["search"].startswith("evolve: about ")
    assert 100 <= done.summary.evaluated <= 150
    assert len(done.front["plan"]) > 1
    for plan in done.front["plan"]:
        assert 0 <= plan_key(plan) < engine.space.key_count


@pytest.mark.long
def test_the_choice_says_why():
    """A person could not tell a proved front from one that was found."""
    small = chosen(engine_of(DENSE), Budget(), True)
    assert (small.driver, small.reason.split(":")[0][-9:]) == ("sweep", "can exist")
    huge = engine_of(HUGE)
    assert chosen(huge, Budget(), True).driver == "evolve"
    assert "not proved" in chosen(huge, Budget(), True).reason
    assert chosen(huge, Budget(), False).driver == "sweep"
    asked = replace(huge.study, search=replace(huge.study.search, driver="sweep"))
    assert chosen(replace(huge, study=asked), Budget(), True).driver == "sweep"


def test_a_kind_that_is_only_swept_says_so(tmp_path):
    """A person would take a sweep for the search they asked for."""
    study = ROOT / "studies" / "power_capped_site.toml"
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--search", "evolve")
    assert answer.code == 2
    assert 'wanted "auto" or "sweep"' in answer.err


@pytest.mark.long
def test_a_journal_can_be_opened_beside_the_archive(tmp_path):
    """Nobody who knows Optuna could watch the search with what they have."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    study = tmp_path / "x.toml"
    study.write_text(f'{DENSE}\n[search]\ndriver = "sample"\njournal = "x.log"\npopulation = 8\n')
    db = tmp_path / "x.duckdb"
    for _ in range(2):
        answer = planner("run", study, "--db", db, "--budget", 30, "--json")
        assert answer.code == 0
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "x.log")))
    names = [one.study_name for one in optuna.get_all_study_summaries(storage)]
    assert names == ["small", "small-2"]
    best = optuna.load_study(study_name="small", storage=storage).best_trials
    assert best
    assert {"site", "accelerator", "devices"} <= set(best[0].params)


@pytest.mark.long
def test_a_journal_tells_which_trials_break_a_limit(tmp_path):
    """A plan that cannot be would stand among the best in optuna-dashboard.

    It reads the attribute in which Optuna's samplers keep what `constraints_func` said.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    study = tmp_path / "x.toml"
    study.write_text(f'{DENSE}\n[search]\ndriver = "sample"\njournal = "x.log"\npopulation = 8\n')
    planner("run", study, "--db", tmp_path / "x.duckdb", "--budget", 60, "--json")
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "x.log")))
    told = optuna.load_study(study_name="small", storage=storage)
    trials = told.get_trials(states=(optuna.trial.TrialState.COMPLETE,))
    over = {trial.number: trial.system_attrs["constraints"] for trial in trials}
    assert all(list(trial.constraints.values()) == over[trial.number] for trial in trials)
    fits = {number for number, excess in over.items() if excess[0] <= 0}
    assert fits
    assert set(over) - fits
    assert {trial.number for trial in told.best_trials} <= fits


@pytest.mark.long
def test_a_lock_on_the_journal_that_a_killed_run_left_is_told_and_broken(tmp_path):
    """A search would wait for ever for a process that is no more (optuna#5921)."""
    study = tmp_path / "x.toml"
    study.write_text(f'{DENSE}\n[search]\ndriver = "sample"\njournal = "x.log"\npopulation = 8\n')
    (tmp_path / "x.log.lock").touch()
    sooner = "import planner.search.sample as sample; sample.LOCK_S = 3"
    process = planner_process(tmp_path, "run", "x.toml", "--budget", 30, before=sooner)
    answer = ended(process)
    assert answer.code == 0
    assert "lock file has not been released" in answer.err
    assert not (tmp_path / "x.log.lock").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('driver = "evolve"\nalgorithm = "nsga3"', "wanted nsga2 or age_moea"),
        ('driver = "sweep"\nalgorithm = "nsga2"', "leave it out"),
        ('driver = "random"', '"auto", "sweep", "evolve" or "sample"'),
        ("population = 1", "from 4 to 10000"),
        ("seed = 1", "search.seed"),
    ],
)
def test_faults_of_the_table_are_told(line, said, tmp_path):
    """A search would be run that nobody asked for."""
    study = tmp_path / "x.toml"
    study.write_text(f"{DENSE}\n[search]\n{line}\n")
    answer = planner("run", study, "--db", tmp_path / "x.duckdb", "--json")
    assert answer.code == 2
    assert said in answer.err or said in answer.out


@pytest.mark.long
def test_the_command_takes_a_driver(tmp_path):
    """The study file would have to be changed for every try."""
    study = tmp_path / "x.toml"
    study.write_text(DENSE)
    db = tmp_path / "x.duckdb"
    exact = planner("run", study, "--db", db, "--json").document
    found = planner("run", study, "--db", db, "--search", "evolve", "--json").document
    assert found["notes"]["search"] == "evolve: evolve was asked for"
    assert found["front_hash"] == exact["front_hash"]
    early = planner("run", study, "--db", db, "--search", "evolve", "--budget", 20)
    assert early.out.startswith("ENDED EARLY, by its budget")
