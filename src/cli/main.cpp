// The `toroid` command: its options, its help, and what errors become.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>

#include "base/options.h"
#include "base/text.h"
#include "cli/bench_subject.h"
#include "cli/commands.h"
#include "toroid/cache.h"
#include "toroid/error.h"
#include "toroid/version.h"

namespace {

using namespace toroid::cli;

const std::string kModelOrPackage =
    "A package, a .pt2 archive, an ONNX file, the text of a graph (inspect --graph), or a built-in model with random weights: ";
constexpr const char* kFooter =
    "Exit codes: 0 done, 1 results differ or a case failed, 2 something in the call or the files is wrong, 3 the machine lacks something,\n"
    "4 a bug in Toroid, 130 interrupted (Ctrl-C). Options of the library are environment variables TOROID_<NAME>;\n`toroid options` lists them.\n";

struct Command {
  CLI::App app{"Compiles and runs tensor programs.", "toroid"};
  RunArgs run;
  VerifyArgs verify;
  BenchArgs bench;
  InspectArgs inspect;
  CompileArgs compiled;
  OptArgs opt;
  DoctorArgs doctor;
  DiffArgs differing;
  CacheArgs cache;
  OptionsArgs options;
  OpsArgs operations;
  WhyArgs why;
  TraceArgs traced;
  LaunchArgs launch;
  TrainArgs trained;
  TuneArgs tuned;
  BenchArgs bisected;
  std::function<int()> action;

