#include "base/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/compile_scope.h"
#include "base/options.h"
#include "base/processors.h"

namespace toroid {

// What a thread needs to take part in a loop.
struct ThreadPool::Part {
  LoopBody body = nullptr;
  void* ctx = nullptr;
  ThreadBegins begins = nullptr;
  int64_t tasks = 0;
  int thread = 0, parts = 0;
};

// A worker, with all that a loop brings it on one cache line. `mail` is the team that it is asked to join; it takes that out to say yes,
// and the owner of the team takes it out when it does without. The rest of the line is written by the owner while there is no mail, and is
// read by the worker once it has taken the mail.
struct alignas(64) ThreadPool::Worker {
  std::atomic<Team*> mail{nullptr};
  TaskShare share;
  Part part;
  std::atomic<int> sleeps{0};         // 1: until somebody makes it 0
  std::atomic<bool> reserved{false};  // for a team
  alignas(64) std::thread thread;
  int64_t window_ns = 0;  // how long it looks for mail before it sleeps
};

// A caller and the workers that it has at the moment. Teams outlive their loops: a worker may still look at one that it has just left.
struct alignas(64) ThreadPool::Team {
  TaskShare share;  // of the caller
  std::vector<Worker*> members;
  bool begun = false;  // the caller's ThreadBegins has been called
  std::exception_ptr error;
  std::mutex error_mutex;
  alignas(64) std::atomic<int> pending{0};  // members that were asked to join, have not left, and whose mail was not taken back
  std::atomic<bool> owner_sleeps{false};
};

namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t kUs = 1000, kMs = 1000 * kUs;
constexpr int64_t kPauses = 50 * kUs;       // a spinning thread keeps its processor; then it offers it to others
constexpr int64_t kOff = 200 * kUs;         // who spins and sees no time for so long was not running: others want the processor
constexpr int64_t kShortWindow = 5 * kUs;   // of a worker for which spinning has not been worth it
constexpr int64_t kLookEvery = 2 * kMs;     // at what a thread has lost
constexpr int kLoopsPerClock = 32;          // of a caller, which would rather not ask for the time in each
constexpr int64_t kCallersCount = 2 * kMs;  // after they have left: most come back at once

int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(); }

// Threads do not survive fork(): a pool made before it runs its loops inline in the child, which global() gives a new one.
std::atomic<int> fork_generation{0};

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

static_assert(sizeof(std::atomic<int>) == sizeof(int), "the system sleeps on integers");

// Sleeps while the word has that value, until it is told to wake up, or for no reason; at most for limit_ns (0: any time).
void sleep_on(std::atomic<int>& word, int value, int64_t limit_ns) {
  const timespec limit{0, limit_ns};
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, limit_ns > 0 ? &limit : nullptr, nullptr, 0);
}

void wake(std::atomic<int>& word) { ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

// What a thread has had of its processor.
struct ProcessorUse {
  int64_t wall = 0, ran = 0, slept = 0;
  long preempted = 0;

  static ProcessorUse now(int64_t wall, int64_t slept) {
    timespec cpu{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
    rusage use{};
    ::getrusage(RUSAGE_THREAD, &use);
    return {wall, cpu.tv_sec * 1'000'000'000 + cpu.tv_nsec, slept, use.ru_nivcsw};
  }
};

struct Spent {
  int64_t ran, lost;  // lost: the thread had work, and others ran
};

struct ThisThread {
  bool inside_loop = false;
  ThreadPool::Use* use = nullptr;
  size_t first_worker = 0;  // that it had last
  int64_t slept = 0;        // in the pool, or off the processor while it had nothing to do
  int64_t waited = 0;       // for helpers
  ProcessorUse seen;

  void look(int64_t wall) { seen = ProcessorUse::now(wall, slept); }
  // Since the last look.
  Spent spent(int64_t wall) {
    const ProcessorUse before = std::exchange(seen, ProcessorUse::now(wall, slept));
    const int64_t ran = seen.ran - before.ran, rest = seen.wall - before.wall - ran - (seen.slept - before.slept);
    return {ran, seen.preempted == before.preempted ? 0 : std::max<int64_t>(0, rest)};
  }
};
thread_local ThisThread me;

// Spins until done(), or until the window is over, or until others want the processor; returns done().
template <class Done>
bool spin(int64_t window_ns, Done done) {
  if (done()) return true;
  if (window_ns <= 0) return false;
  const int64_t start = now_ns();
  for (int64_t last = start;;) {
    for (int i = 0; i < 32; ++i) {
      pause_cpu();
      if (done()) return true;
    }
    const int64_t now = now_ns();
    if (now - last >= kOff) me.slept += now - last;
    if (now - start >= window_ns || now - last >= kOff) return false;
    last = now;
    if (now - start >= std::min(kPauses, window_ns)) ::sched_yield();
  }
}

}  // namespace

// ---- workers ----------------------------------------------------------------------------------------------------------------------

ThreadPool::ThreadPool(int n, bool gives_way)
    : gives_way_(gives_way),
      spin_ns_(get_option(options::kSpinUs) * kUs),
      fork_generation_(fork_generation.load()),
      workers_(std::make_unique<std::unique_ptr<Worker>[]>(kMaxThreads)) {
  static std::once_flag once;
  std::call_once(once, [] { ::pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1); }); });
  resize(n);
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  for (int i = 0; i < made_; ++i) {
    Worker& worker = *workers_[static_cast<size_t>(i)];
    if (fork_generation.load() != fork_generation_) {
      worker.thread.detach();  // The child of a fork has no such thread to join.
      (void)workers_[static_cast<size_t>(i)].release();
      continue;
    }
    worker.sleeps.store(0);
    wake(worker.sleeps);
    worker.thread.join();
  }
}

