#!/usr/bin/env bash
# Installs what BUILD holds into a folder that is moved afterwards, then builds and runs a project that knows no more than
# find_package(toroid): scripts/install-test.sh [BUILD]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$build" --prefix "$scratch/first" >"$scratch/install.log"
mv "$scratch/first" "$scratch/prefix"

mkdir "$scratch/project"
cp "$root/examples/first_steps/main.cpp" "$scratch/project/"
cat >"$scratch/project/tuned.cpp" <<'END'
#include "toroid/compile.h"
using namespace toroid;
int main() {
  auto f = compile([](const Tensor& a, const Tensor& b) { return relu(matmul(a, b)); }, {.mode = Mode::MaxAutotune});
  return f(ones({64, 64}), ones({64, 64})).to_vector()[0] == 64 ? 0 : 1;
}
END
# Options by designated initializers, without a warning of the compiler in the user's code.
cat >"$scratch/project/options.cpp" <<'END'
#include "toroid/save_package.h"
using namespace toroid;
void one() { save_package("a.pt2", "x.tpk", {.swappable = true}); }
void several() {
  save_package({{.name = "a", .model = "a.pt2"}, {.name = "b", .model = "b.pt2", .input_names = {"x"}}}, "x.tpk",
               {.model = {.mode = Mode::MaxAutotune, .options = {{"isa", "avx2"}}}, .targets = {"x86-64-v3"}, .weights_beside = true});
}
void function(const std::map<std::string, Tensor>& weights) {
  save_package([](const std::vector<Tensor>& in) { return in; }, {ones({2})}, "x.tpk", {.input_names = {"x"}, .weight_names = weights});
}
Model loaded() { return Model::load("a.pt2", {.threads = 2}); }
END
cat >"$scratch/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES CXX)
find_package(toroid 0.1 REQUIRED)
add_executable(first_steps main.cpp)
target_link_libraries(first_steps PRIVATE toroid::toroid)
add_executable(tuned tuned.cpp)
target_link_libraries(tuned PRIVATE toroid::toroid)
if(NOT TARGET toroid::runtime)
  message(FATAL_ERROR "there is no target toroid::runtime")
endif()
END
for level in -O2 -O3; do
  c++ -std=c++20 "$level" -Wall -Wextra -Wno-missing-field-initializers -Werror -I "$scratch/prefix/include" -c "$scratch/project/options.cpp" -o /dev/null
done
cmake -S "$scratch/project" -B "$scratch/project/build" -DCMAKE_PREFIX_PATH="$scratch/prefix" >"$scratch/configure.log"
cmake --build "$scratch/project/build" >"$scratch/build.log" || { cat "$scratch/build.log"; exit 1; }

# The same without CMake.
pc=$(dirname "$(find "$scratch/prefix" -name toroid.pc)")
if command -v pkg-config >/dev/null; then
  PKG_CONFIG_PATH=$pc bash -c 'c++ -std=c++20 -Wall -Wextra -Werror "$1" -o "$2" $(pkg-config --cflags --libs toroid)' _ \
    "$scratch/project/main.cpp" "$scratch/project/build/by_pkg_config"
  ! grep -n "$scratch\|$build" "$pc"/*.pc || { echo "toroid.pc names a place that moves"; exit 1; }
else
  echo "pkg-config is missing: toroid.pc is not tried"
  cp "$scratch/project/build/first_steps" "$scratch/project/build/by_pkg_config"
fi

# A program takes on no library but those that it needs to start: what else is used is opened at run time (docs/hacking.md, "Licences").
for program in first_steps tuned by_pkg_config; do
  strangers=$(ldd "$scratch/project/build/$program" | awk '{print $1}' |
    grep -vE '^(linux-vdso|/lib64/ld-linux|lib(fmt|stdc\+\+|m|gcc_s|c|pthread|dl|rt|asan|ubsan|tsan)\.so)' || true)
  [ -z "$strangers" ] || { echo "$program is linked with $strangers"; exit 1; }
done
# What is installed may move to a machine where libraries lie elsewhere.
! grep -rnE '/[A-Za-z0-9_./-]+\.(so|a)\b' "$scratch"/prefix/lib*/cmake/toroid --include='*.cmake' | grep -v IMPORT_PREFIX ||
  { echo "the exported target names a library by its place"; exit 1; }
for file in LICENSE README.md; do
  cmp "$root/$file" "$scratch/prefix/share/doc/toroid/$file"
done

for page in $(grep -oE '\bdocs/[a-z_/-]+\.md' "$root/README.md" | sort -u); do
  cmp "$root/$page" "$scratch/prefix/share/doc/toroid/$page"
