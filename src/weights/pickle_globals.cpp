// SPDX-License-Identifier: Apache-2.0
#include "weights/pickle_globals.hpp"

#include <array>

#include "core/error.hpp"

namespace eqt::weights {
namespace {

struct Entry {
  std::string_view module;
  KnownGlobal known;
};

constexpr std::array kEntries = {
    Entry{"collections", {"OrderedDict", Global::ordered_dict}},
    Entry{"torch._utils", {"_rebuild_tensor", Global::tensor}},
    Entry{"torch._utils", {"_rebuild_tensor_v2", Global::tensor}},
    Entry{"torch._utils", {"_rebuild_parameter", Global::parameter}},
    Entry{"torch.jit._pickle", {"restore_type_tag", Global::type_tag}},
    Entry{"torch", {"Size", Global::size}},
    Entry{"torch", {"HalfStorage", Global::storage, ElementType::float16}},
    Entry{"torch", {"BFloat16Storage", Global::storage, ElementType::bfloat16}},
    Entry{"torch", {"FloatStorage", Global::storage, ElementType::float32}},
    Entry{"torch", {"DoubleStorage", Global::storage, ElementType::float64}},
    Entry{"torch", {"ByteStorage", Global::storage, ElementType::uint8}},
    Entry{"torch", {"CharStorage", Global::storage, ElementType::int8}},
    Entry{"torch", {"ShortStorage", Global::storage, ElementType::int16}},
    Entry{"torch", {"IntStorage", Global::storage, ElementType::int32}},
    Entry{"torch", {"LongStorage", Global::storage, ElementType::int64}},
    Entry{"torch", {"BoolStorage", Global::storage, ElementType::boolean}},
};

}  // namespace

std::optional<KnownGlobal> find_global(std::string_view module, std::string_view name) {
  for (const Entry& entry : kEntries)
    if (entry.module == module && entry.known.name == name) return entry.known;
  return {};
}

std::string_view storage_class(ElementType type) {
  for (const Entry& entry : kEntries)
    if (entry.known.global == Global::storage && entry.known.type == type) return entry.known.name;
  fail(Kind::bug, "expected a type of elements, found {}", static_cast<int>(type));
}

}  // namespace eqt::weights
