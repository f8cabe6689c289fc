#!/bin/sh
# Builds and runs one fuzzer: scripts/fuzz.sh json|zip_pt2|safetensors [SECONDS] [EXTRA_SEED_FOLDER...]
# Needs clang++-19 and libclang-rt-19-dev. A crash leaves its input in build/fuzz/NAME/.
set -eu
name=${1:?usage: scripts/fuzz.sh json|zip_pt2|safetensors [SECONDS] [EXTRA_SEED_FOLDER...]}
seconds=${2:-60}
shift; [ $# -eq 0 ] || shift
root=$(cd "$(dirname "$0")/.." && pwd)
out="$root/build/fuzz/$name"
mkdir -p "$out/corpus"
readers="json zip tensor_record pickle torch_save safetensors sym_expr_parser treespec exported_argument exported_program pt2_archive"
sources="$root/tests/fuzz/${name}_fuzz.cpp $root/src/base/check.cpp $root/src/base/dtype.cpp $root/src/base/files.cpp $root/src/base/options.cpp $root/src/base/log.cpp $root/src/base/text.cpp"
for r in $readers; do sources="$sources $root/src/import/$r.cpp"; done
# shellcheck disable=SC2086
clang++-19 -std=c++20 -DTOROID_FUZZER -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Wno-deprecated-declarations -I"$root/src" -I"$root/include" -I"$root/tests" $sources -lfmt -lxxhash -o "$out/fuzzer"
cd "$out"
exec ./fuzzer -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$out/" corpus "$root/tests/data/import" "$@"