void ThreadPool::resize(int n) {
  std::lock_guard lock(mutex_);
  n = std::clamp(n, 1, kMaxThreads);
  make_workers(n - 1);
  size_.store(std::min(n, made_ + 1), std::memory_order_relaxed);
}

void ThreadPool::make_workers(int count) {
  for (; made_ < count; ++made_) {
    auto worker = std::make_unique<Worker>();
    worker->window_ns = spin_ns_;
    try {
      worker->thread = std::thread([this, self = worker.get()] { work(*self); });
    } catch (const std::system_error&) {
      return;  // A limit on threads: the pool is smaller, and size() says so.
    }
    workers_[static_cast<size_t>(made_)] = std::move(worker);
  }
}

void ThreadPool::work(Worker& self) {
  me.inside_loop = true;
  me.look(now_ns());
  while (Team* team = wait_for_mail(self)) {
    if (!self.mail.compare_exchange_strong(team, nullptr, std::memory_order_acq_rel)) continue;  // taken back
    const Part part = self.part;
    run_part(*team, part, self.share, 8);  // neighbours: on large machines a look at all would cost more than it finds
    if (team->pending.fetch_sub(1) == 1 && team->owner_sleeps.load()) wake(team->pending);
  }
}

// The team that asks this worker to join; null: the pool is being destroyed. Mail that was taken back again is none.
ThreadPool::Team* ThreadPool::wait_for_mail(Worker& self) {
  const auto called = [&] { return self.mail.load(std::memory_order_acquire) != nullptr || stop_.load(std::memory_order_relaxed); };
  for (;;) {
    if (stop_.load(std::memory_order_relaxed)) return nullptr;
    if (Team* team = self.mail.load(std::memory_order_acquire)) return team;
    const int64_t start = now_ns();
    if (start - me.seen.wall >= kLookEvery) tell_help(start);
    // A worker that no caller has is not going to be called soon where there are several.
    const bool hopeful = self.reserved.load(std::memory_order_relaxed) || callers_.load(std::memory_order_relaxed) <= 1;
    if (!spin(hopeful ? self.window_ns : 0, called)) {
      const int64_t spun = now_ns();
      sleep(self);
      const int64_t end = now_ns();
      me.slept += end - spun;
      self.window_ns = end - start <= spin_ns_ ? spin_ns_ : std::min(spin_ns_, std::max(kShortWindow, self.window_ns / 2));
    } else {
      self.window_ns = spin_ns_;
    }
  }
}

void ThreadPool::tell_help(int64_t now) {
  const Spent spent = me.spent(now);
  if (gives_way_) crowding_.helped(now, spent.ran, spent.lost, size());
}

// Until somebody has posted mail, which may have been taken back since.
void ThreadPool::sleep(Worker& self) {
  // Either whoever posts sees `sleeps` after the mail, or this thread sees the mail: both are sequentially consistent.
  self.sleeps.store(1);
  while (self.mail.load() == nullptr && !stop_.load() && self.sleeps.load() != 0) sleep_on(self.sleeps, 1, 0);
  self.sleeps.store(0);
}

// ---- loops ------------------------------------------------------------------------------------------------------------------------

