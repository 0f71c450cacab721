"""The slider of the model's error: what it does to the odds of plans on several chips."""

import pytest
from conftest import STUDY, ran

from planner.archive.store import Archive
from planner.costing.recost import repriced
from planner.pages.error_band import Counted, held, odds_of

CHIPS = '"H100-SXM", "H200-SXM", "A100-80GB-SXM", "L40S"'


@pytest.mark.long
def test_the_more_the_model_errs_the_less_a_chip_is_sure_of_its_place(tmp_path):
    """The slider would move bars alone, and a plan be shown as safe as if speeds were known."""
    text = STUDY.replace('"H100-SXM", "A100-80GB-SXM"', CHIPS).replace(
        '["devices", "days", "usd", "kgco2e"]', '["devices", "days", "usd"]'
    )
    run = ran(tmp_path / "x.duckdb", text)
    priced = repriced(Archive(tmp_path / "x.duckdb"), run)
    sure = []
    for scale in (0.0, 1.0, 3.0):
        how = Counted(scale, is_against=False)
        sure.append(odds_of(priced, held(priced, how).plans, "", how))
    assert sure[0].keys() == sure[2].keys()
    assert max(sure[0].values()) == 1.0  # with no error of the model some plan is sure
    assert sum(sure[0].values()) > sum(sure[1].values()) > sum(sure[2].values())
