#include "codegen/prelude/prelude.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/special_math.h"

namespace toroid::codegen {
namespace {

constexpr std::string_view kCore =
#include "codegen/prelude/core.inc"
    ;
constexpr std::string_view kMathF32 =
#include "codegen/prelude/math_f32.inc"
    ;
constexpr std::string_view kMathF64 =
#include "codegen/prelude/math_f64.inc"
    ;
constexpr std::string_view kCuda =
#include "codegen/prelude/cuda.inc"
    ;
constexpr std::string_view kCudaTypes =
#include "codegen/prelude/cuda_types.inc"
    ;

constexpr std::string_view kNumeric[] = {"f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};

// The C library functions that the texts call, beside those that clang turns into instructions.
constexpr std::string_view kLibm1[] = {"acos",  "acosh", "asin", "asinh", "atan",  "atanh", "cbrt",  "cos",    "cosh",
                                       "erf",   "erfc",  "exp",  "exp2",  "expm1", "fabs",  "floor", "lgamma", "log",
                                       "log10", "log1p", "log2", "sin",   "sinh",  "sqrt",  "tan",   "tanh",   "trunc"};
constexpr std::string_view kLibm2[] = {"atan2", "fmod", "hypot", "pow"};
// Functions of f64 that have no vector text: each lane asks the C library.
constexpr std::string_view kF64Lanes1[] = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cosh",
                                           "erf",  "erfc",  "exp2", "log10", "log2", "sinh",  "tan"};
constexpr std::string_view kF64Lanes2[] = {"atan2", "hypot", "pow"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Calls word(identifier) for each identifier and other(character) for the rest. Numbers count as identifiers.
void for_each_token(std::string_view text, const std::function<void(std::string_view)>& word, const std::function<void(char)>& other) {
  for (size_t i = 0; i < text.size();) {
    size_t j = i;
    while (j < text.size() && is_word(text[j])) ++j;
    if (j > i) {
      word(text.substr(i, j - i));
      i = j;
    } else {
      other(text[i++]);
    }
  }
}

// The dtype of the integer of equal size: for "f32" i32 or u32.
std::string same_size(std::string_view dtype, char kind) {
  if (dtype == "bf16") return std::string(1, kind) + "16";
  std::string_view bits = dtype.substr(1);
  return kind + std::string(bits);
}

// One piece of text: a few functions, possibly over a family of dtypes and in both modes.
struct Chunk {
  std::string text;
  std::vector<std::string> types;  // what T stands for; empty: no T
};

// What one emitted name needs: which chunk, for which T, as vector ('v') or scalar ('s').
struct Entry {
  size_t chunk;
  std::string type;
  char mode;
};

// In an identifier of the texts a leading V becomes the mode; a part T is the dtype, I and U the integers of its size.
std::string expand_word(std::string_view word, std::string_view type, char mode) {
  std::string out;
  auto part = [&](std::string_view p) -> std::string {
    if (type.empty()) return std::string(p);
    if (p == "T") return std::string(type);
    if (p == "I" || p == "U") return same_size(type, p == "I" ? 'i' : 'u');
    return std::string(p);
  };
  if (word.size() <= 2 || word.find('_') == 2) {
    std::string_view head = word.substr(0, 2), tail = word.substr(head.size());
    if (head.size() == 2 && (head[0] == 'V' || head[0] == 'v' || head[0] == 's') && (head[1] == 'T' || head[1] == 'I' || head[1] == 'U')) {
      std::string name = part(head.substr(1));
      return (head[0] == 'V' ? mode : head[0]) + (name == std::string(head.substr(1)) ? std::string(head.substr(1)) : name) +
             std::string(tail);
    }
  }
  if (word.size() == 1) return part(word);
  if (word[0] == 'V' && (word[1] == '_' || std::islower(static_cast<unsigned char>(word[1])))) {
    out = mode;
  } else {
    out = word[0];
    if (!(word.starts_with("v_") || word.starts_with("s_") || word.starts_with("TOROID_"))) return std::string(word);
  }
  for (size_t i = 1; i < word.size();) {
    size_t j = word.find('_', i);
    if (j == std::string_view::npos) j = word.size();
    out += part(word.substr(i, j - i));
    if (j < word.size()) out += '_';
    i = j + 1;
  }
  return out;
}

// TOROID_LIST(expression with $) becomes the expression for lane 0, 1, ..., separated by commas.
std::string expand_lists(std::string text, int lanes) {
  constexpr std::string_view kHead = "TOROID_LIST(";
  for (size_t at; (at = text.find(kHead)) != std::string::npos;) {
    size_t begin = at + kHead.size(), end = begin;
    for (int depth = 1; depth > 0; ++end) depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    std::string body = text.substr(begin, end - 1 - begin), list;
    for (int l = 0; l < lanes; ++l) {
      if (l) list += ", ";
      for (char c : body) c == '$' ? void(list += std::to_string(l)) : void(list += c);
    }
    text.replace(at, end - at, list);
  }
  return text;
}

std::string expand(const Chunk& chunk, const Entry& entry, int lanes) {
  std::string out;
  for_each_token(
      chunk.text, [&](std::string_view w) { out += expand_word(w, entry.type, entry.mode); }, [&](char c) { out += c; });
  return expand_lists(std::move(out), lanes);
}

// Names of the functions that a chunk defines, unexpanded: the identifier before the first "(" of a line that starts with "static".
std::vector<std::string_view> defined_names(std::string_view text) {
  std::vector<std::string_view> names;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with("static ")) {
      size_t open = line.find('(');
      if (line.find("__attribute__((noinline)) ") != std::string_view::npos) open = line.find('(', line.find("noinline") + 11);
      size_t begin = open;
      while (begin > 0 && is_word(line[begin - 1])) --begin;
      names.push_back(line.substr(begin, open - begin));
    }
    at = end + 1;
  }
  return names;
}

// The functions of one target. Of several texts for a name the first is taken.
class Library {
 public:
  explicit Library(bool cuda) : cuda_(cuda) {
    if (cuda) parse(kCuda);
    parse(kCore);
    parse(kMathF32);
    parse(kMathF64);
    add_conversions();
    add_horizontals();
    add_libm();
    add_special();
  }

