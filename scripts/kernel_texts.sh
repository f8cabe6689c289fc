#!/bin/sh
# Whether the kernels of the corpus in tests/data/kernel_texts are those that they were. --update: from now on they are these.
# --draw: draws the graphs of the corpus anew as well. --list FOLDER: prints digests of the models in a folder. BUILD names another build folder.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build}
case "${1:-}" in
  "") TOROID_TEST_KERNEL_TEXTS= ;;
  --update) TOROID_TEST_KERNEL_TEXTS=update ;;
  --draw) TOROID_TEST_KERNEL_TEXTS=draw ;;
  --list) TOROID_TEST_KERNEL_FOLDER=$2 exec "$build/test_kernel_texts" --gtest_filter=KernelTexts.OfAFolder ;;
  *) echo "usage: scripts/kernel_texts.sh [--update | --draw | --list FOLDER]" >&2; exit 2 ;;
esac
export TOROID_TEST_KERNEL_TEXTS
exec "$build/test_kernel_texts" --gtest_filter=KernelTexts.AreThoseThatTheyWere
