"""Request traces: every public header, every way to write a time, every way to be wrong."""

import gzip
import json
import lzma
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costdata import traces
from costdata.overlay import read_ours
from costdata.traces import catalogue_trace, read_trace, trace_names, write_trace
from simkernel.errors import BadFile, UnknownName
from simkernel.workload import Prefixes

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens\n"
EPOCH_S = 1_700_158_546  # 2023-11-16 18:15:46 UTC


@pytest.fixture
def written(tmp_path):
    """written(text or bytes): the path of such a file."""

    def write(content, name="trace.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def told_or_read(path):
    """The requests, or what is wrong; anything else is our own fault and goes through."""
    try:
        return read_trace(path).requests
    except BadFile as error:
        return error.faults


def stream(path, **options):
    return read_trace(path, **options).requests


HEADERS = {
    "azure": AZURE + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:48.1805900,396,109\n",
    "azure 2024": AZURE
    + "2024-05-10 00:00:00+00:00,374,44\n2024-05-10 00:00:01.500000+00:00,396,109\n",
    "burstgpt": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,ChatGPT,374,44,418,Conversation log\n6.5,GPT-4,396,109,505,API log\n",
    "burstgpt 3": "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,"
    "Total tokens,Log Type\n19440110.0,a,43,GPT-4,374,44,418,Conversation log\n"
    "19440111.5,b,2,ChatGPT,396,109,505,API log\n",
    "mooncake": '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [0]}\n'
    '{"timestamp": 1500, "input_length": 396, "output_length": 109, "hash_ids": [0]}\n',
    "vidur": VIDUR + "0.0,374,44\n1.5,396,109\n",
    "splitwise": "request_id,request_type,application_id,arrival_timestamp,batch_size,"
    "prompt_size,token_size\n0,2,0,1,1,374,44\n1,2,0,2.5,1,396,109\n",
    "llmservingsim": '{"input_toks":374,"output_toks":44,"arrival_time_ns":46926808}\n'
    '{"input_toks":396,"output_toks":109,"arrival_time_ns":1546926808}\n',
    "llmservingsim_bench": '{"request_id": "bench-0", "input_toks": 374, "output_toks": 44, '
    '"arrival_time": 1777142838.338653, "queued_ts": 27536.0}\n{"request_id": "bench-1", '
    '"input_toks": 396, "output_toks": 109, "arrival_time": 1, "queued_ts": 27537.5}\n',
    "llmservingsim_run": "instance id,request id,model,input,output,arrival,end_time,latency,"
    'queuing_delay,TTFT,TPOT,ITL\n0,3,m,374,44,500000000,9,9,9,9,9,"[1, 2]"\n'
    '0,0,m,396,109,2000000000,9,9,9,9,9,"[1]"\n',
    "planner_us": "arrival_us,prompt_tokens,output_tokens\n0,374,44\n1500000,396,109\n",
}
"""Two requests, 1.5 s apart, with the header of every format and times of its unit."""


@pytest.mark.parametrize("name", HEADERS)
def test_every_public_header_gives_the_same_two_requests(written, name):
    """A team with another trace would have to convert it by hand, and would slip."""
    trace = read_trace(written(HEADERS[name]))
    assert trace.format == name.split()[0]
    assert trace.requests.arrival_s == pytest.approx([0.0, 1.5], abs=1e-7)
    assert trace.requests.prompt_tokens.tolist() == [374, 396]
    assert trace.requests.output_tokens.tolist() == [44, 109]
    assert trace.requests.span_s == pytest.approx(3.0)


TIMES = {
    "epoch s": lambda s: f"{EPOCH_S + s}",
    "epoch ms": lambda s: f"{EPOCH_S * 1000 + round(s * 1e3)}",
    "epoch us": lambda s: f"{EPOCH_S * 10**6 + round(s * 1e6)}",
    "epoch ns": lambda s: f"{EPOCH_S * 10**9 + round(s * 1e9)}",
    "relative s": lambda s: f"{s}",
    "iso": lambda s: f"2023-11-16 18:15:{46 + int(s)}.{round(s % 1 * 1e7):07d}",
    "iso T": lambda s: f"2023-11-16T18:15:{46 + int(s)}.{round(s % 1 * 1e6):06d}Z",
    "iso zone": lambda s: f"2023-11-16 20:15:{46 + int(s)}.{round(s % 1 * 1e3):03d}+02:00",
}


@pytest.mark.parametrize("header", [AZURE, VIDUR])
@pytest.mark.parametrize("name", TIMES)
def test_a_trace_is_the_same_in_whatever_way_its_times_are_written(written, header, name):
    """inference-sim#1606: arrivals in epoch microseconds met deadlines that counted from 0."""
    offsets = [7.25, 0.0, 3.125, 0.5]  # shuffled rows, exact in binary
    rows = [f"{TIMES[name](s)},{100 + i},{i + 1}\n" for i, s in enumerate(offsets)]
    trace = read_trace(written(header + "".join(rows)))
    assert trace.is_shuffled
    assert trace.requests.arrival_s == pytest.approx([0.0, 0.5, 3.125, 7.25], abs=3e-7)
    assert trace.requests.prompt_tokens.tolist() == [101, 103, 102, 100]


@pytest.mark.parametrize("odd", [k for k in TIMES if k not in ("epoch us", "iso T", "iso zone")])
def test_times_of_two_origins_are_refused_with_their_lines(written, odd):
    """Half of the requests would arrive fifty years before the others."""
    rows = [f"{TIMES['epoch us'](s)},9,9\n" for s in (0.0, 1.0, 2.0)]
    with pytest.raises(BadFile, match=r"lines 5.* in 3 rows it is"):
        read_trace(written(AZURE + "".join(rows) + f"{TIMES[odd](1.0)},9,9\n"))


def test_dates_with_and_without_a_zone_are_not_mixed(written):
    """A request would arrive some hours off."""
    rows = "2023-11-16 18:15:46,1,1\n2023-11-16 18:15:47+01:00,1,1\n"
    with pytest.raises(BadFile, match="with a zone"):
        read_trace(written(AZURE + rows))


def test_zones_that_differ_are_brought_to_one_clock(written):
    """A trace gathered in two regions would be taken apart by their clocks."""
    rows = "2023-11-16 18:15:46-08:00,1,1\n2023-11-17 03:15:47+01:00,2,1\n"
    assert stream(written(AZURE + rows)).arrival_s.tolist() == [0.0, 1.0]


def test_a_unit_that_cannot_be_told_is_asked_for(written):
    """Seconds since 1970 in a column of milliseconds would make an hour out of 42 days."""
    line = '{{"timestamp": {}, "input_length": 3, "output_length": 4, "hash_ids": []}}\n'
    path = written(line.format(EPOCH_S) + line.format(EPOCH_S + 60))
    with pytest.raises(BadFile, match="time_unit"):
        read_trace(path)
    assert stream(path, time_unit="s").arrival_s.tolist() == [0.0, 60.0]
    assert stream(path, time_unit="ms").arrival_s.tolist() == [0.0, 0.06]


def test_a_span_of_years_is_a_wrong_unit(written):
    """Relative microseconds read as seconds would show a fleet that idles."""
    with pytest.raises(BadFile, match="line 3: .* lasts 5,787 days"):
        read_trace(written(VIDUR + "0,1,1\n500000000,1,1\n"))
    with pytest.raises(BadFile, match="line 3: .* lasts 3,653 days"):
        read_trace(written(AZURE + "2013-11-16 00:00:00,1,1\n2023-11-17 00:00:00,1,1\n"))


@pytest.mark.parametrize(
    "dress",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("\n", "\r").encode(),
        lambda text: text.rstrip("\n").encode(),
        lambda text: b"\n\n" + text.replace("\n", "\n\n").encode(),
        lambda text: text.replace(",", ";").encode(),
        lambda text: text.replace(",", "\t").encode(),
        lambda text: text.replace("TIMESTAMP", " timestamp ").replace("Tokens", "TOKENS").encode(),
        lambda text: text.replace("374", '"374"').encode(),
        lambda text: text.replace("374", "374.0").encode(),
        lambda text: text.replace("\n", ",extra\n").encode(),
        lambda text: gzip.compress(text.encode()),
        lambda text: lzma.compress(text.encode()),
    ],
)
def test_the_dress_of_a_file_does_not_matter(written, dress):
    """A trace saved by a spreadsheet, or on Windows, would be refused or misread."""
    found = stream(written(dress(HEADERS["azure"])))
    assert found.arrival_s.tolist() == [0.0, 1.5]
    assert found.prompt_tokens.tolist() == [374, 396]


