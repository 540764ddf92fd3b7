// SPDX-License-Identifier: Apache-2.0
#include "analyze/dumped_gradient.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "config/document.hpp"
#include "core/error.hpp"
#include "core/whole_file.hpp"
#include "data/npy_file.hpp"

namespace eqt::analyze {
namespace {

constexpr FileLimits kLayoutLimits{.what = "the layout of a gradient",
                                   .max_bytes = std::uint64_t{16} << 20,
                                   .remedy = "remove it to take the gradient as one tensor"};

template <typename... Args>
[[noreturn]] void refuse(const std::string& origin, fmt::format_string<Args...> format,
                         Args&&... args) {
  fail(Kind::data,
       "{}: expected the layout of a gradient as output.dump_gradients writes it, {}; remove it to "
       "take the gradient as one tensor",
       origin, fmt::format(format, std::forward<Args>(args)...));
}

std::uint64_t whole_number(const config::Json& object, const char* key, const std::string& origin) {
  if (!object.contains(key)) refuse(origin, "found no \"{}\" in {}", key, config::shown(object));
  const config::Json& value = object[key];
  if (!value.is_number_unsigned()) refuse(origin, "found {} as \"{}\"", config::shown(value), key);
  return value.get<std::uint64_t>();
}

std::vector<std::int64_t> shape_of(const config::Json& tensor, const std::string& origin) {
  if (!tensor.contains("shape") || !tensor["shape"].is_array())
    refuse(origin, "found no list \"shape\" in {}", config::shown(tensor));
  std::vector<std::int64_t> shape;
  for (const config::Json& extent : tensor["shape"]) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > INT32_MAX)
      refuse(origin, "found {} in a shape", config::shown(extent));
    shape.push_back(extent.get<std::int64_t>());
  }
  return shape;
}

/// Returns true if the extents multiply to `count`, without overflow.
bool spans(const std::vector<std::int64_t>& shape, std::uint64_t count) {
  std::uint64_t product = 1;
  for (const std::int64_t extent : shape) {
    const auto factor = static_cast<std::uint64_t>(extent);
    if (factor != 0 && product > count / factor) return false;
    product *= factor;
  }
  return product == count;
}

TensorSlice tensor_of(const config::Json& tensor, std::size_t offset, std::size_t values,
                      const std::string& origin) {
  if (!tensor.is_object() || !tensor.contains("name") || !tensor["name"].is_string())
    refuse(origin, "found a tensor without a name: {}", config::shown(tensor));
  TensorSlice slice{.name = tensor["name"].get<std::string>(),
                    .shape = shape_of(tensor, origin),
                    .offset = offset,
                    .count = whole_number(tensor, "count", origin)};
  if (whole_number(tensor, "offset", origin) != offset)
    refuse(origin, "found a gap or an overlap at tensor {}", config::shown_text(slice.name));
  if (slice.count == 0 || slice.count > values - offset)
    refuse(origin, "found tensors beyond the {} values of the gradient", values);
  if (!spans(slice.shape, slice.count))
    refuse(origin, "found a shape of tensor {} that does not hold {} values",
           config::shown_text(slice.name), slice.count);
  return slice;
}

config::Json parse_layout_document(const std::string& text, const std::string& origin) {
  try {
    return config::parse_document(text, origin, "layout");
  } catch (const Error& refusal) {
    throw Error(Kind::data, refusal.what());
  }
}

/// A gradient's values: one dimension of finite floats.
std::vector<float> read_values(const std::string& path) {
  constexpr std::size_t kMaxValues = std::size_t{1} << 31;
  const data::NpyFile file(path);
  if (file.type() != data::NpyType::float32 || file.shape().size() != 1 || file.size() == 0 ||
      file.size() > kMaxValues)
    fail(Kind::data,
         "{}: expected a NumPy file with one dimension of 1 to {} float32, found {} of shape {}; "
         "output.dump_gradients writes such files, as does numpy.save(FILE, "
         "x.astype('<f4').ravel())",
         path, kMaxValues, data::name_of(file.type()), data::shape_text(file.shape()));
  std::vector<float> values(file.size());
  file.read(0, values);
  const auto bad = std::ranges::find_if(values, [](float x) { return !std::isfinite(x); });
  if (bad != values.end())
    fail(Kind::data, "{}: expected finite values, found {} at index {}; dump another step", path,
         *bad, bad - values.begin());
  return values;
}

}  // namespace

void parse_gradient_layout(const std::string& text, const std::string& origin,
                           DumpedGradient& gradient) {
  const std::size_t count = gradient.values.size();
  const config::Json document = parse_layout_document(text, origin);
  if (!document.contains("tensors") || !document["tensors"].is_array())
    refuse(origin, "found no list \"tensors\"");
  gradient.layout.clear();
  for (const config::Json& tensor : document["tensors"])
    gradient.layout.push_back(tensor_of(tensor, total_count(gradient.layout), count, origin));
  if (total_count(gradient.layout) != count)
    refuse(origin, "found tensors of {} values for a gradient of {}", total_count(gradient.layout),
           count);
  gradient.has_layout = true;
  if (document.contains("step")) gradient.step = whole_number(document, "step", origin);
  if (document.contains("rank")) gradient.rank = whole_number(document, "rank", origin);
}

DumpedGradient read_dumped_gradient(const std::string& path) {
  DumpedGradient gradient;
  gradient.values = read_values(path);
  const std::size_t count = gradient.values.size();
  gradient.layout = {{.name = "gradient",
                      .shape = {static_cast<std::int64_t>(count)},
                      .offset = 0,
                      .count = count}};
  const std::string beside = std::filesystem::path(path).replace_extension(".json").string();
  std::error_code error;
  if (std::filesystem::exists(beside, error))
    parse_gradient_layout(read_whole_file(beside, kLayoutLimits), beside, gradient);
  return gradient;
}

}  // namespace eqt::analyze