// Runs what is in the share `own`, then what is left in those of some neighbours.
void ThreadPool::run_part(Team& team, const Part& part, TaskShare& own, int neighbours) {
  const uint64_t grain = TaskShare::grain(part.parts, part.tasks);
  const auto share_of = [&](int i) -> TaskShare& { return i == 0 ? team.share : team.members[static_cast<size_t>(i) - 1]->share; };
  const auto take_over = [&] {
    for (int i = 1; i < std::min(part.parts, neighbours + 1); ++i)
      if (own.take_over(share_of((part.thread + i) % part.parts), grain)) return true;
    return false;
  };
  bool begun = part.thread == 0 ? team.begun : false;
  try {
    do {
      for (TaskRange r; own.take(grain, r);) {
        if (part.begins && !begun) part.begins(part.ctx, part.thread);
        begun = true;
        part.body(part.ctx, r.begin, r.end, part.thread);
      }
    } while (take_over());
  } catch (...) {
    std::lock_guard lock(team.error_mutex);
    if (!team.error) team.error = std::current_exception();
  }
  if (part.thread == 0) team.begun = begun;
}

void ThreadPool::post(Worker& worker, Team& team, const Part& part) {
  worker.part = part;
  worker.share.deal(TaskShare::even(part.thread, part.parts, part.tasks));
  worker.mail.store(&team);
  if (worker.sleeps.load() != 0 && worker.sleeps.exchange(0) != 0) wake(worker.sleeps);
}

void ThreadPool::run_team(Team& team, const Loop& loop, int parts) {
  me.inside_loop = true;
  Part part{loop.body, loop.ctx, loop.begins, loop.tasks, 0, parts};
  team.error = nullptr;
  team.begun = false;
  team.share.deal(TaskShare::even(0, parts, loop.tasks));
  team.pending.store(parts - 1, std::memory_order_relaxed);
  for (part.thread = 1; part.thread < parts; ++part.thread) post(*team.members[static_cast<size_t>(part.thread) - 1], team, part);
  part.thread = 0;
  run_part(team, part, team.share, 8);
  if (team.pending.load(std::memory_order_acquire) != 0) finish_late(team, part);
  me.inside_loop = false;
  if (team.error) std::rethrow_exception(std::exchange(team.error, nullptr));
}

// Some members have not left. Those who have not come need not come; the work of all that is not begun is done here.
void ThreadPool::finish_late(Team& team, const Part& part) {
  constexpr int kGrace = 64;  // most are about to leave, and a look at all would hold them up
  for (int i = 0; i < kGrace; ++i) {
    pause_cpu();
    if (team.pending.load(std::memory_order_acquire) == 0) return;
  }
  int absent = 0;
  for (int i = 1; i < part.parts; ++i) {
    std::atomic<Team*>& mail = team.members[static_cast<size_t>(i) - 1]->mail;
    Team* posted = &team;
    absent += mail.load(std::memory_order_relaxed) == posted && mail.compare_exchange_strong(posted, nullptr);
  }
  run_part(team, part, team.share, part.parts);
  if (absent > 0 && team.pending.fetch_sub(absent) == absent) return;
  const auto done = [&] { return team.pending.load(std::memory_order_acquire) == 0; };
  if (spin(spin_ns_, done)) return;
  const int64_t start = now_ns() - spin_ns_;
  do {
    run_part(team, part, team.share, part.parts);  // what a member took over and has not begun
    doze(team);
  } while (!spin(spin_ns_, done));
  me.waited += now_ns() - start;
}

// Until the last member leaves, or for a while: one that has left may not run to say so.
void ThreadPool::doze(Team& team) {
  const int64_t start = now_ns();
  team.owner_sleeps.store(true);
  if (const int pending = team.pending.load(); pending != 0) sleep_on(team.pending, pending, kMs);
  team.owner_sleeps.store(false);
  me.slept += now_ns() - start;
}

