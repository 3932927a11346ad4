"""`python -m minivllm` is the `minivllm` command."""

import sys

from minivllm.cli import main

if __name__ == "__main__":
    sys.exit(main())
