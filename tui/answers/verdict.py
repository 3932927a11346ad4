"""`verdict`: which of two runs of the same requests took less time, and why."""

from minivllm.events.fold import Fold
from minivllm.events.recording.recording import Recording
from minivllm.text import plural
from minivllm.tui.state.model import DashboardModel

TIE = 1.02
"""Up to this ratio of their times, nobody wins."""


def verdict(first: Recording[DashboardModel], second: Recording[DashboardModel]) -> str:
    """A sentence about two complete recordings; empty if they differ in work or have no seconds."""
    ends = [run.head.fold for run in (first, second)]
    tokens = [end.counters.generation_tokens for end in ends]
    if tokens[0] != tokens[1] or not all(run.head.pace.is_timed for run in (first, second)):
        return ""
    a, b = (run.head.fold.t - next(iter(run.events(0, 1))).t for run in (first, second))
    if max(a, b) < TIE * min(a, b):
        return f"Nobody won: A took {a:,.2f} s and B {b:,.2f} s, and less than 2 % apart is equal."
    return f"{'B' if b < a else 'A'} won: {why_faster(*ends, a / b, 'AB')}."


def why_faster(first: Fold, second: Fold, times: float, names: str) -> str:
    """The most likely cause, as a clause about the sides with these names, of one letter each.

    Both folds are at the end of their runs, which had the same requests.
    times: how many times as fast the second run was
    """
    if 1 / TIE < times < TIE:
        return "less than 2 % apart is equal"
    order = -1 if times < 1 else 1
    (slow, fast), (slower, faster) = (first, second)[::order], names[::order]
    old, new = slow.header, fast.header
    a, b = slow.counters, fast.counters
    reserved = -(-old.max_model_len // old.block_size)
    most = old.num_usable_blocks // reserved
    own = old.config.get("kv_cache_allocator"), old.config.get("batching")
    other = new.config.get("kv_cache_allocator"), new.config.get("batching")
    if own[1] == "sequential" != other[1]:
        return f"{slower} served one request after another"
    if own[0] == "contiguous" != other[0] and most < slow.max_num_seqs:
        kept = f"kept {plural(reserved, 'block')} reserved for each request"
        return f"{slower} {kept}, so only {most} fitted at once and the others waited"
    if own[1] == "static" != other[1]:
        return f"in {slower}, new requests waited until the whole batch had ended"
    if (loaded := b.external_prefix_cache_hits - a.external_prefix_cache_hits) > 0:
        again = f"computed {plural(loaded, 'token')} again"
        return f"{slower} {again}, which {faster} loaded from the host's memory"
    if slow.step == fast.step:
        return f"both took {plural(slow.step, 'step')}, so only the time of a step differs"
    found = b.prefix_cache_hits - a.prefix_cache_hits
    if old.num_usable_blocks < new.num_usable_blocks:
        lost = a.num_preemptions - b.num_preemptions
        only = f"{slower} had only {old.num_usable_blocks:,} blocks"
        if found > 0 >= lost:
            return f"{only} and forgot {plural(found, 'token')}, which {faster} found in its cache"
        again = f", and {plural(lost, 'more preemption')} cost work" if lost > 0 else ""
        return f"{only}: requests waited for them{again}"
    if a.num_preemptions > b.num_preemptions:
        return f"{slower} preempted {a.num_preemptions} times and computed that work again"
    if slow.max_num_seqs < fast.max_num_seqs:
        return f"{slower} runs at most {plural(slow.max_num_seqs, 'sequence')} at once"
    if b.spec_decode_num_accepted_tokens > a.spec_decode_num_accepted_tokens:
        return f"{b.spec_decode_num_accepted_tokens:,} drafts of {faster} were right"
    if found > 0:
        return f"{faster} found {plural(found, 'more token')} in its prefix cache"
    if loaded < 0:
        return f"{slower} loaded {plural(-loaded, 'token')}, which took longer than it saved"
    if old.num_cpu_blocks != new.num_cpu_blocks:
        return "no prompt came back after its blocks were evicted, so nothing was loaded"
    shorter = " shorter ones" if slow.step < fast.step else ""
    return f"{slower} took {plural(slow.step, 'step')}, {faster} {fast.step:,}{shorter}"
