// Plans and stores as bytes: magic, version, length, contents, checksum. Numbers are little-endian, integers of the contents take as many
// bytes as they need.
#pragma once

#include <string>
#include <string_view>

#include "exec/bytes.h"
#include "exec/store.h"

namespace toroid::exec {

// Another number where the form has changed; a reader takes its own alone.
inline constexpr uint32_t kPlanVersion = 6;

// UserError for kernels that are functions of this process. Waits for constants that are still being filled.
std::string write_plan(const Plan& plan);
std::string write_store(const Store& store);

// UserError for bytes that are cut off, altered or of another version, with the offset and what was expected there. Nothing of a plan is
// verified: load() does that.
Plan read_plan(std::string_view bytes);
Store read_store(std::string_view bytes);

// One launch whose sizes are numbers, as it is in a plan.
void write_launch(ByteWriter& out, const Launch& l);
Launch read_launch(ByteReader& in);

}  // namespace toroid::exec
