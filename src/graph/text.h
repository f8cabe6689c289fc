// Pieces of the text form that graphs and lowered programs share.
#pragma once

#include "graph/graph.h"
#include "sym/text_reader.h"

namespace toroid::graph {

// "f32[2, s0] strides(1, 2)".
std::string type_text(const TensorType& t);
// " symbols(s0 in 2..inf, u0 unbacked in 0..10)"; nothing for none.
std::string symbols_text(const std::vector<Symbol>& symbols);
// " guards(s0 >= 2, s0 >= 5 "unfold: a window ...")"; nothing for none.
std::string guards_text(const std::vector<sym::Guard>& guards);

struct NoTensor {};
// An argument that is no tensor: "[1, s0]", "0.5", "none" ...
std::string plain_text(const Arg<NoTensor>& a);
std::string list_text(const char* empty, const std::vector<std::string>& items);
// Any argument, its tensors as `tensor` says ("%x", "none").
template <class T, class F>
std::string argument_text(const Arg<T>& a, F&& tensor) {
  if (auto* t = std::get_if<T>(&a)) return tensor(*t);
  if (auto* list = std::get_if<std::vector<T>>(&a)) {
    std::vector<std::string> items;
    for (auto& t : *list) items.push_back(tensor(t));
    return list_text("tensors[]", items);
  }
  return plain_text(map_arg<NoTensor>(a, [](const T&) { return NoTensor(); }));
}

// The graph that begins at character number `at` of the text, which is then behind it. UserErrors as parse().
std::unique_ptr<Graph> parse_at(const std::string& text, size_t& at);

class TextReader : public sym::TextReader {
 protected:
  using sym::TextReader::TextReader;

  DType dtype();
  TensorType type();
  // Passes over a type.
  void skip_type();
  // "(s0 in 2..inf, ...)" behind "symbols". add: UserError for a symbol that is declared already.
  void symbols(const std::function<void(Symbol)>& add);
  // "(s0 >= 2, ...)" behind "guards".
  std::vector<sym::Guard> guards();
  // An argument of an operation, with tensors as tensor() reads what begins with `mark`; the null T is a hole in a list of them.
  template <class T>
  Arg<T> argument(char mark, T hole, const std::function<T()>& tensor);

 private:
  template <class T>
  Arg<T> list(char mark, T hole, const std::function<T()>& tensor);
  double number(const char* stop);
  // What is no tensor, string, list or keyword.
  std::variant<double, DType, Expr> plain_argument();
};

template <class T>
Arg<T> TextReader::argument(char mark, T hole, const std::function<T()>& tensor) {
  const char c = peek();
  if (c == mark) return tensor();
  if (c == '"') return quoted();
  if (take("tensors[]")) return std::vector<T>{};
  if (take("floats[]")) return std::vector<double>{};
  if (take("bools[]")) return std::vector<bool>{};
  if (take("[")) return list(mark, hole, tensor);
  if (take("none")) return std::monostate{};
  if (take("true")) return true;
  if (take("false")) return false;
  if (take("complex")) {
    expect("(");
    const double re = number(","), im = (expect(","), number(")"));
    expect(")");
    return std::complex<double>(re, im);
  }
  return std::visit([](auto&& v) -> Arg<T> { return v; }, plain_argument());
}

// Items of one kind; "none" is a hole in a list of tensors.
template <class T>
Arg<T> TextReader::list(char mark, T hole, const std::function<T()>& tensor) {
  const size_t at = at_;
  std::vector<Arg<T>> all;
  items("]", [&] {
    if (peek() == '[') error("lists do not nest");
    all.push_back(argument(mark, hole, tensor));
  });
  const auto collect = [&]<class I>(I) -> std::optional<Arg<T>> {
    std::vector<I> out;
    for (auto& a : all) {
      if (auto* v = std::get_if<I>(&a))
        out.push_back(*v);
      else if constexpr (std::is_same_v<I, T>) {
        if (!std::holds_alternative<std::monostate>(a)) return std::nullopt;
        out.push_back(hole);
      } else {
        return std::nullopt;
      }
    }
    return Arg<T>(std::move(out));
  };
  if (auto v = collect(Expr{})) return *v;
  if (auto v = collect(hole)) return *v;
  if (auto v = collect(double{})) return *v;
  if (auto v = collect(bool{})) return *v;
  error_at(at, "the items of a list must be of one kind: tensors, integers, floats or bools");
}

}  // namespace toroid::graph
