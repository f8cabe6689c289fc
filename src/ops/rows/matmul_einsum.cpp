#include "ops/rows/matmul_einsum.h"

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "ops/rows/dense_compose.h"

namespace toroid::ops {
namespace {

using namespace compose;

// Letters of one operand; an ellipsis becomes the digits '0' ... that number the broadcast dimensions from the last one.
std::string expand_term(const std::string& term, int64_t rank, size_t* ellipsis_rank) {
  size_t dots = term.find("...");
  size_t letters = dots == std::string::npos ? term.size() : term.size() - 3;
  if (dots == std::string::npos) {
    TOROID_USER_CHECK(letters == static_cast<size_t>(rank), "einsum: term \"{}\" has {} letters, its operand {} dimensions", term, letters,
                      rank);
    return term;
  }
  TOROID_USER_CHECK(letters <= static_cast<size_t>(rank) && static_cast<size_t>(rank) - letters <= 10,
                    "einsum: term \"{}\" does not fit an operand of {} dimensions", term, rank);
  size_t n = static_cast<size_t>(rank) - letters;
  *ellipsis_rank = std::max(*ellipsis_rank, n);
  std::string digits;
  for (size_t i = 0; i < n; ++i) digits.push_back(static_cast<char>('0' + (n - 1 - i)));
  return term.substr(0, dots) + digits + term.substr(dots + 3);
}

std::string name_of(char letter) {
  return std::isdigit(static_cast<unsigned char>(letter)) ? "a dimension of \"...\"" : fmt::format("the letter '{}'", letter);
}

// Repeated letters become one, by diagonals.
Tensor take_diagonals(Tensor t, std::string& term) {
  for (size_t i = 0; i < term.size(); ++i) {
    for (size_t j = term.find(term[i], i + 1); j != std::string::npos; j = term.find(term[i], i + 1)) {
      const Expr first = extent(t, static_cast<int64_t>(i)), second = extent(t, static_cast<int64_t>(j));
      require({sym::Rel::Eq, first, second}, "einsum: {} of one operand has the sizes {} and {}; they must be equal", name_of(term[i]),
              sym::to_string(first), sym::to_string(second));
      t = call1("diagonal", {t, Expr(0), Expr(static_cast<int64_t>(i)), Expr(static_cast<int64_t>(j))});
      char letter = term[i];
      term.erase(j, 1);
      term.erase(i, 1);
      term.push_back(letter);  // diagonal puts its dimension last
      i = 0;
    }
  }
  return t;
}

struct Term {
  Tensor tensor;
  std::string letters;
};

Expr extent_of(const Term& t, char letter) { return extent(t.tensor, static_cast<int64_t>(t.letters.find(letter))); }

// Of a letter that both have. Equal sizes are asked for first, so that an open one may be 1.
Expr joint_extent(const Term& a, const Term& b, char letter) {
  const Expr x = extent_of(a, letter), y = extent_of(b, letter);
  if (equal(x, y) || equal(y, 1)) return x;
  if (equal(x, 1)) return y;
  fail<UserError>("einsum: {} has the size {} in one operand and {} in another; they must be equal, or one of them 1", name_of(letter),
                  sym::to_string(x), sym::to_string(y));
}

// The operand with dimensions in the order of `letters`; letters that it lacks get size 1.
Tensor arrange(const Term& t, const std::string& letters) {
  Ints order;
  for (char l : letters)
    if (size_t p = t.letters.find(l); p != std::string::npos) order.push_back(static_cast<int64_t>(p));
  Tensor r = permute(t.tensor, order);
  for (size_t i = 0; i < letters.size(); ++i)
    if (t.letters.find(letters[i]) == std::string::npos) r = unsqueeze(r, static_cast<int64_t>(i));
  return r;
}

Term sum_letters(Term t, const std::string& keep) {
  Sizes dims;
  std::string left;
  for (size_t i = 0; i < t.letters.size(); ++i) {
    if (keep.find(t.letters[i]) == std::string::npos)
      dims.emplace_back(static_cast<int64_t>(i));
    else
      left.push_back(t.letters[i]);
  }
  if (!dims.empty()) t.tensor = sum(t.tensor, dims);
  return {t.tensor, left};
}

// Contracts two operands over the letters that nothing in `keep` needs: batch letters, left letters, right letters, inner letters.
Term contract(Term a, Term b, const std::string& keep) {
  a = sum_letters(a, keep + b.letters);
  b = sum_letters(b, keep + a.letters);
  std::string batch, left, right, inner;
  for (char l : a.letters) {
    bool shared = b.letters.find(l) != std::string::npos;
    (shared ? (keep.find(l) != std::string::npos ? batch : inner) : left).push_back(l);
  }
  for (char l : b.letters)
    if (a.letters.find(l) == std::string::npos) right.push_back(l);
  Sizes batch_sizes, inner_sizes, out;
  for (char l : batch) batch_sizes.push_back(joint_extent(a, b, l));
  for (char l : inner) inner_sizes.push_back(joint_extent(a, b, l));
  out = batch_sizes;
  auto flat = [&](const Term& t, const std::string& own, bool inner_last) {
    Sizes full = batch_sizes, own_sizes;
    for (char l : own) own_sizes.push_back(extent_of(t, l));
    const Sizes& first = inner_last ? own_sizes : inner_sizes;
    const Sizes& second = inner_last ? inner_sizes : own_sizes;
    full.insert(full.end(), first.begin(), first.end());
    full.insert(full.end(), second.begin(), second.end());
    Tensor x = expand(arrange(t, batch + (inner_last ? own + inner : inner + own)), full);
    out.insert(out.end(), own_sizes.begin(), own_sizes.end());
    return reshape(x, {product_of(batch_sizes), product_of(first), product_of(second)});
  };
  Tensor x = flat(a, left, true), y = flat(b, right, false);
  return {reshape(call1("bmm", {x, y}), out), batch + left + right};
}

// A matrix with the dimensions `summed` as its columns (or, for the right operand, rows), and the sizes of the others.
Tensor as_matrix(const CallReader& c, const Tensor& t, const Ints& summed, bool right, Sizes* others) {
  Ints order, inner;
  Sizes inner_sizes, own;
  for (int64_t d : summed) {
    inner.push_back(normal_dim(c.op(), d, t.dim()));
    inner_sizes.push_back(extent(t, inner.back()));
  }
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (std::find(inner.begin(), inner.end(), d) != inner.end()) continue;
    order.push_back(d);
    own.push_back(extent(t, d));
  }
  order.insert(right ? order.begin() : order.end(), inner.begin(), inner.end());
  TOROID_USER_CHECK(static_cast<int64_t>(order.size()) == t.dim(), "{}: a dimension is to be summed twice", c.op().name);
  others->insert(others->end(), own.begin(), own.end());
  Expr rows = product_of(own), columns = product_of(inner_sizes);
  return reshape(permute(t, order), right ? Sizes{columns, rows} : Sizes{rows, columns});
}

}  // namespace

