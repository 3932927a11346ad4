"""`why` of a block: every branch on a real run, and every number in a sentence the fold's or an event's."""

import re

from support.engine.random_traces import folded
from support.tui.asked_why import NOTHING, ask_why, short

from minivllm.events import types as ev
from minivllm.tui.answers.why import why
from minivllm.tui.draw.selection import block
from minivllm.tui.state.model import DashboardModel


def test_a_held_block_is_told_with_its_owner_entry_and_fill(memory_pressure) -> None:
    model = folded(memory_pressure.run(13))
    for block_id, state in enumerate(model.fold.blocks):
        if state.ref_cnt != 1:
            continue
        ((seq_id, logical),) = model.owners(block_id)
        said = ask_why(model, block(block_id))
        written = min(max(model.fold.sequences[seq_id].num_computed_tokens - logical * 8, 0), 8)
        born = next(
            e.step
            for e in reversed(memory_pressure.events)
            if isinstance(e, ev.BlockAllocated) and e.block_id == block_id
        )
        assert said.startswith(
            f"Block {block_id} is held by {short(seq_id)} alone, as entry {logical} of its block table, in use since step {born}: "
        )
        assert f"{written} of 8 tokens are written" in said
        assert ("a prompt that begins alike can share it" in said) == (state.hash is not None)


def test_a_block_that_was_hit_is_shared_since_then(shared_prefix) -> None:
    model = folded(shared_prefix.run(22))
    hits = {e.seq_id: e.step for e in shared_prefix.events if isinstance(e, ev.BlockHit) and e.block_id == 0}
    steps = sorted(set(hits.values()))
    assert ask_why(model, block(0)) == (
        f"Block 0 is shared by r0, r1, r2 and r3 (reference count 4): r0 took it in step 1, and r1, r2 and r3 found it in the prefix cache in steps "
        f"{steps[0]} to {steps[-1]}; it is full, so its 8 tokens are stored once for all of them."
    )


def test_a_block_of_forks_is_shared_since_they_parted(samples) -> None:
    model = folded(samples.run(1))
    common = [one for one, state in enumerate(model.fold.blocks) if state.ref_cnt == 3]
    full, partial = common[0], common[-1]
    start = "is shared by r0, r0.1 and r0.2 (reference count 3): r0 took it in step 1, and r0.1 and r0.2 were forked in step 1; "
    assert (
        ask_why(model, block(full))
        == f"Block {full} {start}it is full, so its 8 tokens are stored once for all of them."
    )
    written = model.fold.sequences["r0.0"].num_computed_tokens % 8
    assert written
    assert (
        ask_why(model, block(partial))
        == f"Block {partial} {start}{written} of its 8 tokens are written, and who writes the next one copies it first."
    )


def test_a_free_block_is_told_who_left_it_and_when_it_dies(memory_pressure) -> None:
    model = folded(memory_pressure.run(60))
    queue, kinds = list(model.fold.free_queue), set()
    for place, block_id in enumerate(queue, start=1):
        said = ask_why(model, block(block_id))
        freed = [e for e in memory_pressure.events if isinstance(e, ev.BlockReleased) and e.block_id == block_id]
        ordinal = re.search(r"(\d+)(?:st|nd|rd|th) of (\d+) to be handed out", said)
        assert (int(ordinal[1]), int(ordinal[2])) == (place, len(queue))
        assert f"{short(freed[-1].seq_id)} held it last, until step {freed[-1].step}, " in said
        if model.fold.blocks[block_id].hash is not None:
            assert said.startswith(f"Block {block_id} is free but still cached: ") and "it dies as the" in said
        else:
            assert said.startswith(f"Block {block_id} is empty: ") and "its content had no hash" in said
        kinds.add(said.split(":")[0].removeprefix(f"Block {block_id} is "))
    assert kinds == {"free but still cached"}


def test_a_block_whose_owner_was_stopped_half_way_is_empty(samples) -> None:
    model = folded(samples.run())
    block_id = next(
        b for b, state in enumerate(model.fold.blocks) if state.hash is None and model.ages.blocks[b] is not None
    )
    said = ask_why(model, block(block_id))
    released = [e for e in samples.events if isinstance(e, ev.BlockReleased) and e.block_id == block_id][-1]
    assert said.startswith(
        f"Block {block_id} is empty: {short(released.seq_id)} held it last, until step {released.step}, its content had no hash, "
    )


def test_between_release_and_queue_a_block_is_in_nobodys_hands(memory_pressure) -> None:
    model = DashboardModel(memory_pressure.header)
    for one in memory_pressure.run(60).events:
        model.apply(one)
        if isinstance(one, ev.BlockReleased):
            break
    assert ask_why(model, block(one.block_id)) == (
        f"Block {one.block_id} has just lost its last owner: the event after this one puts it on the free queue."
    )


def test_a_block_that_nobody_has_held_is_empty_and_one_that_is_not_there_is_not(samples) -> None:
    model = folded(samples.run(3))
    assert ask_why(model, block(47)).startswith("Block 47 is empty: nobody has held it in this recording so far; ")
    assert ask_why(model, block(48)) == "There is no block 48: the pool has 48 blocks, and the first is 0."


def test_with_caching_off_blocks_and_the_moment_say_so(stage, ask) -> None:
    run = stage(
        [ask("r0", "word " * 30, "yes"), ask("r1", "word " * 30, "an answer " * 20)], enable_prefix_caching=False
    )
    model = folded(run.run(8))
    held, left = model.fold.sequences["r1.0"].block_table[0], next(iter(model.fold.free_queue))
    assert "prefix caching is off, so nobody else can find it" in ask_why(model, block(held))
    assert "prefix caching is off, so nothing of it can be found again" in ask_why(model, block(left))
    assert (
        why(model, NOTHING)
        == "Prefix caching is off, so none of the 60 prompt tokens so far came from the cache, and none will."
    )
