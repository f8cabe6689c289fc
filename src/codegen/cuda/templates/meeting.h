// Templates of collectives by kernels whose blocks meet those of other ranks (program::Meeting).
#pragma once

#include "codegen/cuda/template.h"
#include "codegen/cuda/writer.h"
#include "codegen/expand.h"
#include "dist/p2p/layout.h"

namespace toroid::codegen {

// A form: its text, and how its blocks divide the work. A piece is 16 bytes of what one rank brings to another.
struct MeetingForm {
  const char* name;
  std::string_view text;
  int64_t pieces;            // that a block has at least by the rule
  int threads = 512;         // of a block
  int per_processor = 1;     // blocks that a multiprocessor runs at once
  bool rings = false;        // chunks go through rings
  int64_t rule_most = 264;   // blocks of the rule
  int64_t room = 0;          // bytes that a part may have; 0: any
  Substitutions holes = {};  // of the text, besides those of all forms
  int64_t ring_pieces = 1;   // parts that the pieces of a part are divided into, for the rings
};
Form meeting_form(const CudaSite& site, const MeetingForm& how);

// One that sends each byte with a sign of its arrival: few registers and blocks, for small parts. A product of few rows that follows begins
// beside it, a block a multiprocessor, and blocks go where most of their kind fit: a multiprocessor that the form fills gets none, another
// two, and the product takes up to twice as long.
Form inline_meeting_form(const CudaSite& site, const char* name, std::string_view text, const Substitutions& holes = {});

// Why no kernel of meetings takes it, whatever its size; empty when one does.
std::string meeting_refusal(const program::Meeting& m);
// The most bytes of a part that are better sent with signs of their arrival.
int64_t meeting_inline_bytes(const program::Meeting& m);

// What texts of meetings are made of: definitions, and statements by which ranks tell each other what they run, which is the same but for
// the number of elements.
std::string meeting_definitions(CudaArguments& arguments, const program::Meeting& m);
std::string meeting_call(const program::Meeting& m, const char* form, int64_t blocks, int64_t slots);

// Bytes of a part; typical ones where the run tells them.
int64_t typical_part_bytes(const program::Meeting& m);

}  // namespace toroid::codegen
