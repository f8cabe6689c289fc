#include "cli/verify_case.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/check.h"
#include "base/files.h"
#include "base/stopwatch.h"
#include "cli/runner.h"
#include "cli/tensor_files.h"
#include "cli/verify_gradients.h"
#include "cli/verify_onnx.h"
#include "cli/verify_rules.h"
#include "cli/verify_training.h"
#include "import/load_model.h"

namespace toroid::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPackageEnding = ".tpk";

void check_outputs(const VerifyRules& rules, const CallTensors& in, const CallTensors& out, Runner& runner, const Tolerance& tolerance,
                   CaseResult& result) {
  for (size_t call = 0; call < in.calls.size(); ++call) {
    std::string prefix = call == 0 ? "" : fmt::format("call {}, ", call);
    std::vector<Tensor> inputs;
    for (auto& [index, t] : in.calls[call]) inputs.push_back(t);
    auto got = runner.run(inputs);
    const auto& expected = call < out.calls.size() ? out.calls[call] : std::map<int64_t, Tensor>{};
    for (auto& [index, t] : expected)
      if (auto bad = rules.check(static_cast<size_t>(index), inputs, got, t, tolerance))
        result.lines.push_back(fmt::format("{}output {}: {}", prefix, index, *bad));
    for (size_t i = 0; i < got.size(); ++i)
      if (got[i].defined() && !expected.count(static_cast<int64_t>(i)))
        result.lines.push_back(fmt::format("{}output {}: none is expected", prefix, i));
  }
  if (out.calls.size() > in.calls.size())
    result.lines.push_back(fmt::format("outputs of {} calls are expected, inputs are there for {}", out.calls.size(), in.calls.size()));
  if (!result.lines.empty()) result.state = CaseState::Failed;
}

// The result through the pipe: state, lines.
void send(int pipe, const CaseResult& result) {
  std::string text(1, static_cast<char>('0' + static_cast<int>(result.state)));
  text += fmt::format("{}\n", result.milliseconds);
  for (auto& l : result.lines) {
    text += l;
    text += '\0';
  }
  size_t at = 0;
  while (at < text.size()) {
    ssize_t n = ::write(pipe, text.data() + at, text.size() - at);
    if (n <= 0) break;
    at += static_cast<size_t>(n);
  }
}

CaseResult parse(const std::string& text) {
  CaseResult out;
  out.state = static_cast<CaseState>(text[0] - '0');
  size_t line = text.find('\n');
  out.milliseconds = std::strtod(text.c_str() + 1, nullptr);
  for (size_t at = line + 1; at < text.size();) {
    size_t end = text.find('\0', at);
    out.lines.push_back(text.substr(at, end - at));
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return out;
}

}  // namespace

std::vector<VerifyCase> find_cases(const fs::path& path) {
  std::vector<VerifyCase> out;
  auto add = [&](const fs::path& folder) {
    auto below = [&] { return folder == path ? fs::canonical(folder).filename() : fs::relative(folder, path); };
    if (is_onnx_case(folder)) out.push_back({folder, folder / "model.onnx", below().string(), CaseKind::OnnxSuite});
    for (auto& entry : fs::directory_iterator(folder)) {
      if (!entry.is_regular_file() || fs::exists(folder / "in.safetensors")) continue;
      const auto kind = is_schedules_case(entry.path())   ? std::optional(CaseKind::Schedules)
                        : is_optimizer_case(entry.path()) ? std::optional(CaseKind::Optimizer)
                                                          : std::nullopt;
      if (kind) out.push_back({folder, entry.path(), (below() / entry.path().filename()).string(), *kind});
    }
    if (!fs::exists(folder / "in.safetensors") || !fs::exists(folder / "out.safetensors")) return;
    for (auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".pt2" || entry.path().extension() == ".onnx" || entry.path().extension() == kPackageEnding)
        out.push_back({folder, entry.path(), (below() / entry.path().filename()).string()});
  };
  if (!fs::exists(path)) require_file(path);
  TOROID_USER_CHECK(fs::is_directory(path), "{}: this is a file; expected a folder of cases, or a .tar.zst archive of one", path.string());
  add(path);
  for (auto& entry : fs::recursive_directory_iterator(path))
    if (entry.is_directory()) add(entry.path());
  TOROID_USER_CHECK(
      !out.empty(),
      "{}: no folder here holds in.safetensors, out.safetensors and a .pt2 or .onnx model or a package (.tpk), or model.onnx and test_data_set_0",
      path.string());
  std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return std::tie(a.model, a.name) < std::tie(b.model, b.name); });
  return out;
}

