// SPDX-License-Identifier: Apache-2.0
// The entries of a sparse payload: extracting them, dealing them to owners and selecting again, for
// a collective that adds them at their owners.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/compressor.hpp"
#include "codec/sparse/largest.hpp"
#include "codec/sparse/value_coding.hpp"
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

/// The contents of a payload.
struct Entries {
  Selection selection;
  ValueForm form;         // of the values in the payload
  Magnitudes magnitudes;  // of values of 1 to 8 bits

  /// Says how some of the values are written so that they keep their bits. Valid as long as this.
  ValueCoding coding() const {
    return {form.bits, form.few() ? &magnitudes : nullptr, form.between};
  }
};

/// Indices and decoded values of a payload of topk, dgc, threshold or randomk for `count` values.
/// In kSentIndices and kSentValues (scratch.hpp).
/// @throws Error{wire} on a malformed payload
Entries sent_entries(CodecId codec, std::span<const std::byte> payload, std::size_t count,
                     Workspace& workspace);

/// sent_entries() of randomk.
Entries randomk_entries(std::span<const std::byte> payload, std::size_t count,
                        Workspace& workspace);

/// The entries of each part, with their indices within it, ascending; in kSelectedIndices and
/// kSelectedValues.
/// @pre parts.size() == deal.parts(); the selection's indices ascend and are below deal.count()
void deal_entries(const Selection& selection, const Deal& deal, Workspace& workspace,
                  std::span<Selection> parts);

/// Writes a payload of topk with the given entries. Values that were decoded from a payload are
/// encoded again exactly with Entries::coding(): the common exponent of halves can only get
/// smaller, and values of 1 to 8 bits keep their magnitudes.
/// @pre as write_sparse(), but the selection is in kSelectedIndices and kSelectedValues or outside
/// the workspace
std::size_t write_entries(const Selection& selection, std::size_t count, const ValueCoding& coding,
                          Workspace& workspace, std::span<std::byte> payload);

/// Writes a payload of topk with about the k largest values (about_largest(): up to k + k/20, never
/// zeros), or with all that are not zero if that is requested. If these would take more bytes than
/// all values of 16 or 32 bits without indices, writes all values.
/// @pre payload has room for max_sparse_bytes(values.size(), value_bits)
/// @throws Error{diverged} if a value is NaN or infinite
std::size_t write_largest(std::span<const float> values, std::size_t k, int value_bits,
                          Workspace& workspace, std::span<std::byte> payload);
inline constexpr std::size_t kAllNonzero = static_cast<std::size_t>(-1);

/// values[deal.index({part, i})] = v for each entry (i, v) of a payload of topk.
/// @throws Error{wire} on a malformed payload
void place_entries(std::span<const std::byte> payload, const Deal& deal, std::size_t part,
                   Workspace& workspace, std::span<float> values);

/// The fields of the head of a payload of topk.
struct PayloadHead {
  std::size_t entries = 0;
  int value_bits = 32;  // with 1 to 8 bits in the config also 16 or 32, where that is as short
};

/// @throws Error{wire} on a malformed payload
PayloadHead sparse_head(std::span<const std::byte> payload, std::size_t count);

}  // namespace eqt::codec