  const Entry* find(std::string_view name) const {
    auto it = entries_.find(std::string(name));
    return it == entries_.end() ? nullptr : &it->second;
  }
  const Chunk& chunk(const Entry& e) const { return chunks_[e.chunk]; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, entry] : entries_) out.push_back(name);
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  // A line "//: T=f32,f64" starts a chunk; comments before it belong to nobody and are dropped.
  void parse(std::string_view text) {
    for (size_t at = text.find("\n//:"); at != std::string_view::npos;) {
      size_t line_end = text.find('\n', at + 1), next = text.find("\n//:", line_end - 1);
      std::string_view head = text.substr(at + 4, line_end - at - 4), body = text.substr(line_end + 1, next - line_end - 1);
      Chunk chunk;
      for (size_t begin = 0; begin < body.size();) {
        size_t end = std::min(body.find('\n', begin), body.size() - 1) + 1;
        std::string_view line = body.substr(begin, end - begin);
        if (line != "\n" && !line.starts_with("//")) chunk.text += line;
        begin = end;
      }
      if (!chunk.text.ends_with('\n')) chunk.text += '\n';
      if (size_t eq = head.find('='); eq != std::string_view::npos) {
        for (size_t begin = eq + 1; begin <= head.size();) {
          size_t end = std::min(head.find(',', begin), head.size());
          chunk.types.emplace_back(head.substr(begin, end - begin));
          begin = end + 1;
        }
      }
      add(std::move(chunk));
      at = next;
    }
  }

  void add(Chunk chunk) {
    size_t index = chunks_.size();
    std::vector<std::string> types = chunk.types;
    if (types.empty()) types.emplace_back();
    for (std::string_view name : defined_names(chunk.text))
      for (const std::string& type : types)
        for (char mode : {'v', 's'}) entries_.try_emplace(expand_word(name, type, mode), Entry{index, type, mode});
    chunks_.push_back(std::move(chunk));
  }
  void add(std::string text) { add(Chunk{std::move(text), {}}); }