namespace {

void run_safetensors_case(const VerifyCase& c, const VerifyArgs& args, CaseResult& result) {
  auto in = read_calls(c.folder / "in.safetensors", [&] { return input_names(c.model); }), out = read_calls(c.folder / "out.safetensors");
  if (c.model.extension() == kPackageEnding) {
    const PackageRunner packed = make_package_runner(c.model, "", args.device, "", args.weights_folder);
    const double own = packed.tolerance > 0 ? packed.tolerance : kUsualTolerance;
    check_outputs(VerifyRules([] { return std::make_unique<graph::Graph>(); }), in, out, *packed.runner, {args.tolerance.value_or(own)},
                  result);
    return;
  }
  const Tolerance tolerance{args.tolerance.value_or(kUsualTolerance)};
  std::vector<Tensor> first;
  if (!in.calls.empty())
    for (auto& [index, t] : in.calls[0]) first.push_back(t);
  const VerifyRules rules([&] { return import::load_model(c.model, first); });
  auto runner = make_model_runner(backend_from_name(args.backend), c.model, first, args.device);
  check_outputs(rules, in, out, *runner, tolerance, result);
  if (!has_gradients(c.folder)) return;
  for (auto& line : check_gradients(c.folder, import::load_model(c.model, first), backend_from_name(args.backend), args.device, tolerance))
    result.lines.push_back(line);
  if (has_training(c.folder))
    for (auto& line : check_training(c.folder, import::load_model(c.model, first), backend_from_name(args.backend), args.device, tolerance))
      result.lines.push_back(line);
  if (!result.lines.empty()) result.state = CaseState::Failed;
}

}  // namespace

CaseResult run_case(const VerifyCase& c, const VerifyArgs& args) {
  CaseResult result;
  const Stopwatch watch;
  auto stop_as = [&](CaseState state, const char* prefix, const char* what) {
    result.state = state;
    result.lines.push_back(fmt::format("{}{}", prefix, what));
  };
  try {
    switch (c.kind) {
      case CaseKind::Model:
        run_safetensors_case(c, args, result);
        break;
      case CaseKind::OnnxSuite:
        run_onnx_case(c, args, result);
        break;
      case CaseKind::Optimizer:
        result.lines = check_optimizer(c.model);
        break;
      case CaseKind::Schedules:
        result.lines = check_schedules(c.model);
        break;
    }
    if (!result.lines.empty()) result.state = CaseState::Failed;
  } catch (const UserError& e) {
    stop_as(CaseState::Refused, "", e.what());
  } catch (const InternalError& e) {
    stop_as(CaseState::Failed, "internal error: ", e.what());
  } catch (const std::exception& e) {
    stop_as(CaseState::Failed, "", e.what());
  }
  result.milliseconds = watch.ms();
  return result;
}

IsolatedCase start_isolated(const VerifyCase& c, const VerifyArgs& args) {
  int ends[2];
  if (::pipe(ends) != 0) fail<EnvironmentError>("cannot make a pipe: {}", std::strerror(errno));
  pid_t pid = ::fork();
  if (pid < 0) fail<EnvironmentError>("cannot start a process for {}: {}", c.name, std::strerror(errno));
  if (pid == 0) {
    ::close(ends[0]);
    if (args.timeout > 0) ::alarm(static_cast<unsigned>(args.timeout));
    send(ends[1], run_case(c, args));
    ::_exit(0);
  }
  ::close(ends[1]);
  return {pid, ends[0]};
}

CaseResult finish_isolated(const IsolatedCase& started) {
  std::string text;
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(started.pipe, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(n));
  ::close(started.pipe);
  int status = 0;
  ::waitpid(started.pid, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && !text.empty()) return parse(text);
  CaseResult out;
  out.state = CaseState::Failed;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    out.lines.push_back("took longer than allowed");
  else if (WIFSIGNALED(status))
    out.lines.push_back(fmt::format("crashed: {}", ::strsignal(WTERMSIG(status))));
  else
    out.lines.push_back("the process ended without a result");
  return out;
}

}  // namespace toroid::cli