WRONG_ROWS = {
    "0.5,1": "has 2 cells",
    "0.5,1,2,3": "has 4 cells",
    "0.5,-1,2": "num_prefill_tokens = '-1'",
    "0.5,1.5,2": "num_prefill_tokens = '1.5'",
    "0.5,nan,2": "num_prefill_tokens = 'nan'",
    "0.5,inf,2": "num_prefill_tokens = 'inf'",
    "0.5,1e300,2": "num_prefill_tokens = '1e300'",
    "0.5,1_000,2": "num_prefill_tokens = '1_000'",
    "0.5,,2": "num_prefill_tokens = ''",
    "0.5,1,zwei": "num_decode_tokens = 'zwei'",
    "-0.5,1,2": "arrived_at = '-0.5' is no time",
    "nan,1,2": "arrived_at = 'nan' is no time",
    "now,1,2": "arrived_at = 'now' is no time",
    ",1,2": "arrived_at = '' is no time",
    "2023-13-40 00:00:00,1,2": "is no time",
}


@pytest.mark.parametrize("row", WRONG_ROWS)
def test_a_wrong_row_is_named_with_its_line(written, row):
    """A wrong load would size a fleet."""
    with pytest.raises(BadFile, match=r"trace\.csv line 3:") as caught:
        read_trace(written(f"{VIDUR}0,1,2\n{row}\n1,1,2\n"))
    assert WRONG_ROWS[row] in str(caught.value)