  Command() {
    app.require_subcommand(1);
    app.footer(kFooter);
    app.set_version_flag("--version", "toroid " TOROID_VERSION);
    auto* r = add("run", "Run a model or a package on tensors from a safetensors file.", [this] { return run_model(run); });
    r->add_option("model", run.model, "The model: a .pt2 archive of torch.export.save, an ONNX file, or a package")->required();
    r->add_option(
         "--inputs", run.inputs,
         "safetensors file of inputs by place (\"000\", \"001\", ...) or by the model's names; a second call's are \"call1.000\", ...")
        ->required();
    r->add_option("--outputs", run.outputs, "Write the outputs of the last call here");
    r->add_option("--weights", run.weights, "Of a package: safetensors file whose tensors take the place of its weights");
    add_weights_folder(r, run.weights_folder);
    add_entry(r, run.entry);
    r->add_option("--expect", run.expect, "Compare the outputs with these");
    add_common(r, run.backend, run.device, run.json);
    r->add_option("--tolerance", run.tolerance,
                  "Allowed error of f32, as a part of the output's range; else 1e-4, of a package what its precision says");

    auto* v = add("verify", "Run models on the inputs stored beside them and compare with the stored outputs.",
                  [this] { return toroid::cli::verify(verify); });
    v->add_option(
         "paths", verify.paths,
         "Folders with in.safetensors, out.safetensors and .pt2 models or packages, or ONNX test cases, at any depth; or .tar.zst archives "
         "of them; or a package, whose hashes are checked")
        ->required();
    add_common(v, verify.backend, verify.device, verify.json);
    v->add_option("--tolerance", verify.tolerance,
                  "Allowed error of f32, as a part of the output's range; else 1e-4, of a package what its precision says");
    add_weights_folder(v, verify.weights_folder);
    v->add_option("--known", verify.known, "File of cases that do not pass, \"case: reason\"; one that passes is a failure");
    v->add_option("--jobs", verify.jobs, "Cases at a time, each in a process of its own")->check(CLI::Range(1, 1024));
    v->add_option("--timeout", verify.timeout, "Seconds that a case may take, 0: any")->check(CLI::Range(0, 86400));
    v->add_flag("--isolate", verify.isolate, "A process for each case, so that a crash is a failed case");
    v->add_flag("-v,--verbose", verify.verbose, "A line for each case that passed, too");

    add_bench();
    add_tune();

    add_subject(add("bisect",
                    "Find the first operation of a compiled model whose result is not what the reference evaluator makes of its operands.",
                    [this] { return toroid::cli::bisect(bisected); }),
                bisected);

    auto* p = add("compile", "Compile models into a package, which libtoroid_runtime.so runs without a compiler.",
                  [this] { return compile_package(compiled); });
    p->add_option("models", compiled.models, "The model file, or several as NAME=FILE: the entries of the package")->required();
    p->add_option("-o,--output", compiled.out, "The package")->required();
    p->add_option("--target", compiled.targets,
                  "Machines, separated by commas, the best first: native, x86-64-v4, x86-64-v3, x86-64; GPUs, which need not be "
                  "there: sm_90a, sm_80, ..., compute_80 (PTX for any)")
        ->delimiter(',')
        ->capture_default_str();
    p->add_option("--device", compiled.device, "What it is compiled for: cpu, cuda or cuda:<number>")->capture_default_str();
    p->add_option("--mode", compiled.mode, "default, reduce-overhead, max-autotune or max-autotune-no-cudagraphs")->capture_default_str();
    p->add_option("--lock", compiled.lock, "Lock file of tuning that decides; nothing is timed");
    p->add_option("--inputs", compiled.inputs, "Tensors of a usual call of the one model: those that `tune` was given for the lock file");
    p->add_option_function<std::string>(
         "--weights", [this](const std::string& where) { compiled.weights_beside = where == "beside"; },
         "inside: in the package; beside: large ones in the folder `weights` beside it, by hash, which packages share")
        ->check(CLI::IsMember({"inside", "beside"}))
        ->default_str("inside");
    p->add_flag("--swappable", compiled.swappable, "Weights can be swapped while the package is loaded");
    p->add_flag("--no-freeze", compiled.no_freeze, "Weights stay as they are: not folded, not packed");
    p->add_flag("--json", compiled.json, "Machine-readable output");

    auto* i = add("inspect", "Show what a model, a package or a safetensors file holds.", [this] { return toroid::cli::inspect(inspect); });
    add_graph(i, inspect.subject);
    i->get_option("model")->description(kModelOrPackage + toroid::cli::built_in_models());
    i->add_flag("--graph", inspect.graph, "The whole graph as text, which `toroid opt` reads");

    auto* o = add("opt", "Run passes on a graph or a lowered program in its text form and print it, or list all passes.",
                  [this] { return toroid::cli::opt(opt); });
    o->add_option("graph", opt.graph, "The text of a graph (inspect --graph) or of a program (program_lowered.txt of a debug folder)");
    o->add_option("--passes", opt.passes, "Names separated by commas, in order; none: it is only verified");
    o->add_flag("--pipeline", opt.pipeline, "All passes of the pipeline of inference, in order; of a program those of the CPU")
        ->excludes("--passes");
    o->add_flag("--list", opt.list, "List the passes of graphs and of programs, in the order in which a compile runs them");
    o->add_flag("--json", opt.json, "Machine-readable output; a graph or a program is one text in it");

    auto* t = add("train", "Train a model as a configuration (TOML) says: lines, checkpoints, a log and a page with plots.",
                  [this] { return toroid::cli::train(trained); });
    t->add_option("config", trained.config, "The configuration; --keys lists what it may have");
    t->add_option("--set", trained.settings, "TABLE.KEY=VALUE in place of the configuration's, any number of times")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    t->add_option("--out", trained.out, "Folder for checkpoints, log.jsonl and training.html, in place of checkpoint.folder");
    t->add_option("--device", trained.device, "cpu, cuda or cuda:<number>, in place of training.device");
    t->add_flag("--keys", trained.keys, "List all keys of a configuration, with kinds, defaults and meanings");
    t->add_flag("--json", trained.json, "Machine-readable output: an object a line");
    t->footer(
        "A configuration that goes on from the folder of a language model, on token ids of 16 bits:\n"
        "  [model]\n  folder = \"gpt2\"\n  [data]\n  file = \"tokens.bin\"\n  format = \"u16\"\n  [optimizer]\n  lr = 3e-4\n  [training]\n  steps = 1000\n"
        "  [checkpoint]\n  folder = \"out\"\n  every = 100\n"
        "The same call goes on from the newest checkpoint. SIGINT and SIGTERM end training after the step that is running, with a checkpoint;\n"
        "exit code 130 or 143. docs/training.md has more.");

    auto* d = add("doctor", "Check what this machine offers and what is missing, or whether a package would load here.",
                  [this] { return toroid::cli::doctor(doctor); });
    d->add_option("package", doctor.package, "A package: each check of loading it, and what to do where one fails");
    d->add_option("--device", doctor.device,
                  "Of a package: where it must load, cpu, cuda or cuda:<number>; else where it has programs for");
    add_weights_folder(d, doctor.weights_folder);
    d->add_flag("--json", doctor.json, "Machine-readable output");

    auto* f =
        add("diff", "Say what differs between two packages: manifests, kernels, programs and weights.", [this] { return diff(differing); });
    f->add_option("a", differing.a, "A package")->required();
    f->add_option("b", differing.b, "Another one")->required();
    f->add_flag("--json", differing.json, "Machine-readable output");
    f->footer("Exit codes: 0 they are equal, 1 they differ, 2 one of them cannot be read.");

    add_launch();

    auto* c = add("cache", "Compiled kernels and programs on disk, and which sizes vary.", [this] { return toroid::cli::cache(cache); });
    c->add_option("action", cache.action, "stats, list, clear, export or import")
        ->required()
        ->check(CLI::IsMember({"stats", "list", "clear", "export", "import"}));
    c->add_option("file", cache.file, "Of export and import: the archive of all that is kept");
    c->add_flag("--json", cache.json, "Machine-readable output");

    auto* s = add("options", "List the options of the library: values, environment variables, and what they do.",
                  [this] { return toroid::cli::options(options); });
    s->add_option("word", options.word, "Only options that have it in their name or their description");
    s->add_flag("--json", options.json, "Machine-readable output");

    auto* q = add("ops", "Say whether there is an operation, how it is defined and differentiated; or list all.",
                  [this] { return list_operations(operations); });
    q->add_option("name", operations.name, "Its name as PyTorch writes it: aten::add, add.Tensor, torch.special.erfcx");
    q->add_flag("--onnx", operations.onnx, "Operators that ONNX models may have: Gelu, com.microsoft.BiasGelu");
    q->add_flag("--json", operations.json, "Machine-readable output");
    q->footer("Exit codes: 0 there is one, 1 there is none (near names are told, and what is known about it).");

    auto* w = add("why", "Compile a model and say what was done, and what was not.", [this] { return toroid::cli::why(why); });
    add_graph(w, why.subject);
    w->add_option("--choice", why.choice, "Instead: what was timed for the parts of the tuned model whose name has this in it, and why");

    add_trace();
  }