done
# A compiler that is too old is named at once, not by an error within a header.
if refusal=$(cmake -S "$scratch/project" -B "$scratch/project/old" -DCMAKE_PREFIX_PATH="$scratch/prefix" -DTOROID_COMPILER_FITS=OFF 2>&1); then
  echo "a compiler without std::source_location is taken"
  exit 1
fi
grep -q "lacks std::source_location" <<<"$(tr -s '\n ' '  ' <<<"$refusal")" || { echo "$refusal"; exit 1; }

unset TOROID_JIT_LIBRARY LD_LIBRARY_PATH
export TOROID_CACHE_DIR=$scratch/cache
shown=$("$scratch/project/build/first_steps")
[[ $("$scratch/project/build/by_pkg_config") == "$shown" ]] || { echo "the program made with pkg-config says something else"; exit 1; }
echo "$shown"
while read -r line; do  # what the README shows
  [[ $shown == *"$line"* ]] || { echo "the example does not say: $line"; exit 1; }
done < <(sed -n '/^f32\[1, 3\]/,/^```/p' "$root/README.md" | grep -v '^```')

# The runtime: small, with no library but the compiler's own, as a shared object and as an archive.
"$scratch/prefix/bin/toroid" compile "$root/tests/data/models/digitsnet/core.pt2" -o "$scratch/m.tpk" >"$scratch/compile.log"
lib=$(dirname "$(find "$scratch/prefix" -name libtoroid_runtime.a)")
cc -std=c99 -Wall -Wextra -Werror -I"$scratch/prefix/include" "$root/examples/package/classify.c" -o "$scratch/shared" -L"$lib" -ltoroid_runtime \
  -Wl,-rpath,"$lib"
cc -std=c99 -I"$scratch/prefix/include" "$root/examples/package/classify.c" -o "$scratch/static" "$lib/libtoroid_runtime.a" -lstdc++ -lm -lpthread -ldl
strip -o "$scratch/runtime.so" "$lib/libtoroid_runtime.so"
bytes=$(stat -c %s "$scratch/runtime.so")
[ "$bytes" -le 5000000 ] || { echo "libtoroid_runtime.so has $bytes bytes, expected at most 5000000"; exit 1; }
strangers=$(ldd "$scratch/runtime.so" "$scratch/static" | awk '/=>/ {print $1}' | grep -vE '^(lib(stdc\+\+|m|gcc_s|c)\.so)' || true)
[ -z "$strangers" ] || { echo "the runtime is linked with $strangers"; exit 1; }
said=$("$scratch/shared" "$scratch/m.tpk")
[[ $said == *"is the largest"* && $said == $("$scratch/static" "$scratch/m.tpk") ]] || { echo "the runtime says: $said"; exit 1; }
# The same by CMake, for C alone; with no component both targets are there.
mkdir "$scratch/service"
cat >"$scratch/service/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(service LANGUAGES C)
find_package(toroid 0.1 REQUIRED COMPONENTS runtime)
if(TARGET toroid::toroid)
  message(FATAL_ERROR "the component runtime brings the whole library along")
endif()
add_executable(service "$root/examples/package/classify.c")
target_link_libraries(service PRIVATE toroid::runtime)
END
cmake -S "$scratch/service" -B "$scratch/service/build" -DCMAKE_PREFIX_PATH="$scratch/prefix" >"$scratch/configure.log" 2>&1 &&
  cmake --build "$scratch/service/build" >"$scratch/build.log" 2>&1 || { cat "$scratch/configure.log" "$scratch/build.log"; exit 1; }
[[ $("$scratch/service/build/service" "$scratch/m.tpk") == "$said" ]] || { echo "the program made with toroid::runtime says something else"; exit 1; }
sed -i 's/COMPONENTS runtime/COMPONENTS runtimes/' "$scratch/service/CMakeLists.txt"
said=$(cmake -S "$scratch/service" -B "$scratch/service/wrong" -DCMAKE_PREFIX_PATH="$scratch/prefix" 2>&1 || true)
[[ $said == *'no component "runtimes"; it has "runtime"'* ]] || { echo "of a component that is not there CMake says: $said"; exit 1; }

export TOROID_TUNE_ISOLATED=1  # both find toroid-tune-worker
"$scratch/project/build/tuned"
"$scratch/prefix/bin/toroid" tune minilm-l6 --layers 1 --seq 8 --rounds 0 >"$scratch/tune.log" || { cat "$scratch/tune.log"; exit 1; }