void ThreadPool::run(const Loop& loop) {
  if (loop.tasks <= 0) return;
  const int64_t most = std::min<int64_t>({loop.tasks, size(), loop.threads > 0 ? loop.threads : kMaxThreads});
  if (loop.tasks > 1 && size() > 1 && !me.inside_loop && fork_generation.load(std::memory_order_relaxed) == fork_generation_) {
    std::optional<Use> own;
    Use* use = Use::current(*this);
    if (!use) use = &own.emplace(*this);
    if (Team* team = use->team(static_cast<int>(most) - 1); team && most > 1) {
      const int parts = static_cast<int>(std::min<int64_t>(most, static_cast<int64_t>(team->members.size()) + 1));
      if (loop.tasks <= TaskShare::kMaxTasks) return run_team(*team, loop, parts);
      // Longer loops are cut into as many pieces as a share can count.
      struct Pieces {
        const Loop& loop;
        int64_t unit;
      } pieces{loop, loop.tasks / TaskShare::kMaxTasks + 1};
      Loop cut{(loop.tasks + pieces.unit - 1) / pieces.unit, nullptr, &pieces, loop.threads, nullptr};
      cut.body = [](void* ctx, int64_t begin, int64_t end, int thread) {
        auto& p = *static_cast<Pieces*>(ctx);
        p.loop.body(p.loop.ctx, begin * p.unit, std::min(p.loop.tasks, end * p.unit), thread);
      };
      if (loop.begins)
        cut.begins = [](void* ctx, int thread) { static_cast<Pieces*>(ctx)->loop.begins(static_cast<Pieces*>(ctx)->loop.ctx, thread); };
      return run_team(*team, cut, parts);
    }
  }
  if (loop.begins) loop.begins(loop.ctx, 0);
  loop.body(loop.ctx, 0, loop.tasks, 0);
}

// ---- callers ----------------------------------------------------------------------------------------------------------------------

int ThreadPool::helpers_due(int callers) const {
  const int spare = size() - crowding_.left_out(now_ns) - callers - lone_.load(std::memory_order_relaxed);
  return spare <= 0 ? 0 : (spare + callers - 1) / callers;
}

int ThreadPool::share() const {
  if (me.inside_loop || size() == 1) return 1;
  const Use* use = Use::current(*this);
  return 1 + helpers_due(callers_.load(std::memory_order_relaxed) + !(use && use->state_ == Use::Sharing));
}

ThreadPool::Team* ThreadPool::take_team() {
  std::lock_guard lock(mutex_);
  if (idle_teams_.empty()) {
    teams_.push_back(std::make_unique<Team>());
    return teams_.back().get();
  }
  Team* team = idle_teams_.back();
  idle_teams_.pop_back();
  return team;
}

void ThreadPool::give_back(Team* team) {
  form(*team, 0, 0);
  std::lock_guard lock(mutex_);
  idle_teams_.push_back(team);
}

void ThreadPool::form(Team& team, int helpers, int spare) {
  std::lock_guard lock(mutex_);
  while (static_cast<int>(team.members.size()) > helpers) {
    team.members.back()->reserved.store(false, std::memory_order_relaxed);
    team.members.pop_back();
    reserved_.fetch_sub(1, std::memory_order_relaxed);
  }
  const auto count = static_cast<size_t>(std::max(0, size() - 1));
  for (size_t i = 0; i < count && static_cast<int>(team.members.size()) < helpers && reserved_.load(std::memory_order_relaxed) < spare;
       ++i) {
    const size_t at = (me.first_worker + i) % count;  // the one whose cache has what this thread works on
    Worker& worker = *workers_[at];
    if (worker.reserved.load(std::memory_order_relaxed)) continue;
    if (team.members.empty()) me.first_worker = at;
    worker.reserved.store(true, std::memory_order_relaxed);
    team.members.push_back(&worker);
    reserved_.fetch_add(1, std::memory_order_relaxed);
  }
}

ThreadPool::Use* ThreadPool::Use::current(const ThreadPool& pool) {
  Use* use = me.use;
  while (use && &use->pool_ != &pool) use = use->outer_;
  return use;
}

ThreadPool::Use::Use(ThreadPool& pool) : pool_(pool), outer_(me.use), nested_(current(pool) != nullptr) {
  if (!nested_) me.use = this;
}

ThreadPool::Use::~Use() {
  if (nested_) return;
  me.use = outer_;
  if (team_) pool_.give_back(team_);
  if (state_ == Outside) return;
  if (seen_ > 0) look_at_clock();
  if (state_ == Alone)
    pool_.lone_.fetch_sub(1, std::memory_order_relaxed);
  else
    pool_.leave();
}

void ThreadPool::Use::enter(bool alone) {
  if (state_ == Alone) pool_.lone_.fetch_sub(1, std::memory_order_relaxed);
  (alone ? pool_.lone_ : pool_.callers_).fetch_add(1, std::memory_order_relaxed);
  state_ = alone ? Alone : Sharing;
  if (alone) return;
  // Short uses are looked at now and then only.
  const int64_t now = now_ns();
  if (now - me.seen.wall < kLookEvery) return;
  me.look(now);
  me.waited = 0;  // in uses that nobody looked at
  seen_ = now;
}