  void add_trace() {
    auto* t = add("trace", "Write a page of a compile: each stage, decision and kernel, with the source lines that it is of.",
                  [this] { return trace(traced); });
    add_graph(t, traced.subject);
    t->get_option("model")->description(
        "A folder that the option compile_debug wrote, with one compile or many, or what is compiled now: a .pt2 archive, an ONNX file, the "
        "text of a graph (inspect --graph), or a built-in model with random weights: " +
        built_in_models());
    add_mode(t, traced.subject.mode);
    t->add_option("-o,--out", traced.out, "The page: HTML without scripts")->capture_default_str();
    t->footer("Of a program's functions: run it with TOROID_COMPILE_DEBUG=1, and call `toroid trace toroid_debug`.");
  }

  // What begins with the program's name is not of this command: `take_program`.
  void add_launch() {
    auto* l = add("launch", "Run a program as several ranks of one process group on this machine (distributed::init), by mpirun.",
                  [this] { return toroid::cli::launch(launch); });
    l->add_option("-n,--ranks", launch.ranks, "Processes, each with RANK, WORLD_SIZE and LOCAL_RANK in its environment")
        ->check(CLI::Range(1, 1024));
    l->add_option("--grace", launch.grace_seconds, "Seconds that the others have to end when a rank has failed; then they are ended")
        ->check(CLI::Range(0.0, 86400.0))
        ->capture_default_str();
    l->add_option("--rank-of", launch.rank_of)->group("");
    l->footer("Usage: toroid launch -n 4 [--] PROGRAM ARGUMENTS. Lines of output begin with the rank, signals are passed on to all ranks.");
  }

