"""A lesson of a few pages, for tests of the code that plays lessons."""

from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Script, Teacher, lesson

WHY = "One block holds only 4 tokens."


ENGINES: list[LessonEngine] = []
"""Those of all runs, newest last."""


@lesson(1, "small", "A small lesson", minutes=5)
def run(L: Teacher) -> Script:
    engine = L.engine(num_blocks=8, block_size=4, max_num_seqs=2)
    ENGINES.append(engine)
    engine.add("ada", list(range(20, 26)), max_tokens=8)
    yield L.say("ada has **6** tokens.", focus="blockmap")
    yield L.predict(
        f"""How many blocks? [block]
        - 1: {WHY}""",
        before=engine.step,
        answer=lambda: len(engine.table("ada")),
    )
    L.check("ada holds two blocks", len(engine.table("ada")) == 2)
    yield L.say("Two, then.", focus="slots")
    yield L.predict(
        """Is she done soon?
        - no: She wants eight tokens only.
        - yes""",
        before=engine.run,
        answer=lambda: "yes" if not engine.busy else "no",
    )
