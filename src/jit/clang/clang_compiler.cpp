// C text to object code by Clang and LLVM in this process: the only file that sees their C++ headers.
#include <clang/Basic/Version.h>
#include <clang/CodeGen/ModuleBuilder.h>
#include <clang/Frontend/CompilerInstance.h>
#include <clang/Frontend/CompilerInvocation.h>
#include <clang/Frontend/TextDiagnosticPrinter.h>
#include <clang/Lex/Preprocessor.h>
#include <clang/Parse/ParseAST.h>
#include <clang/Sema/Sema.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Triple.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "base/stopwatch.h"
#include "jit/clang/abi.h"

#define TOROID_JIT_EXPORT extern "C" __attribute__((visibility("default")))

static_assert(CLANG_VERSION_MAJOR == 19 && CLANG_VERSION_MINOR == 1, "another compiler: change TOROID_JIT_REVISION, then this");

namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

// Emitted kernels are written with vector extensions and inlined helpers, so what pays is: inline, put locals in registers,
// unroll the register blocks (constant trip counts), then one clean-up round. Two thirds of the time of O3, same run speed.
// (instcombine in text form would end in a fatal error where it stops before its fixpoint.)
constexpr const char* kShortModule = "always-inline,globaldce";
constexpr const char* kShortHead = "sroa,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,loop-mssa(loop-rotate,licm),loop(indvars)";
// The full unrolling in between has O3's limits: those of O2 leave blocks of 12 rows and more in memory, at a third of the speed.
constexpr int kShortUnrollLevel = 3;
constexpr const char* kShortClean = "sroa,early-cse<memssa>";
constexpr const char* kShortVectorize = "loop-vectorize,slp-vectorizer";
constexpr const char* kShortTail = "instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),adce";

// LLVM reports what it cannot recover from by a callback that must not return; this carries its text to toroid_jit_compile.
struct FatalError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void on_fatal_error(void*, const char* reason, bool) { throw FatalError(reason ? reason : "unknown"); }

void initialize_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    // Another user of LLVM in this process may own the handler already; installing a second one would end the process.
    llvm::remove_fatal_error_handler();
    llvm::install_fatal_error_handler(on_fatal_error);
  });
}

// Everything of one compilation. It lives on the heap so that it can be abandoned, unreleased, after a fatal error: LLVM's
// structures are then in the middle of a change and must not be destroyed.
class Compilation {
 public:
  Compilation(llvm::StringRef source, const ToroidJitOptions& options)
      : options_(options),
        source_(llvm::MemoryBuffer::getMemBufferCopy(source, options.name ? options.name : "kernel.c")),
        stream_(text_) {}

  // False: error() tells why.
  bool run(ToroidJitResult& result) {
    toroid::Stopwatch watch;
    if (!parse()) return false;
    result.parse_ms = watch.lap();
    if (!make_machine() || !optimize()) return false;
    result.passes_ms = watch.lap();
    if (!emit()) return false;
    result.codegen_ms = watch.lap();
    return true;
  }

  llvm::StringRef object() const { return {object_.data(), object_.size()}; }
  const std::string& error() {
    stream_.flush();
    if (text_.empty()) text_ = "the compiler failed without a diagnostic";
    return text_;
  }

