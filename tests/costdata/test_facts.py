"""Reading a table: units end at the door, every fault of form is found, every field is sourced."""

import pytest

from costdata.facts import (
    GRADES,
    TABLES,
    header_faults,
    parse_cell,
    parse_table,
    read_cells,
    schema_names,
    schema_of,
)
from costdata.overlay import read_ours
from simkernel.errors import BadFile, MissingFact, UnknownName

ORIGIN = {"source": "a sheet", "as_of": "2025-03", "grade": "vendor", "licence": "own"}
PART = {"name": "x", "kind": "optic", "per": "module", **ORIGIN}


def one(cells, provenance=None):
    rows, faults = parse_table("network", [cells], provenance or {})
    return next(iter(rows.values())), faults


def test_human_units_end_at_the_door():
    """A rate of 50 GB/s left the reader as 50, and a plan took it for 50 bytes/s."""
    row, faults = one({**PART, "port_gbytes_per_s_per_direction": "50"})
    assert faults == []
    assert row.number("port_gbytes_per_s_per_direction") == 50e9
    fact = row.facts["port_bytes_per_s_per_direction"]
    assert (fact.value, fact.unit) == (50e9, "bytes/s")


def test_every_value_of_every_table_has_source_date_grade_and_licence():
    """A number in a report could not be traced to where it was read."""
    for table in read_ours().values():
        for row in table.values():
            for name, fact in row.facts.items():
                where = f"{row.table}/{row.name}/{name}"
                assert fact.source, where
                assert fact.as_of, where
                assert fact.licence, where
                assert fact.grade in GRADES, where


def test_verification_is_per_field():
    """One doubtful figure made a whole row doubtful, or a doubtful figure passed as found."""
    facts = read_ours()["accelerators"][("H100-SXM",)].facts
    assert facts["hbm_bytes_per_s"].verified
    assert not facts["idle_w"].verified
    assert facts["idle_w"].grade == "guess"
    assert facts["price_usd"].verified
    assert facts["price_usd"].grade == "estimate"
    assert facts["price_usd"].as_of == "2025"


def test_an_unverified_band_does_not_blame_its_typical_value():
    """A band by a planning rule made a printed price look unfound."""
    fact = read_ours()["regions"][("us-tx",)].facts["usd_per_kwh"]
    assert fact.verified
    assert not fact.is_band_verified
    assert (fact.low, fact.value, fact.high) == (0.0561, 0.066, 0.0891)


def test_the_source_of_one_field_beats_that_of_all_rows_and_of_the_row():
    """A price was dated with the date of the data sheet beside it."""
    general = {"source": "rule", "grade": "paper"}
    single = {"grade": "measured", "as_of": "2024-01"}
    row, _ = one(
        {**PART, "power_w": "12"},
        {("network", "*", "power_w"): general, ("network", "x", "power_w"): single},
    )
    fact = row.facts["power_w"]
    assert (fact.source, fact.grade, fact.as_of, fact.licence) == (
        "rule",
        "measured",
        "2024-01",
        "own",
    )


def test_all_faults_of_a_table_are_told_at_once():
    """A user mended one cell a run, five times."""
    rows = [
        {**PART, "price_usd": "1,000"},
        {**PART, "name": "y", "ports": "2.5", "grade": "sure"},
        {**PART, "name": "z", "as_of": "last year", "licence": ""},
        {**PART, "name": "z", "unverified": "colour"},
    ]
    _, faults = parse_table("network", rows, {})
    text = "\n".join(faults)
    for part in ("'1,000' is not a number", "'2.5' is not a whole", "'sure' is not one of"):
        assert part in text
    for part in ("'last year' is not a date", "licence is empty", "z is there twice", "'colour'"):
        assert part in text


