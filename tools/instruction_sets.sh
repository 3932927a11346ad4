#!/bin/bash
# Measure the rows of "By instruction set" in docs/use/performance.md, on one quiet x86-64 machine with AVX-512:
#
#     python3 -m venv ~/peer-avx2 && CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON \
#         -DGGML_AVX512=OFF" ~/peer-avx2/bin/pip install --no-binary llama-cpp-python llama-cpp-python
#     bash tools/instruction_sets.sh ~/peer-avx2/bin/python [options of minivllm bench throughput]
#
# The kernels are built with -march=haswell for AVX2, and oneDNN, MKL and torch are limited to it. Zig's compiler is
# measured if it is installed (pip install 'minivllm[compiler]').
set -eu
peer=$1; shift
bin=$(dirname "$0")/../.venv/bin
folder=$(mktemp -d); trap 'rm -r "$folder"' EXIT
cat > "$folder/avx2-cc" <<'END'
#!/bin/bash
exec ${REAL_CC:-gcc} "${@/#-march=native/-march=haswell}"
END
chmod +x "$folder/avx2-cc"

bench() {
    echo "== $1"; shift
    env "$@" "$bin/minivllm" bench throughput --model smollm2 --num-threads 2 --rounds 5 "${options[@]}"
}
limit=(ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 ATEN_CPU_CAPABILITY=avx2)
llama=(--vs llama.cpp --peer-gguf same --peer-python "$peer")
for workload in single decode shared-prefix; do
    options=(--workload $workload "$@")
    bench "AVX-512, gcc, $workload" CC=gcc
    options=(--workload $workload "${llama[@]}" "$@")
    bench "AVX2, gcc, against llama.cpp for AVX2, $workload" CC="$folder/avx2-cc" "${limit[@]}"
    options=(--workload $workload --vs transformers "$@")
    bench "no compiler, limited to AVX2, $workload" CC=/bin/false "${limit[@]}"
    if "$bin/python" -m ziglang version > "$folder/zig" 2>&1; then
        options=(--workload $workload "$@")
        bench "AVX2, Zig, $workload" CC="$folder/avx2-cc" REAL_CC="$bin/python -m ziglang cc" "${limit[@]}"
    fi
done
