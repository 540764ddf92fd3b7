// SPDX-License-Identifier: Apache-2.0
#include "weights/element_type.hpp"

#include <array>

namespace eqt::weights {
namespace {

struct Facts {
  std::string_view name;
  std::size_t bytes;
};

// In the order of ElementType.
constexpr std::array<Facts, 12> kFacts = {{{"float16", 2},
                                           {"bfloat16", 2},
                                           {"float32", 4},
                                           {"float64", 8},
                                           {"uint8", 1},
                                           {"int8", 1},
                                           {"int16", 2},
                                           {"int32", 4},
                                           {"int64", 8},
                                           {"bool", 1},
                                           {"complex64", 8},
                                           {"complex128", 16}}};

}  // namespace

std::size_t element_bytes(ElementType type) noexcept {
  return kFacts[static_cast<std::size_t>(type)].bytes;
}

std::string_view element_name(ElementType type) noexcept {
  return kFacts[static_cast<std::size_t>(type)].name;
}

}  // namespace eqt::weights
