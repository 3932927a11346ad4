"""Damages the files of small models in a thousand ways, and tests that loading them is safe.

    .venv/bin/python tools/fuzz_model_files.py --inputs 1000 --seed 0

Each input is loaded in a forked process with limits on time and memory. Loading must succeed, or
raise one of our typed errors with one sentence. Any other outcome is printed with the seed that
reproduces it, and the exit status is 1. docs/use/reliability.md has the numbers of the final line
for each kind of file.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import struct
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.model.gguf_files import write_gguf

from minivllm import LLM, SamplingParams
from minivllm.errors import MinivllmError
from minivllm.runtime.checkpoint import gguf_conversion
from minivllm.runtime.store.model_store import resolve_model

MAX_SECONDS = 20
MAX_BYTES = 8 << 30
JSON_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
OTHER_FILES = {
    "model.safetensors": "tiny-random", "experts.safetensors": "tiny-moe", "model.gguf": "llama",
    "gemma3.gguf": "gemma3", "experts.gguf": "granitemoe",
}  # fmt: skip
"""Name -> model, or architecture of a file that is made here."""
NUMBERS = [
    0, 1, -1, 2, 3, 31, 255, 2**16, 2**20, 2**31 - 1, 2**31, 2**32, 2**40, 2**53 + 1, 2**60, 2**63,
    2**64 - 1, 10**30,
]  # fmt: skip
VALUES: list[Any] = [
    *NUMBERS, None, True, False, "", "x", "../../etc/passwd", "\x00", "\ud800", "a" * 100_000,
    [], {}, [[]], [None], {"a": {}}, 1e308, -1e308, float("nan"), float("inf"), 0.5, "NaN",
    ["full_attention"] * 5, {"rope_type": "yarn"}, {"content": {}}, [1, "x", None],
]  # fmt: skip


def damaged_bytes(data: bytes, dice: random.Random) -> bytes:
    """Apply one to four random changes."""
    damaged = bytearray(data)
    # Mostly damage the start: this is the header, which determines how the rest is read.
    end = len(damaged)
    if dice.random() >= 0.2:
        end = min(end, dice.choice([64, 512, 4096, 16384]))
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(max(end, 1))
        length = dice.choice([1, 2, 4, 8, 100])
        match dice.randrange(7):
            case 0:
                damaged[at : at + 1] = (
                    bytes([damaged[at] ^ 1 << dice.randrange(8)]) if at < len(damaged) else b""
                )
            case 1:
                damaged[at : at + length] = dice.randbytes(length)
            case 2:
                damaged[at : at + 8] = struct.pack("<Q", dice.choice(NUMBERS) % 2**64)
            case 3:
                damaged[at : at + 4] = struct.pack("<I", dice.choice(NUMBERS) % 2**32)
            case 4:
                del damaged[at : at + length]
            case 5:
                damaged[at:at] = damaged[at : at + length]
            case 6:
                del damaged[at:]
    return bytes(damaged)


def damaged_json(data: bytes, dice: random.Random) -> bytes:
    """Replace, remove, or nest values; sometimes damage the bytes instead."""
    if dice.random() < 0.1:
        return damaged_bytes(data, dice)
    root = json.loads(data)
    for _ in range(dice.randint(1, 3)):
        node = root
        while node:
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = dice.choice(keys)
            if isinstance(node[key], dict | list) and node[key] and dice.random() < 0.7:
                node = node[key]
                continue
            match dice.randrange(5):
                case 0 | 1 | 2:
                    node[key] = dice.choice(VALUES)
                case 3:
                    del node[key]
                case 4:
                    for _ in range(dice.choice([3, 5000])):
                        node[key] = [node[key]]
            break
    try:
        return json.dumps(root).encode()
    except RecursionError:
        return b'{"a": ' + b"[" * 100_000


def load_checkpoint(directory: Path) -> None:
    llm = LLM(model=str(directory), num_gpu_blocks_override=16, max_model_len=64, block_size=8)
    params = SamplingParams(max_tokens=2, temperature=0)
    llm.generate("once upon", params)
    if llm.llm_engine.tokenizer.has_chat_template:
        llm.chat([{"role": "user", "content": "Hi"}], params)


def load_gguf(directory: Path) -> None:
    (path,) = directory.glob("*.gguf")
    target = directory / "out"
    target.mkdir()
    gguf_conversion.convert_gguf(path, target, lambda words: None)
    load_checkpoint(target)


def one_input(directory: Path, load: Callable[[Path], None]) -> tuple[str, float, int]:
    """Load in a forked process; return outcome, processor seconds, and added bytes of memory."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # Processor time, because other programs may use the processor, too.
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        signal.alarm(30 * MAX_SECONDS)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        try:
            load(directory)
            outcome = "loads"
        except MinivllmError as error:
            words = str(error)
            outcome = type(error).__name__
            if len(words) > 600 or "\n" in words:
                outcome = f"BAD {outcome}: {words[:3000]!r}"
        except BaseException as error:
            last = traceback.extract_tb(error.__traceback__)[-3:]
            where = " < ".join(
                f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(last)
            )
            outcome = f"BAD {type(error).__name__}: {str(error)[:150]!r} at {where}"
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(writing, json.dumps([outcome, grown << 10]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    if not answer:
        return f"BAD signal {os.WTERMSIG(status)}", seconds, 0
    outcome, grown = json.loads(answer)
    return outcome, seconds, grown


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--inputs", type=int, default=1000, help="number of inputs of each kind of file"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=[*JSON_FILES, *OTHER_FILES], help="only this kind")
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    kinds = {
        name: (resolve_model("tiny-random"), name, damaged_json, load_checkpoint)
        for name in JSON_FILES
    }
    for name, model in OTHER_FILES.items():
        is_gguf, source = name.endswith(".gguf"), scratch / name
        if is_gguf:
            source.mkdir()
            write_gguf(source / "model.gguf", model)
            load_gguf(source)  # once here, so that the inputs' times do not include imports
        else:
            source = resolve_model(model)
        load = load_gguf if is_gguf else load_checkpoint
        kinds[name] = (source, f"model{Path(name).suffix}", damaged_bytes, load)
    num_bad = 0
    for name, (source, file, damage, load) in kinds.items():
        if args.kind not in (None, name):
            continue
        outcomes: Counter[str] = Counter()
        slowest, largest, sound = 0.0, 0, (source / file).read_bytes()
        for i in range(args.inputs):
            directory = scratch / "one"
            directory.mkdir()
            for other in source.iterdir():
                if other.is_file():
                    shutil.copy(other, directory)
            (directory / file).write_bytes(damage(sound, random.Random(f"{name} {args.seed} {i}")))
            outcome, seconds, grown = one_input(directory, load)
            if outcome.startswith("BAD"):
                print(f"{name} seed {args.seed} input {i}: {outcome}", flush=True)
            outcomes[outcome.split(":")[0]] += 1
            num_bad += outcome.startswith("BAD")
            slowest, largest = max(slowest, seconds), max(largest, grown)
            shutil.rmtree(directory)
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        print(
            f"{name}: {args.inputs} inputs: {counts}; most computing {slowest:.1f} s, most memory"
            f" {largest >> 20} MiB",
            flush=True,
        )
    shutil.rmtree(scratch)
    return 1 if num_bad else 0


if __name__ == "__main__":
    sys.exit(main())
