// SPDX-License-Identifier: Apache-2.0
// Divides the values of a run among several owners.

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::codec {

/// Divides `count` values among `parts` owners: of each group of `parts` neighbours every owner has
/// one, in an order that is rotated by a hash of (key, group). So any range of neighbours is shared
/// evenly up to two values, and a pattern that repeats in the index affects all owners alike. The
/// large values of a gradient are spread evenly for any structure of the tensor, and the owner of a
/// value never changes.
class Deal {
 public:
  struct Place {
    std::size_t part = 0;  // its owner
    std::size_t at = 0;    // which of its values, in the order of the indices
  };

  Deal() = default;
  /// @pre parts >= 1, count < 2^32
  Deal(std::size_t count, std::size_t parts, std::uint64_t key)
      : count_(static_cast<std::uint32_t>(count)),
        parts_(static_cast<std::uint32_t>(parts)),
        key_(mix64(key)) {
    EQT_CHECK(parts >= 1 && count <= UINT32_MAX, "{} values for {} owners", count, parts);
  }

  std::size_t count() const noexcept { return count_; }
  std::size_t parts() const noexcept { return parts_; }

  /// Number of values of a part.
  std::size_t size_of(std::size_t part) const noexcept {
    const std::uint32_t groups = count_ / parts_;
    return groups + static_cast<std::size_t>(index({part, groups}) < count_);
  }

  Place place(std::size_t index) const noexcept {
    const auto i = static_cast<std::uint32_t>(index);
    const std::uint32_t group = i / parts_;
    const std::uint32_t part = i - group * parts_ + rotation(group);
    return {part < parts_ ? part : part - parts_, group};
  }

  /// The inverse of place().
  std::size_t index(Place place) const noexcept {
    const auto group = static_cast<std::uint32_t>(place.at);
    const std::uint32_t turned = static_cast<std::uint32_t>(place.part) + parts_ - rotation(group);
    return std::size_t{group} * parts_ + (turned < parts_ ? turned : turned - parts_);
  }

 private:
  /// The result is below parts_.
  std::uint32_t rotation(std::uint32_t group) const noexcept {
    return static_cast<std::uint32_t>((mix64(key_ ^ group) >> 32) * parts_ >> 32);
  }

  std::uint32_t count_ = 0;
  std::uint32_t parts_ = 1;
  std::uint64_t key_ = 0;
};

}  // namespace eqt::codec
