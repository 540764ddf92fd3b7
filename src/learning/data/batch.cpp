// SPDX-License-Identifier: Apache-2.0
#include "data/batch.hpp"

#include <fmt/ranges.h>

#include <array>

namespace eqt::data {
namespace {

constexpr std::array<Named<ElementType>, 3> kTypes = {{
    {ElementType::float32, "float32", "32-bit floating point"},
    {ElementType::uint8, "uint8", "bytes"},
    {ElementType::int64, "int64", "64-bit integers"},
}};

std::size_t bytes_of(ElementType type) {
  switch (type) {
    case ElementType::float32:
      return sizeof(float);
    case ElementType::uint8:
      return 1;
    case ElementType::int64:
      return sizeof(std::int64_t);
  }
  return 0;
}

}  // namespace

std::span<const Named<ElementType>> names_of(ElementType) { return kTypes; }

std::size_t ArraySpec::values() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape)
    count *= static_cast<std::size_t>(extent >= 0 ? extent : longest);
  return count;
}

std::size_t ArraySpec::bytes() const { return values() * bytes_of(type); }

std::string text_of(const ArraySpec& spec) {
  std::vector<std::string> sides;
  for (const std::int64_t side : spec.shape)
    sides.push_back(side < 0 && spec.longest > 0 ? fmt::format("up to {}", spec.longest)
                                                 : std::to_string(side));
  const std::string below = spec.bound > 0 ? fmt::format(" below {}", spec.bound) : "";
  return fmt::format("{} ({}{}, [{}])", spec.name, eqt::name_of(spec.type), below,
                     fmt::join(sides, ", "));
}

std::string text_of(std::span<const ArraySpec> specs) {
  std::string text;
  for (const ArraySpec& spec : specs) (text += text.empty() ? "" : ", ") += text_of(spec);
  return text.empty() ? "none" : text;
}

}  // namespace eqt::data
