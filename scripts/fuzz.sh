#!/bin/sh
# Builds and runs one fuzzer: scripts/fuzz.sh json|zip_pt2|safetensors|graph_text|onnx [SECONDS] [EXTRA_SEED_FOLDER...]
# Needs clang++-19 and libclang-rt-19-dev. A crash leaves its input in build/fuzz/NAME/.
set -eu
usage="usage: scripts/fuzz.sh json|zip_pt2|safetensors|graph_text|onnx [SECONDS] [EXTRA_SEED_FOLDER...]"
name=${1:?$usage}
seconds=${2:-60}
shift; [ $# -eq 0 ] || shift
root=$(cd "$(dirname "$0")/.." && pwd)
out="$root/build/fuzz/$name"
seeds="$root/tests/data/import"
libraries="-lfmt -lxxhash"
case $name in
json | zip_pt2 | safetensors)
  sources="base/check base/dtype base/files base/options base/log base/text"
  for r in json zip tensor_record pickle torch_save safetensors sym_expr_parser treespec exported_argument exported_program pt2_archive; do
    sources="$sources import/$r"
  done
  ;;
graph_text)
  # Without the public functions: they need the eager dispatcher, which is a room above.
  sources=$(cd "$root/src" && find base sym tensor device ops graph -name '*.cpp' ! -name 'functions*.cpp' | sed 's/\.cpp$//')
  seeds="$root/tests/data/graph"
  libraries="$libraries -lpthread -ldl"
  ;;
onnx)
  sources=$(cd "$root/src" && find base sym tensor device ops graph import/onnx -name '*.cpp' ! -name 'functions*.cpp' | sed 's/\.cpp$//')
  seeds="$root/tests/data/onnx/fuzz"
  libraries="$libraries -lpthread -ldl"
  # The small cases of ONNX's own suite, where it is on this machine.
  suite=${TOROID_ONNX_TESTDATA:-/usr/share/libonnx-testdata/data}
  if [ -d "$suite" ]; then
    mkdir -p "$out/suite"
    find "$suite" -name model.onnx -size -8k | while read -r model; do
      cp "$model" "$out/suite/$(basename "$(dirname "$model")").onnx"
    done
    set -- "$@" "$out/suite"
  fi
  ;;
*) echo "$usage" >&2; exit 2 ;;
esac
rm -rf "$out/objects"
mkdir -p "$out/corpus" "$out/objects"
flags="-std=c++20 -DTOROID_FUZZER -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Wno-deprecated-declarations"
flags="$flags -I$root/src -I$root/include -I$root/tests"
for source in $sources; do
  echo "$root/src/$source.cpp -o $out/objects/$(echo "$source" | tr / _).o"
done | xargs -P "$(nproc)" -L 1 ccache clang++-19 $flags -c
# shellcheck disable=SC2086
clang++-19 $flags "$root/tests/fuzz/${name}_fuzz.cpp" "$out"/objects/*.o $libraries -o "$out/fuzzer"
cd "$out"
exec ./fuzzer -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$out/" corpus "$seeds" "$@"
