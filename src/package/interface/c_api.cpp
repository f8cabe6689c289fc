#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>

#include "base/check.h"
#include "base/options.h"
#include "device/cpu/host_memory.h"
#include "package/package.h"
#include "tensor/tensor_impl.h"
#include "toroid/device_stream.h"
#include "toroid/log.h"
#include "toroid/random.h"
#include "toroid_runtime.h"

using toroid::Device;
using toroid::DType;
using toroid::Tensor;

struct toroid_package {
  std::shared_ptr<toroid::package::Package> package;
  std::vector<std::string> weights;
};

struct toroid_session {
  std::shared_ptr<toroid::package::Package> package;
  Device device;
  std::shared_ptr<toroid::package::Loaded> program;
  std::shared_ptr<toroid::package::Session> session;
  std::vector<std::string> output_names;
};

namespace {

static_assert(TOROID_C128 + 1 == toroid::kDTypeCount && static_cast<int>(DType::C128) == TOROID_C128, "the numbers of dtypes");

thread_local std::string last_error;

// What an error is for a caller in C.
template <class F>
toroid_status guarded(F&& body) noexcept {
  const auto said = [](toroid_status status, const char* what) {
    try {
      last_error = what;
    } catch (...) {
      last_error.clear();
    }
    return status;
  };
  try {
    body();
    return TOROID_OK;
  } catch (const toroid::UserError& e) {
    return said(TOROID_USER_ERROR, e.what());
  } catch (const toroid::EnvironmentError& e) {
    return said(TOROID_ENVIRONMENT_ERROR, e.what());
  } catch (const std::bad_alloc&) {
    return said(TOROID_ENVIRONMENT_ERROR, "there is not enough memory");
  } catch (const std::length_error&) {
    return said(TOROID_ENVIRONMENT_ERROR, "there is not enough memory");
  } catch (const std::system_error& e) {  // the file system, too
    return said(TOROID_ENVIRONMENT_ERROR, e.what());
  } catch (const std::exception& e) {
    return said(TOROID_INTERNAL_ERROR, e.what());
  } catch (...) {
    return said(TOROID_INTERNAL_ERROR, "an error of an unknown kind");
  }
}

void describe(const toroid::TensorType& t, toroid_value& out) {
  TOROID_USER_CHECK(t.sizes.size() <= TOROID_MAX_RANK, "a tensor has {} dimensions, the interface in C takes {}", t.sizes.size(),
                    TOROID_MAX_RANK);
  out.dtype = static_cast<toroid_dtype>(t.dtype);
  out.rank = static_cast<int32_t>(t.sizes.size());
  for (size_t d = 0; d < t.sizes.size(); ++d) {
    const auto fixed = t.sizes[d].maybe_constant();
    out.least[d] = fixed ? *fixed : t.sizes[d].node()->lo, out.greatest[d] = fixed ? *fixed : t.sizes[d].node()->hi;
  }
}

// What a caller must give is not null. A function that gives a number or a name has none then.
void require(const void* given, const char* name) { TOROID_USER_CHECK(given, "{} is null", name); }

Tensor view_of(const toroid_tensor& t, const std::string& what, const Device& device = Device::cpu()) {
  TOROID_USER_CHECK(t.rank >= 0 && t.rank <= TOROID_MAX_RANK, "{}: the rank is {}, expected 0 to {}", what, t.rank, TOROID_MAX_RANK);
  TOROID_USER_CHECK(t.dtype >= 0 && t.dtype < toroid::kDTypeCount, "{}: {} is no dtype", what, static_cast<int>(t.dtype));
  const std::vector<int64_t> sizes(t.sizes, t.sizes + t.rank);
  size_t bytes = toroid::size_of(static_cast<DType>(t.dtype));
  for (int64_t n : sizes)
    TOROID_USER_CHECK(n >= 0 && !__builtin_mul_overflow(bytes, static_cast<size_t>(n), &bytes), "{}: {} is no size", what, n);
  TOROID_USER_CHECK(t.bytes >= bytes, "{} needs {} bytes for its sizes, {} were given", what, bytes, t.bytes);
  TOROID_USER_CHECK(t.data || bytes == 0, "{}: data is null, {} bytes are needed", what, bytes);
  return Tensor::from_blob(t.data, sizes, static_cast<DType>(t.dtype), {}, {}, device);
}

std::vector<Tensor> views_of(const toroid_session& session, const toroid_tensor* given, size_t count, const Device& device) {
  const auto& inputs = session.program->inputs();
  std::string names;
  for (auto& in : inputs) names += (names.empty() ? "" : ", ") + in.name;
  TOROID_USER_CHECK(count == inputs.size(), "the program takes {} tensors ({}), {} were given", inputs.size(), names, count);
  if (count > 0) require(given, "inputs");
  std::vector<Tensor> out;
  for (size_t i = 0; i < count; ++i) {
    const std::string what = fmt::format("input {} (\"{}\")", i, inputs[i].name);
    const auto wanted = static_cast<toroid_dtype>(inputs[i].type.dtype);
    const bool known = given[i].dtype >= 0 && given[i].dtype < toroid::kDTypeCount;
    TOROID_USER_CHECK(!known || given[i].dtype == wanted, "{} must have dtype {}, it has {}", what, name_of(inputs[i].type.dtype),
                      name_of(static_cast<DType>(given[i].dtype)));
    out.push_back(view_of(given[i], what, device));
  }
  return out;
}

toroid_session* open_session(const std::shared_ptr<toroid::package::Package>& package, const char* entry, const Device& device,
                             std::shared_ptr<toroid::package::Memory> memory) {
  const toroid::package::Entry& which = package->entry(entry ? entry : "");
  auto made = std::make_unique<toroid_session>();
  made->package = package, made->device = device;
  made->program = package->load(which.name, device);
  made->session = made->program->session(std::move(memory));
  for (auto& o : which.outputs) made->output_names.push_back(o.name);
  made->output_names.resize(made->program->outputs().size());
  return made.release();
}

void check_room(const toroid_session& session, size_t outputs) {
  TOROID_USER_CHECK(outputs == session.program->outputs().size(), "the program gives {} outputs, there is room for {}",
                    session.program->outputs().size(), outputs);
}

// The result as the caller wants it.
void hand_out(const Tensor& result, size_t place, toroid_tensor& out) {
  if (!result.defined()) {
    out = {nullptr, 0, TOROID_F32, -1, {}, nullptr};
    return;
  }
  auto held = std::make_unique<Tensor>(result.contiguous());
  const auto& sizes = held->sizes();
  const size_t bytes = static_cast<size_t>(held->numel()) * toroid::size_of(held->dtype());
  TOROID_USER_CHECK(sizes.size() <= TOROID_MAX_RANK, "output {} has {} dimensions, the interface in C takes {}", place, sizes.size(),
                    TOROID_MAX_RANK);
  TOROID_USER_CHECK(!out.data || out.bytes >= bytes, "output {} needs {} bytes, {} were given", place, bytes, out.bytes);
  out.dtype = static_cast<toroid_dtype>(held->dtype());
  out.rank = static_cast<int32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), out.sizes);
  if (out.data) {
    const Tensor there = Tensor::from_blob(out.data, sizes, held->dtype(), {}, {}, held->device());
    if (bytes > 0) toroid::copy_elements(*held, there);
    out.bytes = bytes, out.owner = nullptr;
    return;
  }
  out.data = held->raw_data(), out.bytes = bytes, out.owner = held.release();
}

}  // namespace

