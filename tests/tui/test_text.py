"""Foreign text is made safe, short and steady."""

import unicodedata
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from support.tui.drawn_blocks import ids_of

from minivllm.text import LONGEST_TEXT, clean, fit, id_ranges, short_name, tail
from minivllm.tui.draw.digits import large
from minivllm.tui.draw.lines import NARROW, wrap, wrap_tail


def test_an_escape_sequence_becomes_plain_letters() -> None:
    assert clean("\x1b[31mred\x1b]0;title\x07 \x9b2J") == "[31mred]0;title 2J"
    assert clean("one\n\n  two\tthree\r\n") == "one↵two three↵"


def test_each_sign_of_a_large_figure_is_four_cells_wide_and_like_no_other() -> None:
    drawn = {tuple(large(sign)) for sign in "0123456789.×"}
    assert len(drawn) == 12 and {tuple(map(cell_len, rows)) for rows in drawn} == {(4, 4, 4)}
    assert large("×3.7") == ["    ▀▀█     ▀▀█ ", "▀▄▀ ▀▀█      ▄▀ ", "▀ ▀ ▀▀▀  ▀   ▀  "]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 40), unique=True))
def test_joined_block_ids_can_be_read_back(ids: list[int]) -> None:
    assert ids_of(id_ranges(ids)) == ids
    assert id_ranges([3, 9, 10, 11, 12, 22, 8, 7, 6, 5, 0, 1]) == "3 9-12 22 8 down to 5 0 1"


def test_the_names_of_a_servers_requests_are_short_and_different() -> None:
    random = Random(0)
    http = [f"{random.getrandbits(128):032x}" for _ in range(400)]
    names = [short_name(f"chatcmpl-{hex_id}-{random.getrandbits(32):08x}.0") for hex_id in http]
    assert [name == hex_id[:6] for name, hex_id in zip(names, http, strict=True)].count(False) == 0
    assert len(set(names)) == len(names) and max(map(len, names)) == 6
    # Prompts and samples of one HTTP request, and an id that a client reuses.
    several = [f"cmpl-{http[0]}-00c0ffee-{sample}" for sample in ("0.0", "0.1", "1.0", "1.1")]
    again = [f"chatcmpl-my-request-{random.getrandbits(32):08x}.0" for _ in range(20)]
    long = [f"the-gateway-of-the-eastern-region-{number}.0" for number in range(99)]
    for ids in (several, again, long):
        assert len(set(map(short_name, ids))) == len(ids)
        assert max(len(short_name(request_id)) for request_id in ids) <= 17


@settings(max_examples=40)
@given(st.text(max_size=100), st.integers(0, 60))
def test_clean_text_has_no_terminal_codes_and_fits_exactly(text: str, width: int) -> None:
    cleaned = clean(text)
    assert not {*map(unicodedata.category, cleaned)} & {"Cc", "Cs", "Zl", "Zp", "Co"}
    assert not set(cleaned) & set("\x1b\x9b\u200b\u200d\u202a\u202e\u2066\u2069\ufeff\ufe0f")
    assert cell_len(fit(cleaned, width)) == width


@settings(max_examples=40)
@given(
    st.one_of(st.text("abc xyz 漢字", max_size=400), st.text(max_size=4 * LONGEST_TEXT)),
    st.integers(8, 60),
)
def test_a_tail_ends_with_the_newest_text_within_its_room(text: str, width: int) -> None:
    shown = tail(text, width).removeprefix("…")
    assert cell_len(shown) <= width
    if clean(text) == text:
        assert text.endswith(shown)
        # Steadiness costs at most a third of the room, or a word.
        assert cell_len(shown) >= width // 2 - 4 or cell_len(text) <= width
    rows, words = wrap_tail(clean(text), width, 3), clean(text).replace(" ", "")
    assert all(cell_len(row) <= width for row in rows)
    assert words.endswith("".join(rows).removeprefix("…").replace(" ", ""))


def test_a_long_path_breaks_at_its_slashes() -> None:
    assert wrap("see `kv/host_tier.py`, too", 16) == ["see", "`kv/", "host_tier.py`,", "too"]


def test_a_character_that_is_taken_for_narrow_takes_one_cell() -> None:
    narrow = [chr(code) for code in range(0x10000) if NARROW.fullmatch(chr(code))]
    assert len(narrow) > 400 and {cell_len(character) for character in narrow} == {1}
