// What each kind of fusion around products, convolutions, attention and custom operations gains on a whole model.
#pragma once

#include "cli/bench_subject.h"
#include "toroid/model.h"

namespace toroid::cli {

// Prints a table: the model tuned without such fusion, with epilogues, prologues too, and choice nodes with each other, all timed in turns
// for so many rounds.
void print_ablation(const BenchSubject& subject, ModelOptions options, int rounds);

}  // namespace toroid::cli
