#!/usr/bin/env bash
# Runs the benchmarks: every program build/bench_* but those that want a model, and those of GPUs where there is none, then the comparison
# with other runtimes where they are installed. Usage: bench/run.sh [BUILD]. TOROID_PEERS names the folder that bench/peers/setup.sh made (default /opt/peers), TOROID_ROUNDS
# the number of rounds.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-$here/../build}
peers=${TOROID_PEERS:-/opt/peers}

for program in "$build"/bench_*; do
  [ -x "$program" ] || continue
  name=$(basename "$program")
  case $name in
    bench_serve | bench_model_start | bench_sessions | bench_gpu_package) continue ;;
  esac
  echo "== $name"
  if [[ $name == bench_gpu_* && ! -e /dev/nvidiactl ]]; then
    echo "left out: no NVIDIA GPU here"
    continue
  fi
  "$program"
done

echo "== comparison with PyTorch and ONNX Runtime"
if [ ! -e "$peers/env.sh" ]; then
  echo "left out: $peers holds no PyTorch and ONNX Runtime. Install them there (about 3 GB from PyPI) with"
  echo "  bench/peers/setup.sh $peers"
  echo "or name another folder in TOROID_PEERS."
  exit 0
fi
source "$peers/env.sh"
# Models that are there are used again: their names say all that they depend on.
missing=()
for model in pointwise softmax_ln mlp minilm_l6 bert_base mobilenet_v3 resnet50; do
  [ -e "$peers/models/$model/model.onnx" ] || missing+=("$model")
done
if [ ${#missing[@]} -gt 0 ]; then
  python3 "$here/peers/export_models.py" "$peers/models" "${missing[@]}"
fi
python3 "$here/peers/compare.py" "$peers/models" --serve "$build/bench_serve" --rounds "${TOROID_ROUNDS:-30}"
echo "== comparison with ONNX Runtime on the light models of the package onnx"
[ -e "$peers/light/zfnet512/out.safetensors" ] || python3 "$here/peers/light_models.py" "$peers/light"
python3 "$here/peers/compare.py" "$peers/light" --serve "$build/bench_serve" --rounds "${TOROID_ROUNDS:-30}" --runtimes toroid,onnxruntime
