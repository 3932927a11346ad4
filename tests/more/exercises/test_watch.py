"""`exercise check --watch` in a terminal: it checks each save, takes keys and exits."""

from support.tui.terminals import Program

from minivllm.cli import main
from minivllm.lessons.checker.catalogue import find_exercise

SOURCE = find_exercise("block-pool").source_file.read_text(encoding="utf-8")


def test_a_save_is_checked_keys_work_and_the_exit_status_is_the_last_result(home):
    assert main(["exercise", "start", "block-pool"]) == 0
    with Program.minivllm("exercise", "check", "block-pool", "--watch") as watching:
        watching.wait_for(r"This failure is expected(?s:.*)q quit")
        watching.press(b"hl")  # faster than it looks: the second is not lost
        watching.wait_for("Hint 1 of 3")
        watching.wait_for("begun")
        (home / "workspace" / "block-pool" / "block_pool.py").write_text(SOURCE)
        watching.wait_for(r"7 of 7 checks(?s:.*)q quit")
        watching.press(b"q")
        assert watching.wait_for_end() == 0
    assert watching.written.count(b"checks passed in") == 2
