// A lowered program: buffers, and nodes that read and write them in order. Loop nodes are complete; template and extern nodes name a
// problem that has more than one implementation, and carry what is fused into them as a loop body over their output points.
#pragma once

#include <optional>
#include <set>
#include <variant>

#include "base/index_fault.h"
#include "graph/graph.h"
#include "loop/node.h"
#include "program/config.h"
#include "program/problems/attention.h"
#include "program/problems/attention_backward.h"
#include "program/problems/collective.h"
#include "program/problems/convolution.h"
#include "program/problems/gemm.h"
#include "program/problems/meeting.h"
#include "program/problems/scan.h"
#include "program/problems/sort.h"

namespace toroid::program {

using OptionValues = std::vector<std::pair<std::string, std::string>>;  // names and values

// A call of an operation's library or reference implementation on whole tensors.
struct Extern {
  const ops::Op* op = nullptr;
  std::vector<Arg<int>> args;  // tensors are positions in `inputs`
  struct View {
    Operand memory;
    std::vector<Expr> sizes;
  };
  std::vector<View> inputs;
  std::vector<View> outputs;        // row-major
  std::vector<Expr> fresh_symbols;  // sizes of the outputs that the call determines
  // Control flow: its regions, each a whole program whose user inputs are the tensors in `args` (those that args leave out, -1, are
  // constants of the regions).
  std::vector<std::shared_ptr<graph::Graph>> blocks;
  // Range dispatch: the block of the first condition on sizes that holds runs, else the last, on all inputs. Options of each block.
  std::vector<sym::Relation> conditions;
  std::vector<OptionValues> options;
};

// A call that has several implementations: programs whose inputs and outputs are, in their order, these. Which one it becomes is decided
// together with what surrounds it.
struct Program;
struct Alternative {
  std::string name;
  std::shared_ptr<const Program> program;
  std::shared_ptr<graph::Graph> graph;  // what it was lowered from, after the passes
  OptionValues options;                 // as they are while it is compiled
  std::string key;                      // of its content (code, constants, options), not of its name: equal keys are the same thing
};
// Why a variant is not among the alternatives.
struct Refused {
  std::string name, reason;
};
struct Open {
  std::string name;                           // of the operation
  const ops::Op* op = nullptr;                // its row
  std::vector<Extern::View> inputs, outputs;  // the outputs row-major
  std::vector<Alternative> alternatives;      // the first is the operation's own body
  std::vector<Refused> refused;
  // With split points: which alternative runs is decided by this size, for each of the ranges [1, s1], [s1 + 1, s2], ... by itself.
  Expr size = 0;
  std::vector<int64_t> split_points;
  int64_t top = 0;  // the size at which the last range is timed
};

// What can compute a problem.
enum class Implementation : uint8_t { Template, OneDnn, CublasLt, CuDnn };
std::string_view name_of(Implementation by);  // "template", "onednn", "cublaslt", "cudnn"

// One way to compute a node. All that are listed in the options gemm_backends and conv_backends are enumerated by backend/candidates.h.
struct Candidate {
  Implementation by = Implementation::Template;
  std::string refusal;  // why it does not take the node; empty when it does
};

// What a node computes; monostate: its loop body is all there is. The files of problems/ say what each kind is.
using Problem =
    std::variant<std::monostate, Gemm, Convolution, Attention, AttentionBackward, Sort, Scan, Meeting, Collective, Extern, Open>;

template <class Kind>
bool is_a(const Problem& problem) {
  return std::holds_alternative<Kind>(problem);
}

struct Node {
  // Compiled once, in program.cpp, as they are long; so are those of Program.
  Node();
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  Problem problem;
  Implementation by = Implementation::Template;  // of Gemm and Convolution; others are fused with nothing any more
  Config config;                                 // of the template; empty: its own rule
  std::shared_ptr<const OptionValues> options;   // as they are when it is decided who computes it; null: no others
  loop::Domain domain;
  loop::Body body;  // templates: reads Accumulate, stores the results
  // Products: what the template computes the rows of `a` by, where it would read them. The domain begins with batch..., m, which say which
  // row; the body stores element k of a row at index k, in f32, to a's buffer: memory that nothing else touches.
  std::optional<loop::Nest> producer;
  std::vector<loop::Nest> beside;    // loops: others in the same launch, independent of this one and of each other
  std::vector<std::string> origins;  // names of the graph values that it computes
  std::vector<int> parts;            // numbers of the nodes of the lowered program that it was made of
  std::string where;                 // source line of the first of them that has one
  graph::Pass pass = graph::Pass::Forward;
  bool after_meeting = false;  // the launch before meets other ranks, on a few multiprocessors
  bool is_loop() const { return problem.index() == 0; }
  bool is_whole() const;  // does all its work at once: a sort, a call. It has no body
  bool is_extern() const { return std::holds_alternative<Extern>(problem); }
  bool is_collective() const { return std::holds_alternative<Collective>(problem); }
  bool is_call() const { return is_extern() || is_collective(); }  // a step of the host, which no kernel is generated for
  bool is_open() const { return std::holds_alternative<Open>(problem); }
  bool is_library() const { return by != Implementation::Template; }
};

// The product that a node computes, by itself or to bring it to other ranks, whose rows a producer may compute; null: none.
const Gemm* product_of(const Node& n);

struct ProgramInput {
  int buffer = -1;
  TensorType type;
  graph::InputKind kind = graph::InputKind::User;
  Tensor data;  // parameters and constants
  std::string name;
  std::optional<Expr> draws = {};  // see graph::Input
};

struct ProgramOutput {
  int buffer = -1;  // -1: None or a literal, which is not computed
  TensorType type;
  int mutates = -1;  // input that this replaces the contents of
  graph::NodeArg literal;
  std::string where = {};  // source line of what computes it
};

// A constant whose elements are those of others in other places, put there when the program is compiled; zeros between them.
struct Rearranged {
  struct Part {
    Operand from;  // strides: one a size, as below
    int64_t offset = 0;
    std::vector<int64_t> strides, sizes;
  };
  int buffer = -1;
  std::vector<Part> parts;
};

struct Program {
  Program();
  Program(const Program&);
  Program(Program&&) noexcept;
  Program& operator=(const Program&);
  Program& operator=(Program&&) noexcept;
  ~Program();

