"""Measurements of lessons, against runs small enough to count by hand."""

from minivllm.lessons.teacher import measure
from minivllm.lessons.teacher.lesson_engine import LessonEngine, ModelShelf


def two_and_one(shelf: ModelShelf, batching: str) -> LessonEngine:
    """ada wants 4 tokens, bob 2 and cleo 2, on two slots; prompts of 3 tokens."""
    options = {"num_gpu_blocks_override": 16, "block_size": 4, "max_num_seqs": 2}
    engine = shelf.engine(options | {"batching": batching, "enable_prefix_caching": False})
    for number, (name, wish) in enumerate((("ada", 4), ("bob", 2), ("cleo", 2))):
        engine.add(name, list(range(10 + 9 * number, 13 + 9 * number)), max_tokens=wish)
    engine.run()
    return engine


def test_a_continuous_batch_leaves_no_slot_idle_while_a_request_waits(lesson_shelf):
    engine = two_and_one(lesson_shelf, "continuous")
    assert measure.token_steps(engine, "cleo") == [3, 4]
    assert measure.steps_to_first_token(engine, "cleo") == 3
    assert measure.idle_slots_while_waiting(engine) == 0
    assert measure.gaps(engine, "ada") == [1, 1, 1], "ada runs undisturbed"
    assert measure.work_per_step(engine) == [6, 2, 4, 2]


def test_a_static_batch_leaves_the_slot_of_the_shorter_answer_idle(lesson_shelf):
    engine = two_and_one(lesson_shelf, "static")
    assert measure.token_steps(engine, "cleo") == [5, 6]
    assert measure.idle_slots_while_waiting(engine) == 2  # bob's, in steps 3 and 4
    # in step 6 no request waits, so its idle slot does not count
    assert measure.work_per_step(engine) == [6, 2, 1, 1, 3, 1]
