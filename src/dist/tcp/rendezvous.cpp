#include "dist/tcp/rendezvous.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <thread>

#include "base/check.h"
#include "dist/deadline.h"
#include "dist/host.h"
#include "dist/messages/fault.h"
#include "dist/tcp/greeting.h"
#include "dist/tcp/port_file.h"

namespace toroid::distributed::tcp {
namespace {

using namespace std::chrono_literals;

// Who connects and says nothing is given up after that.
constexpr auto kPatience = 5s;
// Rank 0's word on who is missing is waited for so much longer than it waits itself: it may have begun later.
constexpr auto kForTheVerdict = 2s;
// What is said to ranks that are to end must not take long.
constexpr auto kFarewell = 1s;
// Ranks that come when it is known that this fails are told so for that long.
constexpr auto kForTheLate = 2s;
constexpr size_t kMostStrangers = 256;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

std::string place_of(const Place& p) {
  return p.file.empty() ? fmt::format("port {} of {}", p.port, p.address) : fmt::format("the file {}", p.file.string());
}

// A connection whose first bytes are a greeting of `Bytes` bytes, if it is a rank's.
struct Stranger {
  Socket socket;
  Clock::time_point until;
  std::string bytes = {};
};

// Connections that have not yet said who they are.
class Door {
 public:
  Door(const Socket& listener, size_t greeting) : listener_(listener), greeting_(greeting) {}

  // Waits for a little while. Calls take(socket, greeting) for those that have said something; others are passed over.
  void look(Clock::time_point until, const std::vector<pollfd>& others, const std::function<void(Socket, std::string)>& take) {
    std::vector<pollfd> files = {{listener_.file(), POLLIN, 0}};
    for (auto& s : strangers_) files.push_back({s.socket.file(), POLLIN, 0});
    files.insert(files.end(), others.begin(), others.end());
    ::poll(files.data(), files.size(), poll_ms(until));
    while (auto socket = accept_from(listener_)) {
      if (strangers_.size() == kMostStrangers) strangers_.erase(strangers_.begin());
      strangers_.push_back({std::move(*socket), Clock::now() + kPatience});
    }
    std::vector<Stranger> stay;
    for (Stranger& s : std::exchange(strangers_, {})) {
      char buffer[256];
      const int64_t n = read_some(s.socket, buffer, greeting_ - s.bytes.size());
      if (n > 0) s.bytes.append(buffer, static_cast<size_t>(n));
      if (s.bytes.size() == greeting_)
        take(std::move(s.socket), std::move(s.bytes));
      else if (n >= 0 && Clock::now() < s.until)
        stay.push_back(std::move(s));
    }
    strangers_ = std::move(stay);
  }

 private:
  const Socket& listener_;
  const size_t greeting_;
  std::vector<Stranger> strangers_;
};

void tell(const Socket& socket, const Answer& a) {
  const std::string bytes = to_bytes(a);
  write_all(socket, bytes.data(), bytes.size(), Clock::now() + kFarewell);
}

// Of rank 0.
class Gathering {
 public:
  Gathering(const Place& place, const Secret& secret, const Socket& listener, double timeout, Clock::time_point until)
      : place_(place),
        secret_(secret),
        timeout_(timeout),
        until_(until),
        door_(listener, kHelloBytes),
        guests_(static_cast<size_t>(place.size)) {}

  std::vector<Socket> run() {
    for (std::string missing = look_who_is_missing(); !missing.empty(); missing = look_who_is_missing()) {
      if (Clock::now() >= until_)
        judge({Answer::Problem, fmt::format("{} did not come to {} within {} s (timeout_seconds)", missing, place_of(place_), timeout_)});
      if (verdict_) end();
      look(until_);
    }
    if (verdict_) end();
    World world{random_secret(), {}};
    for (size_t r = 1; r < guests_.size(); ++r) {
      const std::string address = peer_address(guests_[r].socket);
      world.ends.push_back({is_loopback(address) ? "" : address, guests_[r].hello.port});
    }
    std::vector<Socket> out;
    for (auto& g : guests_) {
      if (g.socket) tell(g.socket, {Answer::All, to_text(world)});
      out.push_back(std::move(g.socket));
    }
    return out;
  }