void ThreadPool::Use::look_at_clock() {
  const int64_t now = now_ns();
  if (now - seen_ < kLookEvery) return;
  seen_ = now;
  const Spent spent = me.spent(now);
  if (pool_.gives_way_) pool_.crowding_.called(now, std::exchange(me.waited, 0), spent.lost, pool_.size());
}

ThreadPool::Team* ThreadPool::Use::team(int helpers) {
  if (state_ == Outside || (state_ == Alone && helpers > 0)) enter(helpers == 0);
  if (state_ == Alone) return nullptr;
  if (++loops_ % kLoopsPerClock == 0 && seen_ > 0) look_at_clock();
  const int callers = pool_.callers_now();
  const int due = pool_.helpers_due(callers);
  const int have = team_ ? static_cast<int>(team_->members.size()) : 0;
  const int spare = pool_.size() - callers - pool_.lone_.load(std::memory_order_relaxed);
  const bool more = have < std::min(due, helpers) && pool_.reserved_.load(std::memory_order_relaxed) < spare;
  if (have > due || more) {
    if (!team_) team_ = pool_.take_team();
    pool_.form(*team_, std::min(due, std::max(have, helpers)), spare);
  }
  return team_ && !team_->members.empty() ? team_ : nullptr;
}

// A caller that has left counts for a while: most come back at once, and would find their processor taken.
void ThreadPool::leave() {
  const int before = callers_.fetch_sub(1, std::memory_order_relaxed);
  if (before <= 1) return;
  peak_until_.store(now_ns() + kCallersCount, std::memory_order_relaxed);
  peak_.store(before, std::memory_order_relaxed);
}

int ThreadPool::callers_now() {
  const int callers = callers_.load(std::memory_order_relaxed), peak = peak_.load(std::memory_order_relaxed);
  if (peak <= callers) return callers;
  if (now_ns() < peak_until_.load(std::memory_order_relaxed)) return peak;
  peak_.store(0, std::memory_order_relaxed);
  return callers;
}

int kernel_threads() {
  const int wanted = static_cast<int>(get_option(options::kThreads)), processors = processor_count();
#if defined(__SANITIZE_THREAD__)
  if (wanted > 0) return wanted;  // threads meet on small machines, too
#endif
  return wanted > 0 ? std::min(wanted, processors) : processors;
}

namespace {

// The pool of the process, and the option that it followed last.
struct GlobalPool {
  std::atomic<int64_t> wanted{get_option(options::kThreads)};
  std::atomic<uint64_t> version{options_version()};
  const int generation = fork_generation.load();
  ThreadPool pool{kernel_threads()};

  bool is_of_a_parent() const { return generation != fork_generation.load(std::memory_order_relaxed); }
};

}  // namespace

ThreadPool& ThreadPool::global() {
  // Never destroyed: at exit its workers sleep, and there is nothing to wait for. A child of fork() makes a pool of its own, without a
  // lock, which another thread of the parent could have held.
  static std::atomic<GlobalPool*> current{nullptr};
  GlobalPool* global = current.load(std::memory_order_acquire);
  while (!global || global->is_of_a_parent()) {
    if (!global) settle_option(options::kSpinUs, "the kernel threads were started");
    auto fresh = std::make_unique<GlobalPool>();
    if (current.compare_exchange_strong(global, fresh.get())) global = fresh.release();
  }
  if (const uint64_t now = options_version(); global->version.load(std::memory_order_relaxed) != now) {
    const int64_t threads = get_option(options::kThreads);
    if (global->wanted.exchange(threads) != threads) global->pool.resize(kernel_threads());
    global->version.store(now, std::memory_order_relaxed);
  }
  return global->pool;
}

int compile_threads(int wanted) {
  if (wanted <= 0) wanted = static_cast<int>(get_option(options::kCompileThreads));
  return wanted > 0 ? wanted : processor_count();
}

void run_parallel(const std::vector<std::function<void()>>& jobs, int threads) {
  threads = compile_threads(threads);
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> errors(jobs.size());
  const auto drain = [&, within = compiles_here] {
    const CompileScope compiling(within);
    for (size_t i = next.fetch_add(1); i < jobs.size(); i = next.fetch_add(1)) {
      try {
        jobs[i]();
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> helpers;
  const size_t wanted = std::min<size_t>(static_cast<size_t>(threads), jobs.size());
  helpers.reserve(wanted);
  while (helpers.size() + 1 < wanted) {
    try {
      helpers.emplace_back(drain);
    } catch (const std::system_error&) {
      break;  // A limit on threads: those that exist do all the work.
    }
  }
  drain();
  for (std::thread& helper : helpers) helper.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace toroid
