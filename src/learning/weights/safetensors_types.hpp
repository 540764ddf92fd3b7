// SPDX-License-Identifier: Apache-2.0
// Names in the headers of safetensors files. Private to this room.

#pragma once

#include <algorithm>
#include <string_view>

#include "core/error.hpp"
#include "weights/element_type.hpp"

namespace eqt::weights {

inline constexpr std::string_view kSafetensorsMetadata = "__metadata__";

struct SafetensorsType {
  std::string_view name;
  ElementType type;
};
inline constexpr SafetensorsType kSafetensorsTypes[] = {
    {"F32", ElementType::float32}, {"F16", ElementType::float16}, {"BF16", ElementType::bfloat16},
    {"F64", ElementType::float64}, {"I64", ElementType::int64},   {"I32", ElementType::int32},
    {"I16", ElementType::int16},   {"I8", ElementType::int8},     {"U8", ElementType::uint8},
    {"BOOL", ElementType::boolean}};

inline std::string_view safetensors_name(ElementType type) {
  const auto* const found = std::ranges::find(kSafetensorsTypes, type, &SafetensorsType::type);
  EQT_CHECK(found != std::end(kSafetensorsTypes), "no name for {}", element_name(type));
  return found->name;
}

}  // namespace eqt::weights
