// Sessions of a package: each has its own memory, all have one set of weights.
#include <gtest/gtest.h>

#include <thread>

#include "exec/stored.h"
#include "package/package.h"
#include "temp_folder.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

constexpr int64_t kSteps = 40, kWidth = 48;

using Sizes = std::vector<int64_t>;

Tensor numbers(const Sizes& sizes, double first, double step) {
  std::vector<double> v(static_cast<size_t>(sizes[0] * sizes[1]));
  for (size_t i = 0; i < v.size(); ++i) v[i] = first + step * static_cast<double>(i % 17);
  return Tensor::of(v, sizes);
}

// Attention of one token to those before it, whose keys and values lie in caches that each call writes a row of.
void save_decoder(const std::string& path) {
  const Tensor keys = Tensor::full(Sizes{kSteps, kWidth}, 0), values = Tensor::full(Sizes{kSteps, kWidth}, 0);
  const Tensor wk = numbers({kWidth, kWidth}, -0.2, 0.03), wv = numbers({kWidth, kWidth}, -0.1, 0.02);
  save_package(
      [=](const std::vector<Tensor>& in) {
        const Tensor x = in[0], at = in[1];
        Tensor k = keys, v = values;
        index_copy_(k, 0, at, linear(x, wk));
        index_copy_(v, 0, at, linear(x, wv));
        const Tensor seen = le(arange(kSteps), at);
        const Tensor scores = where(seen, matmul(x, transpose(k, 0, 1)), Tensor::full(Sizes{1}, -1e9));
        return std::vector<Tensor>{matmul(softmax(scores, -1), v)};
      },
      {numbers({1, kWidth}, 0, 0.1), Tensor::of(std::vector<double>{0}, Sizes{1}, DType::I64)}, path);
}

// All results of a sequence of tokens.
std::vector<Tensor> decode(PackageSession& session, int sequence) {
  std::vector<Tensor> out;
  for (int64_t step = 0; step < kSteps; ++step) {
    const Tensor x = numbers({1, kWidth}, 0.1 * (sequence + 1), 0.01 * static_cast<double>(step % 7 + 1));
    out.push_back(session.run({x, Tensor::of(std::vector<double>{static_cast<double>(step)}, Sizes{1}, DType::I64)})[0]);
  }
  return out;
}

TEST(PackageSessions, EightSideBySideAreAsEightAlone) {
  const test::TempFolder folder;
  save_decoder(folder / "m.tpk");
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  constexpr int kSessions = 8;
  std::vector<std::vector<Tensor>> alone, together(kSessions);
  for (int i = 0; i < kSessions; ++i) {
    PackageSession session = file.session();
    alone.push_back(decode(session, i));
  }
  EXPECT_NE(test::bit_difference(alone[0], alone[1]), "");
  std::vector<std::thread> threads;
  for (int i = 0; i < kSessions; ++i)
    threads.emplace_back([&, i, session = file.session()]() mutable { together[static_cast<size_t>(i)] = decode(session, i); });
  for (auto& t : threads) t.join();
  for (size_t i = 0; i < kSessions; ++i) EXPECT_EQ(test::bit_difference(alone[i], together[i]), "") << "session " << i;
}

TEST(PackageSessions, AnEntryIsLoadedOnce) {
  const test::TempFolder folder;
  save_decoder(folder / "m.tpk");
  const auto package = package::Package::open(folder / "m.tpk");
  const auto a = package->load("")->session(), b = package->load("main")->session();
  EXPECT_EQ(&a->program(), &b->program());
}

}  // namespace
}  // namespace toroid
