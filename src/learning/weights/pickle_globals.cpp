// SPDX-License-Identifier: Apache-2.0
#include "weights/pickle_globals.hpp"

#include <array>

#include "core/error.hpp"

namespace eqt::weights {
namespace {

enum In : std::uint8_t { kWeights = 1, kScripts = 2, kBoth = 3 };

struct Entry {
  std::string_view module;
  KnownGlobal known;
  In in = kBoth;
};

constexpr std::array kEntries = {
    Entry{"collections", {"OrderedDict", Global::ordered_dict}},
    Entry{"torch._utils", {"_rebuild_tensor", Global::tensor}, kWeights},
    Entry{"torch._utils", {"_rebuild_tensor_v2", Global::tensor}},
    Entry{"torch._utils", {"_rebuild_parameter", Global::parameter}, kWeights},
    Entry{"torch.jit._pickle", {"restore_type_tag", Global::type_tag}},
    Entry{"torch.jit._pickle", {"build_intlist", Global::typed_list}, kScripts},
    Entry{"torch.jit._pickle", {"build_tensorlist", Global::typed_list}, kScripts},
    Entry{"torch.jit._pickle", {"build_doublelist", Global::typed_list}, kScripts},
    Entry{"torch.jit._pickle", {"build_boollist", Global::typed_list}, kScripts},
    Entry{"torch", {"device", Global::device}, kScripts},
    Entry{"builtins", {"complex", Global::complex}, kScripts},
    Entry{"torch", {"Size", Global::size}, kWeights},
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
    Entry{"torch", {"ComplexFloatStorage", Global::storage, ElementType::complex64}, kScripts},
    Entry{"torch", {"ComplexDoubleStorage", Global::storage, ElementType::complex128}, kScripts},
};

}  // namespace

std::optional<KnownGlobal> find_global(std::string_view module, std::string_view name,
                                       Holds holds) {
  const In wanted = holds == Holds::script ? kScripts : kWeights;
  for (const Entry& entry : kEntries)
    if ((entry.in & wanted) != 0 && entry.module == module && entry.known.name == name)
      return entry.known;
  return {};
}

std::string_view storage_class(ElementType type) {
  for (const Entry& entry : kEntries)
    if (entry.known.global == Global::storage && entry.known.type == type) return entry.known.name;
  fail(Kind::bug, "expected a type of elements, found {}", static_cast<int>(type));
}

}  // namespace eqt::weights
