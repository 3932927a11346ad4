#!/bin/bash
# Measure the rows of "By instruction set" in docs/use/performance.md, on one quiet x86-64 machine with AVX-512:
#
#     python3 -m venv ~/peer-avx2 && CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON \
#         -DGGML_AVX512=OFF" ~/peer-avx2/bin/pip install --no-binary llama-cpp-python llama-cpp-python
#     bash tools/instruction_sets.sh ~/peer-avx2/bin/python [options of minivllm bench throughput]
#
# The kernels are built with -march=haswell for AVX2, and oneDNN, MKL and torch are limited to it. Zig's compiler is
# measured if it is installed (pip install 'minivllm[compiler]'). The builds take turns in each of ROUNDS rounds (5),
# so that a machine which gets slower meanwhile spoils no ratio; the medians come last.
set -eu
peer=$1; shift
bin=$(dirname "$0")/../.venv/bin
folder=$(mktemp -d); trap 'rm -r "$folder"' EXIT
cat > "$folder/avx2-cc" <<'END'
#!/bin/bash
exec ${REAL_CC:-gcc} "${@/#-march=native/-march=haswell}"
END
chmod +x "$folder/avx2-cc"

bench() { # bench BUILD [NAME=VALUE ...] -- [options]
    local build=$1 settings=(); shift
    while [ "$1" != -- ]; do settings+=("$1"); shift; done; shift
    env "${settings[@]}" "$bin/minivllm" bench throughput --model smollm2 --num-threads 2 --rounds 1 "$@" 2>&1 |
        sed -n "s/^\(.*\), round 1 of 1: /$build, \1: /p" | tee -a "$folder/figures"
}
limit=(ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 ATEN_CPU_CAPABILITY=avx2)
has_zig=$("$bin/python" -m ziglang version 2> /dev/null || true)
for round in $(seq "${ROUNDS:-5}"); do
    for workload in ${WORKLOADS:-single decode shared-prefix}; do
        bench "AVX-512 gcc" CC=gcc -- --workload $workload "$@"
        bench "AVX2 gcc" CC="$folder/avx2-cc" "${limit[@]}" -- \
            --workload $workload --vs llama.cpp --peer-gguf same --peer-python "$peer" "$@"
        bench "no compiler" CC=/bin/false "${limit[@]}" -- --workload $workload --vs transformers "$@"
        [ -z "$has_zig" ] || bench "AVX2 Zig" CC="$folder/avx2-cc" REAL_CC="$bin/python -m ziglang cc" \
            "${limit[@]}" -- --workload $workload "$@"
    done
done
"$bin/python" - "$folder/figures" <<'END'
import re, sys
from collections import defaultdict
from statistics import median

ours, ratios = defaultdict(list), defaultdict(list)
for line in open(sys.argv[1]):
    build, workload, figures = re.fullmatch(r"(.*), (\S+): (.*) tokens/s\n", line).groups()
    speeds = dict(figure.rsplit(" ", 1) for figure in figures.split(", "))
    ours[workload, build].append(float(speeds.pop("minivllm")))
    for peer, speed in speeds.items():
        ratios[workload, build, peer].append(ours[workload, build][-1] / float(speed))
for (workload, build), speeds in ours.items():
    print(f"{workload}, {build}: {median(speeds):.1f} tokens/s")
    pairs = {"AVX2 gcc": "AVX-512 gcc", "AVX2 Zig": "AVX2 gcc"}
    if build in pairs:
        ratios[workload, build, pairs[build]] = [a / b for a, b in zip(speeds, ours[workload, pairs[build]])]
for (workload, build, other), values in ratios.items():
    print(f"{workload}: {build} is {median(values):.2f} of {other} ({min(values):.2f} to {max(values):.2f})")
END
