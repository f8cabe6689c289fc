// Packages with another manifest, whose hash is right.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"
#include "base/sha256.h"
#include "import/zip.h"
#include "package/manifest.h"
#include "package/zip_writer.h"

namespace toroid::test {

// Writes the package anew with this manifest.
inline void with_manifest(const std::string& from, const std::string& to, const std::string& json) {
  const FileBytes file{std::filesystem::path(from)};
  const auto zip = import::ZipArchive::open(file.span(), from);
  const std::string sum = sha256(json) + "  manifest.json\n";
  std::vector<package::ZipPart> parts{{package::kManifest, {json}}, {package::kManifestHash, {sum}}};
  for (auto& e : zip.entries())
    if (e.name != package::kManifest && e.name != package::kManifestHash) parts.push_back({std::string(e.name), {e.text()}});
  package::write_zip(to, parts);
}

// Writes the package anew with another value of the first field of a name.
inline void forge(const std::string& from, const std::string& to, const std::string& field, const std::string& value) {
  const FileBytes file{std::filesystem::path(from)};
  const auto zip = import::ZipArchive::open(file.span(), from);
  std::string json(zip.at(package::kManifest).text());
  const size_t key = json.find("\"" + field + "\": ");
  ASSERT_NE(key, json.npos) << field;
  const size_t begin = key + field.size() + 4;
  size_t end = begin;
  bool quoted = false;
  for (int depth = 0; quoted || depth > 0 || (json[end] != ',' && json[end] != '\n' && json[end] != '}'); ++end) {
    if (json[end] == '"') quoted = !quoted;
    if (!quoted && (json[end] == '[' || json[end] == '{')) ++depth;
    if (!quoted && (json[end] == ']' || json[end] == '}')) --depth;
  }
  json.replace(begin, end - begin, value);
  with_manifest(from, to, json);
}

}  // namespace toroid::test
