// Kernels that do what they should, and what they should not, in a process of their own.
#include "tune/isolate/worker.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "base/files.h"
#include "base/hash.h"
#include "base/options.h"
#include "errors.h"
#include "tune/check/inputs.h"
#include "tune/text_pipeline.h"

namespace toroid::tune {
namespace {

using test::contains;
using Use = WorkerBuffer::Use;

constexpr const char* kHead =
    "typedef long i64;\n"
    "void k(void* const* bufs, const i64* params, i64 begin, i64 end, int thread) {\n"
    "  const float* in = (const float*)bufs[0]; float* out = (float*)bufs[1]; i64 n = params[0]; (void)in; (void)out; (void)n;\n"
    "  (void)thread;\n";

// Two buffers of 1000 floats, the second of which is the result. Four tasks of 250.
WorkerJob job(const std::string& body) {
  WorkerJob j;
  j.buffers = {{DType::F32, 1000, Use::Read, 5}, {DType::F32, 1000, Use::Write}};
  WorkerKernel& k = j.kernels.emplace_back();
  k.launch.name = "k";
  k.source = kHead + body + "}\n";
  k.launch.buffers = {0, 1};
  k.launch.params = {1000};
  k.launch.tasks = 4;
  j.runs = 3;
  return j;
}

constexpr const char* kAddOne = "for (i64 i = begin * 250; i < end * 250; ++i) out[i] = in[i] + 1;\n";

struct WorkerTest : testing::Test {
  void SetUp() override {
    if (skips_cpu()) GTEST_SKIP() << "the CPU's compiler may be missing";
  }
  Worker worker{[] {
    WorkerOptions o;
    o.timeout_ms = 20'000;
    return o;
  }()};
  // The worker lives on and computes what it should.
  void expect_good() {
    WorkerJob j = job(kAddOne);
    j.contents = true;
    const WorkerResult r = worker.run(j);
    ASSERT_EQ(r.outcome, Outcome::Timed) << r.reason;
    EXPECT_EQ(r.ns.size(), 3u);
    const Tensor in = generate_input({DType::F32, {1000}, {}}, 5);
    std::vector<float> want(1000), got(1000);
    for (size_t i = 0; i < 1000; ++i) want[i] = in.data<float>()[i] + 1;
    ASSERT_EQ(r.contents.at(0).size(), 4000u);
    std::memcpy(got.data(), r.contents[0].data(), 4000);
    EXPECT_EQ(got, want);
    EXPECT_EQ(r.hashes, std::vector<std::string>{hash_bytes(want.data(), 4000).hex()});
  }
  WorkerResult bad(const std::string& body) {
    const WorkerResult r = worker.run(job(body));
    expect_good();
    return r;
  }
};

TEST_F(WorkerTest, OneProcessRunsManyJobs) {
  for (int i = 0; i < 5; ++i) expect_good();
  EXPECT_EQ(worker.starts(), 1);
}

TEST_F(WorkerTest, HasTheOptionsOfItsOwner) {
  const auto folder = make_temp_dir();
  {
    ScopedOption cache("cache_dir", folder.string());
    expect_good();
    EXPECT_TRUE(std::filesystem::exists(folder / "kernels"));
  }
  std::filesystem::remove_all(folder);
  expect_good();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(WorkerTest, TextThatDoesNotCompile) {
  const WorkerResult r = bad("no C;\n");
  EXPECT_EQ(r.outcome, Outcome::FailedToCompile);
  EXPECT_TRUE(contains(r.reason, "no C")) << r.reason;
  EXPECT_EQ(worker.starts(), 1);
}

TEST_F(WorkerTest, Crashes) {
  WorkerResult r = bad("*(volatile int*)8 = 1;\n");
  EXPECT_EQ(r.outcome, Outcome::Crashed);
  EXPECT_EQ(r.reason, "k ended its process: signal 11 (Segmentation fault)");
  EXPECT_EQ(worker.starts(), 2);
  r = bad("__builtin_trap();\n");
  EXPECT_TRUE(contains(r.reason, "signal 4 (Illegal instruction)")) << r.reason;
}

TEST_F(WorkerTest, AccessesOutOfBounds) {
  const std::string good = kAddOne;
  EXPECT_EQ(bad(good + "if (begin == 0) out[n + 4000] = 0;\n").reason, "k writes 16001 bytes behind buffer 1");
  EXPECT_EQ(bad(good + "if (begin == 0) out[-2000] = 0;\n").reason, "k writes 8000 bytes before buffer 1");
  EXPECT_EQ(bad(good + "if (begin == 0) out[0] = ((const volatile float*)in)[n + 4000];\n").reason, "k reads 16001 bytes behind buffer 0");
  EXPECT_EQ(bad(good + "if (begin == 0) ((float*)in)[3] = 0;\n").reason, "k writes to buffer 0, which it may only read");
  EXPECT_EQ(bad(good + "if (begin == 0) out[n] = 0;\n").reason, "k writes less than 64 bytes out of buffer 1");
  EXPECT_EQ(bad(good + "if (begin == 0) out[-1] = 0;\n").reason, "k writes less than 64 bytes out of buffer 1");
}

TEST_F(WorkerTest, Hangs) {
  WorkerOptions o;
  o.timeout_ms = 2000;
  Worker impatient(o);
  const WorkerResult r = impatient.run(job("for (volatile int i = 0;; i = i + 1) { }\n"));
  EXPECT_EQ(r.outcome, Outcome::TimedOut);
  EXPECT_EQ(r.reason, "k had not ended after 2000 ms");
  EXPECT_EQ(impatient.run(job(kAddOne)).outcome, Outcome::Timed);
  EXPECT_EQ(impatient.starts(), 2);
}

TEST_F(WorkerTest, NotANumberAndForgottenElements) {
  WorkerResult r = bad("for (i64 i = begin * 250; i < end * 250; ++i) out[i] = i == 123 ? 0.0f / (in[i] * 0) : 1;\n");
  EXPECT_EQ(r.outcome, Outcome::Failed);
  EXPECT_EQ(r.reason, "k leaves NaN in buffer 1 at 123, or nothing at all");
  r = bad("for (i64 i = begin * 250; i < end * 250; ++i) if (i != 999) out[i] = 1;\n");
  EXPECT_EQ(r.reason, "k leaves NaN in buffer 1 at 999, or nothing at all");
  WorkerJob j = job("for (i64 i = begin * 250; i < end * 250; ++i) out[i] = 0.0f / (in[i] * 0);\n");
  j.nan_is_wrong = false;
  EXPECT_EQ(worker.run(j).outcome, Outcome::Timed);
}

// In each type of number; infinities are none.
TEST_F(WorkerTest, NaNInEveryType) {
  for (DType t : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    const std::string type = t == DType::F64 ? "unsigned long" : t == DType::F32 ? "unsigned" : "unsigned short";
    const char* infinity = t == DType::F64 ? "0xfff0000000000000" : t == DType::F32 ? "0xff800000" : t == DType::F16 ? "0xfc00" : "0xff80";
    WorkerJob j = job("for (i64 i = begin * 250; i < end * 250; ++i) ((" + type + "*)out)[i] = " + infinity + " + (i == 7 ? MORE : 0);\n");
    j.buffers[1].dtype = t;
    std::string& source = j.kernels[0].source;
    const std::string text = source;
    for (const char* more : {"0", "1"}) {
      source = std::string(text).replace(text.find("MORE"), 4, more);
      EXPECT_EQ(worker.run(j).nan, *more == '1' ? "k leaves NaN in buffer 1 at 7, or nothing at all" : "") << name_of(t) << more;
    }
  }
}

// The second reads what the first has written, in memory that nobody looks at; contents that are given count in place of generated ones.
TEST_F(WorkerTest, KernelsInARow) {
  WorkerJob j = job(kAddOne);
  const std::vector<float> given(1000, 41);
  j.buffers[0].contents.assign(reinterpret_cast<const char*>(given.data()), 4000);
  j.buffers[1].use = Use::Temporary;
  j.buffers.push_back({DType::F32, 1000, Use::Write});
  j.kernels.push_back(j.kernels[0]);
  j.kernels[1].launch.buffers = {1, 2};
  j.contents = true;
  WorkerResult r = worker.run(j);
  ASSERT_EQ(r.outcome, Outcome::Timed) << r.reason;
  ASSERT_EQ(r.contents.size(), 1u);
  std::vector<float> got(1000);
  std::memcpy(got.data(), r.contents[0].data(), 4000);
  EXPECT_EQ(got, std::vector<float>(1000, 43));
  std::swap(j.kernels[0], j.kernels[1]);
  EXPECT_EQ(worker.run(j).reason, "k leaves NaN in buffer 2 at 0, or nothing at all");
  j.nan_is_wrong = false;
  r = worker.run(j);
  EXPECT_EQ(r.outcome, Outcome::Timed);
  EXPECT_EQ(r.nan, "k leaves NaN in buffer 2 at 0, or nothing at all");
  EXPECT_EQ(worker.starts(), 2);
}

// A kernel can call nothing that allocates: it asks the system.
constexpr const char* kMap =
    "if (begin == 0) {\n"
    "  register i64 r10 __asm__(\"r10\") = 0x22, r8 __asm__(\"r8\") = -1, r9 __asm__(\"r9\") = 0; i64 at;\n"
    "  __asm__ volatile(\"syscall\" : \"=a\"(at) : \"a\"(9L), \"D\"(0L), \"S\"(BYTES), \"d\"(3L), \"r\"(r10), \"r\"(r8), \"r\"(r9)\n"
    "                   : \"rcx\", \"r11\", \"memory\");\n"
    "  for (i64 i = 0; i < BYTES; i += 4096) ((volatile char*)at)[i] = 1;\n"
    "}\n";

std::string map(const std::string& bytes) {
  std::string text = std::string(kAddOne) + kMap;
  for (size_t at; (at = text.find("BYTES")) != std::string::npos;) text.replace(at, 5, bytes);
  return text;
}

TEST_F(WorkerTest, Leaks) {
  const WorkerResult r = bad(map("(8L << 20)"));
  EXPECT_EQ(r.outcome, Outcome::Failed);
  EXPECT_EQ(r.reason, "k leaves 32 MiB of memory behind after 4 runs");
  EXPECT_EQ(bad(map("(1L << 16)")).outcome, Outcome::Timed);  // below what is asked about
  WorkerOptions o;
  o.memory_mb = 64;
  Worker small(o);
  EXPECT_EQ(small.run(job(map("(128L << 20)"))).outcome, Outcome::Crashed);  // what it was given is no address
  WorkerJob large = job(kAddOne);
  large.buffers.push_back({DType::F32, int64_t{1} << 26, Use::Write});
  EXPECT_TRUE(contains(small.run(large).reason, "a buffer of 268435456 bytes cannot be had")) << small.run(large).reason;
}

TEST_F(WorkerTest, ScratchMemoryIsGuardedToo) {
  WorkerJob j =
      job("float* scratch = (float*)((char*)bufs[2] + thread * 256);\n"
          "for (i64 i = begin * 250; i < end * 250; ++i) scratch[63] = in[i], out[i] = scratch[63];\n");
  j.kernels[0].launch.scratch_bytes_per_thread = 256;
  EXPECT_EQ(worker.run(j).outcome, Outcome::Timed);
  j.kernels[0].launch.scratch_bytes_per_thread = 64;
  j.kernels[0].launch.serial = true;
  j.kernels[0].source = kHead + std::string("((float*)bufs[2])[4096] = 1;\n}\n");
  EXPECT_TRUE(contains(worker.run(j).reason, "behind its scratch memory"));
}

TEST(Worker, ProgramsThatAreMissing) {
  WorkerOptions o;
  o.program = "/nowhere/toroid-tune-worker";
  Worker none(o);
  EXPECT_TRUE(contains(test::environment_error([&] { none.run({}); }), "/nowhere/toroid-tune-worker cannot be started: No such file"));
  ScopedOption named("tune_worker", "/bin/true");
  Worker other;
  const std::string text = test::environment_error([&] { other.run(job(kAddOne)); });
  EXPECT_TRUE(contains(text, "/bin/true does not work: it ended with exit status 0")) << text;
  EXPECT_TRUE(contains(text, "tune_isolated")) << text;
}

TEST(Worker, MessagesGoThereAndBack) {
  WorkerRequest r{job(kAddOne), 7, 8, {{"isa", "scalar"}}};
  device::cuda::TensorMap m;
  m.buffer = 1, m.offset = 3, m.sizes = {64, 32}, m.strides = {64}, m.box = {8, 4}, m.swizzle = 128;
  m.window = device::cuda::TensorMap::Window{{-1, -2}, {3, 4}, {5, 6}};
  r.job.kernels[0].launch.gpu.tensor_maps = {m};
  const std::string bytes = serialize(r);
  const WorkerRequest back = parse_request(bytes);
  EXPECT_EQ(serialize(back), bytes);
  EXPECT_EQ(back.job.kernels[0].launch.gpu.tensor_maps[0].sizes, m.sizes);
  EXPECT_EQ(back.job.kernels[0].launch.gpu.tensor_maps[0].window->last[1], 4);
  EXPECT_EQ(back.options, r.options);
  for (size_t n = 0; n < bytes.size(); n += 7) EXPECT_THROW(parse_request(bytes.substr(0, n)), InternalError);
  EXPECT_THROW(parse_request(bytes + "x"), InternalError);
}

}  // namespace
}  // namespace toroid::tune
