// The passes of schedules, as rows of targets' tables (target/program_pass.h).
#pragma once

#include "target/program_pass.h"

namespace toroid::sched {

bool run_inline_defaults(program::Program& p, target::PassContext& context);
bool run_fuse(program::Program& p, target::PassContext& context);
bool run_fuse_rests(program::Program& p, target::PassContext& context);
bool run_factor_sums(program::Program& p, target::PassContext& context);
bool run_recompute(program::Program& p, target::PassContext& context);
bool run_absorb_producers(program::Program& p, target::PassContext& context);
bool run_pair_products(program::Program& p, target::PassContext& context);
bool run_sum_columns(program::Program& p, target::PassContext& context);
bool run_rows_and_columns(program::Program& p, target::PassContext& context);
bool run_join_columns(program::Program& p, target::PassContext& context);
bool run_bring_products(program::Program& p, target::PassContext& context);
bool run_overlap_products(program::Program& p, target::PassContext& context);
bool run_split_reductions(program::Program& p, target::PassContext& context);
bool run_share_launches(program::Program& p, target::PassContext& context);
bool run_foreach(program::Program& p, target::PassContext& context);
bool run_write_back(program::Program& p, target::PassContext& context);
bool run_reuse(program::Program& p, target::PassContext& context);
bool run_old_contents(program::Program& p, target::PassContext& context);
bool run_mark_meetings(program::Program& p, target::PassContext& context);
bool run_overlap_collectives(program::Program& p, target::PassContext& context);
bool run_pad_products(program::Program& p, target::PassContext& context);

inline constexpr target::Fusions kJoins = target::with(Fusion::All);

inline constexpr target::ProgramPass kInlineDefaults = {"inline_defaults",
                                                        "Puts the first implementation in the place of each call that has several.",
                                                        run_inline_defaults, target::kEachFusion, true};
inline constexpr target::ProgramPass kFuse = {"fuse", "Joins nodes so that values pass between them in registers.", run_fuse, kJoins};
// Off with the other: it joins whatever can be joined.
inline constexpr target::ProgramPass kFuseRests = {"fuse", "Joins what was cut off from epilogues with what reads it.", run_fuse_rests,
                                                   kJoins};
inline constexpr target::ProgramPass kFactorSums = {"factor_sums", "Takes factors that all terms share out of the sums of backward passes.",
                                                    run_factor_sums, kJoins};
inline constexpr target::ProgramPass kRecompute = {
    "recompute", "Computes values again where they are read, where that moves less memory than keeping them.", run_recompute, kJoins};
inline constexpr target::ProgramPass kAbsorbProducers = {
    "absorb_producers", "Lets products compute the rows of their left operand themselves.", run_absorb_producers, kJoins};
inline constexpr target::ProgramPass kPairProducts = {"pair_products", "Gives products whose columns are read in pairs two right operands.",
                                                      run_pair_products, kJoins};
inline constexpr target::ProgramPass kBringProducts = {
    "bring_products", "Lets products bring their sums to the other ranks of a group themselves.", run_bring_products, kJoins};
inline constexpr target::ProgramPass kSumColumns = {
    "sum_columns", "Lets products and convolutions sum their columns for the loops that read them.", run_sum_columns, kJoins};
inline constexpr target::ProgramPass kRowsAndColumns = {
    "rows_and_columns", "Lets loops that fold rows begin the sums of columns of the same elements.", run_rows_and_columns, kJoins};
inline constexpr target::ProgramPass kJoinColumns = {"join_columns", "Joins small loops that sum columns side by side.", run_join_columns,
                                                     kJoins};
inline constexpr target::ProgramPass kOverlapProducts = {
    "overlap_products",
    "Computes products of gathered rows, or whose rows are reduced and scattered, in pieces that overlap with the moves.",
    run_overlap_products, kJoins};
inline constexpr target::ProgramPass kSplitReductions = {"split_reductions", "Folds long rows with few results in two stages.",
                                                         run_split_reductions, target::with(Fusion::None) | target::with(Fusion::All)};
inline constexpr target::ProgramPass kShareLaunches = {"share_launches", "Runs small independent loops in one launch.", run_share_launches,
                                                       kJoins};
inline constexpr target::ProgramPass kForeach = {"foreach", "Runs updates of inputs that differ in memory and sizes alone in one launch.",
                                                 run_foreach, kJoins};
inline constexpr target::ProgramPass kWriteBack = {
    "write_back", "Writes results that replace an input where that input lies.", run_write_back, target::kEachFusion, true, true};
inline constexpr target::ProgramPass kReuse = {"reuse", "Writes large temporaries over those that they are made of.", run_reuse, kJoins};
inline constexpr target::ProgramPass kOldContents = {
    "old_contents", "Copies what opaque operations write over on a GPU to where they write.", run_old_contents, target::kEachFusion, true};
inline constexpr target::ProgramPass kMarkMeetings = {
    "mark_meetings", "Says which products follow a meeting of ranks, beside which their blocks begin.", run_mark_meetings};
inline constexpr target::ProgramPass kOverlapCollectives = {
    "overlap_collectives", "Begins collectives early, and puts what reads their results behind other work.", run_overlap_collectives,
    kJoins};
inline constexpr target::ProgramPass kPadProducts = {"pad_products", "Copies operands of products whose rows are badly aligned.",
                                                     run_pad_products, kJoins};

}  // namespace toroid::sched
