// SPDX-License-Identifier: Apache-2.0
// Source   NumPy, "NEP 1: A simple file format for NumPy arrays" and numpy.lib.format, version 1.0

#include "metrics/gradient_file.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "metrics/output_file.hpp"

namespace eqt::metrics {
namespace {

using Json = nlohmann::ordered_json;

// Increased when a key of the layout file changes its meaning or is removed.
constexpr int kGradientSchema = 1;

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

/// Magic, version, length of the rest, and the rest: padded with spaces so that values begin at a
/// multiple of 64 bytes.
std::string npy_header(std::size_t count) {
  constexpr std::size_t kAlign = 64;
  constexpr std::string_view kMagic = "\x93NUMPY\x01";
  std::string about =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", count);
  const std::size_t before = kMagic.size() + 1 + sizeof(std::uint16_t);
  const std::size_t used = before + about.size() + 1;
  about.append((kAlign - used % kAlign) % kAlign, ' ');
  about += '\n';
  std::string header(kMagic);
  header += '\0';
  header += static_cast<char>(about.size() & 0xFFu);
  header += static_cast<char>(about.size() >> 8);
  return header + about;
}

std::string_view bytes_of(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Convolution kernels (out, in, rows, columns) are stored channels-last.
std::vector<std::int64_t> stored_shape(const std::vector<std::int64_t>& shape) {
  if (shape.size() != 4) return shape;
  return {shape[0], shape[2], shape[3], shape[1]};
}

Json tensors_of(const Layout& layout) {
  Json tensors = Json::array();
  for (const TensorSlice& slice : layout) {
    tensors.push_back({{"name", slice.name},
                       {"offset", slice.offset},
                       {"count", slice.count},
                       {"shape", slice.shape},
                       {"stored_shape", stored_shape(slice.shape)}});
  }
  return tensors;
}

}  // namespace

void write_npy(const std::string& path, std::span<const float> values) {
  const std::string header = npy_header(values.size());
  const std::array<std::string_view, 2> parts = {header, bytes_of(values)};
  write_atomically(path, parts);
}

std::string gradient_file_stem(const GradientRecord& record) {
  return fmt::format("step{:08}.rank{}", record.step, record.rank);
}

void write_gradient(const std::string& folder, const GradientRecord& record, const Layout& layout,
                    std::span<const float> values) {
  EQT_CHECK(values.size() == total_count(layout), "{} values for a layout of {}", values.size(),
            total_count(layout));
  const std::string stem = gradient_file_stem(record);
  const Json about = {{"schema", kGradientSchema}, {"file", stem + ".npy"},
                      {"step", record.step},       {"epoch", record.epoch},
                      {"rank", record.rank},       {"batch_size", record.batch_size},
                      {"values", values.size()},   {"tensors", tensors_of(layout)}};
  write_atomically(folder + "/" + stem + ".json", about.dump(1) + "\n");
  write_npy(folder + "/" + stem + ".npy", values);
}

}  // namespace eqt::metrics