 private:
  struct Guest {
    Socket socket;
    Hello hello;
    bool has_gone = false;  // it came, and ended before all had
  };

  std::string look_who_is_missing() {
    std::string out;
    for (size_t r = 1; r < guests_.size(); ++r) {
      Guest& g = guests_[r];
      if (g.socket && has_ended(g.socket)) g.socket.close(), g.has_gone = true;
      if (!g.socket) out += fmt::format("{}rank {}{}", out.empty() ? "" : ", ", r, g.has_gone ? " (which came and ended again)" : "");
    }
    return out;
  }

  static bool has_ended(const Socket& s) {
    pollfd file{s.file(), POLLRDHUP, 0};
    return ::poll(&file, 1, 0) > 0;
  }

  // Who does not know the secret is another program, or a rank of another job, which finds its own rank 0 or says that it does not.
  void take(Socket socket, const std::string& bytes) {
    const auto hello = hello_from(bytes);
    if (!hello || hello->secret != secret_) return;
    if (verdict_) return tell_late(socket, hello->rank);
    const Answer why = what_is_wrong(*hello);
    if (why.kind != Answer::All) {
      judge(why);
      return tell_late(socket, hello->rank);
    }
    guests_[static_cast<size_t>(hello->rank)] = {std::move(socket), *hello};
    const std::string missing = look_who_is_missing();
    if (!missing.empty()) tell_guests({Answer::Missing, missing});
  }

  // Of a rank of this job; All: nothing.
  Answer what_is_wrong(const Hello& h) const {
    if (h.protocol != kProtocol)
      return {Answer::Problem,
              fmt::format("{} runs another version of Toroid than rank 0 (protocols {} and {}); start all ranks with the same one",
                          to_string(h), h.protocol, kProtocol)};
    if (h.size != place_.size)
      return {Answer::UserProblem,
              fmt::format("the ranks disagree about their number: {} has {}, rank 0 {}", to_string(h), h.size, place_.size)};
    const auto twice = [&](int pid, const std::string& host) {
      return Answer{Answer::UserProblem, fmt::format("two processes are the same rank: {}, and process {} of {}", to_string(h), pid, host)};
    };
    if (h.rank < 1 || h.rank >= place_.size) return twice(::getpid(), host_name());
    const Guest& g = guests_[static_cast<size_t>(h.rank)];
    if (h.port < 1 || h.port > kMostPort)
      return {Answer::Problem, fmt::format("{} says that it listens at port {}; expected 1 to {}; start all ranks with the same version of "
                                           "Toroid",
                                           to_string(h), h.port, kMostPort)};
    return g.socket && !has_ended(g.socket) ? twice(g.hello.pid, g.hello.host) : Answer{Answer::All, ""};
  }

  void tell_guests(const Answer& a) const {
    for (auto& g : guests_)
      if (g.socket) tell(g.socket, a);
  }

  void judge(Answer why) {
    verdict_ = std::move(why);
    tell_guests(*verdict_);
    for (int r = 1; r < place_.size; ++r)
      if (guests_[static_cast<size_t>(r)].socket) told_.insert(r);
  }

  void tell_late(const Socket& socket, int rank) {
    tell(socket, *verdict_);
    if (rank > 0 && rank < place_.size) told_.insert(rank);
  }

  // Those that come now would wait for long, and not know what for.
  [[noreturn]] void end() {
    const auto until = std::min(until_, Clock::now() + kForTheLate);
    while (told_.size() + 1 < guests_.size() && Clock::now() < until) look(until);
    if (verdict_->kind == Answer::UserProblem) fail<UserError>("distributed::init: {}", verdict_->text);
    fail<EnvironmentError>("distributed::init: {}", verdict_->text);
  }

  void look(Clock::time_point until) {
    std::vector<pollfd> known;
    for (auto& g : guests_)
      if (g.socket) known.push_back({g.socket.file(), POLLRDHUP, 0});
    door_.look(until, known, [&](Socket socket, const std::string& bytes) { take(std::move(socket), bytes); });
  }

