// Several functions in one package: their weights once, and what they keep in common.
#include <gtest/gtest.h>

#include <thread>

#include "data_models.h"
#include "errors.h"
#include "exec/stored.h"
#include "package/forge.h"
#include "package/package.h"
#include "temp_folder.h"
#include "toroid/nn.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"
#include "toroid_runtime.h"

namespace toroid {
namespace {

using test::contains;
using test::TempFolder;
using test::user_error;
using List = std::vector<Tensor>;
using Tokens = std::vector<int64_t>;

constexpr int64_t kLength = 24;

nn::LlamaConfig small_config() {
  nn::LlamaConfig c;
  c.vocab_size = 61, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = c.num_key_value_heads = 4;
  return c;
}

Tensor ids_of(const Tokens& tokens) {
  return Tensor::of(std::vector<double>(tokens.begin(), tokens.end()), std::vector<int64_t>{1, static_cast<int64_t>(tokens.size())},
                    DType::I64);
}

Tensor next_token(nn::LlamaForCausalLM& llama, const List& in) {
  return argmax(select(llama.forward_cached(in[0], in[1]), 1, -1), -1, true);
}

// A decoder with its own caches: a prefill of any length, and one token.
void save_decoder(nn::LlamaForCausalLM& llama, const std::string& path, const PackageOptions& options = {}) {
  const auto body = [&](const List& in) { return List{next_token(llama, in)}; };
  const Tensor prompt = ids_of({1, 2, 3, 4}), places = arange(4);
  mark_dynamic(prompt, 1, 1, kLength), mark_dynamic(places, 0, 1, kLength);
  save_package({{.name = "prefill", .function = body, .examples = {prompt, places}, .input_names = {"ids", "positions"}},
                {.name = "decode", .function = body, .examples = {ids_of({1}), arange(1)}, .output_names = {"token"}}},
               path, options);
}

// The prompt by the one, token after token by the other.
template <class Prefill, class Decode>
Tokens generate(const Tokens& prompt, Prefill&& prefill, Decode&& decode) {
  const auto length = static_cast<int64_t>(prompt.size());
  Tensor token = prefill(List{ids_of(prompt), arange(length)});
  Tokens out;
  for (int64_t at = length; at < kLength; ++at) {
    out.push_back(token.item<int64_t>());
    token = decode(List{token, arange(at, at + 1, 1)});
  }
  return out;
}

Tokens eager(nn::LlamaForCausalLM& llama, const Tokens& prompt) {
  llama.allocate_cache(1, kLength);
  const auto step = [&](const List& in) { return next_token(llama, in); };
  return generate(prompt, step, step);
}

Tokens packed(const PackageFile& file, const Tokens& prompt) {
  PackageSession prefill = file.session("prefill"), decode = prefill.entry("decode");
  return generate(
      prompt, [&](const List& in) { return prefill.run(in)[0]; }, [&](const List& in) { return decode.run(in)[0]; });
}

TEST(PackageEntries, AConversationCallsBothOnItsCaches) {
  const TempFolder folder;
  nn::LlamaForCausalLM llama(small_config(), nn::Init(5));
  const std::vector<Tokens> prompts{{5, 17, 42}, {9}, {60, 1, 1, 2, 3, 5, 8}, {33, 33}};
  std::vector<Tokens> expected;
  for (auto& p : prompts) expected.push_back(eager(llama, p));
  EXPECT_NE(expected[0], expected[2]);
  for (const Mode mode : {Mode::Default, Mode::ReduceOverhead})
    for (const bool swappable : {false, true}) {
      llama.allocate_cache(1, kLength);
      PackageOptions options;
      if (swappable) options.targets = {"native", "x86-64"};
      options.swappable = swappable, options.weight_names = llama.state();
      options.model.mode = mode;
      save_decoder(llama, folder / "m.tpk", options);
      const PackageFile file = PackageFile::open(folder / "m.tpk");
      std::vector<Tokens> together(prompts.size());
      std::vector<std::thread> threads;
      for (size_t i = 0; i < prompts.size(); ++i) threads.emplace_back([&, i] { together[i] = packed(file, prompts[i]); });
      for (auto& t : threads) t.join();
      EXPECT_EQ(together, expected) << name_of(mode) << (swappable ? ", swappable" : "");
    }
  const auto package = package::Package::open(folder / "m.tpk");
  EXPECT_EQ(package->manifest().states.size(), 4u) << "keys and values of two layers";
  EXPECT_EQ(package->manifest().format, package::kFormat);
}

// Sessions that were opened each by itself have nothing in common.
TEST(PackageEntries, SessionsOfTheFileHaveTheirOwn) {
  const TempFolder folder;
  const Tensor total = full({1}, 100), x = full({1}, 1), unread = full({1}, 0);
  const auto plus = [&](const List& in) {
    Tensor t = total;
    add_(t, in[0]);
    return List{t * 1.0};
  };
  const auto times = [&](const List& in) {
    Tensor t = total, own = unread;
    mul_(t, in[0]), add_(own, in[0]);
    return List{t * 1.0, own * 1.0};
  };
  const auto look = [&](const List& in) { return List{total + 0 * in[0]}; };
  save_package({{.name = "plus", .function = plus, .examples = {x}},
                {.name = "times", .function = times, .examples = {x}},
                {.name = "look", .function = look, .examples = {x}}},
               folder / "m.tpk", {.weight_names = {{"total", total}}});
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  const auto run = [](PackageSession& s, double value, size_t i = 0) { return s.run({full({1}, value)}).at(i).to_vector()[0]; };
  PackageSession a = file.session("plus"), a_times = a.entry("times"), a_look = a_times.entry("look"), again = a_look.entry("plus");
  PackageSession b = file.session("look"), b_times = b.entry("times"), c = file.session("times");
  EXPECT_EQ(run(a, 1), 101);
  EXPECT_EQ(run(a_look, 0), 101) << "what others write to is no constant of an entry that reads it";
  EXPECT_EQ(run(a_times, 3), 303);
  EXPECT_EQ(run(again, 1), 304);
  EXPECT_EQ(run(a_look, 0), 304);
  EXPECT_EQ(run(b, 0), 100);
  EXPECT_EQ(run(b_times, 2), 200);
  EXPECT_EQ(run(b, 0), 200);
  EXPECT_EQ(run(c, 5), 500);
  EXPECT_EQ(run(a_look, 0), 304);
  PackageSession same = a.entry("times");
  EXPECT_EQ(run(same, 2, 1), 5) << "an entry that is asked for twice has the memory that it keeps alone";
  const auto package = package::Package::open(folder / "m.tpk");
  ASSERT_EQ(package->manifest().states.size(), 1u);
  EXPECT_EQ(package->manifest().states[0].name, "total");
  EXPECT_TRUE(contains(user_error([&] { a.entry("tines"); }), "expected the name of an entry, found \"tines\""));
  EXPECT_TRUE(contains(user_error([&] { PackageSession().entry("x"); }), "PackageFile::session()"));
}

TEST(PackageEntries, WeightsAreOnceInTheFile) {
  const TempFolder folder;
  nn::Linear layer(300, 200, true, nn::Init(3));
  const auto body = [&](const List& in) { return List{layer.forward(in[0])}; };
  const auto more = [&](const List& in) { return List{exp(layer.forward(in[0]) * 0.1)}; };
  save_package(body, {ones({4, 300})}, folder / "one.tpk");
  save_package({{.name = "plain", .function = body, .examples = {ones({4, 300})}},
                {.name = "exp", .function = more, .examples = {ones({4, 300})}, .input_names = {"x"}, .output_names = {"y"}}},
               folder / "two.tpk");
  const auto weights = [&](const char* name) { return package::Package::open(folder / name)->manifest().parts.back().bytes; };
  EXPECT_LT(weights("two.tpk"), 1.1 * static_cast<double>(weights("one.tpk")));
  EXPECT_EQ(package::Package::open(folder / "two.tpk")->manifest().format, package::kFormatInOneFile) << "nothing is written";
  const PackageFile file = PackageFile::open(folder / "two.tpk");
  const Tensor x = ones({4, 300});
  EXPECT_EQ(test::bit_difference(file.session("plain").run({x}), {layer.forward(x)}), "");
  EXPECT_EQ(file.session("exp").input_names(), std::vector<std::string>{"x"});
  EXPECT_EQ(file.session("plain").input_names(), std::vector<std::string>{"input0"});
  EXPECT_EQ(file.session("exp").run({{"x", x}}).count("y"), 1u);
}

TEST(PackageEntries, ModelsAndFunctionsTogether) {
  const TempFolder folder;
  const std::string model = test::kModels + "digitsnet/core.pt2";
  const auto twice = [](const List& in) { return List{in[0] * 2}; };
  save_package({{.name = "model", .model = model}, {.name = "twice", .function = twice, .examples = {ones({2})}}}, folder / "m.tpk");
  const PackageFile file = PackageFile::open(folder / "m.tpk");
  EXPECT_EQ(file.entries(), (std::vector<std::string>{"model", "twice"}));
  EXPECT_EQ(file.session("model").entry("twice").run({ones({2})})[0].to_vector(), (std::vector<double>{2, 2}));
}

TEST(PackageEntries, WhatDoesNotFitIsRefused) {
  const TempFolder folder;
  const Tensor memory = zeros({8}), x = ones({4});
  const auto same = [](const List& in) { return in; };
  const auto said = [&](std::vector<PackageEntry> entries, const PackageOptions& options = {}) {
    return user_error([&] { save_package(entries, folder / "m.tpk", options); });
  };
  EXPECT_TRUE(contains(said({{.name = "a"}}), "the entry \"a\" has neither a model nor a function"));
  EXPECT_TRUE(contains(said({{.name = "a", .model = "x.pt2", .function = same}}), "the entry \"a\" has a model and a function"));
  const PackageEntry one{.name = "a", .function = same, .examples = {x}};
  EXPECT_TRUE(contains(said({one, one}), "two entries have the name \"a\""));
  EXPECT_TRUE(contains(said({one}, {.input_names = {"x"}}), "PackageEntry::input_names"));
  Tensor half = memory.as_strided(std::vector<int64_t>{4}, std::vector<int64_t>{1});
  const auto write = [&](const List& in) {
    add_(half, in[0]);
    return List{half * 1.0};
  };
  const auto read = [&](const List& in) { return List{sum(memory) + in[0]}; };
  const std::string overlap = said({{.name = "a", .function = write, .examples = {x}}, {.name = "b", .function = read, .examples = {x}}});
  EXPECT_TRUE(contains(overlap, "the entry \"a\" writes to the tensor \"captured\", of whose memory the entry \"b\" has a part"))
      << overlap;
  const auto reads_values = [](const List& in) { return List{in[0] * in[0].item<float>()}; };
  EXPECT_TRUE(contains(said({one, {.name = "b", .function = reads_values, .examples = {ones({1})}}}), "\"b\""));
}

TEST(PackageEntries, ForgedStatesAreRefused) {
  const TempFolder folder;
  nn::LlamaForCausalLM llama(small_config(), nn::Init(5));
  llama.allocate_cache(1, kLength);
  save_decoder(llama, folder / "m.tpk");
  for (const char* states : {"[{\"input\": 0, \"state\": 0}]", "[{\"input\": 99999, \"state\": 0}]", "[{\"input\": -1, \"state\": 0}]",
                             "[{\"input\": 2, \"state\": 4}]", "[{\"input\": 2, \"state\": -1}]", "[3]"}) {
    test::forge(folder / "m.tpk", folder / "forged.tpk", "states", states);
    EXPECT_NE(user_error([&] {
                PackageFile::open(folder / "forged.tpk").session("prefill").run({ids_of({1}), arange(1)});
              }),
              "no error")
        << states;
  }
}

TEST(PackageEntries, CallsBothInC) {
  const TempFolder folder;
  nn::LlamaForCausalLM llama(small_config(), nn::Init(5));
  const std::vector<Tokens> prompts{{5, 17, 42}, {60, 1}};
  std::vector<Tokens> expected, found(2);
  for (auto& p : prompts) expected.push_back(eager(llama, p));
  llama.allocate_cache(1, kLength);
  save_decoder(llama, folder / "m.tpk");
  toroid_package* package = nullptr;
  ASSERT_EQ(toroid_package_open((folder / "m.tpk").c_str(), &package), TOROID_OK) << toroid_last_error();
  const auto converse = [&](size_t i) {
    toroid_session *prefill = nullptr, *decode = nullptr;
    ASSERT_EQ(toroid_session_open(package, "prefill", &prefill), TOROID_OK) << toroid_last_error();
    ASSERT_EQ(toroid_session_open_entry(prefill, "decode", &decode), TOROID_OK) << toroid_last_error();
    const auto call = [](toroid_session* session, const List& in) {
      toroid_tensor given[2] = {}, out = {};
      for (size_t k = 0; k < 2; ++k) {
        given[k] = {in[k].raw_data(), static_cast<size_t>(in[k].numel()) * 8, TOROID_I64, static_cast<int32_t>(in[k].dim()), {}, nullptr};
        std::copy(in[k].sizes().begin(), in[k].sizes().end(), given[k].sizes);
      }
      EXPECT_EQ(toroid_session_run(session, given, 2, &out, 1), TOROID_OK) << toroid_last_error();
      const int64_t token = out.data ? *static_cast<int64_t*>(out.data) : -1;
      toroid_tensor_release(&out);
      return ids_of({token});
    };
    bool closed = false;
    found[i] = generate(
        prompts[i], [&](const List& in) { return call(prefill, in); },
        [&](const List& in) {
          if (!closed) toroid_session_close(prefill);  // the other one keeps the memory
          closed = true;
          return call(decode, in);
        });
    toroid_session_close(decode);
  };
  std::thread other([&] { converse(1); });
  converse(0);
  other.join();
  EXPECT_EQ(found, expected);
  toroid_session *session = nullptr, *none = nullptr;
  ASSERT_EQ(toroid_session_open(package, "decode", &session), TOROID_OK);
  EXPECT_EQ(toroid_session_open_entry(session, "other", &none), TOROID_USER_ERROR);
  EXPECT_TRUE(contains(toroid_last_error(), "\"prefill\", \"decode\"")) << toroid_last_error();
  EXPECT_EQ(toroid_session_open_entry(session, nullptr, &none), TOROID_USER_ERROR) << "there are two";
  EXPECT_EQ(toroid_session_open_entry(nullptr, "decode", &none), TOROID_USER_ERROR);
  EXPECT_EQ(toroid_session_open_entry(session, "decode", nullptr), TOROID_USER_ERROR);
  toroid_session_close(session), toroid_package_close(package);
}

}  // namespace
}  // namespace toroid
