/* A package runs on the caller's memory: all of it comes back, and an allocator that refuses is an error that loses nothing.
 * own_memory PACKAGE [logs]: one with a single f32 input of fixed sizes; logs: its calls are recorded, and messages say so. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "toroid_runtime.h"

#define CHECK(condition)                                                                                   \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, toroid_last_error());             \
      exit(1);                                                                                             \
    }                                                                                                      \
  } while (0)

struct memory {
  long live, live_bytes, calls;
  long refuse_from, refuse_to; /* numbers of calls */
  size_t skew;                 /* added to addresses: memory that is not aligned */
};

/* The block as malloc gave it stands before what is handed out. */
static void* take(void* user, size_t bytes, size_t alignment) {
  struct memory* m = user;
  const long call = m->calls++;
  if (call >= m->refuse_from && call < m->refuse_to) return NULL;
  char* block = malloc(bytes + 2 * alignment + sizeof(void*));
  if (!block) return NULL;
  uintptr_t at = ((uintptr_t)block + sizeof(void*) + alignment - 1) / alignment * alignment + m->skew;
  memcpy((char*)at - sizeof(void*), &block, sizeof(void*));
  ++m->live, m->live_bytes += (long)bytes;
  return (void*)at;
}

static void give(void* user, void* memory, size_t bytes, size_t alignment) {
  struct memory* m = user;
  void* block;
  (void)alignment;
  memcpy(&block, (char*)memory - sizeof(void*), sizeof(void*));
  free(block);
  --m->live, m->live_bytes -= (long)bytes;
}

static int messages = 0;
static void note(void* user, const char* message) {
  if (strlen(message) > 0) ++*(int*)user;
}

static toroid_tensor input_of(toroid_session* session) {
  toroid_value v;
  CHECK(toroid_session_input_count(session) == 1 && toroid_session_input(session, 0, &v) == TOROID_OK && v.dtype == TOROID_F32);
  toroid_tensor t = {0};
  size_t count = 1;
  t.dtype = v.dtype, t.rank = v.rank;
  for (int d = 0; d < v.rank; ++d) t.sizes[d] = v.least[d], count *= (size_t)v.least[d];
  t.bytes = count * sizeof(float);
  float* data = malloc(t.bytes);
  for (size_t i = 0; i < count; ++i) data[i] = (float)(i % 7) / 7;
  t.data = data;
  return t;
}

/* Opens, runs a few times and closes. Where something fails: its status, and the rest is closed all the same. */
static toroid_status whole(const char* path, char* results, size_t room, size_t* bytes) {
  toroid_package* package = NULL;
  toroid_session* session = NULL;
  toroid_status status = toroid_package_open(path, &package);
  if (status == TOROID_OK) status = toroid_session_open(package, NULL, &session);
  if (status == TOROID_OK) {
    toroid_tensor in = input_of(session);
    for (int call = 0; call < 3 && status == TOROID_OK; ++call) {
      toroid_tensor out = {0};
      status = toroid_session_run(session, &in, 1, &out, 1);
      if (status == TOROID_OK) {
        CHECK(out.bytes <= room);
        memcpy(results, out.data, out.bytes);
        *bytes = out.bytes;
      }
      toroid_tensor_release(&out);
    }
    free(in.data);
  }
  toroid_session_close(session);
  toroid_package_close(package);
  return status;
}

int main(int argc, char** argv) {
  static char expected[1 << 16], results[1 << 16];
  size_t length = 0, bytes = 0;
  CHECK(argc >= 2);
  const char* path = argv[1];
  toroid_set_log(note, &messages);
  CHECK(whole(path, expected, sizeof expected, &length) == TOROID_OK && length > 0);
  CHECK(messages > 0 || argc < 3);

  struct memory m = {0};
  const toroid_allocator own = {take, give, &m};
  CHECK(toroid_runtime_set_allocator(&own) == TOROID_OK);
  CHECK(whole(path, results, sizeof results, &bytes) == TOROID_OK && bytes == length && memcmp(results, expected, length) == 0);
  const long calls = m.calls;
  CHECK(calls > 0 && m.live == 0 && m.live_bytes == 0);

  /* One refusal is asked again; from one on all: an error, and all that there was comes back. */
  long errors = 0;
  for (long n = 0; n < calls; ++n) {
    m.calls = 0, m.refuse_from = n, m.refuse_to = n + 1;
    CHECK(whole(path, results, sizeof results, &bytes) == TOROID_OK && memcmp(results, expected, length) == 0);
    CHECK(m.live == 0 && m.live_bytes == 0);
    m.calls = 0, m.refuse_to = INT32_MAX;
    const toroid_status status = whole(path, results, sizeof results, &bytes);
    CHECK(status == TOROID_OK || status == TOROID_ENVIRONMENT_ERROR);
    errors += status != TOROID_OK;
    CHECK(status == TOROID_OK || strstr(toroid_last_error(), "memory") != NULL);
    CHECK(m.live == 0 && m.live_bytes == 0);
  }
  CHECK(errors > 0);

  /* A session goes on when there is memory again. */
  toroid_package* package = NULL;
  toroid_session* session = NULL;
  m.calls = 0, m.refuse_from = m.refuse_to = 0;
  CHECK(toroid_package_open(path, &package) == TOROID_OK && toroid_session_open(package, NULL, &session) == TOROID_OK);
  toroid_tensor in = input_of(session), out = {0};
  m.refuse_from = 0, m.refuse_to = INT32_MAX;
  CHECK(toroid_session_run(session, &in, 1, &out, 1) == TOROID_ENVIRONMENT_ERROR && out.data == NULL);
  m.refuse_to = 0;
  CHECK(toroid_session_run(session, &in, 1, &out, 1) == TOROID_OK && memcmp(out.data, expected, length) == 0);

  /* What an allocator gave goes back to it, also when another one has taken its place. */
  struct memory other = {0};
  const toroid_allocator another = {take, give, &other};
  CHECK(toroid_runtime_set_allocator(&another) == TOROID_OK);
  toroid_tensor second = {0};
  CHECK(toroid_session_run(session, &in, 1, &second, 1) == TOROID_OK && other.live > 0 && m.live > 0);
  toroid_tensor_release(&out), toroid_tensor_release(&second);
  toroid_session_close(session), toroid_package_close(package);
  CHECK(m.live == 0 && other.live == 0);

  /* Memory that is not aligned is refused and given back; so is half an allocator. */
  other.skew = sizeof(void*);
  CHECK(whole(path, results, sizeof results, &bytes) == TOROID_USER_ERROR && strstr(toroid_last_error(), "multiple of") != NULL);
  CHECK(other.live == 0);
  const toroid_allocator half = {take, NULL, &m};
  CHECK(toroid_runtime_set_allocator(&half) == TOROID_USER_ERROR);
  CHECK(toroid_runtime_set_allocator(NULL) == TOROID_OK);
  const long before = m.calls + other.calls;
  CHECK(whole(path, results, sizeof results, &bytes) == TOROID_OK && m.calls + other.calls == before);

  const int so_far = messages;
  toroid_set_log(NULL, NULL);
  CHECK(whole(path, results, sizeof results, &bytes) == TOROID_OK && messages == so_far);
  free(in.data);
  return 0;
}