  void add_conversions();
  void add_horizontals();
  void add_libm();
  void add_special();
  void add_lane_loop(std::string_view stem, std::string_view call, int arity, std::string_view dtype);

  const bool cuda_;
  std::vector<Chunk> chunks_;
  std::unordered_map<std::string, Entry> entries_;
};

bool is_float_name(std::string_view t) { return t[0] == 'f' || t[0] == 'b'; }
bool is_half_name(std::string_view t) { return t == "f16" || t == "bf16"; }

// V_cvt_<from>_<to> for all pairs of dtypes and Bool. Floats reach narrow integers through i32 or i64, so they wrap.
void Library::add_conversions() {
  for (std::string_view from : kNumeric) {
    std::string f(from), wide = is_half_name(from) ? "f32" : f;
    add("static inline Vbool V_cvt_" + f + "_bool(V" + f + " x) { return V_ne_" + wide + "(" +
        (is_half_name(from) ? "V_cvt_" + f + "_f32(x)" : "x") + ", (V" + wide + ")0); }\n");
    if (is_half_name(from))
      add("static inline V" + f + " V_cvt_bool_" + f + "(Vbool x) { return V_cvt_f32_" + f + "(V_cvt_bool_f32(x)); }\n");
    else
      add("static inline V" + f + " V_cvt_bool_" + f + "(Vbool x) { return V_cvt_i32_" + f + "(x & 1); }\n");
    for (std::string_view to : kNumeric) {
      std::string t(to), name = "V_cvt_" + f + "_" + t, head = "static inline V" + t + " " + name + "(V" + f + " x) { return ";
      auto through = [&](const std::string& middle) {
        add(head + "V_cvt_" + middle + "_" + t + "(V_cvt_" + f + "_" + middle + "(x)); }\n");
      };
      if (from == to) {
        add(head + "x; }\n");
      } else if (find("v_cvt_" + f + "_" + t)) {
        continue;
      } else if (from == "bf16" || to == "bf16" || (from == "f16" && to != "f32")) {
        through("f32");
      } else if (is_float_name(from) && (to == "i8" || to == "i16" || to == "u8" || to == "u16")) {
        through("i32");
      } else if (is_float_name(from) && to == "u32") {
        through("i64");
      } else if (to == "f16" && from != "f32") {
        through("f32");
      } else {
        add("static inline v" + t + " v_cvt_" + f + "_" + t + "(v" + f + " x) { return __builtin_convertvector(x, v" + t + "); }\n");
        add("static inline s" + t + " s_cvt_" + f + "_" + t + "(s" + f + " x) { return (s" + t + ")x; }\n");
      }
    }
  }
  add("static inline Vbool V_cvt_bool_bool(Vbool x) { return x; }\n");
}

// v_hsum_f32 and friends halve the vector until one lane is left; the scalar twins give their argument back.
void Library::add_horizontals() {
  struct Row {
    std::string_view name, formula;
  };
  constexpr Row kRows[] = {{"hsum", "a + b"}, {"hprod", "a * b"}, {"hmax", "MAX"}, {"hmin", "MIN"}};
  constexpr Row kBoolRows[] = {{"hany", "a | b"}, {"hall", "a & b"}};
  auto emit = [&](std::string_view name, std::string formula, const std::string& type) {
    std::string result = type == "bool" ? "sbool" : "s" + type, text = "static inline " + result + " v_" + std::string(name) + "_" + type +
                                                                       "(v" + type + " a) {\n  TOROID_HALVE(" + formula + ")\n  return " +
                                                                       (type == "bool" ? "a0 & 1" : "a0") + ";\n}\n";
    add(text);
    add("static inline " + result + " s_" + std::string(name) + "_" + type + "(s" + type + " a) { return a; }\n");
  };
  for (std::string_view type : kNumeric) {
    if (is_half_name(type)) continue;
    for (const Row& r : kRows) {
      std::string formula(r.formula), nan = is_float_name(type) ? " | (a != a)" : "";
      if (formula == "MAX") formula = "(a > b)" + nan + " ? a : b";
      if (formula == "MIN") formula = "(a < b)" + nan + " ? a : b";
      emit(r.name, formula, std::string(type));
    }
  }
  for (const Row& r : kBoolRows) emit(r.name, std::string(r.formula), "bool");
}

