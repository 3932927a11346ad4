"""What the recorder's thread makes of the records of a scheduler: texts, lines and files."""

import json
import threading
from pathlib import Path

import pytest
from support.full_disk import REASON, files_no_larger_than
from support.patience import SOON
from support.vllm.recorded import HEADER

from minivllm.errors import EventLogError
from minivllm.events import types as ev
from minivllm.events.recording.compact import StepDecodes, TokensSampled
from minivllm.events.recording.recording import Recording
from minivllm.vllm.texts import Texts
from minivllm.vllm.writer import Writer


class Tokenizer:
    """Its tokens are bytes."""

    all_special_ids = (0,)

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        return [*text.encode()]

    def decode(self, token_ids: list[int]) -> str:
        return bytes(token_ids).decode(errors="replace")


def texts(**stops: list[str]) -> Texts:
    made = Texts(Tokenizer())
    for name, stop in stops.items():
        made.events(ev.RequestArrived, *arrival(name, stop=stop))
    return made


def arrival(name: str, **sampling: object) -> tuple:
    return name, name, 0, [65, 66], 9, 0, None, 1, ev.RequestSampling(**sampling)


def step(number: int, names: str, token: int = 70) -> list[tuple]:
    """The records of a whole step that decodes each sequence."""
    decodes = StepDecodes, number, 1.0, [*names], [number] * len(names)
    tokens = TokensSampled, number, 1.0, [*names], [token] * len(names), [], None
    begin, end = (ev.StepBegin, number, 1.0, 16), (ev.StepEnd, number, 1.0, 2, 0.0, 0.0, 0.0, 0.0)
    return [begin, decodes, tokens, end]


def arrive(writer: Writer, names: str) -> None:
    for name in names:
        kinds = (ev.RequestArrived, 0, 0.5, *arrival(name)), (
            ev.RequestAdmitted, 0, 0.5, name, ord(name) - 97, 0, 0,
        )  # fmt: skip
        writer.take([*kinds])


# ---- texts ----


def write(made: Texts, data: bytes) -> list[str]:
    """The text that becomes visible with each token."""
    sampled = [made.events(TokensSampled, ["r"], [token], [], None)[-1] for token in data]
    return [text for _, _, _, (text,), *_ in sampled]


def test_a_character_of_several_tokens_becomes_visible_with_its_last_one():
    answer = "a 🚢, é"
    shown = write(texts(), answer.encode())
    assert "".join(shown) == answer and shown[:6] == ["a", " ", "", "", "", "🚢"]


def test_a_token_is_named_once_before_its_first_use_and_a_special_one_is_not_text():
    made = texts()
    named, sampled = made.events(TokensSampled, ["r", "s"], [66, 0], [], None)
    assert named == (ev.TokensNamed, {0: "\0", 66: "B"}) and sampled[3] == ["B", ""]
    (again,) = made.events(TokensSampled, ["r"], [66], [], None)
    assert again[0] is TokensSampled


def test_text_that_was_held_back_is_flushed_at_the_end():
    made = texts()
    assert write(made, b"\xf0") == [""]
    flushed, ended = made.events(ev.RequestFinished, "r", "length")
    assert flushed == (ev.TextFlushed, "r", "�") and ended == (ev.RequestFinished, "r", "length")


def test_an_abort_after_a_stop_string_is_a_stop_because_vllms_front_end_aborts_then():
    made = texts(a=["xy"], b=["xy"])
    for token in b"wxyz":
        made.events(TokensSampled, ["a"], [token], [], None)
    assert made.events(ev.RequestAborted, "a", None) == [(ev.RequestFinished, "a", "stop", "xy")]
    assert made.events(ev.RequestAborted, "b", None) == [(ev.RequestAborted, "b", None)]


# ---- lines ----


def test_a_step_is_one_line_for_all_decodes_and_one_for_all_tokens(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    writer = Writer(str(path), HEADER, texts(), 1 << 20)
    arrive(writer, "abc")
    writer.take(step(1, "abc"))
    kinds = [json.loads(line)["ev"] for line in path.read_text().splitlines()]
    assert kinds[-5:] == [
        "step.begin", "step.decodes", "tokens.named", "tokens.sampled", "step.end",
    ]  # fmt: skip
    recording = Recording(path)
    assert recording.head.state == writer.fold.state
    events = list(recording.events(0, len(recording)))
    assert [event.seq for event in events] == list(range(len(events)))
    assert [event.seq_id for event in events if type(event) is ev.TokenSampled] == ["a", "b", "c"]
    assert recording.header.model_and_weights == "m on vLLM 0.32.0"
    writer.close()


def test_lists_of_a_line_that_differ_in_length_are_damage(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    writer = Writer(str(path), HEADER, texts())
    arrive(writer, "ab")
    writer.take(step(1, "ab"))
    writer.close()
    path.write_bytes(
        path.read_bytes().replace(b'"num_computed_tokens":[1,1]', b'"num_computed_tokens":[1]')
    )
    with pytest.raises(EventLogError, match="damaged at line 8"):
        Recording(path)


# ---- files ----


def test_at_its_limit_the_recording_goes_on_in_a_new_file_from_the_same_state(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    writer = Writer(str(path), HEADER, texts(), 4000)
    arrive(writer, "ab")
    before = step(1, "ab")
    for number in range(1, 40):
        before = writer.take(step(number, "ab"))
    writer.close()
    old, new = Recording(f"{path}.1"), Recording(path)
    assert new.header.first_seq > 0 and old.damage is None and before is None
    assert new.view_at_event(0).state.sequences.keys() == {"a", "b"}
    if old.head.last_seq == new.header.first_seq - 1:
        assert old.head.state == new.view_at_event(0).state
    assert new.head.state == writer.fold.state
    assert new.head.state.counters.generation_tokens == 2 * 39


def test_an_earlier_recording_is_kept_and_a_second_engine_is_refused(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_text("earlier\n")
    writer = Writer(str(path), HEADER, texts())
    with pytest.raises(EventLogError, match="another engine writes"):
        Writer(str(path), HEADER, texts())
    arrive(writer, "a")
    writer.close()
    assert Path(f"{path}.1").read_text() == "earlier\n"
    assert Recording(path).head.waiting == [] and len(Recording(path)) == 3


def test_a_file_that_is_full_or_removed_is_whole_up_to_the_last_call_and_the_tap_is_told(tmp_path):
    path = tmp_path / "run.jsonl"
    writer = Writer(str(path), HEADER, texts())
    arrive(writer, "ab")
    with files_no_larger_than(path.stat().st_size + 1500):
        error = failure_of(writer)
    assert REASON in str(error) and str(path) in str(error)
    recording = Recording(path)
    assert recording.last_step > 0 and recording.size == recording.indexed_bytes
    assert type(next(recording.events(len(recording) - 1, len(recording)))) is ev.StepEnd
    writer = Writer(str(path), HEADER, texts())
    path.unlink()
    assert "run.jsonl was removed" in str(failure_of(writer))


def failure_of(writer: Writer) -> Exception:
    failed, errors = threading.Event(), []
    writer.start(lambda error: (errors.append(error), failed.set()))
    for number in range(1, 30):
        writer.put(step(number, "ab"))
    assert failed.wait(SOON)
    writer.close(SOON)
    return errors[0]