 private:
  // Clang's front end: C text to unoptimized IR.
  bool parse() {
    std::vector<const char*> args = {"-triple", kTriple, "-emit-llvm-only", "-x", "c", "-std=gnu17", "-target-cpu", options_.cpu,
                                     "-tune-cpu", options_.tune_cpu,
                                     // Freestanding, no include path at all: the text is complete in itself.
                                     "-nostdsysteminc", "-nobuiltininc", "-ffreestanding",
                                     // Position independent, everything near the code, nothing of the C runtime needed.
                                     "-mrelocation-model", "pic", "-pic-level", "2", "-fvisibility=hidden", "-Wno-psabi",
                                     // Products are contracted with sums that follow, but where the text forbids it.
                                     "-ffp-contract=fast-honor-pragmas"};
    // Not -O1: with it clang marks every loop as not to be unrolled.
    std::string level = "-O" + std::to_string(options_.opt_level == 0 ? 0 : std::clamp(options_.opt_level, 2, 3));
    args.push_back(level.c_str());
    std::string width = "-mprefer-vector-width=" + std::to_string(options_.vector_bits);
    args.push_back(width.c_str());
    llvm::SmallVector<llvm::StringRef, 8> features;
    llvm::StringRef(options_.features ? options_.features : "").split(features, ',', -1, false);
    std::vector<std::string> feature_texts(features.begin(), features.end());
    for (const std::string& f : feature_texts) args.insert(args.end(), {"-target-feature", f.c_str()});

    auto printer_options = llvm::makeIntrusiveRefCnt<clang::DiagnosticOptions>();
    instance_.createDiagnostics(new clang::TextDiagnosticPrinter(stream_, printer_options.get()), true);
    printer_options_ = printer_options;
    if (!clang::CompilerInvocation::CreateFromArgs(instance_.getInvocation(), args, instance_.getDiagnostics())) return false;
    clang::FrontendOptions& front = instance_.getFrontendOpts();
    front.Inputs.clear();
    front.Inputs.emplace_back(source_->getMemBufferRef(), clang::InputKind(clang::Language::C));
    clang::CodeGenOptions& code = instance_.getCodeGenOpts();
    code.DisableLLVMPasses = true;  // the passes run in optimize()
    code.VectorizeLoop = code.VectorizeSLP = options_.vectorize != 0;
    instance_.getDiagnosticOpts().ErrorLimit = 20;
    // An empty file system: an #include fails alike on every machine.
    auto no_files = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
    instance_.createFileManager(no_files);
    instance_.createSourceManager(instance_.getFileManager());
    if (!instance_.createTarget() || !instance_.InitializeSourceManager(front.Inputs[0])) return false;
    instance_.createPreprocessor(clang::TU_Complete);
    clang::Preprocessor& preprocessor = instance_.getPreprocessor();
    preprocessor.getBuiltinInfo().initializeBuiltins(preprocessor.getIdentifierTable(), instance_.getLangOpts());
    instance_.createASTContext();
    context_.setDiscardValueNames(true);
    // The generator alone: clang's own action around it would also make a code generator and a pass manager that nobody uses.
    auto* generator = clang::CreateLLVMCodeGen(instance_.getDiagnostics(), source_->getBufferIdentifier(), no_files,
                                               instance_.getHeaderSearchOpts(), instance_.getPreprocessorOpts(), code, context_);
    instance_.setASTConsumer(std::unique_ptr<clang::ASTConsumer>(generator));
    instance_.createSema(clang::TU_Complete, nullptr);
    instance_.getDiagnosticClient().BeginSourceFile(instance_.getLangOpts(), &preprocessor);
    clang::ParseAST(instance_.getSema());
    instance_.getDiagnosticClient().EndSourceFile();
    if (instance_.getDiagnostics().hasErrorOccurred()) return false;
    module_.reset(generator->ReleaseModule());
    return module_ != nullptr;
  }

