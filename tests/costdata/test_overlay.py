"""A user's rows lie over ours, whole and with their own source, and are checked at the door."""

import pytest

from costdata.catalog import load
from costdata.entries import add, show
from costdata.facts import read_cells
from costdata.overlay import read_ours
from simkernel.errors import BadFile, UnknownName

ORIGIN = {"source": "fixture", "as_of": "2026", "grade": "guess", "licence": "own"}


def write(folder, table, *rows):
    header = list(dict.fromkeys(column for row in rows for column in row))
    lines = [",".join(header)] + [",".join(row.get(c, "") for c in header) for row in rows]
    folder.mkdir(exist_ok=True)
    (folder / f"{table}.csv").write_text("\n".join(lines) + "\n")


def test_a_users_row_replaces_ours_whole_and_keeps_its_own_source(tmp_path):
    """A user's price was shown with our source, or kept our idle power beside it."""
    ours = read_ours()["accelerators"][("H100-SXM",)].cells
    cells = {c: t for c, t in ours.items() if "," not in t and not c.startswith("idle_w")}
    mine = {**cells, "price_usd": "21000", "source": "our quote", "as_of": "2026-11-02"}
    mine |= {"licence": "ours", "unverified": "", "price_usd_high": "22000"}
    write(tmp_path, "accelerators", mine)
    h100 = load(tmp_path).accelerator("H100-SXM")
    assert h100.prices_usd == (20000.0, 21000.0, 22000.0)
    price = h100.facts["price_usd"]
    assert (price.source, price.as_of, price.licence) == ("our quote", "2026-11-02", "ours")
    assert h100.idle_w is None
    assert "idle_w" in h100.missing
    assert show(load(tmp_path), "H100-SXM")["is_user"]
    assert load(tmp_path).accelerator("H200-SXM") == load().accelerator("H200-SXM")
    assert load().accelerator("H100-SXM").prices_usd == (20000.0, 23238.0, 31250.0)


def test_a_users_own_server_is_what_is_bought(tmp_path):
    """A user's quote for a server stood beside ours and was not used."""
    write(
        tmp_path,
        "servers",
        {"name": "ours-h20", "accelerator": "H20", "devices": "8", "price_usd": "99000"}
        | {"max_power_w": "6000", "is_purchase_unit": "yes", "has_host": "yes", **ORIGIN}
        | {"grade": "vendor"},
    )
    bought = load(tmp_path).purchase_unit("H20")
    assert (bought.name, bought.price_usd) == ("ours-h20", (99000.0, 99000.0, 99000.0))
    assert not bought.is_estimate


def test_an_overlay_with_a_strange_file_or_without_a_folder_is_told(tmp_path):
    """A table called accelerator.csv was ignored because ours is accelerators.csv."""
    write(tmp_path, "accelerator", {"name": "x"})
    with pytest.raises(BadFile, match="accelerator.csv is none of our tables"):
        load(tmp_path)
    with pytest.raises(BadFile, match="is not a folder"):
        load(tmp_path / "none")


def test_a_changed_overlay_is_read_again(tmp_path):
    """An edited price had no effect until the program was started again."""
    row = {"name": "here", "title": "here", "kind": "site", "country": "DEU", **ORIGIN}
    row |= {"grid_average_kgco2e_per_kwh": "0.3"}
    write(tmp_path, "regions", row | {"usd_per_kwh": "0.10"})
    assert load(tmp_path).site("here").usd_per_kwh[1] == 0.1
    write(tmp_path, "regions", row | {"usd_per_kwh": "0.123"})
    assert load(tmp_path).site("here").usd_per_kwh[1] == 0.123
    assert load(tmp_path) is load(tmp_path)


def test_add_writes_a_checked_row_and_nothing_else(tmp_path):
    """A faulty row was written and broke every later run."""
    folder = tmp_path / "mine"
    row = {"name": "here", "title": "our hall", "kind": "site", "country": "DEU"}
    row |= {"usd_per_kwh": "0.14", "grid_average_kgco2e_per_kwh": "0.3", "pue": "1.2", **ORIGIN}
    with pytest.raises(BadFile) as caught:
        add(folder, "site", row | {"usd_per_kwh": "140", "colour": "red", "source": ""})
    text = "\n".join(caught.value.faults)
    for part in ("USD/kWh", "no column 'colour'", "source is empty"):
        assert part in text
    assert not folder.exists()
    path = add(folder, "site", row)
    assert path == folder / "regions.csv"
    assert load(folder).site("here").pue == (1.2, 1.2, 1.2)
    with pytest.raises(BadFile, match="has a row here already"):
        add(folder, "regions", row)
    add(folder, "regions", row | {"name": "there", "cfe_frac": "0.5"})
    assert load(folder).site("there").cfe_frac == 0.5
    assert [r["name"] for r in read_cells(path)[1]] == ["here", "there"]
    with pytest.raises(UnknownName, match="table"):
        add(folder, "nonsense", row)


def test_add_to_a_place_that_cannot_be_written_is_told(tmp_path):
    """A full disk or a read-only folder ended in a traceback."""
    (tmp_path / "mine").write_text("a file where the folder should be")
    row = {"name": "here", "title": "here", "kind": "site", "country": "DEU", **ORIGIN}
    row |= {"usd_per_kwh": "0.14", "grid_average_kgco2e_per_kwh": "0.3"}
    with pytest.raises(BadFile, match="cannot be written"):
        add(tmp_path / "mine", "regions", row)
