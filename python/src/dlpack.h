// The binary interface of DLPack 1.x, as far as it is used here: https://dmlc.github.io/dlpack/latest/c_api.html.
#pragma once

#include <cstdint>

namespace toroid::python::dlpack {

inline constexpr uint32_t kMajor = 1, kMinor = 0;
inline constexpr uint64_t kReadOnly = 1, kCopied = 2;  // flags of Versioned

enum DeviceCode : int32_t { kCpu = 1, kCuda = 2 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct Version {
  uint32_t major, minor;
};

struct Place {
  int32_t type, index;
};

struct ElementType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Array {
  void* data;
  Place device;
  int32_t ndim;
  ElementType dtype;
  int64_t* shape;
  int64_t* strides;      // in elements; null (before version 1.2): row-major
  uint64_t byte_offset;  // of the first element
};

// What a capsule named "dltensor" holds.
struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed*);
};

// What a capsule named "dltensor_versioned" holds.
struct Versioned {
  Version version;
  void* context;
  void (*deleter)(Versioned*);
  uint64_t flags;
  Array array;
};

// What the capsule `__dlpack_c_exchange_api__` of a class of arrays holds: functions that need no Python call. Each returns 0, or -1 with a
// Python error set.
struct ExchangeApi {
  Version version;
  const ExchangeApi* previous;
  int (*allocate)(Array* like, Versioned** out, void* error_context, void (*set_error)(void*, const char*, const char*));
  int (*export_managed)(void* object, Versioned** out);
  int (*import_managed)(Versioned* given, void** out_object);  // takes `given` over
  int (*view)(void* object, Array* out);                       // valid while the object is
  int (*current_stream)(int32_t device_type, int32_t index, void** out);
};

}  // namespace toroid::python::dlpack
