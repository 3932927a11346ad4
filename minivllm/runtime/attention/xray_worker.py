"""`python -m minivllm.runtime.attention.xray_worker`: make one kernel trace and exit.

It reads a `DecodeSample` from standard input and writes the traced programs as JSON to standard
output. The caller must set `TRITON_INTERPRET=1`, which Triton reads at import.
"""

import sys

import msgspec

from minivllm.runtime.attention.xray import trace_here, unpack


def main() -> None:
    sys.stdout.buffer.write(msgspec.json.encode(trace_here(unpack(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