def test_all_wrong_rows_are_told_at_once(written):
    """A file would be mended one run at a time."""
    rows = "\n".join(["0,1,2", *WRONG_ROWS])
    with pytest.raises(BadFile) as caught:
        read_trace(written(VIDUR + rows + "\n"))
    told = "\n".join(caught.value.faults)
    assert [text for text in WRONG_ROWS.values() if text not in told] == []
    assert len(caught.value.faults) >= len(WRONG_ROWS)


def test_a_million_wrong_rows_are_counted_not_listed(written):
    """The terminal would scroll for an hour."""
    with pytest.raises(BadFile, match="950 more faults") as caught:
        read_trace(written(VIDUR + "0,x,2\n" * 1000))
    assert len(caught.value.faults) == traces.RowFaults("").count + 51


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (VIDUR.encode(), "no request"),
        (b"a,b\n1,2\n", "no known trace"),
        (b"\xff\xfe" + VIDUR.encode("utf-16-le"), "UTF-8"),
        (bytes(range(256)), "UTF-8"),
        (gzip.compress(VIDUR.encode() * 9, mtime=0)[:-9], "cut off"),
        (b"\x1f\x8b rubbish", "damaged"),
        (b"{]\n", "no JSON object"),
        (b"a" * 200_000 + b",b", "no header"),
        (b"[1, 2]\n", "no JSON object"),
        (b"TIMESTAMP,TIMESTAMP,ContextTokens,GeneratedTokens\n1,1,1,1\n", "there twice"),
        (b"TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n1,1,1,1\n", "tokens of images"),
        (b'{"arrival_time_ns": 1, "sub_requests": []}\n', "chain of calls"),
        (f"{VIDUR}0,0,5\n1,5,0\n".encode(), "no request has a prompt and an output"),
    ],
)
def test_what_is_no_trace_is_refused_with_a_reason(written, content, why):
    """Rubbish would end in our own traceback, or in a plan."""
    with pytest.raises(BadFile, match=why):
        read_trace(written(content))


def test_a_file_that_is_not_there_is_said(tmp_path):
    """A slip in a path would end in a traceback."""
    with pytest.raises(BadFile, match="cannot be read"):
        read_trace(tmp_path / "none.csv")


