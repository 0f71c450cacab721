"""Operator tables, Vidur's profiles and exports of Nsight Systems."""

import sqlite3

import duckdb
import pytest

from costdata.catalog import load
from planner.imports.found import Given
from planner.imports.kinds import nsight, operator_tables, vidur
from simkernel.errors import PlanError


def given(**settings):
    return Given(load(), settings)


def parquet(folder, name, query):
    """A Parquet file of a query, where the package has its own."""
    path = folder / "data" / "h100_sxm" / "gemm" / "trtllm" / "1.3.0" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        connection.execute(f"copy ({query}) to '{path}' (format parquet)")
    return path


GEMMS = """
select d as gemm_dtype, m, 4096 as k, n, 2e-9 * m * 4096 * n / 6e5 + 5e-3 as latency
from (values ('bfloat16'), ('strange')) t(d), (values (1), (128), (8192)) a(m),
     (values (4096), (14336)) b(n)
"""
MESSAGES = """
select 'half' as nccl_dtype, o as op_name, 8 as num_gpus, s as message_size,
       s * 2 * 7 / 8 / 4e8 + 2e-2 as latency
from (values ('all_gather'), ('alltoall'), ('broadcast')) t(o), (values (4096), (67108864)) a(s)
"""


def test_operator_tables_become_products_and_collectives(tmp_path):
    """What a whole field has measured could not be used."""
    paths = (
        parquet(tmp_path, "gemm_perf.parquet", GEMMS),
        parquet(tmp_path, "nccl_perf.parquet", MESSAGES),
    )
    found = operator_tables.read(paths, given())
    assert len(found.tables["product_times"]) == 6
    assert {r["precision"] for r in found.tables["product_times"]} == {"bf16"}
    assert {r["timed"] for r in found.tables["product_times"]} == {"alone"}
    collectives = found.tables["collective_times"]
    assert {r["operation"] for r in collectives} == {"all_gather", "all_to_all"}
    assert {r["payload_bytes"] for r in collectives} == {"8192", "134217728"}
    assert found.told["H100-SXM"]["product_errors"]["curve_median_frac"] > 0


def test_samples_of_whole_runs_are_never_opened(tmp_path):
    """What predictions are judged by would become what they are made of."""
    for folder, name in (
        ("silicon_samples", "gemm_perf.parquet"),
        ("x", "silicon_sample.parquet"),
    ):
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_bytes(b"not read")
        with pytest.raises(PlanError, match="sample of whole runs"):
            operator_tables.read([path], given(accelerator="H100-SXM"))


def test_tables_of_no_chip_and_files_that_are_none_are_refused(tmp_path):
    """Times would be kept of a chip that was guessed."""
    path = tmp_path / "gemm_perf.parquet"
    path.write_bytes(b"PAR1 and nothing")
    with pytest.raises(PlanError, match="a chip that is known"):
        operator_tables.read([path], given())
    with pytest.raises(PlanError, match="no such table"):
        operator_tables.read([path], given(accelerator="H100-SXM"))
    path = parquet(tmp_path, "nccl_perf.parquet", MESSAGES.replace("'half'", "'int8'"))
    with pytest.raises(PlanError, match="no collectives of an operation and type"):
        operator_tables.read([path], given())
    path = parquet(tmp_path, "gemm_perf.parquet", GEMMS.replace("m, 4096 as k", "m, null as k"))
    with pytest.raises(PlanError, match="no products in a precision"):
        operator_tables.read([path], given())


HEAD = (
    "num_tokens,num_tensor_parallel_workers,n_head,n_kv_head,n_embd,n_expanded_embd,use_gated_mlp,"
    "time_stats.attn_pre_proj.median,time_stats.attn_post_proj.median,"
    "time_stats.mlp_up_proj.median,time_stats.mlp_down_proj.median"
)


def profile(tmp_path, *lines):
    path = tmp_path / "mlp.csv"
    path.write_text("\n".join([HEAD, *lines]))
    return vidur.read([path], given(accelerator="A100-80G-SXM"))


def test_a_profile_of_vidur_becomes_products_of_a_rank(tmp_path):
    """Products of a shard would be kept as those of the whole layer."""
    found = profile(tmp_path, "4096,2,32,8,4096,14336,True,0.5,0.4,2.1,1.1")
    shapes = {
        (int(r["inner"]), int(r["columns"])): r["seconds"] for r in found.tables["product_times"]
    }
    assert shapes == {
        (4096, 3072): "0.0005", (2048, 4096): "0.0004", (4096, 14336): "0.0021",
        (7168, 4096): "0.0011",
    }  # fmt: skip


