// What ranks say to each other before they are connected, as bytes. All of it may come from anybody: nothing is believed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dist/tcp/socket.h"

namespace toroid::distributed::tcp {

// Goes up with each change of what ranks say to each other: greetings, calls (dist/messages/call.h), frames of messages.
inline constexpr uint32_t kProtocol = 1;

using Secret = std::array<uint64_t, 2>;
Secret random_secret();
// For ranks that have none in common: of the name of their job.
Secret secret_of(const std::string& job);
std::string to_hex(const Secret& s);
std::optional<Secret> secret_from_hex(std::string_view text);

// Of a rank, to rank 0.
struct Hello {
  uint32_t protocol = kProtocol;
  Secret secret{};
  int32_t rank = 0, size = 0, pid = 0;
  int32_t port = 0;  // where it listens
  std::string host;  // its name, at most 63 characters
};
inline constexpr size_t kHelloBytes = 120;
std::string to_bytes(const Hello& h);
// Of kHelloBytes bytes; none where they are something else.
std::optional<Hello> hello_from(std::string_view bytes);
// "rank 1 (process 71 of node7)".
std::string to_string(const Hello& h);

// Of a rank, to another one.
struct PeerHello {
  Secret secret{};
  int32_t rank = 0;
};
inline constexpr size_t kPeerHelloBytes = 28;
std::string to_bytes(const PeerHello& h);
std::optional<PeerHello> peer_hello_from(std::string_view bytes);

// Of rank 0, to a rank.
struct Answer {
  enum Kind : uint32_t { Missing = 1, All = 2, UserProblem = 3, Problem = 4 };
  Kind kind = Missing;
  std::string text;  // Missing: "rank 2, rank 3"; All: a World; else what is wrong
};
std::string to_bytes(const Answer& a);
enum class Reading { Whole, Part, Foreign };
// Of the bytes that have come. What follows an answer is none: those who read take no more than `answer_lacks` says.
Reading answer_from(std::string_view bytes, Answer& out);
size_t answer_lacks(std::string_view bytes);

// Where all listen.
struct World {
  struct End {
    std::string address;  // empty: on the host of rank 0
    int port = 0;
  };
  Secret secret{};
  std::vector<End> ends;  // of ranks 1, 2, ...
};
std::string to_text(const World& w);
std::optional<World> world_from(const std::string& text);

}  // namespace toroid::distributed::tcp