def test_requests_without_prompt_or_output_are_left_out_and_counted(written):
    """BurstGPT writes failed requests with no output; counted as work they would not be."""
    trace = read_trace(written(f"{VIDUR}0,5,0\n1,0,0\n2,5,1\n4,1,1\n"))
    assert trace.left_out == {traces.NO_PROMPT: 1, traces.NO_OUTPUT: 1}
    assert trace.requests.arrival_s.tolist() == [0.0, 2.0]
    assert trace.requests.output_tokens.tolist() == [1, 1]


def test_a_stream_that_is_written_reads_back_the_same(written, tmp_path):
    """A replay of an exported trace would be another replay."""
    rows = "0,9,1,b,0,5 6\n0.1,8,1,a,1,\n0.30000000000000004,7,1,b,2,5\n"
    text = "arrival_s,prompt_tokens,output_tokens,session,priority,hash_ids\n" + rows
    one = stream(written(text))
    two = stream(write_trace(one, tmp_path / "out.csv"))
    for name in ("arrival_s", "prompt_tokens", "output_tokens", "session_codes", "priorities"):
        assert getattr(one, name).tolist() == getattr(two, name).tolist(), name
    assert one.prefixes.hashes.tolist() == two.prefixes.hashes.tolist()
    assert one.prefixes.starts.tolist() == two.prefixes.starts.tolist()


def test_a_stream_is_not_written_where_it_would_lose_something(written, tmp_path):
    """An exported trace would be read back with other blocks or without its users."""
    one = stream(written(VIDUR + "0,1,1\n1,1,1\n"))
    for lost in ({"concurrency": 4}, {"prefixes": Prefixes(np.zeros(2, int), np.arange(3), 16)}):
        with pytest.raises(BadFile, match="cannot be written"):
            write_trace(replace(one, **lost), tmp_path / "out.csv")
    with pytest.raises(BadFile, match="cannot be written"):
        write_trace(one, tmp_path / "none" / "out.csv")


def test_sessions_priorities_and_prefixes_are_kept_through_the_sort(written):
    """A prefix cache would be handed the blocks of another request."""
    rows = "2,9,1,b,0,5 6\n0,8,1,a,1,\n1,7,1,b,2,5\n"
    text = "arrival_s,prompt_tokens,output_tokens,session,priority,hash_ids\n" + rows
    found = stream(written(text))
    assert found.prompt_tokens.tolist() == [8, 7, 9]
    assert found.session_codes.tolist() == [1, 0, 0]
    assert found.priorities.tolist() == [1, 2, 0]
    assert found.prefixes.hashes.tolist() == [5, 5, 6]
    assert found.prefixes.starts.tolist() == [0, 0, 1, 3]
    assert found.prefixes.block_tokens == 512


@pytest.mark.parametrize("value", ["true", "null", "NaN", "[1]", '"x"', "1" + "0" * 400, "-1"])
def test_json_values_that_are_no_counts_are_refused(written, value):
    """A word or a flag would become a length."""
    good = '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n'
    bad = f'{{"timestamp": 1, "input_length": {value}, "output_length": 1}}\n'
    with pytest.raises(BadFile, match="line 2: input_length"):
        read_trace(written(good + bad))


def test_broken_json_lines_are_all_told(written):
    """One torn line would hide the next."""
    good = '{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}\n'
    with pytest.raises(BadFile) as caught:
        read_trace(written(good + "{\n" + "[" * 100_000 + "\n7\n" + good))
    assert [fault.split(":")[0].split()[-1] for fault in caught.value.faults] == ["2", "3", "4"]


finite = st.floats(0, 1e6, allow_nan=False)
counts = st.integers(1, 10**6)