def test_zeros_of_vidur_are_not_times(tmp_path):
    """A product that was not timed would cost nothing."""
    found = profile(tmp_path, "4096,1,32,8,4096,14336,False,0.0,0.4,2.1,0.0")
    assert len(found.tables["product_times"]) == 2
    assert found.notes == ["2 zeros are taken as not timed"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("4096,1,32,8,4096,14336,False,-1,0.4,2.1,1.0", "took -1.0 ms"),
        ("0,1,32,8,4096,14336,False,1,0.4,2.1,1.0", "num_tokens"),
        ("4096,1,32,8,4096,14336,False,x,0.4,2.1,1.0", "attn_pre_proj.median = 'x' is no number"),
        ("inf,1,32,8,4096,14336,False,1,0.4,2.1,1.0", "num_tokens = 'inf' is no whole"),
        (",1,32,8,4096,14336,False,1,0.4,2.1,1.0", "num_tokens = '' is no whole"),
        ("4096,16,32,8,4096,14336,False,1,0.4,2.1,1.0", "cannot divide heads by tensor ranks"),
        ("4096,1,30,6,4096,14336,False,1,0.4,2.1,1.0", "cannot divide n_embd by n_head"),
        ("4096,1,32", "cells"),
    ],
)
def test_a_profile_that_cannot_be_is_refused(tmp_path, line, words):
    """A shift of columns would be believed."""
    with pytest.raises(PlanError, match=words):
        profile(tmp_path, line)


def export(path, kernels):
    """An export with the exporter's tables and columns that are read."""
    with sqlite3.connect(path) as database:
        database.execute("create table StringIds (id integer, value text)")
        database.execute(
            "create table CUPTI_ACTIVITY_KIND_KERNEL "
            "(start integer, end integer, deviceId integer, shortName integer)"
        )
        names = sorted({name for *_, name in kernels})
        database.executemany("insert into StringIds values (?, ?)", list(enumerate(names)))
        database.executemany(
            "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?, ?, ?, ?)",
            [(start, end, device, names.index(name)) for start, end, device, name in kernels],
        )
    database.close()
    return path


def test_an_export_of_nsight_says_how_the_time_splits(tmp_path):
    """Nobody could say what a device waits for."""
    kernels = [
        (0, 600, 0, "sm90_xmma_gemm_bf16"), (700, 1000, 0, "flash_fwd_kernel"),
        (0, 100, 1, "something_else"),
    ]  # fmt: skip
    found = nsight.read([export(tmp_path / "a.sqlite", kernels)], given())
    first, second = found.told["devices"]
    assert not found.tables
    assert first["product_frac"] == pytest.approx(2 / 3)
    assert first["idle_frac"] == pytest.approx(0.1)
    assert second["recognised_frac"] == 0.0


def test_an_export_of_more_kernels_than_are_read_is_refused(tmp_path, monkeypatch):
    """The split of a part would be told as that of the whole."""
    path = export(tmp_path / "a.sqlite", [(i, i + 1, 0, "gemm") for i in range(4)])
    for most, is_read in ((4, True), (3, False)):
        monkeypatch.setattr(nsight, "MOST_KERNELS", most)
        if is_read:
            assert nsight.read([path], given()).told["devices"][0]["kernels"] == 4
        else:
            with pytest.raises(PlanError, match="more than 3 kernels"):
                nsight.read([path], given())


def test_exports_that_are_none_are_refused(tmp_path):
    """A database of anything would be run as it says."""
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"SQLite format 3\x00 and no more")
    with pytest.raises(PlanError, match="no export of Nsight|no table"):
        nsight.read([path], given())
    with sqlite3.connect(tmp_path / "b.sqlite") as database:
        database.execute("create table StringIds (id integer, value text)")
        database.execute("create view CUPTI_ACTIVITY_KIND_KERNEL as select 1 as start")
    database.close()
    with pytest.raises(PlanError, match="has no table CUPTI"):
        nsight.read([tmp_path / "b.sqlite"], given())
    with pytest.raises(PlanError, match="end before they begin"):
        nsight.read([export(tmp_path / "c.sqlite", [(5, 1, 0, "x")])], given())
    with pytest.raises(PlanError, match="cannot be read"):
        nsight.read([tmp_path / "none.sqlite"], given())