  static void add_subject(CLI::App* b, BenchArgs& bench) {
    add_graph(b, bench);
    b->get_option("--inputs")
        ->description(
            "Of a model file: tensors by place (\"000\", ...) or name; otherwise in.safetensors or ONNX's test_data_set_0 beside it, or "
            "plain numbers");
    b->add_option("--threads", bench.threads, "Threads of the kernels")->check(CLI::Range(1, 1024));
  }

  // Of a graph: without what a run of it needs.
  static void add_graph(CLI::App* b, BenchArgs& bench) {
    b->add_option("model", bench.model,
                  "A .pt2 archive, an ONNX file, the text of a graph (inspect --graph), or a built-in model with random weights: " +
                      toroid::cli::built_in_models())
        ->required();
    b->add_option(
        "--inputs", bench.inputs,
        "Tensors of a usual call, by place (\"000\", ...) or name: of a model file with open sizes, which tuning times at these, or whose sizes "
        "follow from contents (ONNX)");
    b->add_option("--seq", bench.seq, "Tokens, or positions of the cache, or pixels a side")->check(CLI::Range(1, 1 << 20));
    b->add_option("--batch", bench.batch, "Sequences or images")->check(CLI::Range(1, 1 << 16))->capture_default_str();
    b->add_option("--layers", bench.layers, "Layers of a built-in model, where fewer will do")->check(CLI::Range(1, 1000));
    b->add_option("--dtype", bench.dtype, "Of the parameters: f32, bf16, f16 or f64")->capture_default_str();
    b->add_option("--device", bench.device, "What it is compiled for: cpu, cuda or cuda:<number>")->capture_default_str();
    b->add_flag("--decode", bench.decode, "Llama: one token with a cache of --seq positions, instead of a prefill");
    b->add_option("--position", bench.position, "With --decode: position of the token in the cache; otherwise the last")
        ->check(CLI::Range(1, 1 << 20));
    b->add_flag("--json", bench.json, "Machine-readable output");
    for (const char* name : {"--seq", "--batch", "--layers", "--dtype", "--decode", "--position"})
      b->get_option(name)->each([&bench, name](const std::string&) { bench.of_built_in.push_back(name); });
  }

  void add_tune() {
    auto* t = add("tune", "Time the ways to compute each part of a model, and say what was chosen and what it gains.",
                  [this] { return toroid::cli::tune(tuned); });
    add_subject(t, tuned.subject);
    t->add_option("--budget", tuned.budget_ms, "Milliseconds that tuning may take")->check(CLI::Range(1, 1 << 30));
    t->add_flag("--exhaustive", tuned.exhaustive, "Time every choice, those too that a template's order leaves no hope for");
    t->add_flag("--isolated", tuned.isolated,
                "Run kernels in a process of their own first (option tune_isolated): one that crashes or hangs is refused with the reason");
    t->add_option("--choices", tuned.choices,
                  "Regular expression (option tune_choices): beside the default only choices in whose name it finds something are tried");
    t->add_option("--backends", tuned.backends,
                  "What is tried beside the default (option tune_backends): template, subgraph, onednn, cublaslt, cudnn, or none");
    t->add_flag("--strict", tuned.strict, "Take only choices whose results have the same bits as the default's (option tune_strict)");
    t->add_option("--rows", tuned.rows, "Choices that are shown of a part, the fastest; 0: all")
        ->check(CLI::Range(0, 1 << 20))
        ->capture_default_str();
    t->add_option("--lock", tuned.lock,
                  "Write the choices to this file, for the option tune_lock; what it has for other devices stays in it");
    t->add_option("--check", tuned.check, "Instead: compare this lock file with what would be built now; 1 where it does not hold")
        ->check(CLI::ExistingFile);
    t->add_flag("--descent", tuned.descent, "Go on from each winner in steps of its configuration's numbers");
    t->add_option("--html", tuned.html, "Write what was tried as a page");
    t->add_option("--choice", tuned.choice, "Show only the parts whose name has this in it");
    t->add_flag("--ablation", tuned.ablation, "Tune without fusion, with epilogues, prologues too, and all; and time the four models")
        ->excludes("--json");
    t->add_option("--rounds", tuned.rounds, "Runs of the whole model, tuned and not, one after the other; 0: none")
        ->check(CLI::Range(0, 100000))
        ->capture_default_str();
  }

