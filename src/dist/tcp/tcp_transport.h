// Messages over the TCP connections between the ranks of a world.
#pragma once

#include <memory>
#include <vector>

#include "dist/messages/transport.h"
#include "dist/tcp/socket.h"

namespace toroid::distributed::tcp {

// connections: by rank, the own one empty (rendezvous.h).
std::unique_ptr<messages::Transport> make_transport(int rank, std::vector<Socket> connections);

}  // namespace toroid::distributed::tcp
