/* Runs packages that `toroid compile` has made: C99, for libtoroid_runtime.so and libtoroid_runtime.a.
 *
 * Functions that can fail return 0 or a toroid_status, and toroid_last_error() says what was wrong; no exception, signal or output leaves
 * the library, not for null pointers either. Packages may be used by several threads at once. A session is one caller's: its calls take
 * turns where the program keeps something from run to run, and sessions of a package know nothing of each other, those of
 * toroid_session_open_entry() aside. Handles must be closed; a session may outlive its package.
 */
#ifndef TOROID_RUNTIME_H
#define TOROID_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOROID_RUNTIME_ABI 1 /* of this header; it changes where a program that was compiled with another one would break */
#define TOROID_MAX_RANK 16

#define TOROID_API __attribute__((visibility("default")))

typedef enum toroid_status {
  TOROID_OK = 0,
  TOROID_USER_ERROR = 1,        /* what was passed does not fit: a path, a damaged file, a size */
  TOROID_ENVIRONMENT_ERROR = 2, /* this machine lacks something that the package needs */
  TOROID_INTERNAL_ERROR = 3     /* a bug of Toroid */
} toroid_status;

typedef enum toroid_dtype {
  TOROID_F32,
  TOROID_F64,
  TOROID_F16,
  TOROID_BF16,
  TOROID_I8,
  TOROID_I16,
  TOROID_I32,
  TOROID_I64,
  TOROID_U8,
  TOROID_U16,
  TOROID_U32,
  TOROID_U64,
  TOROID_BOOL,
  TOROID_C64,
  TOROID_C128
} toroid_dtype;

typedef struct toroid_package toroid_package;
typedef struct toroid_session toroid_session;

/* An input or output of a program. Names live as long as the session. */
typedef struct toroid_value {
  const char* name;
  toroid_dtype dtype;
  int32_t rank;                   /* -1: an output that is no tensor */
  int64_t least[TOROID_MAX_RANK]; /* sizes that a call may have, inclusive; equal where the size is fixed */
  int64_t greatest[TOROID_MAX_RANK];
  int32_t written; /* a run writes to this input */
} toroid_value;

/* Row-major elements, in memory of the host but for toroid_session_run_on(). */
typedef struct toroid_tensor {
  void* data;
  size_t bytes; /* of data; of inputs at least what the sizes need */
  toroid_dtype dtype;
  int32_t rank;
  int64_t sizes[TOROID_MAX_RANK];
  void* owner; /* memory of the library, which toroid_tensor_release() gives back; null: the caller's */
} toroid_tensor;

/* TOROID_RUNTIME_ABI of the library. */
TOROID_API int toroid_runtime_abi(void);
/* The versions of packages that it reads. */
TOROID_API void toroid_package_formats(int64_t* oldest, int64_t* newest);
/* What was wrong with the last call of this thread that failed; valid until the next call of the thread. */
TOROID_API const char* toroid_last_error(void);
/* Threads that run kernels, for the whole process; 0: one a processor. Before the first run. */
TOROID_API toroid_status toroid_set_threads(int threads);
/* Begins the process's stream of random numbers: what is sampled is repeated for an equal seed and an equal order of calls, in C++ too.
 * All sessions draw from it, in the order in which they come. Without it each process begins alike. */
TOROID_API toroid_status toroid_manual_seed(int64_t seed);
/* Takes log messages (lines without an end) in place of stderr; null: none. It may be called from several threads at once. */
TOROID_API void toroid_set_log(void (*sink)(void* user, const char* message), void* user);

/* Where memory of tensors comes from: intermediate and given results, what a program keeps, weights that are copied or made anew. Weights
 * of a file stay its pages, and the library's bookkeeping is malloc's. Called by any thread, several at once. allocate gives null where
 * there is not enough: the library gives back what it can and asks once more, then the call is a TOROID_ENVIRONMENT_ERROR that loses
 * nothing. release gets what allocate was asked for. */
typedef struct toroid_allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment); /* at a multiple of alignment, a power of two */
  void (*release)(void* user, void* memory, size_t bytes, size_t alignment);
  void* user;
} toroid_allocator;
/* From now on; null: malloc again. What an allocator gave goes back to it, also after another one has taken its place. */
TOROID_API toroid_status toroid_runtime_set_allocator(const toroid_allocator* allocator);

