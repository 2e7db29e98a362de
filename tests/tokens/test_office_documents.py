"""Office documents cost their text, not their size: what providers read of them."""

from base64 import b64encode
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from hypothesis import given, strategies as st

from agentctx import count
from agentctx.tokens.counting import default_counter
from agentctx.tokens.media import MOST_OFFICE_BYTES, office_text

WORDS = "The quick brown fox &amp; the lazy dog. " * 300
SAID = WORDS.replace("&amp;", "&")


def archive(**files):
    """An archive of these files, dots and slashes in their names written as two and one underscores."""
    made = BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as zipped:
        for name, content in files.items():
            zipped.writestr(name.replace("__", ".").replace("_", "/"), content)
    return made.getvalue()


def docx(text):
    return archive(
        word_document__xml=f'<w:document><w:body><w:p w:rsidR="00A1"><w:r><w:t xml:space="preserve">{text}</w:t></w:r>'
        "</w:p></w:body></w:document>",
        word_media_image1__png=bytes(200_000),
        word_styles__xml="<w:styles/>" * 20_000,
    )


def xlsx(rows, shared):
    cells = "".join(f'<row r="{row}"><c t="s"><v>0</v></c><c><v>{row}</v></c></row>' for row in range(rows))
    return archive(
        xl_workbook__xml="<workbook/>",
        xl_sharedStrings__xml=f"<sst><si><t>{shared}</t></si></sst>",
        xl_worksheets_sheet1__xml=f"<worksheet><sheetData>{cells}</sheetData></worksheet>",
    )


def in_format(form, content, kind):
    """A request with the document, as two providers take it."""
    if form == "bedrock":
        block = {"document": {"format": kind, "name": "paper", "source": {"bytes": content}}}
        return [{"role": "user", "content": [block, {"text": "Read."}]}]
    typed = f"data:application/vnd.openxmlformats-officedocument.{kind};base64,{b64encode(content).decode()}"
    block = {"type": "input_file", "filename": f"paper.{kind}", "file_data": typed}
    return [{"role": "user", "content": [block, {"type": "input_text", "text": "Read."}]}]


@pytest.mark.parametrize("form", ["bedrock", "openai-responses"])
def test_a_document_costs_its_text(form):
    """A docx counts what it says, whatever its pictures and styles weigh; a sheet what its cells say."""
    model = "gpt-5.4" if form == "openai-responses" else None
    counter = default_counter(model)
    words = counter.count(SAID)
    assert words < count(in_format(form, docx(WORDS), "docx"), model, format=form) < words + 60
    cells = counter.count("\n".join(f"{SAID[:80]}\t{row}\t" for row in range(200)))
    found = count(in_format(form, xlsx(200, WORDS[:84]), "xlsx"), model, format=form)
    assert abs(found - cells) < 0.1 * cells


def test_what_is_read_of_a_document():
    """Paragraphs, cells with shared texts and numbers, and of a sheet the first rows."""
    assert office_text(docx("one &lt; two")) == "one < two\n"
    assert office_text(xlsx(2, "a &amp; b")) == "\na & b\t0\t\na & b\t1\t"
    assert office_text(xlsx(1_500, "x")).count("x") == 1_000
    assert office_text(archive(readme__txt="nothing of an office")) is None


def test_a_small_archive_with_very_much_in_it():
    """No more is unpacked than the limit: of an archive that is damaged behind it, nobody notices."""
    bomb = bytearray(docx("word " * 20_000_000))
    assert len(bomb) < MOST_OFFICE_BYTES
    bomb[len(bomb) // 2] ^= 0xFF
    assert 0 < len(office_text(bytes(bomb))) <= MOST_OFFICE_BYTES
    short = bytearray(docx("word " * 1_000))
    short[100] ^= 0xFF
    assert office_text(bytes(short)) is None


@given(st.binary(max_size=300), st.integers(0, 400))
def test_damaged_documents_are_none_or_text(noise, place):
    """Whatever is damaged in an archive, it is read or not, and nothing is raised."""
    content = bytearray(xlsx(2, "words"))
    place %= len(content)
    content[place : place + len(noise)] = noise
    assert isinstance(office_text(bytes(content)), str | None)
