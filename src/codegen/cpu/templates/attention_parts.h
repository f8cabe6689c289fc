// What the two forms of the attention template share: addresses, the mask, and the form for few queries.
#pragma once

#include <string>

#include "codegen/cpu/templates/attention_template.h"

namespace toroid::codegen {

// C expression: row 0 of the operand at (batch, head).
std::string address(const AttentionOperand& o, const std::string& type, const std::string& head);

// Statements that add the mask to the scores of keys [n0, n0 + count), or that put -infinity where it masks out. They see
// `query[j]` and `head[j]` of rows j < lanes_used; `score` is the C lvalue of row j and key n0 + i.
std::string mask_text(const AttentionConfig& c, const std::string& score);

// attention_text of the form for few queries.
std::string few_queries_text(const AttentionConfig& c);

}  // namespace toroid::codegen
