"""The drawings of lessons in a terminal: what they show is what the engine's events say."""

import pytest
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)

from minivllm.events import types as ev
from minivllm.lessons.course.library import find_lesson
from minivllm.lessons.shown.drawings import chains, prompt_hashes, ranges, table_and_pool
from minivllm.lessons.site.diagrams import DIAGRAMS
from minivllm.lessons.teacher.lesson_engine import LessonEngine, ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.prompts import RULES, STORIES
from minivllm.tui.lesson import Page

IN_A_TERMINAL = (
    "step-loop", "reserved-and-used", "block-table", "flattened-batch", "hash-chain",
    "copy-on-write", "roofline", "split-and-merge",
)  # fmt: skip
COLUMNS = 44
"""For a lesson's text in a terminal of 120 columns."""


@pytest.fixture
def engine() -> LessonEngine:
    options = {"block_size": 4, "max_num_seqs": 4}
    return ModelShelf().engine({"num_gpu_blocks_override": 12, **options})


def page_with(diagram: str) -> Page:
    player = LessonPlayer(find_lesson(DIAGRAMS[diagram].lesson), ModelShelf())
    while player.page.diagram != diagram:
        assert not player.over
        player.pass_over()
    return player.page


@pytest.mark.parametrize("diagram", IN_A_TERMINAL)
def test_a_terminal_shows_the_diagram_as_characters_that_fit(diagram: str) -> None:
    figure = page_with(diagram).figure
    assert figure and max(map(len, figure)) <= COLUMNS


def test_a_table_and_its_pool_name_the_owner_of_every_block(engine: LessonEngine) -> None:
    for name in ("ada", "bob"):
        engine.add(name, engine.tokens(STORIES[name], 6), max_tokens=8)
    engine.step(4)
    head, *rows = table_and_pool(engine, "ada")
    assert head.split() == ["tokens", "table", "pool"]
    entries = [tuple(map(int, row[7:15].split("->"))) for row in rows if "->" in row]
    assert entries == list(enumerate(engine.table("ada")))
    pool = " ".join(row[18:] for row in rows).split()
    owners = dict(zip(map(int, pool[::2]), pool[1::2], strict=True))
    tables = {"a": engine.table("ada"), "b": engine.table("bob")}
    assert owners == dict.fromkeys(range(engine.num_blocks), "·") | {
        block: letter for letter, table in tables.items() for block in table
    }


def test_a_chain_has_one_hash_for_each_full_block_of_a_prompt(engine: LessonEngine) -> None:
    engine.add("ada", engine.tokens(RULES, 11), max_tokens=8)
    engine.step()
    registered = [event.hash[:4] for event in engine.events_of(ev.BlockHashed)]
    assert prompt_hashes(engine, "ada") == registered and len(registered) == 2
    (row,) = chains(engine, ("ada",))
    assert row.replace("─>", "").split() == ["ada", *registered]


@pytest.mark.parametrize(
    ("numbers", "text"), [([4, 5, 6, 9], "4-6, 9"), ([3], "3"), ([], ""), ([2, 1], "2, 1")]
)
def test_numbers_in_a_row_are_written_as_a_range(numbers: list[int], text: str) -> None:
    assert ranges(numbers) == text
