// What the fuzz harnesses share. Compiled with TOROID_FUZZER (scripts/fuzz.sh) each is a libFuzzer program; in the ordinary test
// build each is a test that replays the seeds with a fixed series of mutations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string>

#include "base/files.h"
#include "toroid/error.h"

namespace toroid::fuzz {

using Target = void (*)(std::span<const std::byte>);

// Refusing the input is right; any other exception, crash or sanitizer report is a finding.
template <class F>
void ignoring_user_errors(F f) {
  try {
    f();
  } catch (const UserError&) {
  }
}

// Every seed as it is, cut short, and with one to four bytes changed.
inline size_t replay_mutants(const std::filesystem::path& seeds, Target target, int mutants) {
  std::minstd_rand random(1);
  size_t runs = 0;
  const auto run = [&](const std::string& bytes) {
    target(std::as_bytes(std::span(bytes)));
    ++runs;
  };
  for (const auto& entry : std::filesystem::directory_iterator(seeds)) {
    const std::string seed = read_file(entry.path());
    run(seed);
    for (int i = 0; i < mutants && !seed.empty(); ++i) {
      run(seed.substr(0, random() % seed.size()));
      std::string changed = seed;
      for (uint32_t k = 0; k <= random() % 4; ++k) changed[random() % changed.size()] = static_cast<char>(random() >> 8);
      run(changed);
    }
  }
  return runs;
}

}  // namespace toroid::fuzz