  const Place& place_;
  const Secret secret_;
  const double timeout_;
  const Clock::time_point until_;
  Door door_;
  std::vector<Guest> guests_;
  std::optional<Answer> verdict_;  // why this fails
  std::set<int> told_;             // ranks that know it
};

// Where rank 0 listens, as far as it is known now.
struct End {
  std::string address;
  int port;
  Secret secret;
};

std::optional<End> find_end(const Place& place, std::string& problem) {
  if (place.file.empty()) return End{place.address, place.port, secret_of(place.job)};
  const auto content = read_port_file(place.file);
  if (!content) {
    problem = "the file is not there";
    return std::nullopt;
  }
  if (content->host != host_id()) {
    problem = "another host wrote it; ranks of several hosts meet at an address (MASTER_ADDR, MASTER_PORT)";
    return std::nullopt;
  }
  return End{"127.0.0.1", content->port, content->secret};
}

// Of all ranks but 0.
class Coming {
 public:
  Coming(const Place& place, double timeout, Clock::time_point until, int port) : place_(place), timeout_(timeout), until_(until) {
    hello_ = {kProtocol, {}, place.rank, place.size, ::getpid(), port, host_name()};
    if (messages::is_fault_at_start("version", place.rank, "hello")) ++hello_.protocol;
  }

  // The connection to rank 0, and what it says of all.
  std::pair<Socket, World> run() {
    for (auto pause = 5ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 200ms)) {
      std::string problem;
      if (const auto end = find_end(place_, problem))
        if (auto socket = connect_to(end->address, end->port, until_, problem)) {
          hello_.secret = end->secret;
          if (auto world = speak(*socket, problem)) return {std::move(*socket), std::move(*world)};
        }
      if (Clock::now() >= until_)
        fail<EnvironmentError>("distributed::init: rank {} has not found rank 0 at {} within {} s (timeout_seconds): {}", place_.rank,
                               place_of(place_), timeout_, problem);
      std::this_thread::sleep_for(pause);
    }
  }

 private:
  std::optional<World> speak(const Socket& socket, std::string& problem) {
    const std::string greeting = to_bytes(hello_);
    problem = "what answers there is no rank of this job";
    if (!write_all(socket, greeting.data(), greeting.size(), until_)) return std::nullopt;
    std::string bytes, missing;
    const auto latest = until_ == Clock::time_point::max() ? until_ : until_ + kForTheVerdict;
    while (Clock::now() < latest) {
      char buffer[4096];
      const int64_t n = read_some(socket, buffer, std::min(sizeof buffer, answer_lacks(bytes)));
      if (n < 0) {
        if (!missing.empty()) problem = "it has ended before all had come";
        return std::nullopt;
      }
      if (n == 0) {
        pollfd file{socket.file(), POLLIN, 0};
        ::poll(&file, 1, poll_ms(latest));
      }
      bytes.append(buffer, static_cast<size_t>(n));
      Answer a;
      const Reading reading = answer_from(bytes, a);
      if (reading == Reading::Foreign) return std::nullopt;
      if (reading == Reading::Part) continue;
      bytes.clear();
      if (a.kind == Answer::UserProblem) fail<UserError>("distributed::init: {}", a.text);
      if (a.kind == Answer::Problem) fail<EnvironmentError>("distributed::init: {}", a.text);
      if (a.kind == Answer::Missing) missing = a.text;
      if (a.kind != Answer::All) continue;
      auto world = world_from(a.text);
      return world && world->ends.size() + 1 == static_cast<size_t>(place_.size) ? std::move(world) : std::nullopt;
    }
    if (!missing.empty())
      fail<EnvironmentError>("distributed::init: {} did not come to {} within {} s (timeout_seconds)", missing, place_of(place_), timeout_);
    problem = "what listens there does not answer";
    return std::nullopt;
  }