  void add_bench() {
    auto* b = add(
        "bench",
        "Measure a model or a package: compile and run times, kernels, and each kernel beside what the machine can do; on a GPU with CUPTI also as it "
        "ran within a call.",
        [this] { return toroid::cli::bench(bench); });
    add_subject(b, bench);
    b->get_option("model")->description(kModelOrPackage + toroid::cli::built_in_models());
    b->get_option("--inputs")
        ->description(
            "Of a package: its inputs, by place (\"000\", ...) or name. Of a model file the same; otherwise in.safetensors or ONNX's "
            "test_data_set_0 beside it, or plain numbers");
    add_mode(b, bench.mode);
    b->add_option("--iterations", bench.iterations, "Timed runs; otherwise as many as fit in a few seconds")->check(CLI::Range(1, 1000000));
    add_weights_folder(b, bench.weights_folder);
    add_entry(b, bench.entry);
    b->add_flag("--no-eager", bench.no_eager, "Leave out the run of one operation at a time");
    b->add_flag("--no-freeze", bench.no_freeze, "Leave weights as they are; otherwise they are packed when compiling, where memory allows");
    b->add_option("--timeline", bench.timeline,
                  "File for the steps of a call as a timeline that Perfetto and chrome://tracing open: as they ran, on a GPU with CUPTI; "
                  "else end to end, each as long as by itself");
  }

  CLI::App* add(const char* name, const char* doc, std::function<int()> run_it) {
    auto* sub = app.add_subcommand(name, doc);
    sub->callback([this, run_it = std::move(run_it)] { action = run_it; });
    return sub;
  }

  static void add_mode(CLI::App* sub, std::string& mode) {
    sub->add_option("--mode", mode,
                    "default; reduce-overhead: the launches of a call replayed as one; max-autotune: and choices timed when compiling; "
                    "max-autotune-no-cudagraphs: those alone")
        ->check(CLI::IsMember(mode_names()))
        ->capture_default_str();
  }

  void add_entry(CLI::App* sub, std::string& entry) {
    sub->add_option("--entry", entry, "Of a package: the entry that runs; its only one need not be named");
  }

  void add_weights_folder(CLI::App* sub, std::string& folder) {
    sub->add_option("--weights-folder", folder, "Of a package: folder of the weights that it has beside it; else `weights` where it lies");
  }