  bool make_machine() {
    std::string why;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(kTriple, why);
    if (!target) return stream_ << why, false;
    llvm::TargetOptions target_options;
    target_options.AllowFPOpFusion = llvm::FPOpFusion::Standard;  // as the instructions say
    auto level = options_.opt_level == 0   ? llvm::CodeGenOptLevel::None
                 : options_.opt_level == 3 ? llvm::CodeGenOptLevel::Aggressive
                                           : llvm::CodeGenOptLevel::Default;
    machine_.reset(target->createTargetMachine(kTriple, options_.cpu, options_.features ? options_.features : "", target_options,
                                               llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
    if (!machine_) return stream_ << "no code generator for " << kTriple << " " << options_.cpu, false;
    module_->setDataLayout(machine_->createDataLayout());
    return true;
  }

  llvm::Error add_short_list(llvm::PassBuilder& builder, llvm::ModulePassManager& passes) const {
    llvm::FunctionPassManager list;
    if (auto problem = builder.parsePassPipeline(passes, kShortModule)) return problem;
    if (auto problem = builder.parsePassPipeline(list, kShortHead)) return problem;
    list.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LoopFullUnrollPass(kShortUnrollLevel)));
    if (auto problem = builder.parsePassPipeline(list, kShortClean)) return problem;
    if (options_.vectorize) {
      if (auto problem = builder.parsePassPipeline(list, kShortVectorize)) return problem;
    }
    if (auto problem = builder.parsePassPipeline(list, kShortTail)) return problem;
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(list)));
    return llvm::Error::success();
  }

  bool optimize() {
    if (options_.opt_level == 0 && !options_.passes) return true;
    // Helpers of the prelude are static functions: the short list has no cost model for them, they all go inline.
    for (llvm::Function& f : *module_)
      if (f.hasLocalLinkage() && !f.isDeclaration() && !f.hasFnAttribute(llvm::Attribute::NoInline))
        f.addFnAttr(llvm::Attribute::AlwaysInline);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager graphs;
    llvm::ModuleAnalysisManager modules;
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = tuning.SLPVectorization = options_.vectorize != 0;
    tuning.LoopInterleaving = options_.vectorize != 0;
    llvm::PassBuilder builder(machine_.get(), tuning);
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(graphs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, graphs, modules);
    llvm::ModulePassManager passes;
    if (options_.passes || options_.opt_level == 1) {
      auto problem = options_.passes ? builder.parsePassPipeline(passes, options_.passes) : add_short_list(builder, passes);
      if (problem) return stream_ << llvm::toString(std::move(problem)), false;
    } else {
      passes = builder.buildPerModuleDefaultPipeline(options_.opt_level == 2 ? llvm::OptimizationLevel::O2 : llvm::OptimizationLevel::O3);
    }
    passes.run(*module_, modules);
    return true;
  }

  // Machine code. The assembler reports bad inline assembly through the context, whose default handler would exit.
  bool emit() {
    context_.setDiagnosticHandlerCallBack(
        [](const llvm::DiagnosticInfo* info, void* self) {
          if (info->getSeverity() != llvm::DS_Error) return;
          auto* compilation = static_cast<Compilation*>(self);
          llvm::DiagnosticPrinterRawOStream printer(compilation->stream_);
          info->print(printer);
          compilation->stream_ << '\n';
          compilation->failed_ = true;
        },
        this);
    llvm::raw_svector_ostream out(object_);
    llvm::legacy::PassManager codegen;
    if (machine_->addPassesToEmitFile(codegen, out, nullptr, llvm::CodeGenFileType::ObjectFile)) {
      return stream_ << "the code generator cannot write object files", false;
    }
    codegen.run(*module_);
    return !failed_;
  }

  ToroidJitOptions options_;
  std::unique_ptr<llvm::MemoryBuffer> source_;
  std::string text_;
  llvm::raw_string_ostream stream_;
  bool failed_ = false;
  llvm::LLVMContext context_;
  llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> printer_options_;
  clang::CompilerInstance instance_;
  std::unique_ptr<llvm::Module> module_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallVector<char, 0> object_;
};

int fail_with(ToroidJitResult* result, const std::string& text) {
  result->error = static_cast<char*>(std::malloc(text.size() + 1));
  if (result->error) std::memcpy(result->error, text.c_str(), text.size() + 1);
  return 0;
}

}  // namespace

TOROID_JIT_EXPORT int toroid_jit_compile(const char* source, size_t size, const ToroidJitOptions* options, ToroidJitResult* result) {
  *result = ToroidJitResult{};
  Compilation* compilation = nullptr;
  try {
    initialize_once();
    compilation = new Compilation(llvm::StringRef(source, size), *options);
    bool good = compilation->run(*result);
    if (good) {
      llvm::StringRef object = compilation->object();
      result->object = static_cast<uint8_t*>(std::malloc(object.size()));
      if (!result->object) throw std::bad_alloc();
      std::memcpy(result->object, object.data(), object.size());
      result->size = object.size();
    } else {
      fail_with(result, compilation->error());
    }
    delete compilation;
    return good;
  } catch (const FatalError& e) {
    return fail_with(result, std::string("fatal error in LLVM: ") + e.what());  // the compilation is abandoned, see its comment
  } catch (const std::exception& e) {
    return fail_with(result, std::string("the compiler failed: ") + e.what());
  }
}

TOROID_JIT_EXPORT void toroid_jit_release(ToroidJitResult* result) {
  std::free(result->object);
  std::free(result->error);
  *result = ToroidJitResult{};
}

TOROID_JIT_EXPORT const char* toroid_jit_version(void) { return "clang " CLANG_VERSION_STRING; }

TOROID_JIT_EXPORT int32_t toroid_jit_abi(void) { return TOROID_JIT_ABI; }
