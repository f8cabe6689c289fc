#include "compile/job.h"

namespace toroid::compiler {

bool Job::tunes() const { return may_tune && toroid::tunes(options().mode()) && options().fusion() != Fusion::None; }

Job job_of(const std::string& name, const Setup& setup, const TuneListener& listener, const device::cuda::GpuInfo* absent) {
  Job job{.setup = setup,
          .target = backend::make_backend(setup.device, setup.options, absent),
          .listener = listener,
          .absent = absent != nullptr,
          .debug = DebugFolder(name, setup.options)};
  if (job.tunes()) job.constants = std::make_shared<MovedConstants>();
  return job;
}

Job job_of_block(const Job& program, const std::string& name, const program::OptionValues* options, const tune::LockFile& decided) {
  Job job = program;
  job.setup.donated = {};
  if (options) job.setup.options = job.setup.options.with(*options);
  job.decided = decided;
  job.debug = DebugFolder(name, job.setup.options);
  if (!job.constants && job.tunes()) job.constants = std::make_shared<MovedConstants>();
  return job;
}

Job job_of_regions(const Job& program) {
  Job job = program;
  job.setup.options.set(Mode::Default);
  job.listener = {};
  job.decided = {};
  job.uploads = false;
  job.tries = true;
  job.compile_threads = 1;
  job.debug = {};
  if (!job.constants) job.constants = std::make_shared<MovedConstants>();
  return job;
}

}  // namespace toroid::compiler
