#!/bin/bash
# Everything that only a GPU can tell, written into the folder $OUT: the GPU tests, then the kernels' speed.
#
#   OUT=report tools/gpu_report.sh [tests] [kernels]     # both, if none is named
#
# For a machine without network: minivllm is installed without its dependencies, which must be there already.
# Each part has its own time limit and its own exit status in $OUT/status.txt, so one that fails or is cut off does not
# take the others with it, and parts can be run one by one where a session is short. PYTHON names the interpreter.
set -uo pipefail

: "${OUT:?set OUT to the folder that the report goes into}"
PYTHON=${PYTHON:-python3}
cd "$(dirname "$0")/.." || exit 1
mkdir -p "$OUT"
failed=0

# part NAME SECONDS COMMAND...: output to $OUT/NAME.txt, exit status (124: out of time) to $OUT/status.txt.
part() {
    local name=$1 limit=$2 status
    shift 2
    timeout "$limit" "$@" >"$OUT/$name.txt" 2>"$OUT/$name.err"
    status=$?
    echo "$name $status" | tee -a "$OUT/status.txt"
    [ "$status" -eq 0 ] || failed=1
}

part install 120 "$PYTHON" -m pip install -q --no-deps --no-build-isolation -e .
[ "$#" -gt 0 ] || set -- tests kernels
for name in "$@"; do
    case $name in
        tests) part tests 240 "$PYTHON" -m pytest -m gpu -q ;;
        kernels)
            part kernels 230 "$PYTHON" -m minivllm bench kernels --json
            # The last line is the JSON, but only of a run that came to its end.
            grep -q "^kernels 0$" "$OUT/status.txt" && tail -n 1 "$OUT/kernels.txt" >"$OUT/kernels.json"
            ;;
        *) echo "unknown part: $name (tests or kernels)" >&2; exit 2 ;;
    esac
done
exit "$failed"