  const Place& place_;
  const double timeout_;
  const Clock::time_point until_;
  Hello hello_;
};

// Connects the ranks but 0 to each other: each calls those before it.
void connect_peers(const Place& place, const World& world, const Socket& listener, double timeout, Clock::time_point until,
                   std::vector<Socket>& out) {
  const std::string greeting = to_bytes(PeerHello{world.secret, place.rank});
  for (int r = 1; r < place.rank; ++r) {
    const World::End& end = world.ends[static_cast<size_t>(r) - 1];
    std::string problem;
    auto socket = connect_to(end.address.empty() ? peer_address(out[0]) : end.address, end.port, until, problem);
    if (!socket || !write_all(*socket, greeting.data(), greeting.size(), until))
      fail<EnvironmentError>("distributed::init: rank {} cannot be connected to rank {}: {}", place.rank, r,
                             problem.empty() ? "it has ended" : problem);
    out[static_cast<size_t>(r)] = std::move(*socket);
  }
  const auto missing = [&] {
    std::string text;
    for (int r = place.rank + 1; r < place.size; ++r)
      if (!out[static_cast<size_t>(r)]) text += fmt::format("{}rank {}", text.empty() ? "" : ", ", r);
    return text;
  };
  Door door(listener, kPeerHelloBytes);
  for (std::string text = missing(); !text.empty(); text = missing()) {
    pollfd first{out[0].file(), POLLRDHUP, 0};
    if (Clock::now() >= until)
      fail<EnvironmentError>("distributed::init: {} did not connect to rank {} within {} s (timeout_seconds)", text, place.rank, timeout);
    if (::poll(&first, 1, 0) > 0)
      fail<EnvironmentError>("distributed::init: rank 0 has ended before {} connected to rank {}", text, place.rank);
    door.look(until, {first}, [&](Socket socket, const std::string& bytes) {
      const auto hello = peer_hello_from(bytes);
      const bool is_awaited = hello && hello->secret == world.secret && hello->rank > place.rank && hello->rank < place.size;
      if (is_awaited && !out[static_cast<size_t>(hello->rank)]) out[static_cast<size_t>(hello->rank)] = std::move(socket);
    });
  }
}

// Removes the file of rank 0 when all have come, or nobody waits any more.
class OwnFile {
 public:
  OwnFile(const Place& place, int port, const Secret& secret) : path_(place.file), secret_(secret) {
    write_port_file(path_, {host_id(), port, secret});
  }
  ~OwnFile() {
    const auto content = read_port_file(path_);
    std::error_code ignored;
    if (content && content->secret == secret_) std::filesystem::remove(path_, ignored);
  }
  OwnFile(const OwnFile&) = delete;

 private:
  const std::filesystem::path path_;
  const Secret secret_;
};

}  // namespace

std::vector<Socket> meet(const Place& place, double timeout) {
  const auto until = deadline(timeout);
  if (place.size == 1) return std::vector<Socket>(1);
  messages::apply_fault_at_start(place.rank, "hello");
  const bool is_here_alone = !place.file.empty() || is_loopback(place.address);
  if (place.rank == 0) {
    const Socket listener = place.file.empty() ? listen_at(is_here_alone ? place.address : "", place.port) : listen_at("127.0.0.1", 0);
    const Secret secret = place.file.empty() ? secret_of(place.job) : random_secret();
    std::optional<OwnFile> file;
    if (!place.file.empty()) file.emplace(place, port_of(listener), secret);
    auto out = Gathering(place, secret, listener, timeout, until).run();
    messages::apply_fault_at_start(0, "connect");
    return out;
  }
  const Socket listener = listen_at(is_here_alone ? (place.file.empty() ? place.address : "127.0.0.1") : "", 0);
  auto [first, world] = Coming(place, timeout, until, port_of(listener)).run();
  messages::apply_fault_at_start(place.rank, "connect");
  std::vector<Socket> out(static_cast<size_t>(place.size));
  out[0] = std::move(first);
  connect_peers(place, world, listener, timeout, until == Clock::time_point::max() ? until : until + kForTheVerdict, out);
  return out;
}

}  // namespace toroid::distributed::tcp
