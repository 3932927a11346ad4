"""The player in the page cannot lie: it shows what Python shows, after every event.

Python plays each recording in the dashboard's model and writes down a digest of the state after
every event, and at the end of steps the sentences of the key `w`. One node process plays the same
files with the player's modules and compares.
"""

import hashlib
import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support.engine.random_histories import FLAVOURS, TIERED, History
from support.node import find_node, player_modules, run_node

from minivllm.events import types as ev
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.reader import LogReader
from minivllm.events.state import SequenceState
from minivllm.tui.answers.why import why_block, why_host_block
from minivllm.tui.answers.why_sequences import why_sequence
from minivllm.tui.state.decisions import TOLD_KINDS, sentence_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.narration import Narration
from minivllm.tui.widgets.requests.waiting import why_waiting

pytestmark = pytest.mark.skipif(find_node() is None, reason="no node, neither as a wheel nor here")

RECORDINGS = Path(__file__).parents[3] / "docs/assets/recordings"
COMPARE = Path(__file__).with_name("fold_against_python.mjs")
_WHOLE = re.compile(rb"(\d)\.0(?=[,}\]])")
_ASKED_INSIDE = (ev.RequestPreempted, ev.RequestArrived, ev.RequestForked, ev.BlockHit)
_NEWEST_TOKEN = re.compile(r" Its (?:next|newest|last) token.*")
"""How the next word was drawn is not part of the player's sentence."""


def test_the_player_shows_what_python_shows_in_every_shipped_recording(tmp_path):
    files = sorted(RECORDINGS.rglob("*.jsonl"))
    assert_equal_in_node(tmp_path, files)


def test_the_player_shows_what_python_shows_in_random_runs(tmp_path):
    files, kinds = [], set()
    for number in range(100):
        flavours = TIERED if number % 4 == 0 else FLAVOURS
        flavour = list(flavours)[number % len(flavours)]
        second = {0: {"tiered": True}, 4: {"role": "kv_producer"}, 8: {"role": "kv_consumer"}}
        history = History(flavour, seed=5000 + number, **second.get(number % 12, {}))
        kinds |= history.run().keys()
        path = tmp_path / f"{number}.jsonl"
        with LogWriter(path, history.engine.fold.header) as writer:
            for event in history.engine.events:
                writer.write(event)
        files.append(path)
    rare = {ev.RequestPreempted, ev.RequestForked, ev.BeamPruned, ev.DraftVerified, ev.BlockCopied}
    assert kinds >= rare | {ev.BlockEvicted, ev.RequestAborted, ev.OptionChanged}
    assert kinds >= {ev.KVStore, ev.KVLost, ev.KVLoad, ev.KVLoaded, ev.KVLease, ev.KVReleased}
    assert_equal_in_node(tmp_path, files)


def assert_equal_in_node(folder: Path, files: list[Path]) -> None:
    pairs = []
    for number, file in enumerate(files):
        expected = folder / f"expected-{number}.jsonl"
        with expected.open("wb") as out:
            for line in expectations(file):
                out.write(msgspec.json.encode(line) + b"\n")
        pairs.append([str(file), str(expected)])
    (folder / "pairs.json").write_text(json.dumps(pairs))
    printed = run_node(COMPARE, player_modules(folder), folder / "pairs.json")
    results = [json.loads(line) for line in printed.splitlines()]
    assert [result["file"] for result in results if result["events"]] == [file for file, _ in pairs]
    assert [result for result in results if result["difference"] is not None] == []


def expectations(file: Path) -> Iterator[dict]:
    reader = LogReader(file)
    model = DashboardModel(reader.header)
    for event in reader:
        model.apply(event)
        # Only the dashboard's x-ray has sentences about traced kernels.
        is_end = isinstance(event, ev.StepEnd)
        decision = Narration().look(model.log.decisions, 0.0, None) if is_end else None
        told = type(event) in TOLD_KINDS and not isinstance(event, ev.KernelTraced)
        yield {
            "digest": digest(model),
            "sentence": sentence_of_kind(event) if told else None,
            "said": said_at(model) if is_end or type(event) in _ASKED_INSIDE else None,
            "narrated": decision and decision.narrated(),
        }


def sentence_of_kind(event: ev.Event) -> str:
    if isinstance(event, ev.DraftVerified):  # the list of all events adds a number
        name = event.seq_id.removesuffix(".0")
        kept = event.num_accepted
        return f"{name} keeps {f'{kept} draft' + 's' * (kept != 1) if kept else 'no draft'}"
    return sentence_of(event)


def said_at(model: DashboardModel) -> list[str]:
    fold = model.fold
    asked = [*fold.running, *fold.waiting, *(ended.seq_id for ended in list(fold.history)[-2:])]
    return [
        *(_NEWEST_TOKEN.sub("", why_sequence(model, seq_id)) for seq_id in asked),
        *(why_block(model, block_id) for block_id in range(len(fold.blocks))),
        *(why_host_block(model, number) for number in range(len(fold.host_blocks))),
        *(why_waiting(model, position) for position in range(len(fold.waiting))),
    ]


def digest(model: DashboardModel) -> str:
    """Of the state, letters and ages. Whole numbers are written without `.0`, as in JavaScript."""
    state, ages, letters = model.fold.state, model.ages, model.letters
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    fields["requests"] = list(state.requests.items())
    fields["sequences"] = [
        (name, msgspec.structs.replace(sequence, grammar=grammar_of(sequence)))
        for name, sequence in state.sequences.items()
    ]
    fields["token_pieces"] = sorted(state.token_pieces.items())
    everything = [
        *fields.values(),
        list(letters.given.items()),
        list(letters.hues.items()),
        [
            age and [age.touched, age.last_owner, age.born, age.taken_by, ages.tokens(at).tolist()]
            for at, age in enumerate(ages.blocks)
        ],
        sorted(ages.changed),
        [sorted(beat.items()) for beat in ages.beats],
        ages.last_scheduled,
        sorted(ages.host_owners.items()),
        sorted(ages.stores.items()),
    ]
    text = _WHOLE.sub(rb"\1", msgspec.json.encode(everything))
    return hashlib.md5(text, usedforsecurity=False).hexdigest()


def grammar_of(sequence: SequenceState) -> list | None:
    """With the bits of the probability: JavaScript writes the digits of small numbers its way."""
    if sequence.grammar is None:
        return None
    position, allowed, refused, probability = msgspec.structs.astuple(sequence.grammar)
    return [position, allowed, refused, struct.pack(">d", probability).hex()]