/* Maps a file, which must not be written to while it is open, and checks it. */
TOROID_API toroid_status toroid_package_open(const char* path, toroid_package** out);
/* The same of a package that has weights beside it (toroid compile --weights beside), which lie in another folder than `weights` beside the
 * package; null: there. They are looked for when a session is opened. */
TOROID_API toroid_status toroid_package_open_with(const char* path, const char* weights_folder, toroid_package** out);
TOROID_API void toroid_package_close(toroid_package* package);
TOROID_API size_t toroid_package_entry_count(const toroid_package* package);
/* Null where there is none of this number. Lives as long as the package. */
TOROID_API const char* toroid_package_entry_name(const toroid_package* package, size_t index);
/* Hashes every part. Opening and loading hash all but the elements of weights. */
TOROID_API toroid_status toroid_package_verify(const toroid_package* package);

/* Weights, of a package that was made with --swappable; otherwise there are none. */
TOROID_API size_t toroid_package_weight_count(const toroid_package* package);
/* Null where there is none of this number. Lives as long as the package. */
TOROID_API const char* toroid_package_weight_name(const toroid_package* package, size_t index);
/* Gives the programs other weights while sessions run: calls that have begun end with the weights that they began with, later ones have the
 * new ones. What was folded or packed is made anew before, and the elements are copied. Where it fails, nothing has changed. */
TOROID_API toroid_status toroid_package_swap_weights(toroid_package* package, const char* const* names, const toroid_tensor* tensors,
                                                     size_t count);
/* Those of a safetensors file, a folder of shards or their index. */
TOROID_API toroid_status toroid_package_swap_weights_file(toroid_package* package, const char* path);
/* The same of a file of one entry's model, with the names that weights have there: of entries with different weights under one name the
 * package has ENTRY/NAME. entry: null or empty: the names are the package's. */
TOROID_API toroid_status toroid_package_swap_weights_file_of(toroid_package* package, const char* entry, const char* path);

/* entry: its name, or null for the only one. Later sessions of an entry share its code and weights. */
TOROID_API toroid_status toroid_session_open(toroid_package* package, const char* entry, toroid_session** out);
/* The same on a device: "cpu" (or null), "cuda", "cuda:<number>". */
TOROID_API toroid_status toroid_session_open_on(toroid_package* package, const char* entry, const char* device, toroid_session** out);
/* Another entry of a session's package, on the session's device and memory: what both keep in common (the caches of a prefill and of a
 * decoding step) is the same for both, and calls of both take turns. Either may be closed first. */
TOROID_API toroid_status toroid_session_open_entry(toroid_session* session, const char* entry, toroid_session** out);
TOROID_API void toroid_session_close(toroid_session* session);
TOROID_API size_t toroid_session_input_count(const toroid_session* session);
TOROID_API size_t toroid_session_output_count(const toroid_session* session);
TOROID_API toroid_status toroid_session_input(const toroid_session* session, size_t index, toroid_value* out);
TOROID_API toroid_status toroid_session_output(const toroid_session* session, size_t index, toroid_value* out);
/* Runs the program on as many inputs, and fills in as many outputs, as it has. A session on a GPU runs on
 * copies, and what it writes to inputs is copied back. Where outputs[i].data is null the
 * library gives memory, which toroid_tensor_release() takes back; else the result is written there, which must be large enough. */
TOROID_API toroid_status toroid_session_run(toroid_session* session, const toroid_tensor* inputs, size_t input_count,
                                            toroid_tensor* outputs, size_t output_count);
/* The same of a session on a GPU with all tensors in its memory, in the order of a stream of the caller's: a CUstream (cudaStream_t) of the
 * GPU's primary context, null: the legacy default stream. It returns before the work is done: elements of inputs and outputs belong to the
 * stream until then. What toroid_tensor_release() takes back is used again in the order of the stream. */
TOROID_API toroid_status toroid_session_run_on(toroid_session* session, void* stream, const toroid_tensor* inputs, size_t input_count,
                                               toroid_tensor* outputs, size_t output_count);
TOROID_API void toroid_tensor_release(toroid_tensor* tensor);

#ifdef __cplusplus
}
#endif

#endif