@settings(max_examples=60)
@given(st.lists(st.tuples(finite, counts, counts), min_size=1, max_size=30), st.randoms())
def test_shuffling_the_rows_changes_nothing_but_ties(tmp_path_factory, rows, random):
    """The order of a file would decide how large a fleet is."""
    folder = tmp_path_factory.mktemp("traces")
    found = []
    for name in ("one", "two"):
        path = folder / f"{name}.csv"
        path.write_text(VIDUR + "".join(f"{t!r},{p},{o}\n" for t, p, o in rows))
        found.append(stream(path))
        random.shuffle(rows)
    one, two = found
    assert one.arrival_s.tolist() == two.arrival_s.tolist()
    assert one.arrival_s[0] == 0
    assert sorted(one.prompt_tokens) == sorted(two.prompt_tokens)
    assert (np.diff(one.arrival_s) >= 0).all()


@settings(max_examples=150)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: (VIDUR + text).encode()))
def test_no_bytes_end_in_a_traceback(tmp_path_factory, content):
    """A damaged file would end in our own traceback instead of exit code 2."""
    path = tmp_path_factory.mktemp("rubbish") / "trace.csv"
    path.write_bytes(content)
    assert told_or_read(path)


plain = st.none() | st.booleans() | st.floats() | st.text() | st.integers()


@settings(max_examples=100)
@given(plain | st.lists(plain) | st.dictionaries(st.text(), plain | st.lists(plain)))
def test_no_json_value_ends_in_a_traceback(tmp_path_factory, value):
    """A field of another type would end in our own traceback."""
    path = tmp_path_factory.mktemp("values") / "trace.jsonl"
    row = {"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]}
    lines = [json.dumps(row)] + [json.dumps({**row, key: value}) for key in row]
    path.write_text("\n".join(lines))
    assert told_or_read(path)


@pytest.mark.parametrize("name", trace_names())
def test_a_trace_that_ships_is_what_its_row_says(name):
    """The catalogue would describe another file than the one a plan rests on."""
    row = read_ours()["traces"][name,]
    found = catalogue_trace(name).requests
    assert len(found) == row.need("requests")
    assert found.arrival_s[-1] == row.need("span_s")
    assert found.prompt_tokens.sum() == row.need("prompt_tokens")
    assert found.output_tokens.sum() == row.need("output_tokens")


def test_the_azure_conversation_has_the_figures_its_users_publish():
    """Fleets would be sized on another hour than the one everybody compares with."""
    found = catalogue_trace("azure_conversation_2023").requests
    minutes = np.bincount((found.arrival_s // 60).astype(int))
    seconds = np.bincount(found.arrival_s.astype(int))
    assert (len(found), found.arrival_s[-1]) == (19_366, 3501.721937)
    assert (minutes.max(), seconds.max()) == (507, 16)
    assert np.percentile(found.prompt_tokens, [50, 95]).tolist() == [1020, 4083]
    assert found.requests_per_s == pytest.approx(5.53, rel=1e-3)


def test_the_azure_code_trace_has_a_minute_of_four_times_the_mean():
    """A plan for the mean fails there; its user would have been told it does not."""
    found = catalogue_trace("azure_code_2023").requests
    minutes = np.bincount((found.arrival_s // 60).astype(int))
    assert len(found) == 8_819
    assert minutes.max() / (60 * found.requests_per_s) == pytest.approx(4.1, abs=0.05)
    assert found.output_tokens.mean() == pytest.approx(28, abs=0.5)


def test_the_blocks_of_a_prompt_cover_it():
    """A prefix cache would serve tokens that a prompt does not have."""
    found = catalogue_trace("mooncake_conversation_part").requests
    blocks = np.diff(found.prefixes.starts)
    assert (blocks == -(-found.prompt_tokens // found.prefixes.block_tokens)).all()


def test_an_unknown_trace_is_told_with_its_neighbours():
    """A slip would end in a traceback."""
    with pytest.raises(UnknownName, match="azure_conversation_2023"):
        catalogue_trace("azure_conversation")


def test_requests_without_a_session_are_nobodys_conversation(written):
    """All blank cells would be one conversation of strangers, with one cache."""
    rows = "0,5,6,a\n1,5,6,\n2,5,6,\n3,5,6,a\n"
    found = read_trace(written("arrival_s,prompt_tokens,output_tokens,session\n" + rows)).requests
    assert found.session_codes.tolist() == [0, 1, 2, 0]
