// What the core asks of libtoroid_mpi.so, which alone is linked with MPI: messages between the processes of one world, in C.
//
// Functions that give an int32_t give 0, or a code of MPI that `describe` puts in words. None but `start` and `stop` waits. They may be
// called from any thread.
#pragma once

#include <stdint.h>

// Goes up with each change of the struct.
#define TOROID_MPI_ABI 1

extern "C" {

struct ToroidMpi {
  int32_t abi;
  // Starts MPI where the program has not, and gives this library's messages a communicator of their own. All processes call it.
  int32_t (*start)(int32_t* rank, int32_t* size, int32_t* most_tag);
  // Ends MPI where `start` has started it. All processes call it, with no request open.
  int32_t (*stop)(void);
  // Ends all processes of the world. Does not return.
  void (*abort)(int32_t code);

  // A request stays open until `test` says that it is done; until then the memory belongs to MPI. bytes: at most 2^31 - 1.
  int32_t (*send)(const void* data, int64_t bytes, int32_t to, int32_t tag, void** request);
  // Of at most `bytes`.
  int32_t (*receive)(void* data, int64_t bytes, int32_t from, int32_t tag, void** request);
  // done: 1 where it is, and `request` is then null; received: the bytes that came. A request that was cancelled is done, too.
  int32_t (*test)(void** request, int32_t* done, int64_t* received);
  // Asks that a receive be given up; `test` says when MPI has let go of its memory.
  int32_t (*cancel)(void* request);
  // Whether a message with this tag waits to be received (found: 1), from whom, and its size.
  int32_t (*find)(int32_t tag, int32_t* found, int32_t* from, int64_t* bytes);

  // In words, at most `size` bytes with the zero at their end.
  void (*describe)(int32_t code, char* text, int32_t size);
  // The library and its version, a line.
  void (*version)(char* text, int32_t size);
};

// The one symbol of the library.
const struct ToroidMpi* toroid_mpi(void);
}