std::vector<Tensor> tensordot(const CallReader& c) {
  const Ints left = c.integers("dims_self"), right = c.integers("dims_other");
  TOROID_USER_CHECK(left.size() == right.size(), "{}: {} dimensions of one operand and {} of the other are to be summed", c.op().name,
                    left.size(), right.size());
  Sizes out;
  Tensor x = c.tensor("self"), y = c.tensor("other");
  for (size_t i = 0; i < left.size(); ++i) {
    const int64_t d = normal_dim(c.op(), left[i], x.dim()), e = normal_dim(c.op(), right[i], y.dim());
    const Expr n = extent(x, d), m = extent(y, e);
    if (n == Expr(1) && m != Expr(1)) {
      y = sum(y, {Expr(e)}, true);
    } else if (m == Expr(1) && n != Expr(1)) {
      x = sum(x, {Expr(d)}, true);
    } else {
      require({sym::Rel::Eq, n, m}, "{}: dimension {} of {} and dimension {} of {} are to be summed, and their sizes differ", c.op().name,
              d, to_string(x), e, to_string(y));
    }
  }
  Tensor a = as_matrix(c, x, left, false, &out);
  Tensor b = as_matrix(c, y, right, true, &out);
  return {reshape(mm(a, b), out)};
}

std::vector<Tensor> einsum(const CallReader& c) {
  std::string equation = c.text("equation");
  std::erase(equation, ' ');
  auto tensors = c.tensors("tensors");
  size_t arrow = equation.find("->");
  std::string inputs = equation.substr(0, arrow);
  std::vector<Term> terms;
  size_t ellipsis = 0;
  for (size_t i = 0, start = 0; i < tensors.size(); ++i) {
    size_t comma = inputs.find(',', start);
    TOROID_USER_CHECK((comma == std::string::npos) == (i + 1 == tensors.size()),
                      "einsum: equation \"{}\" does not have one term for each of {} operands", equation, tensors.size());
    std::string term = expand_term(inputs.substr(start, comma - start), tensors[i].dim(), &ellipsis);
    TOROID_USER_CHECK(std::all_of(term.begin(), term.end(), [](unsigned char l) { return std::isalnum(l); }),
                      "einsum: equation \"{}\" may hold letters, commas, \"...\" and \"->\" only", equation);
    Tensor t = take_diagonals(tensors[i], term);
    terms.push_back({t, term});
    start = comma + 1;
  }
  TOROID_USER_CHECK(!terms.empty(), "einsum: needs at least one operand");
  std::string digits, result;
  for (size_t i = ellipsis; i-- > 0;) digits.push_back(static_cast<char>('0' + i));
  if (arrow == std::string::npos) {
    std::string all;
    for (auto& t : terms) all += t.letters;
    result = digits;
    std::string letters;
    for (char l : all)
      if (std::isalpha(static_cast<unsigned char>(l)) && std::count(inputs.begin(), inputs.end(), l) == 1) letters.push_back(l);
    std::sort(letters.begin(), letters.end());
    result += letters;
  } else {
    result = equation.substr(arrow + 2);
    if (size_t dots = result.find("..."); dots != std::string::npos) result.replace(dots, 3, digits);
    for (char l : result) TOROID_USER_CHECK(std::count(result.begin(), result.end(), l) == 1, "einsum: the result names '{}' twice", l);
  }
  Term acc = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string keep = result;
    for (size_t j = i + 1; j < terms.size(); ++j) keep += terms[j].letters;
    acc = contract(acc, terms[i], keep);
  }
  acc = sum_letters(acc, result);
  for (char l : result) TOROID_USER_CHECK(acc.letters.find(l) != std::string::npos, "einsum: result letter '{}' is in no operand", l);
  return {arrange(acc, result)};
}

std::vector<Tensor> matrix_power(const CallReader& c) {
  Tensor base = c.tensor("self");
  int64_t n = c.integer("n");
  TOROID_USER_CHECK(base.dim() >= 2, "{}: the input must have at least 2 dimensions", c.op().name);
  TOROID_USER_CHECK(n > -(int64_t{1} << 40) && n < (int64_t{1} << 40), "{}: the power {} is too large", c.op().name, n);
  if (n == 0) {
    Tensor eye = call1("eye", {extent(base, -1), base.dtype()});
    return {expand(eye, sizes_of(base))};
  }
  if (n == 1) return {call1("clone", {base})};
  if (n < 0) {
    base = call1("linalg_inv_ex", {base});
    n = -n;
  }
  Tensor result;
  for (;; base = compose_matmul(c, base, base)) {
    if (n & 1) result = result.defined() ? compose_matmul(c, result, base) : base;
    n >>= 1;
    if (n == 0) return {result};
  }
}

}  // namespace toroid::ops
