#include "cli/verify_training.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/files.h"
#include "import/json.h"
#include "import/safetensors.h"
#include "toroid/model.h"
#include "toroid/train/by_name.h"

namespace toroid::cli {
namespace {

namespace fs = std::filesystem;

train::Arguments arguments_of(const import::Json& object) {
  train::Arguments out;
  for (size_t i = 0; i < object.size(); ++i) {
    const import::Json v = object.value(i);
    train::ArgumentValue& value = out[std::string(object.key(i))];
    switch (v.kind()) {
      case import::JsonKind::Bool:
        value = v.as_bool();
        break;
      case import::JsonKind::String:
        value = std::string(v.as_str());
        break;
      case import::JsonKind::Array: {
        std::vector<double> list;
        for (size_t k = 0; k < v.size(); ++k) list.push_back(v[k].as_double());
        value = std::move(list);
        break;
      }
      default:
        value = v.as_double();
    }
  }
  return out;
}

// The largest difference of two tensors' elements, and the largest element of the second one.
std::pair<double, double> apart(const Tensor& got, const Tensor& expected) {
  const auto a = got.to_vector(), b = expected.to_vector();
  double most = 0, largest = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    most = std::max(most, std::isnan(a[i]) != std::isnan(b[i]) ? INFINITY : std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return {most, largest};
}

}  // namespace

bool is_optimizer_case(const fs::path& file) {
  return file.extension() == ".safetensors" && import::SafetensorsReader::open(file).metadata().count("optimizer") > 0;
}

std::vector<std::string> check_optimizer(const fs::path& file) {
  const auto reader = import::SafetensorsReader::open(file);
  const auto& metadata = reader.metadata();
  TOROID_USER_CHECK(metadata.count("config"), "{}: the metadata name an optimizer, but no \"config\"", file.string());
  const auto config = import::JsonDocument::parse(metadata.at("config"), file.string());
  const auto tensors = load_tensors(file.string());
  const auto at = [&](const std::string& name) {
    const auto it = tensors.find(name);
    TOROID_USER_CHECK(it != tensors.end(), "{}: the tensor \"{}\" is missing", file.string(), name);
    return it->second;
  };
  std::vector<Tensor> parameters;
  while (tensors.count(fmt::format("start.{}", parameters.size()))) parameters.push_back(at(fmt::format("start.{}", parameters.size())));
  const std::vector<Tensor> start = [&] {
    std::vector<Tensor> copies;
    for (auto& p : parameters) copies.push_back(Tensor::of(p.to_vector(), p.sizes(), p.dtype()));
    return copies;
  }();
  const auto optimizer = train::make_optimizer(metadata.at("optimizer"), parameters, arguments_of(config.root()));
  for (int64_t step = 0; tensors.count(fmt::format("grad.{}.0", step)); ++step) {
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < parameters.size(); ++i) gradients.push_back(at(fmt::format("grad.{}.{}", step, i)));
    optimizer->step(gradients);
  }
  const bool in_half = metadata.at("optimizer") == "Muon";
  std::vector<std::string> lines;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Tensor end = at(fmt::format("end.{}", i));
    const auto [difference, largest] = apart(parameters[i], end);
    const double allowed = in_half ? 1e-2 * apart(start[i], end).first : 1e-6 * std::max(largest, apart(end, start[i]).second);
    if (!(difference <= allowed))
      lines.push_back(fmt::format("parameter {}: the largest error is {:.3g} where {:.3g} is allowed", i, difference, allowed));
  }
  return lines;
}

bool is_schedules_case(const fs::path& file) { return file.filename() == "schedules.json"; }

std::vector<std::string> check_schedules(const fs::path& file) {
  const std::string text = read_file(file);
  const auto document = import::JsonDocument::parse(text, file.string());
  std::vector<std::string> lines;
  for (size_t i = 0; i < document.root().size(); ++i) {
    const import::Json entry = document.root()[i];
    const std::string name(entry.at("name").as_str());
    const train::Schedule schedule = train::make_schedule(name, entry.at("lr").as_double(), arguments_of(entry.at("args")));
    const import::Json rates = entry.at("rates");
    for (size_t step = 0; step < rates.size(); ++step) {
      const double got = schedule(static_cast<int64_t>(step)), expected = rates[step].as_double();
      if (std::abs(got - expected) <= 1e-6 * std::abs(expected)) continue;
      lines.push_back(fmt::format("{}: the rate of step {} is {}, expected {}", name, step, got, expected));
      break;
    }
  }
  return lines;
}

}  // namespace toroid::cli