int toroid_runtime_abi(void) { return TOROID_RUNTIME_ABI; }

void toroid_package_formats(int64_t* oldest, int64_t* newest) {
  if (oldest) *oldest = toroid::package::kOldestFormat;
  if (newest) *newest = toroid::package::kFormat;
}

const char* toroid_last_error(void) { return last_error.c_str(); }

toroid_status toroid_set_threads(int threads) {
  return guarded([&] { toroid::set_option("threads", std::to_string(threads)); });
}

toroid_status toroid_manual_seed(int64_t seed) {
  return guarded([&] { toroid::manual_seed(seed); });
}

void toroid_set_log(void (*sink)(void* user, const char* message), void* user) {
  if (!sink) return void(toroid::set_log_sink({}));
  toroid::set_log_sink([sink, user](toroid::Artifact artifact, std::string_view message) {
    sink(user, fmt::format("{}: {}", toroid::name_of(artifact), message).c_str());
  });
}

toroid_status toroid_runtime_set_allocator(const toroid_allocator* allocator) {
  return guarded([&] {
    if (!allocator) return toroid::device::set_host_allocator(nullptr);
    const toroid::device::HostAllocator own{allocator->allocate, allocator->release, allocator->user};
    toroid::device::set_host_allocator(&own);
  });
}

toroid_status toroid_package_open(const char* path, toroid_package** out) { return toroid_package_open_with(path, nullptr, out); }

toroid_status toroid_package_open_with(const char* path, const char* weights_folder, toroid_package** out) {
  if (out) *out = nullptr;
  return guarded([&] {
    require(path, "path"), require(out, "out");
    auto made = std::make_unique<toroid_package>();
    made->package = toroid::package::Package::open(path, weights_folder ? weights_folder : "");
    made->weights = toroid::package::swappable_weights(made->package->manifest());
    *out = made.release();
  });
}

void toroid_package_close(toroid_package* package) { delete package; }

size_t toroid_package_entry_count(const toroid_package* package) { return package ? package->package->manifest().entries.size() : 0; }

const char* toroid_package_entry_name(const toroid_package* package, size_t index) {
  if (!package) return nullptr;
  const auto& entries = package->package->manifest().entries;
  return index < entries.size() ? entries[index].name.c_str() : nullptr;
}

toroid_status toroid_package_verify(const toroid_package* package) {
  return guarded([&] {
    require(package, "package");
    package->package->verify();
  });
}

size_t toroid_package_weight_count(const toroid_package* package) { return package ? package->weights.size() : 0; }

const char* toroid_package_weight_name(const toroid_package* package, size_t index) {
  return package && index < package->weights.size() ? package->weights[index].c_str() : nullptr;
}

