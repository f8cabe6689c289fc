// Decisions that machines share.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "tune/memory/database.h"

namespace toroid::tune {

// Safe for many threads. Nothing here throws because of the network: what cannot be fetched is not known, and problem() says why.
class RemoteCache {
 public:
  virtual ~RemoteCache() = default;
  virtual std::optional<std::string> get(const std::string& key) = 0;
  // False where it is not kept.
  virtual bool put(const std::string& key, std::string_view value) = 0;
  // The reason of the latest problem; empty where there was none.
  virtual std::string problem() const = 0;
};

// A Redis server, by its protocol (RESP2 of redis.io/docs/reference/protocol-spec: GET and SET alone, so that no client library is needed).
// address: "host:port" or "host". A server that does not answer within timeout_ms costs that once; then it is left alone for pause_ms,
// as it is after any other failure.
std::shared_ptr<RemoteCache> redis_cache(std::string address, int timeout_ms = 200, int pause_ms = 60'000);

// The one at this address, a value of the option tune_remote; null where it is empty.
std::shared_ptr<RemoteCache> shared_remote(const std::string& address);

// Decisions in a remote cache, under the key's strings and the set of candidates. What is stored there by another version or damaged is not
// known.
std::optional<DecisionRecord> get_decision(RemoteCache& cache, const TuneKey& key, const std::vector<std::string>& candidates);
bool put_decision(RemoteCache& cache, const TuneKey& key, const DecisionRecord& decision);

}  // namespace toroid::tune
