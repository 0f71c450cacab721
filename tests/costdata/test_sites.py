"""A site has a price, an intensity, a PUE and water, and says what stands in."""

from costdata.catalog import load
from costdata.overlay import read_ours
from costdata.sites import site_of


def test_the_zone_beats_the_nation_and_side_files_can_be_left_out():
    """Texas was given the mean of its own grid and the national one."""
    site = load().site("us-tx")
    assert site.grid_average_kgco2e_per_kwh == 0.363
    without = {k: v for k, v in read_ours().items() if k != "regions_electricity_maps"}
    national = site_of(without, "us-tx")
    assert national.grid_average_kgco2e_per_kwh == 0.38355
    assert any("ember" in words for words in national.basis)


def test_a_stand_in_is_said():
    """France had the PUE of somewhere else, and no one was told."""
    site = load().site("fr")
    assert site.pue == (1.07, 1.14, 1.46)
    assert any(words.startswith("pue: none known for fr") for words in site.basis)
    assert not any(words.startswith("pue") for words in load().site("us-tx").basis)
    assert load().site("fr").usd_per_kwh[1] == 0.1175