  void add_common(CLI::App* sub, std::string& backend, std::string& device, bool& json) {
    sub->add_option("--backend", backend, "compiled or interpreter")->capture_default_str();
    sub->add_option("--device", device, "Where it runs: cpu, cuda or cuda:<number>")->capture_default_str();
    sub->add_flag("--json", json, "Machine-readable output");
  }
};

// The subcommand that the call names; null where it names none.
const CLI::App* subcommand(const Command& command, int argc, char** argv) {
  for (auto* sub : command.app.get_subcommands({}))
    if (argc > 1 && sub->get_name() == argv[1]) return sub;
  return nullptr;
}

// What is wrong with a call: the word that nothing takes, with what it may have been meant to be, where there is one; else `otherwise`.
std::string problem(const Command& command, int argc, char** argv, const std::string& otherwise) {
  std::vector<std::string> names;
  const CLI::App* where = subcommand(command, argc, argv);
  if (!where) {
    for (auto* sub : command.app.get_subcommands({})) names.push_back(sub->get_name());
    std::vector<std::string_view> views(names.begin(), names.end());
    if (argc < 2) return otherwise;
    if (argv[1][0] == '-') return fmt::format("there is no option \"{}\"", argv[1]);
    return fmt::format("there is no command \"{}\"{}", argv[1], toroid::did_you_mean(argv[1], views));
  }
  for (auto* o : where->get_options())
    for (auto& l : o->get_lnames()) names.push_back("--" + l);
  std::vector<std::string_view> views(names.begin(), names.end());
  for (int i = 2; i < argc; ++i) {
    std::string_view word = argv[i];
    word = word.substr(0, word.find('='));
    if (!word.starts_with("--") || std::find(names.begin(), names.end(), word) != names.end()) continue;
    return fmt::format("{} has no option \"{}\"{}", where->get_name(), word, toroid::did_you_mean(word, views));
  }
  return otherwise;
}

// Of `launch`: gives it the program that it runs, with its arguments, and returns how many words are the command's own.
int take_program(Command& command, int argc, char** argv) {
  const CLI::App* sub = subcommand(command, argc, argv);
  if (!sub || sub->get_name() != "launch") return argc;
  int own = 2;
  for (; own < argc && argv[own][0] == '-' && std::strcmp(argv[own], "--") != 0; ++own) {
    const CLI::Option* o = sub->get_option_no_throw(argv[own]);  // null for "--name=value", too
    if (o && o->get_items_expected_max() > 0 && own + 1 < argc) ++own;
  }
  const bool is_marked = own < argc && std::strcmp(argv[own], "--") == 0;
  command.launch.program.assign(argv + std::min(own + is_marked, argc), argv + argc);
  return own;
}

// What a cache that cannot be written to costs: each process compiles anew. Those who ask about it are told by their commands.
void note_cache_problem(const CLI::App& app) {
  for (const char* name : {"doctor", "cache", "launch"})
    if (app.got_subcommand(name)) return;
  if (const std::string problem = toroid::program_cache_counters().problem; !problem.empty())
    std::fprintf(stderr, "toroid: note: compiled code is not kept: %s\n", problem.c_str());
}

int fail_with(const char* kind, const char* what, int code) {
  std::fprintf(stderr, "toroid: %s%s\n", kind, what);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Command command;
    try {
      command.app.parse(take_program(command, argc, argv), argv);
    } catch (const CLI::CallForHelp& e) {
      return command.app.exit(e);
    } catch (const CLI::CallForAllHelp& e) {
      return command.app.exit(e);
    } catch (const CLI::CallForVersion& e) {
      return command.app.exit(e);
    } catch (const CLI::ParseError& e) {
      const CLI::App* sub = subcommand(command, argc, argv);
      const std::string help = fmt::format("Try `toroid {}--help`.", sub ? sub->get_name() + " " : "");
      return fail_with("", (problem(command, take_program(command, argc, argv), argv, e.what()) + "\n" + help).c_str(), kUserError);
    }
    const bool doctor = command.app.got_subcommand("doctor") && command.doctor.package.empty();  // which lists them
    if (const auto unknown = toroid::unknown_variables(); !unknown.empty() && !doctor) return fail_with("", unknown[0].c_str(), kUserError);
    int code = command.action();
    note_cache_problem(command.app);
    if (std::fflush(stdout) != 0)
      return fail_with("this machine: ", (std::string("cannot write to the standard output: ") + std::strerror(errno)).c_str(),
                       kEnvironmentError);
    return code;
  } catch (const toroid::UserError& e) {
    return fail_with("", e.what(), kUserError);
  } catch (const toroid::EnvironmentError& e) {
    return fail_with("this machine: ", e.what(), kEnvironmentError);
  } catch (const toroid::InternalError& e) {
    return fail_with("please report this: ", e.what(), kInternalError);
  } catch (const std::bad_alloc&) {
    return fail_with("this machine: ", "there is not enough memory", kEnvironmentError);
  } catch (const std::system_error& e) {
    return fail_with("this machine: ", e.what(), kEnvironmentError);
  } catch (const std::exception& e) {
    return fail_with("", e.what(), kInternalError);
  }
}