  std::string name;
  std::vector<loop::Buffer> buffers;
  std::vector<Node> nodes;
  std::vector<ProgramInput> inputs;    // parallel to the graph's inputs
  std::vector<ProgramOutput> outputs;  // parallel to the graph's outputs
  std::vector<graph::Symbol> symbols;
  std::vector<sym::Guard> guards;
  // Numbers of nodes (Node::parts) that fusion leaves in launches of their own: those of a pair never share one.
  std::vector<std::pair<int, int>> apart;
  std::vector<Rearranged> rearranged;  // constants that are no inputs; their buffers are of kind Constant
  std::vector<IndexSite> sites;        // what Check steps look at, by their numbers

  int new_buffer(std::string name, DType dtype, Expr numel, loop::BufferKind kind);
  // The buffer of kind Faults, made at the first call; and the number of a site, which is listed once.
  int faults();
  int site(const IndexSite& s);
  // The buffer of kind Peers of a group, likewise.
  int peers(const std::string& group);
};

// Whether ranks of a group meet in it: a collective, a call of which some alternative has one, control flow with one in a block. groups:
// their names are added.
bool meets(const Node& n, std::set<std::string>* groups = nullptr);
// Notes in `n` that it does the work of `other` too; first: before its own.
void take_over(Node& n, const Node& other, bool first = false);
// Whether two nodes may share a launch, as far as Program::apart says.
bool may_join(const Program& p, const Node& a, const Node& b);
// Its origins, for people: "mm_3+add_2".
std::string label(const Node& n);
std::vector<int> reads(const Node& n);
std::vector<int> writes(const Node& n);
// The program as text, which program/parse.h reads back. places: also the source lines of nodes, and the graphs that alternatives were
// made of.
std::string to_string(const Program& p, bool places = true);

}  // namespace toroid::program