def test_an_unknown_column_is_an_error_that_names_the_right_one():
    """A bandwidth without a direction was ignored, and the plan ran on the default."""
    (fault,) = header_faults("accelerators", ["name", "scaleup_gbps"])
    assert "scaleup_gbytes_per_s_per_direction" in fault
    (fault,) = header_faults("accelerators", ["price"])
    assert "price_usd" in fault
    (fault,) = header_faults("accelerators", ["tdp"])
    assert "tdp_w" in fault


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "12 W", ""])
def test_only_finite_plain_numbers_are_numbers(text):
    """A NaN in a table became the smallest value of a sort."""
    with pytest.raises(ValueError, match="not a"):
        parse_cell(schema_of("network")["power_w"], text)


def test_an_empty_cell_is_missing_not_zero():
    """A missing reading was counted as zero watts."""
    row, _ = one(PART)
    assert row.number("power_w") is None
    with pytest.raises(MissingFact, match="power_w of x is not in network.csv"):
        row.need("power_w")


def test_a_band_without_ends_is_its_typical_value():
    """A price without a band had a band from zero."""
    row, _ = one({**PART, "price_usd": "700"})
    assert row.band("price_usd") == (700.0, 700.0, 700.0)
    assert row.band("power_w") is None


def test_a_broken_file_is_told_with_its_line(tmp_path):
    """A comma in a cell shifted every later column of the row, silently."""
    path = tmp_path / "network.csv"
    path.write_text("name,kind,kind\nx,optic\n")
    with pytest.raises(BadFile) as caught:
        read_cells(path)
    assert "column 'kind' is there twice" in caught.value.faults[0]
    assert "line 2 has 2 cells" in caught.value.faults[1]
    for content in (b"", b"\xff\xfe\x00"):
        path.write_bytes(content)
        with pytest.raises(BadFile, match="network.csv"):
            read_cells(path)
    with pytest.raises(BadFile, match="cannot be read"):
        read_cells(tmp_path / "none.csv")


def test_every_table_has_a_schema_and_every_schema_is_sound():
    """A table with no schema was read without units."""
    for name in schema_names():
        for spec in schema_of(name).values():
            assert spec.kind, f"{name}/{spec.name}"
            assert spec.meaning, f"{name}/{spec.name}"
            assert spec.kind != "choice" or spec.choices, f"{name}/{spec.name}"
        assert any(spec.is_key for spec in schema_of(name).values())
    with pytest.raises(UnknownName, match="did you mean servers"):
        schema_of("server")


def test_a_number_says_its_unit_in_its_name():
    """A column called tdp was read in kilowatts by one and in watts by another."""
    units = {
        "W": "_w",
        "s": "_s",
        "USD": "_usd",
        "GB/s": "_gbytes_per_s",
        "TFLOP/s": "_tflop_per_s",
        "USD/kWh": "usd_per_kwh",
        "kgCO2e": "kgco2e",
        "bytes": "_bytes",
    }
    for name in schema_names():
        for spec in schema_of(name).values():
            if spec.unit in units:
                said = f"_{spec.name}_".replace("provisioned_w_per_device", "provisioned_w")
                assert units[spec.unit] in said, f"{name}/{spec.name}"


def test_share_alike_data_stays_in_its_own_files():
    """Copying a column of ODbL data would put the whole table under its licence."""
    for path in TABLES.glob("*.csv"):
        licences = {row.get("licence", "") for row in read_cells(path)[1]}
        if path.name == "regions_electricity_maps.csv":
            assert licences == {"ODbL-1.0"}
        elif path.name == "regions_ember.csv":
            assert licences == {"CC BY-SA 4.0"}
        elif path.name != "provenance.csv":
            assert not [text for text in licences if "ODbL" in text or "BY-SA" in text]


def test_a_word_is_not_a_number():
    """The topology of a chip was added to its watts."""
    facts = read_ours()["accelerators"][("H100-SXM",)].facts
    assert facts["tdp_w"].number == 700.0
    with pytest.raises(MissingFact, match="'switched'"):
        assert facts["scaleup_topology"].number
