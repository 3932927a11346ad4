"""`minivllm once`: prints an engine's state from a recording or a server, now or after a step.

    minivllm once run.jsonl                        # running and waiting requests, use of memory
    minivllm once run.jsonl --step 12 --json       # everything as one line of JSON, for a script
    minivllm once http://localhost:8000 --json     # the same for a running server

The JSON is `EngineState` with a few more fields. If events were lost, the state is the one before
the first lost event, and the output says so.
"""

import argparse
import time

import msgspec

from minivllm.cli import Parser
from minivllm.cli.terminal import note, print_json
from minivllm.errors import EventLogError
from minivllm.events.fold import Fold
from minivllm.events.kv_usage import pool_use
from minivllm.text import clean, fit, plural, short_name, tail
from minivllm.tui.sources.opening import open_source
from minivllm.tui.state.decisions import deferral

QUIET_SECONDS = 0.5
"""After this time without an event, the newest event counts as received."""


def add_arguments(parser: Parser) -> None:
    parser.add("SOURCE", "a recording, also one that grows, or http://host:port of a server")
    parser.add("--step N", "the state after step N (default: the last step)")
    parser.add("--json", "print one line of JSON")


def run(args: argparse.Namespace) -> int:
    fold, damage = fold_once(args.source, args.step)
    if args.json:
        print_json(state_json(fold) | {"damage": damage})
    else:
        print("\n".join(summary(fold)))
    if damage is not None:
        note(f"{damage} This is the state before the damage.")
    return 0 if damage is None else 1


def fold_once(source: str, step: int | None) -> tuple[Fold, str | None]:
    """Return the state of a recording or event stream after `step`; None is the newest step.

    The second is what is damaged before that step, in one sentence, or None.
    """
    opened = open_source(source, follow=False)
    try:
        quiet_since = time.monotonic()
        # A server's stream has no end; a quiet period counts as one.
        while opened.status.state == "indexing" or time.monotonic() - quiet_since < QUIET_SECONDS:
            if opened.poll(1.0):
                quiet_since = time.monotonic()
            elif opened.status.state in ("recording", "ended"):
                break
            else:
                time.sleep(0.02)
        recording, damage = opened.recording, opened.recording.damage
        if step is None:
            return recording.head, damage
        last = recording.last_step
        if step < 0 or (step > last and damage is None):
            raise EventLogError(f"{source} ends with step {last}; it has no step {step} yet.")
        return recording.view_at_step(step), damage
    finally:
        opened.close()


def state_json(fold: Fold) -> dict[str, object]:
    of_header = ("model", "weights", "engine", "block_size", "max_num_seqs")
    return {
        **{name: getattr(fold.header, name) for name in of_header},
        "t": fold.t,
        "seconds": fold.t - fold.header.mono,
        "lost_events": fold.lost_events,
        "finished_requests": fold.counters.finished_requests,
        "pool": pool_use(fold)._asdict(),
        **msgspec.to_builtins(fold.state),
    }


def summary(fold: Fold) -> list[str]:
    header, counters, pool = fold.header, fold.counters, pool_use(fold)
    when = f"after step {fold.step:,}, {fold.t - header.mono:.2f} s after the recording began"
    use = f"{pool.used:,} used, {pool.cached:,} free but cached, {pool.empty:,} empty"
    ended = f"{counters.finished_requests:,} finished, {counters.aborted_requests:,} aborted"
    written = f"{plural(counters.generation_tokens, 'token')} written"
    lines = [
        f"{clean(header.model_and_weights)} {when}",
        f"blocks    {header.num_usable_blocks:,} of {header.block_size} tokens: {use}",
        f"requests  {ended}, {plural(counters.num_preemptions, 'preemption')}, {written}",
        f"running   {len(fold.running)} in {plural(header.max_num_seqs, 'slot')}",
        *(_running(fold, seq_id) for seq_id in fold.running),
        f"waiting   {len(fold.waiting)}",
        *(_waiting(fold, position) for position in range(len(fold.waiting))),
    ]
    if fold.lost_events:
        lost = plural(fold.lost_events, "event")
        lines.append(f"{lost} were lost: this is the state before the first of them.")
    return lines


def _running(fold: Fold, seq_id: str) -> str:
    sequence = fold.sequences[seq_id]
    return (
        f"  {fit(short_name(seq_id), 12)} slot {sequence.slot}, {sequence.num_computed_tokens:,} of"
        f" {plural(sequence.num_tokens, 'token')} computed,"
        f" {plural(len(sequence.block_table), 'block')}  {tail(sequence.text, 60)}"
    ).rstrip()


def _waiting(fold: Fold, position: int) -> str:
    seq_id = fold.waiting[position]
    sequence = fold.sequences[seq_id]
    if position > 0:
        why = f"behind {short_name(fold.waiting[position - 1])}"
    elif sequence.deferred is None:
        why = "new"
    else:
        why = deferral(*sequence.deferred, fold.header.max_num_seqs)
    size = plural(sequence.num_tokens, "token")
    if sequence.num_preemptions:
        size += f", preempted {sequence.num_preemptions}x"
    return f"  {fit(short_name(seq_id), 12)} {size}: {why}"
