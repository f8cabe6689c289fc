// What repeats in lists, and the lists with more and fewer repetitions.
#include "compile/layers/repetition.h"

#include <gtest/gtest.h>

#include <random>

namespace toroid::compiler {
namespace {

// A list by the names of its items and things: forward and backward passes over layers, and updates.
class List {
 public:
  void add(const std::string& item, const std::vector<std::string>& things) {
    Sequence::Item i{number(items_, item), {}};
    for (auto& t : things) {
      i.things.push_back(number(things_, t));
      if (out.kinds.size() < things_.size()) out.kinds.push_back(static_cast<int>(t[0]));
    }
    out.items.push_back(std::move(i));
  }
  Sequence out;

 private:
  static int number(std::map<std::string, int>& in, const std::string& name) {
    return in.try_emplace(name, static_cast<int>(in.size())).first->second;
  }
  std::map<std::string, int> items_, things_;
};

struct Shape {
  bool tied = false, skips = false, reads_middle = false, odd = false;
  int inner = 2;  // equal items in a row of each layer
};

Sequence passes(int layers, const Shape& shape) {
  const auto at = [](const char* name, int layer) { return name + std::to_string(layer); };
  List list;
  list.add("embed", {"tokens", "table", at("x", 0)});
  for (int k = 0; k < layers; ++k) {
    list.add("mm", {at("x", k), shape.tied ? "w" : at("w", k), at("h", k)});
    for (int i = 0; i < shape.inner; ++i) list.add("scale", {at("h", k), at("s", k) + "_" + std::to_string(i)});
    list.add(shape.odd && k == layers / 2 ? "sub" : "add", {at("h", k), at("x", shape.skips ? std::max(k - 1, 0) : k), at("x", k + 1)});
  }
  list.add("loss", {at("x", layers), at("g", layers)});
  for (int k = layers; k-- > 0;) {
    list.add("mm_t", {at("g", k + 1), shape.tied ? "w" : at("w", k), at("g", k)});
    list.add("outer", {at("g", k + 1), at("x", k), at("dw", k)});
  }
  if (shape.reads_middle) list.add("probe", {at("x", layers / 2)});
  for (int k = 0; k < layers; ++k) list.add("update", {shape.tied ? "w" : at("w", k), at("dw", k), "rate"});
  return std::move(list.out);
}

// Whether two lists are the same, but for the numbers of things.
bool is_same(const Repetition& r, int64_t more, const Sequence& other) {
  const auto items = r.resized(more);
  std::map<Place, int> theirs;
  std::map<int, Place> ours;
  if (items.size() != other.items.size()) return false;
  for (size_t i = 0; i < items.size(); ++i) {
    if (r.sequence().items[items[i].like].content != other.items[i].content || items[i].things.size() != other.items[i].things.size())
      return false;
    for (size_t t = 0; t < items[i].things.size(); ++t) {
      const Place& place = items[i].things[t];
      const int thing = other.items[i].things[t];
      if (theirs.try_emplace(place, thing).first->second != thing || ours.try_emplace(thing, place).first->second != place) return false;
      if (r.sequence().kinds[static_cast<size_t>(r.like(place, more))] != other.kinds[static_cast<size_t>(thing)]) return false;
    }
  }
  return true;
}

TEST(Repetition, MoreAndFewerLayers) {
  for (const bool tied : {false, true})
    for (const bool skips : {false, true})
      for (const int inner : {1, 2, 5})
        for (const int layers : {20, 33}) {
          SCOPED_TRACE(layers * 100 + inner * 10 + 2 * skips + tied);
          const Shape shape{.tied = tied, .skips = skips, .inner = inner};
          std::string why;
          auto r = Repetition::find(passes(layers, shape), 16, why);
          ASSERT_TRUE(r) << why;
          EXPECT_NEAR(static_cast<double>(r->layers()), layers, 1);
          for (const int n : {6, 7, 19, layers, 40, 64}) EXPECT_TRUE(is_same(*r, n - layers, passes(n, shape))) << n;
          // Of few, by how they grow.
          r = Repetition::find(passes(7, shape), passes(6, shape), why);
          ASSERT_TRUE(r) << why;
          for (const int n : {6, 7, 20, 50}) EXPECT_TRUE(is_same(*r, n - 7, passes(n, shape))) << n;
        }
}

TEST(Repetition, WhatIsNone) {
  std::string why;
  EXPECT_FALSE(Repetition::find(passes(8, {}), 16, why));
  EXPECT_EQ(why, "nothing repeats often enough");
  EXPECT_FALSE(Repetition::find(passes(20, {.reads_middle = true}), 16, why));
  EXPECT_EQ(why, "something behind the layers reads what one in the middle makes");
  EXPECT_FALSE(Repetition::find(passes(20, {.odd = true}), 16, why)) << "no run of 16 layers is left of the forward pass";
  EXPECT_FALSE(Repetition::find(passes(7, {.inner = 1}), passes(6, {.inner = 2}), why));
  EXPECT_FALSE(Repetition::find(passes(7, {}), passes(7, {}), why));
  EXPECT_FALSE(Repetition::find({}, 16, why));
}

// A layer in the middle that names something else than the others do is found, wherever it is.
TEST(Repetition, PlantedFaults) {
  const Sequence whole = passes(20, {});
  int refused = 0, tried = 0;
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    Sequence damaged = whole;
    auto& things = damaged.items[random() % damaged.items.size()].things;
    int& thing = things[random() % things.size()];
    const int before = thing;
    thing = static_cast<int>(random() % damaged.kinds.size());
    if (thing == before) continue;
    ++tried;
    std::string why;
    const auto r = Repetition::find(damaged, 16, why);
    if (r)  // then it says what was damaged, too
      EXPECT_TRUE(is_same(*r, 0, damaged));
    else
      ++refused;
  }
  EXPECT_GT(refused, tried / 2);
}

}  // namespace
}  // namespace toroid::compiler
