"""Input that means harm: refused with a word, or shown letter by letter, and nothing lost."""

import io
import json
import zipfile

import pytest

from costdata import own_tables
from costdata.catalog import load
from planner.documents.cells import harmless
from planner.pages import start, workspace
from simkernel.errors import PlanError

TRAIN = """
[study]
name = NAME
kind = "train"
[workload.main]
model = MODEL
tokens = TOKENS
tokens_per_sequence = 4096
[axes]
accelerator = ["H100-SXM"]
devices = DEVICES
global_batch_sequences = 8
"""
GOOD = {"NAME": '"x"', "MODEL": '"llama-3.1-8b"', "TOKENS": "1e12", "DEVICES": "8"}


def study(**given):
    """A study text with some of its values replaced, word for word."""
    text = TRAIN
    for name, value in {**GOOD, **given}.items():
        text = text.replace(name, value)
    return text


def packed(size=10_000_000):
    """A file of zeros, packed a thousand times smaller."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/worksheets/sheet1.xml", b"0" * size)
    return file.getvalue()


STUDIES = {
    "a bomb of brackets": "[study]\nname = " + "[" * 100_000,
    "a bomb of tables": "[study]\n" + "a." * 50_000 + "b = 1",
    "no text at all": "\x00\x01\x02",
    "not a number": study(TOKENS="nan"),
    "without end": study(TOKENS="inf"),
    "below nothing": study(TOKENS="-1e12"),
    "a huge integer": study(DEVICES="1" + "0" * 5000),
    "more devices than atoms": study(DEVICES="1" + "0" * 400),
    "a list without end": study(DEVICES="{ from = 1, to = 1000000000, step = 1 }"),
    "a step of nothing": study(DEVICES="{ from = 1, to = 8, step = 0 }"),
    "a step that is not a number": study(DEVICES="{ from = 1, to = 8, step = nan }"),
    "a date for a number": study(TOKENS="1979-05-27"),
    "a yes for a number": study(DEVICES="true"),
    "a text for a number": study(DEVICES='"8; DROP TABLE runs"'),
    "a key given twice": study(NAME='"x"\nname = "y"'),
    "a path upwards as a model": study(MODEL='"../../../../etc/passwd.json"'),
    "a file of the machine as a model": study(MODEL='"/etc/passwd.json"'),
    "code as a model": study(MODEL="\"__import__('os').system('id')\""),
    "tables elsewhere": study(NAME='"x"\ntables = "/etc"'),
    "tables upwards": study(NAME='"x"\ntables = "../.."'),
}

SHOWN = {
    "a script": "<script>alert(1)</script>",
    "a formula": "=cmd|' /C calc'!A0",
    "a sum": "@SUM(1+1)*cmd|' /C calc'!A0",
    "a picture": "![x](http://example.invalid/x.png)",
    "a path": "../../../../tmp/x",
    "letters that turn": "\u202egnp.exe",
    "colours of Streamlit": ":red[x] $x$ <b>",
    "a very long name": "x" * 5000,
    "a null": "a\x00b",
}

HEAD = "name,accelerator,devices,price_usd,source,as_of,grade,licence\n"

TABLES = {
    "a path upwards": ("../../accelerators.csv", b"name\nx\n"),
    "a file of the machine": ("/etc/passwd", b"root:x:0:0\n"),
    "no table of ours": ("evil.csv", b"name\nx\n"),
    "a null in the name": ("regions\x00.csv", b"name\nx\n"),
    "a packed bomb": ("regions.csv", packed()),
    "a spreadsheet": ("regions.xlsx", packed(1000)),
    "another encoding": ("regions.csv", "name,title\nä,ö\n".encode("utf-16")),
    "Latin letters": ("regions.csv", b"name,title\nM\xfcnchen,x\n"),
    "nulls": ("regions.csv", b"name,title\n\x00\x00,x\n"),
    "nothing": ("regions.csv", b""),
    "a header alone": ("regions.csv", b"name,title\n"),
    "a column twice": ("regions.csv", b"name,name\na,b\n"),
    "columns of nobody": ("regions.csv", b"name,__class__\na,b\n"),
    "a cell of a million letters": ("regions.csv", b"name,title\na," + b"x" * 1_000_000 + b"\n"),
    "a quote that never ends": ("regions.csv", b'name,title\n"a,b\n'),
    "too large": ("regions.csv", b"name,title\n" + b"a,b\n" * 600_000),
    "a thousand columns": (
        "regions.csv",
        (",".join(f"c{i}" for i in range(1000)) + "\n").encode(),
    ),
}

CELLS = ("nan", "inf", "-inf", "1e999", "1" + "0" * 5000, "-5", "=1+1", "1_000", "0x10", "١٢")
"""What stands where a price of electricity should."""

NAMES = ("=cmd|' /C calc'!A0", "+1", "@x", "<script>x</script>", "../x", "a\x00b", "a\nb")
"""Of a site of one's own."""

MODELS = {
    "not JSON": b"{",
    "a list": b"[1, 2]",
    "a bomb of brackets": b"[" * 100_000,
    "a bomb of objects": b'{"a":' * 50_000,
    "a huge integer": b'{"hidden_size": 1' + b"0" * 5000 + b"}",
    "packed twice": packed(),
    "too large": b" " * 3_000_000,
    "another encoding": json.dumps({"hidden_size": 8}).encode("utf-16"),
}

