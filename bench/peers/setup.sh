#!/usr/bin/env bash
# Installs the runtimes of the comparison (PyTorch, torchvision, transformers, ONNX Runtime) from PyPI into a virtual environment of their
# own; nothing outside of FOLDER changes. About 3 GB. Usage: setup.sh FOLDER. Afterwards `source FOLDER/env.sh` puts them first in PATH.
set -euo pipefail
folder=${1:?usage: setup.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

python3 -m venv "$folder/venv"
pip="$folder/venv/bin/pip -q install --no-compile"
$pip onnxruntime onnx numpy safetensors transformers pillow sympy networkx jinja2 fsspec filelock typing_extensions 'setuptools>=77,<82'
$pip --no-deps torch torchvision

# PyPI's PyTorch (the build with MKL) is linked with CUDA libraries, although the CPU needs none. Most come with a CUDA toolkit where there is
# one; without, all of them are installed with it.
site=$("$folder/venv/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat >"$folder/env.sh" <<END
export LD_LIBRARY_PATH=/usr/local/cuda/lib64:\$(ls -d "$site"/nvidia/*/lib 2>/dev/null | tr '\n' ':')\${LD_LIBRARY_PATH:-}
export PATH="$folder/venv/bin:\$PATH"
END
imports() { bash -c "source '$folder/env.sh' && python3 -c 'import torch'" 2>/dev/null; }
if ! imports && [ -e /usr/local/cuda/lib64/libcudnn.so.9 ]; then
  wanted=$("$folder/venv/bin/python3" -c '
import importlib.metadata as m, re
for r in m.requires("torch"):
    if re.match(r"nvidia-(cusparselt|nvshmem|nccl)", r): print(r.split(";")[0].strip())')
  $pip --no-deps nvidia-cufile $wanted
fi
imports || $pip torch
bash -c "source '$folder/env.sh' && python3 -c 'import torch, torchvision, onnxruntime as o; print(\"PyTorch\", torch.__version__, \"ONNX Runtime\", o.__version__)'"
