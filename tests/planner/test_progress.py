"""The bar on stderr: only for a person at a terminal, never in the way of data."""

from planner.commands.progress import shown_progress


def test_nobody_is_shown_a_bar_who_does_not_look(capsys):
    """Escape codes would land in a log file."""
    with shown_progress(is_quiet=False) as tell:
        assert tell is None
    with shown_progress(is_quiet=True) as tell:
        assert tell is None
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_a_person_sees_bills_candidates_rate_and_time_left(monkeypatch, capsys):
    """A person could not tell a long sweep from a hung one."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "140")
    with shown_progress(is_quiet=False) as tell:
        assert tell is not None
        tell(3, 7, 123_456, 89)
    said = capsys.readouterr()
    assert said.out == ""
    for words in ("sweep", "3/7 bills", "123,456 evaluated", "/s", "front 89", "0:00:0"):
        assert words in said.err
