"""A spreadsheet worked out anew by LibreOffice, so that its formulas and not our figures speak."""

import csv
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

OFFICE = shutil.which("soffice") or shutil.which("libreoffice")
WHY_NOT = "LibreOffice is not installed, so no formula can be worked out"

CACHED = re.compile(r"(<f>[^<]*</f>)<v>[^<]*</v>")
SHEET = "xl/worksheets/sheet2.xml"
TO_CSV = "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false,false,false,false,2"


def changed(book, to, cells):
    """A copy of a book without any worked-out value, and with other figures in some cells."""
    with zipfile.ZipFile(book) as source, zipfile.ZipFile(to, "w") as target:
        for item in source.infolist():
            data = source.read(item.filename)
            if item.filename == SHEET:
                text = CACHED.sub(r"\1", data.decode())
                for cell, value in cells.items():
                    text, found = re.subn(
                        rf'(<c r="{cell}"[^>]*>)<v>[^<]*</v>', rf"\g<1><v>{value!r}</v>", text
                    )
                    assert found == 1, cell
                data = text.encode()
            target.writestr(item, data)


def worked_out(book, folder):
    """Name to value of the second sheet of a book."""
    command = [
        OFFICE, "--headless", f"-env:UserInstallation=file://{folder}/office", "--convert-to",
        TO_CSV, "--outdir", str(folder), str(book),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (found,) = Path(folder).glob(f"{Path(book).stem}*.csv")
    rows = list(csv.reader(found.read_text(encoding="utf-8").splitlines()))
    found.unlink()
    return {row[0]: float(row[1]) for row in rows[3:] if row and row[0]}


def place_of(book, name):
    """The cell of a line, from the names in the first column."""
    with zipfile.ZipFile(book) as source:
        strings = re.findall(
            r"<si><t[^>]*>([^<]*)</t></si>", source.read("xl/sharedStrings.xml").decode()
        )
        cells = re.findall(r'<c r="A(\d+)"[^>]* t="s"><v>(\d+)</v>', source.read(SHEET).decode())
    return next(f"B{row}" for row, text in cells if strings[int(text)] == name)