// v_<stem>_<dtype> that calls a function of double once a lane, out of line; s_<stem>_<dtype> calls it once.
void Library::add_lane_loop(std::string_view stem, std::string_view call, int arity, std::string_view dtype) {
  std::string s(stem), c(call), t(dtype), value = c + (arity == 1 ? "(x[l])" : "(x[l], y[l])");
  std::string vector_args = "v" + t + " x" + (arity == 2 ? ", v" + t + " y" : ""),
              scalar_args = "s" + t + " x" + (arity == 2 ? ", s" + t + " y" : "");
  add("static __attribute__((noinline)) v" + t + " v_" + s + "(" + vector_args + ") {\n  v" + t +
      " r;\n  for (int l = 0; l < TOROID_W; ++l) r[l] = (" + t + ")" + value + ";\n  return r;\n}\n");
  add("static inline s" + t + " s_" + s + "(" + scalar_args + ") { return (s" + t + ")" + c + (arity == 1 ? "(x)" : "(x, y)") + "; }\n");
}

void Library::add_libm() {
  auto declare = [&](std::string_view name, int arity) {
    std::string n(name);
    entries_.try_emplace(n, Entry{chunks_.size(), "", 's'});
    chunks_.push_back({"double " + n + (arity == 1 ? "(double);\n" : "(double, double);\n"), {}});
  };
  if (!cuda_) {  // whose compiler knows them
    for (std::string_view name : kLibm1) declare(name, 1);
    for (std::string_view name : kLibm2) declare(name, 2);
  }
  for (std::string_view name : kF64Lanes1) add_lane_loop(std::string(name) + "_f64", name, 1, "f64");
  for (std::string_view name : kF64Lanes2) add_lane_loop(std::string(name) + "_f64", name, 2, "f64");
  add_lane_loop("fmodlanes_f64", "fmod", 2, "f64");
}

// Each special function as text, and its wrappers for f32 and f64. The stringified text is one line: it gets its lines back here.
void Library::add_special() {
  for (const SpecialText& s : special_texts()) {
    std::string text;
    int parens = 0, indent = 0;
    std::string_view code = s.code;
    for (size_t i = 0; i < code.size(); ++i) {
      char c = code[i];
      if (c == '}' && indent > 0 && parens == 0 && text.ends_with("  ")) text.resize(text.size() - 2);
      text += c;
      parens += c == '(' ? 1 : c == ')' ? -1 : 0;
      indent += c == '{' ? 1 : c == '}' ? -1 : 0;
      bool breaks = parens == 0 && (c == ';' || (c == '{' && code.substr(0, i).ends_with(") ")) ||
                                    (c == '}' && i + 1 < code.size() && code[i + 1] == ' '));
      if (breaks && i + 1 < code.size()) {
        while (i + 1 < code.size() && code[i + 1] == ' ') ++i;
        text += '\n' + std::string(2 * static_cast<size_t>(indent), ' ');
      }
    }
    constexpr std::string_view kClass = "SPECIAL_FN";
    text.replace(text.find(kClass), kClass.size(), "static __attribute__((noinline))");
    std::string name = "sp_" + std::string(s.name);
    entries_.try_emplace(name, Entry{chunks_.size(), "", 's'});
    chunks_.push_back({text + "\n", {}});
  }
  for (std::string_view type : {"f32", "f64"}) {
    auto wrap = [&](std::string_view name, int arity) {
      std::string stem = std::string(name) + "_" + std::string(type);
      if (!find("v_" + stem)) add_lane_loop(stem, name == "lgamma" ? "lgamma" : "sp_" + std::string(name), arity, type);
    };
    for (std::string_view name : special_unary_names()) wrap(name, 1);
    for (std::string_view name : special_binary_names()) wrap(name, 2);
  }
}

const Library& library(bool cuda = false) {
  static const Library &cpu = *new Library(false), &gpu = *new Library(true);
  return cuda ? gpu : cpu;
}

