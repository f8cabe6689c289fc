// What the ranks do that tests of process groups start.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <thread>

#include "base/hash.h"
#include "device/cuda/gpu.h"
#include "dist/agree.h"
#include "dist/cases.h"
#include "dist/processes.h"
#include "errors.h"
#include "toroid/collectives.h"
#include "toroid/compile.h"
#include "toroid/distributed.h"
#include "toroid/ops.h"
#include "toroid/options.h"
#include "toroid/tuning.h"

namespace toroid::test {
namespace {

using namespace distributed;

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("it does not hold: " + what);
}

// The rank of whose value the environment's variable NAME speaks, "RANK" or "RANK:...", is this one.
bool speaks_of_this_rank(const char* variable) {
  const char* text = std::getenv(variable);
  return text && std::string_view(text).substr(0, std::string_view(text).find(':')) == told_rank();
}

// TEST_KILL=RANK:PHASE:MS ends that rank's process so many milliseconds after it said that PHASE begins, whatever it does then.
void maybe_die_in(std::string_view phase) {
  if (!speaks_of_this_rank("TEST_KILL")) return;
  std::string_view rest = std::getenv("TEST_KILL");
  rest.remove_prefix(rest.find(':') + 1);
  if (rest.substr(0, rest.find(':')) != phase) return;
  const int ms = std::atoi(rest.data() + rest.find(':') + 1);
  std::thread([ms] {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

// One write a line, so that those of ranks do not mix.
void say(std::string text) {
  maybe_die_in(text);
  std::replace(text.begin(), text.end(), '\n', ';');
  const std::string line = fmt::format("rank {}: {}\n", told_rank(), text);
  static_cast<void>(::write(1, line.data(), line.size()) > 0);
}

// All collectives give the bits that ranks which are threads get.
void values() {
  const int own = rank(), ranks = size();
  std::vector<std::string> want;
  run_local(ranks, [&] {
    make_groups();
    std::vector<std::string> results;
    for (const Case& c : cases_of_this_rank()) results.push_back(result_of(c));
    if (rank() == own) want = std::move(results);
  });
  make_groups();
  const auto cases = cases_of_this_rank();
  require(cases.size() == want.size(), "the worlds have the same cases");
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string found = result_of(cases[i]);
    require(found == want[i], fmt::format("the bits of {} on rank {}", to_string(cases[i]), own));
    if (cases[i].c.kind == Kind::AllReduce)
      agree(current_world().group(cases[i].group), to_string(cases[i]), fmt::format("{}", std::hash<std::string>()(found)));
  }
  say(fmt::format("{} cases", cases.size()));
}

// Pieces: more than one message of most kinds.
void large() {
  constexpr int64_t kCount = 700001;
  const Tensor x = Tensor::full(std::vector<int64_t>{kCount}, rank() + 1.0, DType::F64);
  const double want = size() * (size() + 1) / 2.0;
  for (double v : all_reduce(x).to_vector()) require(v == want, "the sum of a large tensor");
  const auto all = all_gather(x).to_vector();
  for (int64_t i = 0; i < kCount * size(); i += 997)
    require(all[static_cast<size_t>(i)] == static_cast<double>(i / kCount + 1), "what large tensors are gathered to");
  for (double v : broadcast(x, size() - 1).to_vector()) require(v == size(), "a large tensor that is broadcast");
}

void mismatch() {
  const Tensor x = Tensor::full(std::vector<int64_t>{4}, 1.0), y = Tensor::full(std::vector<int64_t>{5}, 1.0);
  const auto expect = [&](const std::function<void()>& call, const std::vector<std::string>& parts) {
    const std::string told = user_error(call);
    for (auto& part : parts) require(contains(told, part), fmt::format("\"{}\" is in \"{}\"", part, told));
  };
  const bool odd = rank() == 1;
  expect([&] { all_reduce(odd ? y : x); },
         {"rank 1 called all_reduce(sum) of f32[5] at rank_bodies.cpp:", "rank 0 all_reduce(sum) of f32[4]"});
  expect([&] { all_reduce(x, odd ? "max" : "min"); }, {"rank 1 called all_reduce(max)", "rank 0 all_reduce(min)"});
  expect([&] { all_reduce(Tensor::full(std::vector<int64_t>{4}, 1.0, odd ? DType::F64 : DType::F32)); },
         {"rank 1 called all_reduce(sum) of f64[4]", "f32[4]"});
  expect([&] { odd ? all_gather(x) : broadcast(x, 0); }, {"rank 1 called all_gather_into_tensor", "broadcast(from rank 0)"});
  expect([&] { broadcast(x, odd); }, {"broadcast(from rank 1)", "broadcast(from rank 0)"});
  expect([&] { odd ? barrier() : static_cast<void>(all_reduce(x)); }, {"barrier", "all_reduce"});
  expect([&] { new_group("uneven", {odd}); }, {"the ranks disagree about the group \"uneven\": rank 1 has 1, rank 0 0"});
  expect([&] { new_group(odd ? "a" : "b", {0}); }, {"the ranks disagree about the name of a new group: rank 1 has a, rank 0 b"});
  std::vector<int64_t> taken(static_cast<size_t>(size()), 1), given = taken;
  if (odd) given[0] = 2;
  const Tensor rows = Tensor::full(std::vector<int64_t>{size() + odd}, 1.0);
  expect([&] { all_to_all(rows, taken, given); }, {"rank 1 gives rank 0 2 elements, which takes 1"});
  require(all_reduce(x).to_vector()[0] == size(), "the group is of use after all these");
  require(contains(current_world().world().history(), "rank 1 came to all_reduce(max)"), "the history has what others called");
}

// Sums until something fails, which is told.
void sums() {
  const Tensor x = Tensor::full(std::vector<int64_t>{20000}, 1.0, DType::F64);
  try {
    for (int i = 0; i < 12; ++i) require(all_reduce(x).to_vector()[7] == size(), "a sum");
  } catch (const Error& e) {
    const bool is_user = dynamic_cast<const UserError*>(&e);
    say(fmt::format("told {}: {}", is_user ? "what is wrong" : "what failed", e.what()));
    const std::string again = environment_error([&] { barrier(); });
    say("then: " + again);
    // Leaves what survives to end.
    if (contains(e.what(), "TOROID_FAULT")) leave(e.what());
    ::_exit(5);
  }
}

// Where the tensors of a rank are: TEST_DEVICE=cuda gives each a GPU.
Device own_device() {
  const char* name = std::getenv("TEST_DEVICE");
  return name && std::string_view(name) == "cuda" ? Device::cuda(rank()) : Device::cpu();
}

// Tunes what ranks compute together, compiles it for another size, and replays it; says what was chosen and how that was known. Variables:
// TEST_DATABASE a folder in which each rank has a database of its own, TEST_ODD a rank that brings another size than the others, once,
// TEST_FORGE a rank that takes its machine for another model, TEST_REPLAYS how often what is recorded is replayed.
void tunes() {
  const Device own = own_device();
  const auto ones = [&](int64_t n) { return Tensor::full(std::vector<int64_t>{n}, 1.0).to(own); };
  std::string chosen;
  const TuneFeedback feedback([&](const TuneResult& r) {
    for (auto& part : r.parts)
      chosen += fmt::format(" {} {} by {};", part.label, part.chosen, part.source.substr(0, part.source.find(' ')));
  });
  const char* folder = std::getenv("TEST_DATABASE");
  const char* replays = std::getenv("TEST_REPLAYS");
  CompileConfig config;
  config.mode = Mode::MaxAutotune;
  config.options = {{"tune_database", folder ? fmt::format("{}/{}.sqlite", folder, rank()) : "none"}, {"tune_whole_ms", "0"}};
  if (speaks_of_this_rank("TEST_FORGE")) {
    if (own.is_cuda())
      const_cast<device::cuda::GpuInfo&>(device::cuda::gpu(own.index).info()).name = "NVIDIA A100-SXM4-80GB";
    else
      config.options["isa"] = "scalar";
  }
  auto fast = compile([](const Tensor& x) { return relu(all_reduce(x)) * 2.0; }, config);
  const auto check = [](const Tensor& y, double want) { require(y.to(Device::cpu()).to_vector()[0] == want, "a sum of ranks"); };
  say("tunes");
  for (int64_t n : {256, 256, 300}) check(fast(ones(n)), 2.0 * size());
  if (std::getenv("TEST_ODD")) check(fast(ones(speaks_of_this_rank("TEST_ODD") ? 128 : 256)), 2.0 * size());
  say("captures");
  config.mode = Mode::ReduceOverhead;
  auto replayed = compile([](const Tensor& x) { return all_gather(relu(x)) + sum(all_reduce(x * 0.0, "max")) + 1.0; }, config);
  for (int call = 0; call < 5; ++call) check(replayed(ones(64)), 2);
  say("replays");
  for (int call = 0; replays && call < std::atoi(replays); ++call) check(replayed(ones(64)), 2);
  say("chose" + chosen);
}

size_t resident_kb() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4;
}

size_t open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

void groups() {
  size_t kb = 0, files = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = fmt::format("group {}", i);
    new_group(name, i % 2 ? std::vector<int>{1, 0} : std::vector<int>{0, 1});
    if (rank() < 2) require(all_reduce(Tensor::full(std::vector<int64_t>{1}, rank()), "sum", name).to_vector()[0] == 1, name);
    destroy_group(name);
    require(contains(user_error([&] { barrier(name); }), "there is no group"), "a group is gone");
    if (i == 200) kb = resident_kb(), files = open_files();
  }
  require(resident_kb() < kb + 1024, fmt::format("{} KiB after 200 groups, {} after 1000", kb, resident_kb()));
  require(open_files() == files, "no file stays open");
  require(contains(user_error([] { destroy_group("world"); }), "lasts as long as the world"), "the world is no group to destroy");
  require(contains(user_error([] { destroy_group("any"); }), "there is no group \"any\""), "only what there is can be destroyed");
}

void one_leaves() {
  barrier();
  if (rank() == 1) {
    leave("no space left");
    require(contains(user_error([] { barrier(); }), "need a process group"), "who left has no world");
    ::_exit(4);
  }
  say("told: " + environment_error([] { barrier(); }));
  ::_exit(5);
}

void one_aborts() {
  say(fmt::format("pid {}", ::getpid()));
  barrier();
  if (rank() == 1) distributed::abort(9);
  barrier();
}

// Threads of a process share its world, each after the other.
void from_threads() {
  for (int i = 0; i < 3; ++i)
    std::thread([] { require(all_reduce(Tensor::full(std::vector<int64_t>{1}, 1.0)).to_vector()[0] == size(), "a sum"); }).join();
  run_local(3, [] { require(size() == 3, "threads have a world of their own within it"); });
  require(contains(user_error([] { init(); }), "called before"), "one world a process");
}

// All are of one host; a starter may say otherwise.
void local_ranks() { require(local_rank() == rank(), "ranks of one host are counted"); }

// Two threads of each process at a time, each with a group of its own, whose messages must not meet.
void groups_of_threads() {
  std::vector<int> all(static_cast<size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  for (const char* name : {"a", "b"}) new_group(name, all);
  std::vector<std::string> failed(2);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      try {
        const double own = t ? 1 : 100;
        for (int i = 0; i < 300; ++i)
          require(
              all_reduce(Tensor::full(std::vector<int64_t>{i % 3 * 4000 + 1}, own), "sum", t ? "a" : "b").to_vector()[0] == own * size(),
              "a sum of a thread's group");
      } catch (const std::exception& e) {
        failed[t] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  for (auto& what : failed) require(what.empty(), what);
}

// All-reduces of all forms, plain and replayed, have the bits of those on the host.
void sums_on_gpus() {
  const Device own = Device::cuda(rank());
  for (const int64_t n : {7, 4096, 300000, 3000000}) {
    Tensor x = Tensor::empty({n}, DType::F32);
    for (int64_t i = 0; i < n; ++i) x.data<float>()[i] = static_cast<float>(i % 13 + rank()) / 7;
    CompileConfig config;
    config.mode = Mode::ReduceOverhead;
    auto fast = compile([](const Tensor& t) { return all_reduce(t); }, config);
    const auto want = all_reduce(x).to_vector();
    for (int call = 0; call < 4; ++call) require(fast(x.to(own)).to(Device::cpu()).to_vector() == want, fmt::format("{} sums", n));
  }
}

void one_dies_on_gpus() {
  set_option("dist_timeout_ms", "2000");
  const Tensor x = Tensor::full(std::vector<int64_t>{100000}, 1).to(Device::cuda(rank()));
  auto fast = compile([](const Tensor& t) { return all_reduce(t); });
  for (int call = 0; call < 5; ++call) fast(x);
  synchronize(x.device());
  if (rank() == 1) ::_exit(7);
  say("told: " + environment_error([&] {
        for (int call = 0; call < 5; ++call) fast(x);
        synchronize(x.device());
      }));
  ::_exit(5);
}

int without_init(const std::string& name) {
  const std::string own = told_rank();
  if (name == "late_to_init" && own == "1" && !std::getenv("TOROID_FAULT")) {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    return 0;
  }
  say("told: " + environment_error([] { init({.timeout_seconds = 1}); }));
  ::_exit(5);
}

const std::map<std::string, void (*)()> kBodies = {{"values", values},
                                                   {"large", large},
                                                   {"mismatch", mismatch},
                                                   {"sums", sums},
                                                   {"tunes", tunes},
                                                   {"groups", groups},
                                                   {"one_leaves", one_leaves},
                                                   {"one_aborts", one_aborts},
                                                   {"sums_on_gpus", sums_on_gpus},
                                                   {"one_dies_on_gpus", one_dies_on_gpus},
                                                   {"from_threads", from_threads},
                                                   {"local_ranks", local_ranks},
                                                   {"groups_of_threads", groups_of_threads}};

}  // namespace

int run_body(const std::string& name) {
  maybe_die_in("starts");
  if (name == "late_to_init" || name == "no_library") return without_init(name);
  try {
    const char* seconds = std::getenv("TEST_INIT_SECONDS");
    init({.timeout_seconds = seconds ? std::stod(seconds) : 20});
    kBodies.at(name)();
    finalize();
    say("done");
    return 0;
  } catch (const std::exception& e) {
    say(fmt::format("failed: {}", e.what()));
    try {
      leave(e.what());
    } catch (const Error&) {
      // There is no world any more, or none yet.
    }
    ::_exit(1);
  }
}

}  // namespace toroid::test
