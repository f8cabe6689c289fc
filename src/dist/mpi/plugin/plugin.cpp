// libtoroid_mpi.so: the functions of dist/mpi/plugin.h by MPI.
#include "dist/mpi/plugin.h"

#define OMPI_SKIP_MPICXX 1  // the C++ bindings, which MPI has given up
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace {

// One call at a time: programs that started MPI themselves need not have asked for more than MPI_THREAD_SERIALIZED.
std::mutex mutex;
MPI_Comm messages = MPI_COMM_NULL;
bool is_starter = false;

constexpr int32_t kTooFewThreads = -1;

int32_t start(int32_t* rank, int32_t* size, int32_t* most_tag) {
  std::lock_guard lock(mutex);
  int is_started = 0, level = MPI_THREAD_SINGLE, code = MPI_Initialized(&is_started);
  if (code == MPI_SUCCESS && !is_started) {
    code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    is_starter = code == MPI_SUCCESS;
  } else if (code == MPI_SUCCESS) {
    code = MPI_Query_thread(&level);
  }
  if (code != MPI_SUCCESS) return code;
  if (level < MPI_THREAD_SERIALIZED) return kTooFewThreads;
  if ((code = MPI_Comm_dup(MPI_COMM_WORLD, &messages)) != MPI_SUCCESS) return code;
  MPI_Comm_set_errhandler(messages, MPI_ERRORS_RETURN);
  MPI_Comm_rank(messages, rank);
  MPI_Comm_size(messages, size);
  int* most = nullptr;
  int is_set = 0;
  MPI_Comm_get_attr(messages, MPI_TAG_UB, &most, &is_set);
  *most_tag = is_set ? *most : 32767;
  return 0;
}

int32_t stop() {
  std::lock_guard lock(mutex);
  int code = MPI_Comm_free(&messages);
  if (code == MPI_SUCCESS && is_starter) code = MPI_Finalize();
  return code;
}

void end_all(int32_t code) { MPI_Abort(MPI_COMM_WORLD, code); }

// `code` of a call that filled `made`.
int32_t opened(int code, MPI_Request made, void** request) {
  *request = code == MPI_SUCCESS ? new MPI_Request(made) : nullptr;
  return code;
}

int32_t send(const void* data, int64_t bytes, int32_t to, int32_t tag, void** request) {
  std::lock_guard lock(mutex);
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, to, tag, messages, &made);
  return opened(code, made, request);
}

int32_t receive(void* data, int64_t bytes, int32_t from, int32_t tag, void** request) {
  std::lock_guard lock(mutex);
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(data, static_cast<int>(bytes), MPI_BYTE, from, tag, messages, &made);
  return opened(code, made, request);
}

int32_t test(void** request, int32_t* done, int64_t* received) {
  std::lock_guard lock(mutex);
  auto* open = static_cast<MPI_Request*>(*request);
  MPI_Status status;
  int flag = 0, count = 0;
  const int code = MPI_Test(open, &flag, &status);
  *done = flag;
  *received = 0;
  if (code != MPI_SUCCESS || !flag) return code;
  int is_cancelled = 0;
  MPI_Test_cancelled(&status, &is_cancelled);
  if (!is_cancelled) MPI_Get_count(&status, MPI_BYTE, &count);
  *received = count;
  delete open;
  *request = nullptr;
  return 0;
}

int32_t cancel(void* request) {
  std::lock_guard lock(mutex);
  return MPI_Cancel(static_cast<MPI_Request*>(request));
}

int32_t find(int32_t tag, int32_t* found, int32_t* from, int64_t* bytes) {
  std::lock_guard lock(mutex);
  MPI_Status status;
  int flag = 0, count = 0;
  const int code = MPI_Iprobe(MPI_ANY_SOURCE, tag, messages, &flag, &status);
  *found = flag;
  if (code != MPI_SUCCESS || !flag) return code;
  MPI_Get_count(&status, MPI_BYTE, &count);
  *from = status.MPI_SOURCE;
  *bytes = count;
  return 0;
}

void copy(const char* from, char* text, int32_t size) { std::snprintf(text, static_cast<size_t>(size), "%s", from); }

void describe(int32_t code, char* text, int32_t size) {
  if (code == kTooFewThreads)
    return copy("the program has started MPI itself, with less than MPI_THREAD_SERIALIZED; ask MPI_Init_thread for that", text, size);
  char said[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, said, &length);
  copy(said, text, size);
}

void version(char* text, int32_t size) {
  char said[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(said, &length);
  if (char* end = std::strpbrk(said, ",\n")) *end = '\0';
  copy(said, text, size);
}

constexpr ToroidMpi kFunctions = {TOROID_MPI_ABI, start, stop, end_all, send, receive, test, cancel, find, describe, version};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ToroidMpi* toroid_mpi(void) { return &kFunctions; }
