"""The README's examples as tests, for `pytest visible_test.py`."""

from small_engine import SmallEngine, SmallModel, SmallOutput, SmallRequest, SmallWork


def engine_with(*requests, max_num_seqs=2):
    engine = SmallEngine(SmallModel(), max_num_seqs)
    engine.waiting = list(requests)
    return engine


def ada():
    return SmallRequest("ada", [5, 6, 7], max_tokens=3)


def bob():
    return SmallRequest("bob", [8, 9], max_tokens=2)


def test_free_places_go_to_the_oldest():
    a, b = ada(), bob()
    engine = engine_with(a, b, max_num_seqs=1)
    assert engine.schedule() == [SmallWork(a, 3)]
    assert (engine.running, engine.waiting) == ([a], [b])


def test_a_step_computes_what_is_new_and_gives_one_token():
    engine = engine_with(a := ada())
    assert engine.step() == [SmallOutput("ada", 4, False)]
    assert (a.output, a.num_computed_tokens) == ([4], 3)
    assert engine.step() == [SmallOutput("ada", 7, False)]
    assert engine.step() == [SmallOutput("ada", 13, True)]
    assert engine.running == [] and engine.step() == []


def test_one_who_arrives_later_joins_the_next_step():
    a, b = ada(), bob()
    outputs = engine_with().run({1: [a], 2: [b]})
    assert [[output.name for output in step] for step in outputs] == [
        ["ada"],
        ["ada", "bob"],
        ["ada", "bob"],
    ]
    assert (a.output, b.output) == ([4, 7, 13], [28, 4])


def test_steps_before_the_first_arrival_have_no_outputs():
    assert engine_with().run({3: [bob()]})[:2] == [[], []]
