#!/bin/bash
# Everything that only a GPU can tell, written into the folder $OUT: the GPU tests, the kernels' speed, and the engine's.
#
#   OUT=report tools/gpu_report.sh [tests] [kernels] [throughput]     # all, if none is named
#
# For a machine without network that has torch, triton, transformers, pytest and hypothesis: what it lacks beside them
# (msgspec, gguf, textual) comes as wheels in the folder .gpu-wheels, which `make gpu-wheels` fills where there is one.
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
    # An earlier run into the same folder must not answer for this one.
    if [ -e "$OUT/status.txt" ]; then sed -i "/^$name /d" "$OUT/status.txt"; fi
    echo "$name $status" | tee -a "$OUT/status.txt"
    [ "$status" -eq 0 ] || failed=1
}

# json_part NAME SECONDS ARGUMENTS...: a bench of minivllm; its JSON to $OUT/NAME.json.
json_part() {
    rm -f "$OUT/$1.json"
    part "$1" "$2" "$PYTHON" -m minivllm "${@:3}" --json
    # The last line is the JSON, but only of a run that came to its end.
    if grep -q "^$1 0$" "$OUT/status.txt"; then tail -n 1 "$OUT/$1.txt" >"$OUT/$1.json"; fi
}

wheels=()
for wheel in .gpu-wheels/*.whl; do if [ -e "$wheel" ]; then wheels+=("$wheel"); fi; done
part install 120 "$PYTHON" -m pip install -q --no-deps --no-index --no-build-isolation "${wheels[@]}" -e .
[ "$#" -gt 0 ] || set -- tests kernels throughput
for name in "$@"; do
    case $name in
        # Kernels are compiled for each shape and type once: minutes. The folders are named, so that what the dashboard's
        # tests may lack here does not keep these from running.
        tests) part tests 560 "$PYTHON" -m pytest -m gpu -q tests/kernels tests/runtime tests/test_gpu.py ;;
        kernels) json_part kernels 560 bench kernels ;;
        throughput) json_part throughput 540 bench throughput --workload nano-vllm ;;
        *) echo "unknown part: $name (tests, kernels or throughput)" >&2; exit 2 ;;
    esac
done
exit "$failed"
