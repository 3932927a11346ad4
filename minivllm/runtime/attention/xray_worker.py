"""`python -m minivllm.runtime.attention.xray_worker`: makes one kernel trace in a process where
Triton interprets, and ends.

Standard input is a `DecodeSample`, standard output the programs as JSON. Knows nothing of engines.
The easy thing to get wrong is when the mode is settled: `TRITON_INTERPRET=1` has to be set by
whoever starts this, before Python runs.
"""

import sys

import msgspec

from minivllm.runtime.attention.xray import DecodeSample, trace_here


def main() -> None:
    sample = DecodeSample.from_bytes(sys.stdin.buffer.read())
    sys.stdout.buffer.write(msgspec.json.encode(trace_here(sample)))


if __name__ == "__main__":
    main()
