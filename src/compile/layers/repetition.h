// What repeats in a list, and the same list with more or fewer repetitions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace toroid::compiler {

// Items in order, each of which names things: the nodes of a graph and their values, those of a program and its buffers.
struct Sequence {
  struct Item {
    int content = 0;          // equal numbers: equal items, but for the things that they name
    std::vector<int> things;  // in the order in which the item names them
  };
  std::vector<Item> items;
  std::vector<int> kinds;  // of each thing: equal numbers may stand for each other
};

// A thing by where it is first named: in which run, in which of its layers, and there as which one, counting all. run -1: outside of all
// runs, and `slot` is the thing's number.
struct Place {
  int run = -1;
  int64_t layer = 0;
  int slot = 0;
  auto operator<=>(const Place&) const = default;
};

// Where a place in a run of `layers` layers is when it has `more` of them: counted from the nearer end.
inline Place moved(Place p, int64_t layers, int64_t more) {
  if (p.run >= 0 && p.layer >= layers / 2) p.layer += more;
  return p;
}

// Stretches of a sequence in which layers of equal items follow each other ("runs": forward pass, backward pass, updates), such that what a
// layer names lies equally far from it in all: in the layer before, in the layer of another run of the same number, or of the same number
// counted from its end, or outside. The first and the last two layers may name something else.
class Repetition {
 public:
  // Of a sequence of at least `least` layers. Runs of one layer less than the longest belong to it; what else repeats is taken as it is.
  // Nothing where no run is that long, or where what its layers name follows no such rule; why: gets the reason.
  static std::optional<Repetition> find(Sequence sequence, int64_t least, std::string& why);
  // Of a sequence of few layers, by what it has more than one of a layer fewer.
  static std::optional<Repetition> find(Sequence sequence, const Sequence& fewer, std::string& why);

  const Sequence& sequence() const { return sequence_; }
  int64_t layers() const { return layers_; }  // of the longest run
  size_t runs() const { return runs_.size(); }
  int64_t layers_of(int run) const { return runs_[static_cast<size_t>(run)].layers; }
  const Place& place_of(int thing) const { return places_[static_cast<size_t>(thing)]; }
  std::optional<int> thing_at(const Place& p) const;

  // The sequence with `more` layers more, or fewer, in the middle of each run. Places are counted in what results.
  struct Item {
    size_t like = 0;  // number of an item of this sequence that has the same content
    std::vector<Place> things;
  };
  std::vector<Item> resized(int64_t more) const;
  // The thing of this sequence that the one at a place of the resized one is like.
  int like(const Place& p, int64_t more) const;
  // Where a place of this sequence is in the resized one.
  Place moved(const Place& p, int64_t more) const { return compiler::moved(p, p.run < 0 ? 0 : layers_of(p.run), more); }

 private:
  struct Run {
    size_t first = 0, period = 0;
    int64_t layers = 0;
    size_t end() const { return first + period * static_cast<size_t>(layers); }
  };
  // What an item of a layer names as one of its things.
  struct Rule {
    enum class Kind : uint8_t { Fixed, Along, Against } kind = Kind::Fixed;
    Place at;                            // Along: layer + at.layer. Against: at.layer - layer
    std::map<int64_t, Place> otherwise;  // by layer
  };

  Repetition() = default;
  void find_runs(int64_t least);
  bool find_growth(const Sequence& fewer);
  std::optional<Repetition> with_rules(std::string& why) &&;
  void find_places();
  bool find_rules(std::string& why);
  std::optional<Rule> rule_of(const Run& run, size_t offset, size_t thing) const;
  std::optional<Rule> rule_of(const Run& run, size_t offset, size_t thing, int64_t first) const;
  bool is_near_end(const Place& p) const;
  // The layers before it are counted from the first, the others from the last, and new ones are put between.
  int64_t split_of(int run, int64_t more) const { return (layers_of(run) + std::min<int64_t>(more, 0)) / 2; }

  Sequence sequence_;
  std::vector<Run> runs_;  // in order
  int64_t layers_ = 0;
  std::vector<Place> places_;             // of things
  std::map<Place, int> things_;           // those in runs
  std::vector<std::vector<Rule>> rules_;  // of each run's items of a layer, one after the other; each: of its things
  std::vector<size_t> first_rule_;        // of each run
};

}  // namespace toroid::compiler
