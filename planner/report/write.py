"""A report of a stored run, written as the file that a person asks for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from planner.archive.store import Archive
from planner.report.gather import Gathered, gather
from planner.report.paper import paper
from simkernel.errors import BadFile, BadStudy

FORMS = ("pdf", "html", "xlsx")

LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        "typst": "typst",
        "vl_convert": "vl-convert-python",
        "xlsxwriter": "xlsxwriter",
        "pylopdf_fonts_zh_cn": "pylopdf-fonts-zh-cn",
        "SALib": "SALib",
    }
)
"""What reports need beside the rest, by module; all of it is the extra `report`."""


def write_report(
    archive: Archive, run: str, to: Path, language: str = "en", plan: str = "", site: str = ""
) -> Gathered:
    """The report of a run; what it tells is given back.

    Parameters
    ----------
    to : its ending says the form: .pdf, .html or .xlsx
    language : "en" or "zh"
    plan, site : as `gather.gather` takes them

    Raises
    ------
    BadStudy : another ending, a run without a front
    UnknownName : no such run, plan, site or language
    BadFile : a folder that is not there or cannot be written; the libraries are not installed
    """
    form = to.suffix.removeprefix(".").lower()
    if form not in FORMS:
        raise BadStudy(f"--to {to.name}: wanted a name that ends in .pdf, .html or .xlsx")
    if not to.resolve().parent.is_dir():
        raise BadFile(f"{to}: there is no folder {to.resolve().parent}; make it first")
    refuse_without_libraries()
    got = gather(archive, run, plan, site)
    found = report_bytes(got, form, language)
    write_bytes(to, found)
    return got


def write_bytes(to: Path, found: bytes) -> None:
    """A file written whole or not at all.

    Raises
    ------
    BadFile : it cannot be written
    """
    beside = to.with_name(f".{to.name}.part")
    try:
        beside.write_bytes(found)
        beside.replace(to)
    except OSError as error:
        raise BadFile(f"{to}: cannot be written: {error.strerror}; choose another place") from None


def refuse_without_libraries() -> None:
    """BadFile where what sets reports is not installed."""
    missing = [name for module, name in LIBRARIES.items() if find_spec(module) is None]
    if missing:
        raise BadFile(
            f"reports need {', '.join(missing)}; "
            "install them with pip install 'cluster-planner[report]'"
        )


def report_bytes(got: Gathered, form: str, language: str) -> bytes:
    """A report in one of FORMS, as the bytes of its file."""
    from planner.report.html import html
    from planner.report.pdf import pdf
    from planner.report.xlsx import xlsx

    document = paper(got, language)
    if form == "xlsx":
        return xlsx(got, document)
    return pdf(document) if form == "pdf" else html(document).encode("utf-8")