toroid_status toroid_package_swap_weights(toroid_package* package, const char* const* names, const toroid_tensor* tensors, size_t count) {
  return guarded([&] {
    require(package, "package");
    if (count > 0) require(names, "names"), require(tensors, "tensors");
    toroid::package::Tensors given;
    for (size_t i = 0; i < count; ++i) require(names[i], "a name");
    for (size_t i = 0; i < count; ++i)
      TOROID_USER_CHECK(given.emplace(names[i], view_of(tensors[i], fmt::format("weight {}", i))).second,
                        "the weight \"{}\" is given twice", names[i]);
    package->package->swap_weights(given);
  });
}

toroid_status toroid_package_swap_weights_file(toroid_package* package, const char* path) {
  return toroid_package_swap_weights_file_of(package, nullptr, path);
}

toroid_status toroid_package_swap_weights_file_of(toroid_package* package, const char* entry, const char* path) {
  return guarded([&] {
    require(package, "package"), require(path, "path");
    package->package->swap_weights(std::filesystem::path(path), entry ? entry : "");
  });
}

toroid_status toroid_session_open(toroid_package* package, const char* entry, toroid_session** out) {
  return toroid_session_open_on(package, entry, "cpu", out);
}

toroid_status toroid_session_open_on(toroid_package* package, const char* entry, const char* device, toroid_session** out) {
  if (out) *out = nullptr;
  return guarded([&] {
    require(package, "package"), require(out, "out");
    const Device where = device ? toroid::device_from_name(device) : Device::cpu();
    *out = open_session(package->package, entry, where, std::make_shared<toroid::package::Memory>());
  });
}

toroid_status toroid_session_open_entry(toroid_session* session, const char* entry, toroid_session** out) {
  if (out) *out = nullptr;
  return guarded([&] {
    require(session, "session"), require(out, "out");
    *out = open_session(session->package, entry, session->device, session->session->memory());
  });
}

void toroid_session_close(toroid_session* session) { delete session; }

size_t toroid_session_input_count(const toroid_session* session) { return session ? session->program->inputs().size() : 0; }
size_t toroid_session_output_count(const toroid_session* session) { return session ? session->program->outputs().size() : 0; }

toroid_status toroid_session_input(const toroid_session* session, size_t index, toroid_value* out) {
  return guarded([&] {
    require(session, "session"), require(out, "out");
    const auto& inputs = session->program->inputs();
    TOROID_USER_CHECK(index < inputs.size(), "there is no input {}: the program has {}", index, inputs.size());
    *out = {};
    describe(inputs[index].type, *out);
    out->name = inputs[index].name.c_str(), out->written = inputs[index].written;
  });
}

toroid_status toroid_session_output(const toroid_session* session, size_t index, toroid_value* out) {
  return guarded([&] {
    require(session, "session"), require(out, "out");
    const auto& outputs = session->program->outputs();
    TOROID_USER_CHECK(index < outputs.size(), "there is no output {}: the program has {}", index, outputs.size());
    *out = {};
    if (session->program->defined_outputs()[index])
      describe(outputs[index], *out);
    else
      out->rank = -1;
    out->name = session->output_names[index].c_str();
  });
}

toroid_status toroid_session_run(toroid_session* session, const toroid_tensor* inputs, size_t input_count, toroid_tensor* outputs,
                                 size_t output_count) {
  return guarded([&] {
    require(session, "session");
    check_room(*session, output_count);
    if (output_count > 0) require(outputs, "outputs");
    const std::vector<Tensor> host = views_of(*session, inputs, input_count, Device::cpu());
    std::vector<Tensor> given;
    for (auto& t : host) given.push_back(t.to(session->device));
    const std::vector<Tensor> results = session->session->run(given);
    for (size_t i = 0; i < input_count && session->device.is_cuda(); ++i)
      if (session->program->inputs()[i].written) toroid::copy_elements(given[i], host[i]);
    for (size_t i = 0; i < results.size(); ++i) hand_out(results[i].defined() ? results[i].to(Device::cpu()) : results[i], i, outputs[i]);
  });
}

toroid_status toroid_session_run_on(toroid_session* session, void* stream, const toroid_tensor* inputs, size_t input_count,
                                    toroid_tensor* outputs, size_t output_count) {
  return guarded([&] {
    require(session, "session");
    TOROID_USER_CHECK(session->device.is_cuda(), "the session runs on {}; expected one that toroid_session_open_on() opened on a GPU",
                      toroid::to_string(session->device));
    check_room(*session, output_count);
    if (output_count > 0) require(outputs, "outputs");
    const toroid::StreamGuard order(toroid::Stream::adopt(session->device, stream));
    const std::vector<Tensor> results = session->session->run(views_of(*session, inputs, input_count, session->device));
    for (size_t i = 0; i < results.size(); ++i) hand_out(results[i], i, outputs[i]);
  });
}

void toroid_tensor_release(toroid_tensor* tensor) {
  if (!tensor) return;
  delete static_cast<Tensor*>(tensor->owner);
  tensor->owner = nullptr, tensor->data = nullptr, tensor->bytes = 0;
}