std::string type_text(int lanes) {
  struct Row {
    std::string_view name, c;
  };
  constexpr Row kRows[] = {{"i8", "signed char"},   {"i16", "short"},          {"i32", "int"},          {"i64", "long long"},
                           {"u8", "unsigned char"}, {"u16", "unsigned short"}, {"u32", "unsigned int"}, {"u64", "unsigned long long"},
                           {"f32", "float"},        {"f64", "double"},         {"f16", "_Float16"},     {"bf16", "unsigned short"}};
  std::string out = fmt::format("#define TOROID_W {}\n#pragma clang diagnostic ignored \"-Wbitwise-conditional-parentheses\"\n", lanes);
  for (const Row& r : kRows)
    out += fmt::format(
        "typedef {1} {0}, s{0};\ntypedef {0} v{0} __attribute__((ext_vector_type({2})));\ntypedef v{0} v{0}_u "
        "__attribute__((aligned(1)));\n",
        r.name, r.c, lanes);
  out += "typedef i32 sbool;\ntypedef vi32 vbool;\n";
  return out;
}

// TOROID_HALVE(formula): from vector a to the single value a0, combining halves a and b.
std::string expand_halves(std::string text, int lanes) {
  constexpr std::string_view kHead = "TOROID_HALVE(";
  for (size_t at; (at = text.find(kHead)) != std::string::npos;) {
    size_t begin = at + kHead.size(), end = begin;
    for (int depth = 1; depth > 0; ++end) depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    std::string formula = text.substr(begin, end - 1 - begin), list, value = "a";
    for (int width = lanes; width > 1; width /= 2) {
      std::string next = "a" + std::to_string(width / 2 == 1 ? 0 : width / 2);
      std::string low = value + ".lo", high = value + ".hi", step;
      for (char c : formula) step += c == 'a' ? low : c == 'b' ? high : std::string(1, c);
      if (!list.empty()) list += "\n  ";
      list += "__typeof__(" + low + ") " + next + " = " + step + ";";
      value = next;
    }
    text.replace(at, end - at, list);
  }
  return text;
}

// TOROID_BITS_<t> and TOROID_MAX_<t>: the number of bits, and the mask of all but the sign.
std::string expand_constants(std::string_view text) {
  std::string out;
  for_each_token(
      text,
      [&](std::string_view w) {
        if (w.starts_with("TOROID_BITS_"))
          out += w.substr(13);
        else if (w.starts_with("TOROID_MAX_"))
          out += w.ends_with("64") ? "0x7fffffffffffffffll" : "0x7fffffff";
        else
          out += w;
      },
      [&](char c) { out += c; });
  return out;
}

// The texts for one number of lanes. Each is made once: a model has a hundred kernels that use the same few functions.
class Expansions {
 public:
  struct Function {
    std::string text;
    std::vector<std::string> uses;  // other functions, in the order of the text
  };

  // lanes 0: the GPU's, one element at a time.
  explicit Expansions(int lanes)
      : library_(library(lanes == 0)), lanes_(std::max(lanes, 1)), types_(lanes == 0 ? std::string(kCudaTypes) : type_text(lanes)) {}

  const std::string& types() const { return types_; }
  // Null when there is no such function.
  const Function* find(const std::string& name) {
    const Entry* entry = library_.find(name);
    if (!entry) return nullptr;
    std::lock_guard lock(mutex_);
    auto [it, is_new] = functions_.try_emplace(name);
    if (is_new) {
      Function& f = it->second;
      f.text = expand_constants(expand_halves(expand(library_.chunk(*entry), *entry, lanes_), lanes_));
      for_each_token(
          f.text,
          [&](std::string_view w) {
            if (w != name && library_.find(w)) f.uses.emplace_back(w);
          },
          [](char) {});
    }
    return &it->second;
  }

 private:
  const Library& library_;
  const int lanes_;
  const std::string types_;
  std::mutex mutex_;
  std::unordered_map<std::string, Function> functions_;  // whose addresses stay
};

