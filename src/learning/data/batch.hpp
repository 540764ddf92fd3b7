// SPDX-License-Identifier: Apache-2.0
// Batches: named, typed arrays whose first dimension is the sample. No torch.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/catalogue.hpp"
#include "core/error.hpp"

namespace eqt::data {

enum class ElementType : std::uint8_t { float32, uint8, int64 };
std::span<const Named<ElementType>> names_of(ElementType);

/// An ArraySpec says what one sample has in an array.
struct ArraySpec {
  std::string name;  // "images", "tokens", "mask", "x"
  ElementType type = ElementType::float32;
  std::vector<std::int64_t> shape = {};  // -1: differs from batch to batch; empty: a single number
  std::int64_t longest = 0;              // what a dimension of -1 is at most
  std::int64_t bound = 0;                // int64: values are in [0, bound), or kIgnored; 0 = any

  /// Values of a sample, at most.
  std::size_t values() const;
  /// Memory of a sample, at most.
  std::size_t bytes() const;
  bool operator==(const ArraySpec&) const = default;
};

/// A target that counts for nothing, such as that of a token that only fills up a text.
inline constexpr std::int64_t kIgnored = -100;

/// "tokens (int64, [-1])", for messages.
std::string text_of(const ArraySpec& spec);
/// Returns the texts of several specs, with commas between them.
std::string text_of(std::span<const ArraySpec> specs);

/// The values of some samples.
struct Array {
  ArraySpec spec;
  std::vector<std::int64_t> shape;  // (n, ...); empty: there is no array
  std::variant<std::vector<float>, std::vector<std::uint8_t>, std::vector<std::int64_t>> values;

  bool empty() const { return shape.empty(); }
  /// Samples.
  std::size_t size() const { return empty() ? 0 : static_cast<std::size_t>(shape.front()); }

  /// @pre T is the C++ type of spec.type
  template <typename T>
  std::span<const T> get() const {
    const auto* const found = std::get_if<std::vector<T>>(&values);
    EQT_CHECK(found != nullptr, "array {} has values of another type", spec.name);
    return *found;
  }
  template <typename T>
  std::span<T> get() {
    auto* const found = std::get_if<std::vector<T>>(&values);
    EQT_CHECK(found != nullptr, "array {} has values of another type", spec.name);
    return *found;
  }

  /// Becomes an array of so many samples, in the memory that it has; the caller writes all values.
  /// @param of with no dimension of -1
  template <typename T>
  std::span<T> prepare(const ArraySpec& of, std::size_t samples) {
    return prepare<T>(of, samples, of.shape);
  }
  /// Prepares an array of samples that have the shape `sample` in this batch.
  template <typename T>
  std::span<T> prepare(const ArraySpec& of, std::size_t samples,
                       std::span<const std::int64_t> sample);
  /// There is no array; keeps the memory.
  void clear() { shape.clear(); }
};

/// A batch has what a network computes from and what it should find.
struct Batch {
  std::vector<Array> inputs;  // as Dataset::inputs()
  Array targets;              // as Dataset::target(); empty if samples have none

  std::size_t size() const { return inputs.empty() ? targets.size() : inputs.front().size(); }
};

template <typename T>
std::span<T> Array::prepare(const ArraySpec& of, std::size_t samples,
                            std::span<const std::int64_t> sample) {
  std::size_t count = samples;
  for (const std::int64_t extent : sample) {
    EQT_CHECK(extent >= 0, "a batch of {} needs the size of each dimension", of.name);
    count *= static_cast<std::size_t>(extent);
  }
  spec = of;
  shape.assign(1, static_cast<std::int64_t>(samples));
  shape.insert(shape.end(), sample.begin(), sample.end());
  if (!std::holds_alternative<std::vector<T>>(values)) values.emplace<std::vector<T>>();
  auto& all = std::get<std::vector<T>>(values);
  all.resize(count);
  return all;
}

}  // namespace eqt::data
