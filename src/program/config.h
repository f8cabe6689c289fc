// How a template computes a problem: the numbers that its text leaves open.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toroid::program {

struct Config {
  std::string form;                                     // which of the texts for such problems: "gemm_wgmma"
  std::vector<std::pair<std::string, int64_t>> fields;  // in the form's order

  bool empty() const { return form.empty(); }
  // InternalError where there is no such field.
  int64_t at(std::string_view field) const;
  bool operator==(const Config&) const = default;
};

// "gemm_wgmma(block_m=128,block_n=256)", and back; UserError for what is no such text.
std::string to_string(const Config& c);
Config parse_config(std::string_view text);

}  // namespace toroid::program