Expansions& expansions(int lanes) {
  static Expansions &of0 = *new Expansions(0), &of4 = *new Expansions(4), &of8 = *new Expansions(8), &of16 = *new Expansions(16),
                    &of32 = *new Expansions(32);
  return lanes == 0 ? of0 : lanes == 4 ? of4 : lanes == 8 ? of8 : lanes == 16 ? of16 : of32;
}

std::string text_of(std::span<const std::string_view> used_functions, int lanes) {
  Expansions& texts = expansions(lanes);
  std::string out = texts.types();
  std::unordered_set<std::string> done;
  // Depth of the recursion: the longest chain of calls in the texts, about ten.
  std::function<void(const std::string&)> need = [&](const std::string& name) {
    if (!done.insert(name).second) return;
    const Expansions::Function& f = *texts.find(name);
    for (const std::string& used : f.uses) need(used);
    out += f.text;
  };
  for (std::string_view name : used_functions) {
    TOROID_CHECK(texts.find(std::string(name)), "the prelude has no function \"{}\"", name);
    need(std::string(name));
  }
  return out;
}

}  // namespace

std::string prelude_for(std::span<const std::string_view> used_functions, int lanes) {
  TOROID_CHECK(lanes == 4 || lanes == 8 || lanes == 16 || lanes == 32, "prelude with {} lanes", lanes);
  return text_of(used_functions, lanes);
}

std::string cuda_prelude_for(std::span<const std::string_view> used_functions) { return text_of(used_functions, 0); }

std::vector<std::string> prelude_functions() { return library().names(); }

bool prelude_has(std::string_view function) { return library().find(function) != nullptr; }
bool cuda_prelude_has(std::string_view function) { return library(true).find(function) != nullptr; }

std::string_view prelude_stem(ScalarOp op) {
  if (std::string_view name = function_name(op); !name.empty()) return name;
  switch (op) {
    case ScalarOp::Select:
      return "sel";
    case ScalarOp::Add:
      return "add";
    case ScalarOp::Sub:
      return "sub";
    case ScalarOp::Mul:
      return "mul";
    case ScalarOp::Neg:
      return "neg";
    case ScalarOp::Abs:
      return "abs";
    case ScalarOp::Div:
      return "div";
    case ScalarOp::FloorDiv:
      return "floordiv";
    case ScalarOp::Remainder:
      return "mod";
    case ScalarOp::Fmod:
      return "fmod";
    case ScalarOp::Min:
      return "min";
    case ScalarOp::Max:
      return "max";
    case ScalarOp::Fmin:
      return "fmin";
    case ScalarOp::Fmax:
      return "fmax";
    case ScalarOp::Eq:
      return "eq";
    case ScalarOp::Ne:
      return "ne";
    case ScalarOp::Lt:
      return "lt";
    case ScalarOp::Le:
      return "le";
    case ScalarOp::Gt:
      return "gt";
    case ScalarOp::Ge:
      return "ge";
    case ScalarOp::And:
      return "and";
    case ScalarOp::Or:
      return "or";
    case ScalarOp::Xor:
      return "xor";
    case ScalarOp::Not:
      return "not";
    case ScalarOp::Shl:
      return "shl";
    case ScalarOp::Shr:
      return "shr";
    case ScalarOp::Floor:
      return "floor";
    case ScalarOp::Ceil:
      return "ceil";
    case ScalarOp::Trunc:
      return "trunc";
    case ScalarOp::Round:
      return "round";
    case ScalarOp::IsNan:
      return "isnan";
    case ScalarOp::IsInf:
      return "isinf";
    case ScalarOp::SignBit:
      return "signbit";
    case ScalarOp::CopySign:
      return "copysign";
    case ScalarOp::NextAfter:
      return "nextafter";
    case ScalarOp::Sign:
      return "sign";
    case ScalarOp::FrexpMantissa:
      return "frexpmantissa";
    case ScalarOp::FrexpExponent:
      return "frexpexponent";
    case ScalarOp::RandUniform:
      return "randuniform";
    case ScalarOp::RandNormal:
      return "randnormal";
    default:
      return {};
  }
}

}  // namespace toroid::codegen
