// SPDX-License-Identifier: Apache-2.0
#include "data/npy_file.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/error.hpp"
#include "core/to_float.hpp"

namespace eqt::data {
namespace {

/// IEEE 754 binary16, by its bits.
struct Half {
  std::uint16_t bits;
};

template <typename Stored>
Stored load(const std::byte* from, bool swapped) {
  std::array<std::byte, sizeof(Stored)> bytes;
  std::memcpy(bytes.data(), from, bytes.size());
  if (swapped) std::ranges::reverse(bytes);
  return std::bit_cast<Stored>(bytes);
}

template <typename To, typename Stored>
To number(Stored value) {
  if constexpr (std::is_same_v<Stored, Half>)
    return static_cast<To>(half_to_float(value.bits));
  else if constexpr (std::is_same_v<To, std::int64_t> && std::is_same_v<Stored, std::uint64_t>)
    return static_cast<To>(
        std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()));
  else if constexpr (std::is_same_v<To, float> && std::is_same_v<Stored, double>)
    return double_to_float(value);
  else
    return static_cast<To>(value);
}

template <typename Stored, typename To>
void convert_from(const std::byte* from, bool swapped, std::span<To> out) {
  for (To& value : out) {
    value = number<To>(load<Stored>(from, swapped));
    from += sizeof(Stored);
  }
}

/// A truth is a byte; all but 0 are true.
template <typename To>
void convert_truths(const std::byte* from, std::span<To> out) {
  for (To& value : out) value = *from++ == std::byte{0} ? To{0} : To{1};
}

bool order_matters(std::span<const std::size_t> shape) {
  return std::ranges::count_if(shape, [](std::size_t size) { return size > 1; }) > 1;
}

}  // namespace

NpyFile::NpyFile(const std::filesystem::path& file)
    : path_(file.string()), file_(file), header_(parse_npy_header(file_.bytes(), path_)) {
  if (header_.fortran_order && order_matters(header_.shape))
    fail(Kind::data,
         "{}: expected an array in row-major order (C), found Fortran's order of shape {}; save "
         "numpy.ascontiguousarray(x)",
         path_, shape_text(header_.shape));
}

template <typename To>
void NpyFile::convert(std::size_t first, std::span<To> out) const {
  EQT_CHECK(first <= size() && out.size() <= size() - first, "values {} to {} of {}", first,
            first + out.size(), size());
  file_.require_whole();
  const std::byte* const from = file_.bytes().data() + header_.begin + first * bytes_of(type());
  const bool swapped = header_.big_endian != (std::endian::native == std::endian::big);
  switch (type()) {
    case NpyType::boolean:
      return convert_truths(from, out);
    case NpyType::int8:
      return convert_from<std::int8_t>(from, swapped, out);
    case NpyType::int16:
      return convert_from<std::int16_t>(from, swapped, out);
    case NpyType::int32:
      return convert_from<std::int32_t>(from, swapped, out);
    case NpyType::int64:
      return convert_from<std::int64_t>(from, swapped, out);
    case NpyType::uint8:
      return convert_from<std::uint8_t>(from, swapped, out);
    case NpyType::uint16:
      return convert_from<std::uint16_t>(from, swapped, out);
    case NpyType::uint32:
      return convert_from<std::uint32_t>(from, swapped, out);
    case NpyType::uint64:
      return convert_from<std::uint64_t>(from, swapped, out);
    case NpyType::float16:
      if constexpr (std::is_floating_point_v<To>) return convert_from<Half>(from, swapped, out);
      break;
    case NpyType::float32:
      if constexpr (std::is_floating_point_v<To>) return convert_from<float>(from, swapped, out);
      break;
    case NpyType::float64:
      if constexpr (std::is_floating_point_v<To>) return convert_from<double>(from, swapped, out);
      break;
  }
  fail(Kind::bug, "{} are read as whole numbers", name_of(type()));
}

void NpyFile::read(std::size_t first, std::span<float> out) const { convert(first, out); }
void NpyFile::read(std::size_t first, std::span<double> out) const { convert(first, out); }
void NpyFile::read(std::size_t first, std::span<std::int64_t> out) const { convert(first, out); }

std::string shape_text(std::span<const std::size_t> shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace eqt::data
