"""Lines out of chunks."""

from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.watch import LineSplitter


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line and not line.isspace())), st.data())
def test_lines_come_out_whole_however_they_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    """Trap 16: no chunk border changes a line."""
    text = b"".join(line + b"\n" for line in lines)
    splitter = LineSplitter()
    found: list[bytes] = []
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += splitter.feed(text[:size])
        text = text[size:]
    assert found == lines
    assert splitter.pending == 0


def test_a_line_of_five_mebibytes_comes_out_whole() -> None:
    """Trap 16."""
    line = b"x" * (5 * 2**20)
    splitter = LineSplitter()
    found: list[bytes] = []
    for start in range(0, len(line), 65536):
        found += splitter.feed(line[start : start + 65536])
    assert found == []
    assert splitter.feed(b"\nnext") == [line]
    assert splitter.pending == 4


def test_blank_lines_are_left_out() -> None:
    assert LineSplitter().feed(b"\n \r\na\n\n") == [b"a"]
