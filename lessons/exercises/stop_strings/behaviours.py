"""Checks for stop-strings: single automata, text cut at random, then engines with stop strings."""

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.engine.stop_strings import StopStringChecker, _Automaton
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.lessons.checker.cases.toy import ToyRunner, ToyTokenizer
from minivllm.sampling_params import SamplingParams


def one_pattern(draw: Draw) -> Case:
    """A stop string and a text. With few letters, overlaps and near misses are common."""
    return {
        "pattern": draw.text("ab", 1, 6),
        "text": draw.text("ab", 1, 8) + draw.text("abc", 0, 8),
    }


def pieces(draw: Draw, may_stop: bool = True, include: bool = False) -> Case:
    """Stop strings, and a text in pieces. With `may_stop=False` the first two may not stop."""
    return {
        "stop": draw.list_of(lambda d: d.text("ab", 1, 5), 1, 3),
        "include": include and draw.boolean(),
        "pieces": [
            [piece, may_stop or index > 1]
            for index, piece in enumerate(draw.list_of(lambda d: d.text("abc", 0, 5), 1, 7))
        ],
        "last": draw.text("abc", 0, 3),
    }


def _fed(case: Case) -> Lines:
    stop = list(case["stop"])
    checker = StopStringChecker(stop, case["include"])
    yield f"stop strings {stop}, {'shown' if case['include'] else 'not shown'}"
    for piece, may_stop in case["pieces"]:
        check = checker.feed(piece, may_stop=may_stop)
        yield (
            f"feed({piece!r}{'' if may_stop else ', may_stop=False'}) shows {check.text!r}, stop"
            f" {check.stop!r}"
        )
        if check.stop is not None:
            return


@behaviour(task=2, cases=one_pattern, examples=100)
def automaton(case: Case) -> Lines:
    """an automaton knows how much of its stop string the text ends with

    After a character that does not match: what is the longest beginning of the stop string that the
    text ends with now?
    """
    automaton = _Automaton(case["pattern"])
    yield f"{case['pattern']!r} has the borders {list(automaton._borders)}"
    for index, char in enumerate(case["text"]):
        done = automaton.step(char)
        text = case["text"][: index + 1]
        yield (
            f"after {text!r}: length {automaton.length:d}, complete {bool(done)}, undecided"
            f" {automaton.num_undecided:d}"
        )


@behaviour(task=4, cases=pieces, examples=150)
def feeds(case: Case) -> Lines:
    """text is shown as soon as possible, and no part of a stop string is ever shown

    Join the pieces in your head. Which end of the text can still become a stop string?
    """
    yield from _fed(case)


@behaviour(task=4, cases=lambda draw: pieces(draw, may_stop=False), examples=150)
def passes_over(case: Case) -> Lines:
    """an ignored stop string is shown as text, and its end may begin the next match

    With may_stop=False nothing stops here. Which characters may belong to a stop string that a
    later piece completes?
    """
    # The first two pieces may not stop.
    yield from _fed(case)


@behaviour(task=4, cases=lambda draw: pieces(draw, include=True))
def includes(case: Case) -> Lines:
    """a stop string may be part of the output

    With the stop string included, what is the last character of the shown text?
    """
    yield from _fed(case)


@behaviour(task=5, cases=pieces)
def ends(case: Case) -> Lines:
    """the last piece stops the text if it must; otherwise everything is shown

    The answer has max_tokens tokens and no stop string came. What has the reader not seen yet?
    """
    # Pieces and then the end, which may stop or not. The whole text as a single last piece must
    # give the same result.
    pieces = [piece for piece, _ in case["pieces"]]
    for may_stop in (True, False):
        checker = StopStringChecker(list(case["stop"]))
        if any(checker.feed(piece).stop is not None for piece in pieces):
            return
        whole = StopStringChecker(list(case["stop"]))
        for before, last, used in (
            (pieces, case["last"], checker),
            ([], "".join(pieces) + case["last"], whole),
        ):
            check = used.finish(last, may_stop=may_stop)
            yield (
                f"stop strings {case['stop']}, after {before}:"
                f" finish({last!r}{'' if may_stop else ', may_stop=False'}) shows {check.text!r},"
                f" stop {check.stop!r}"
            )


@behaviour(
    task=5,
    cases=lambda draw: {
        "prompt": draw.list_of(lambda d: d.integer(1, 20), 1, 6),
        "max_tokens": draw.integer(1, 12),
        "min_tokens": draw.integer(0, 3),
        "cuts": draw.list_of(lambda d: [d.integer(0, 9), d.integer(1, 4), d.boolean()], 1, 3),
        "include": draw.boolean(),
    },
)
def serves(case: Case) -> Lines:
    """the engine's answers stop at the right places

    Compare the visible text after each step with the whole answer. Where does the stop string begin
    in it?
    """
    # An answer without stop strings, then with pieces of itself as stop strings.
    answer = list(_answers(case, []))[-1]
    yield f"the whole answer is {answer!r}"
    stop = []
    for start, length, is_near in case["cuts"]:
        cut = answer[start % len(answer) :][:length]
        stop.append(cut[:-1] + "?" if is_near and len(cut) > 1 else cut)
    for text in _answers(case, stop):
        yield f"with the stop strings {stop}: {text!r}"


def _answers(case: Case, stop: list[str]) -> Lines:
    engine = LLMEngine(
        EngineConfig(model="toy", block_size=4),
        ToyRunner(16, 4, 64),
        ToyTokenizer(),
        clock=VirtualClock(),
    )
    params = SamplingParams(
        temperature=0,
        max_tokens=case["max_tokens"],
        min_tokens=min(case["min_tokens"], case["max_tokens"]),
        stop=stop,
        include_stop_str_in_output=case["include"],
    )
    engine.add_request("ada", {"prompt_token_ids": case["prompt"]}, params)
    while engine.has_unfinished_requests():
        for output in engine.step():
            yield output.outputs[0].text