LAYERS = ("1000000000", "-1", "NaN", "Infinity", '"2"', "1e300", "null", "true")
"""What stands where a model's number of layers should."""


@pytest.fixture(autouse=True)
def room(tmp_path, monkeypatch):
    """A workspace of its own."""
    monkeypatch.setenv(workspace.DATABASE, str(tmp_path / "planner.duckdb"))
    return tmp_path


@pytest.mark.parametrize("text", STUDIES.values(), ids=STUDIES)
def test_a_hostile_study_is_refused_with_a_word(text):
    """The page would break, hang, or read what its visitor may not."""
    found, faults = start.faults_of(text)
    assert found is None
    assert faults
    assert all(faults)


@pytest.mark.parametrize("name", SHOWN.values(), ids=SHOWN)
def test_a_hostile_name_stays_in_its_folder(name, room):
    """A study's name would write over a file, or its name run as a formula."""
    found, faults = start.faults_of(study(NAME=json.dumps(name)))
    if found is None:
        assert faults
        return
    path = (workspace.studies() / f"{start.file_name(found.name)}.toml").resolve()
    assert path.parent == workspace.studies()
    assert str(harmless(found.name))[:1] not in ("=", "@", "+", "-")


@pytest.mark.parametrize(("name", "data"), TABLES.values(), ids=TABLES)
def test_a_hostile_table_is_refused_and_nothing_is_written(name, data, room):
    """Half a table would be kept, or a file outside the folder written."""
    with pytest.raises(PlanError):
        own_tables.add_table(workspace.own_tables(), name, data)
    assert not list(room.rglob("*.csv*"))


def site(name="my-site", price="0.1"):
    """A table of one site."""
    cells = {"name": name, "title": "mine", "kind": "site", "country": "USA", "usd_per_kwh": price,
             "source": "my bill", "as_of": "2026-01-01", "grade": "vendor",
             "licence": "own"}  # fmt: skip
    return own_tables.table_text(list(cells), [cells]).encode()


def test_a_table_without_harm_is_kept(room):
    """Everything would be refused, harm or not."""
    own_tables.add_table(workspace.own_tables(), "regions.csv", site())
    assert load(workspace.own_tables()).site_name("my-site") == "my-site"


@pytest.mark.parametrize("price", CELLS, ids=[cell[:8] for cell in CELLS])
def test_a_cell_that_is_no_price_is_refused(price, room):
    """A plan would be priced with it."""
    with pytest.raises(PlanError):
        own_tables.add_table(workspace.own_tables(), "regions.csv", site(price=price))
    assert not list(room.rglob("*.csv*"))


@pytest.mark.parametrize("name", NAMES, ids=[repr(name) for name in NAMES])
def test_a_name_that_may_hurt_is_refused(name, room):
    """A spreadsheet, a page or a path would be harmed where the site is named."""
    with pytest.raises(PlanError):
        own_tables.add_table(workspace.own_tables(), "regions.csv", site(name=name))
    assert not list(room.rglob("*.csv*"))


@pytest.mark.parametrize("data", MODELS.values(), ids=MODELS)
def test_a_hostile_model_is_refused_and_nothing_is_written(data, room):
    """The page would break, or a file be left that no study can read."""
    with pytest.raises(PlanError):
        own_tables.add_model(workspace.studies(), "mine.json", data)
    assert not list(room.rglob("*.json"))


@pytest.mark.parametrize("layers", LAYERS)
def test_a_model_without_layers_is_refused(layers, room):
    """A million million layers would fill the memory of the machine."""
    text = f"""{{"architectures": ["LlamaForCausalLM"], "hidden_size": 64, "vocab_size": 100,
        "num_attention_heads": 4, "intermediate_size": 128, "num_hidden_layers": {layers}}}"""
    with pytest.raises(PlanError):
        own_tables.add_model(workspace.studies(), "mine.json", text.encode())
    assert not list(room.rglob("*.json"))


@pytest.mark.parametrize("name", ["../../x.json", "/etc/x.json", ".json", "<b>.json", "=x.json"])
def test_a_model_is_kept_in_the_folder_whatever_its_name(name, room):
    """A model would be written over a file of the machine."""
    text = """{"model_type": "llama", "hidden_act": "silu", "hidden_size": 64, "vocab_size": 100,
        "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128,
        "num_hidden_layers": 2, "tie_word_embeddings": false}"""
    path = own_tables.add_model(workspace.studies(), name, text.encode())
    assert path.resolve().parent == workspace.studies() / own_tables.MODELS
    assert [one for one in room.rglob("*") if one.is_file()] == [path]


@pytest.mark.parametrize(
    ("name", "data"),
    [("s.toml", b"\xff\xfe"), ("s.toml", packed()), ("s.toml", b"#" * 300_000)],
)
def test_a_file_that_is_no_study_is_refused(name, data):
    """A page would show what it read as far as it got."""
    with pytest.raises(PlanError):
        start.text_of(name, data)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [("=1+1", "'=1+1"), ("@x", "'@x"), ("-x", "'-x"), ("+12%", "+12%"), ("-5.0", "-5.0"),
     (-5.0, -5.0), (None, None), ("x=1", "x=1")],
)  # fmt: skip
def test_cells_that_a_spreadsheet_would_work_out_are_quoted(cell, shown):
    """A table taken away would run a command where it is opened."""
    assert harmless(cell) == shown
