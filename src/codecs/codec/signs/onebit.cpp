// SPDX-License-Identifier: Apache-2.0
// onebit: one bit per value, and per matrix row the means of the negative values and of the others.
//
// Source   F. Seide et al., INTERSPEECH 2014, 1-bit stochastic gradient descent and its application
//          to data-parallel distributed training of speech DNNs, section 3.2
// Symbols  n values x in R rows of n / R; of each row the means m- of its values below zero and m+
//          of the others, a side without values having mean 0
// Method   out = x < 0 ? m- : m+, with m- and m+ of x's row
// Payload  R u32, then R pairs (m-, m+) of float32, then n sign bits, set below zero
// Size     4 + 8 R + ceil(n / 8) bytes
// Error    |out - in|^2 = |in|^2 - sum over rows (k- m-^2 + k+ m+^2) for sides of k values: the
//          least of all codes of one bit and threshold 0. Needs error feedback.
// Differs  from the paper, which ties the means per column of W in z = W^T v + a, that is per
//          output unit: our weights are stored (out, in) row-major, so there the same values make a
//          row. (For z = W v its columns would be the inputs.) A vector, a segment without a matrix
//          view, and a matrix with rows of fewer than kMinColumns values are one row: the pairs
//          would outweigh the bits.

#include <algorithm>
#include <cmath>
#include <string_view>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/signs/sign_kernels.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::string_view kName = "onebit";
constexpr std::size_t kMinColumns = 8;
constexpr std::size_t kHeaderBytes = sizeof(std::uint32_t);
constexpr std::size_t kPairBytes = 2 * sizeof(float);
std::size_t payload_bytes(std::size_t count, std::size_t rows) {
  return count == 0 ? 0 : kHeaderBytes + kPairBytes * rows + plane_bytes(count);
}

float mean_of(const PartialSums& sums, std::size_t count) {
  return count == 0 ? 0.0f : static_cast<float>(sums.total() / static_cast<double>(count));
}

/// Packs the signs after the sums of each row, while its values are still in the cache.
class TrailingPlane {
 public:
  TrailingPlane(std::span<const float> values, std::byte* plane) : values_(values), plane_(plane) {}

  /// Packs whole bytes up to value `end`, and everything at the last value.
  void pack_until(std::size_t end) {
    if (end < values_.size()) end -= end % kSignBlock;
    if (end <= packed_) return;
    const auto part = values_.subspan(packed_, end - packed_);
    if (pack_signs(part, plane_ + packed_ / 8) > kLargestFiniteBits) require_finite(kName, values_);
    packed_ = end;
  }

 private:
  std::span<const float> values_;
  std::byte* plane_;
  std::size_t packed_ = 0;  // a multiple of kSignBlock, or all
};

class OneBit final : public Compressor {
 public:
  CodecId id() const noexcept override { return CodecId::onebit; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override { return {.needs_feedback = true, .granule = 0}; }
  std::optional<double> variance_bound(std::size_t count) const override {
    return count == 0 ? 0.0 : 1 - 1 / static_cast<double>(count);
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return payload_bytes(count, std::max<std::size_t>(1, count / kMinColumns));
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;
};

/// Rows that share their means; `rows` is the matrix's, 0 for a vector.
std::size_t rows_with_means(std::size_t count, std::size_t rows) {
  EQT_CHECK(rows == 0 || count % rows == 0, "{} values in {} rows", count, rows);
  EQT_CHECK(rows <= UINT32_MAX, "a matrix of {} rows", rows);
  return rows == 0 || count / rows < kMinColumns ? 1 : rows;
}

std::size_t OneBit::encode(std::span<const float> values, const EncodeContext& context,
                           Workspace& /*workspace*/, std::span<std::byte> payload) const {
  if (values.empty()) return 0;
  const std::size_t rows = rows_with_means(values.size(), context.rows);
  const std::size_t bytes = payload_bytes(values.size(), rows);
  require_room(payload, bytes, values.size());
  store(payload.data(), static_cast<std::uint32_t>(rows));
  std::byte* pair = payload.data() + kHeaderBytes;
  TrailingPlane plane(values, pair + kPairBytes * rows);
  const std::size_t columns = values.size() / rows;
  for (std::size_t begin = 0; begin < values.size(); begin += columns, pair += kPairBytes) {
    SideSums sides;
    for (std::size_t i = 0; i < columns; i += kSignBlock) {
      const std::size_t part = std::min(kSignBlock, columns - i);
      add_sides(values.subspan(begin + i, part), sides);
      plane.pack_until(begin + i + part);
    }
    store(pair, mean_of(sides.negative, sides.negatives));
    store(pair + sizeof(float), mean_of(sides.other, columns - sides.negatives));
  }
  return bytes;
}

/// @return the rows that the payload names
std::size_t checked_rows(std::span<const std::byte> payload, std::size_t count) {
  if (payload.size() < kHeaderBytes) require_length(kName, payload, payload_bytes(count, 1), count);
  const std::size_t rows = load<std::uint32_t>(payload.data());
  if (rows == 0 || count % rows != 0 || (rows > 1 && count / rows < kMinColumns)) {
    fail(Kind::wire,
         "compressor onebit: expected rows that divide {} values into {} or more each, found {} "
         "rows; the ranks run different configs or builds",
         count, kMinColumns, rows);
  }
  require_length(kName, payload, payload_bytes(count, rows), count);
  return rows;
}

void OneBit::decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                        std::span<float> sum) const {
  if (sum.empty()) return require_length(kName, payload, 0, 0);
  const std::size_t rows = checked_rows(payload, sum.size());
  const std::size_t columns = sum.size() / rows;
  const std::byte* pair = payload.data() + kHeaderBytes;
  const auto plane = payload.subspan(kHeaderBytes + kPairBytes * rows);
  require_clear_end(kName, plane, sum.size());
  for (std::size_t row = 0; row < rows; ++row, pair += kPairBytes) {
    const auto negative = load<float>(pair);
    const auto other = load<float>(pair + sizeof(float));
    if (!std::isfinite(negative) || !std::isfinite(other) || negative > 0 || other < 0) {
      fail(Kind::wire,
           "compressor onebit: expected a finite mean of at most 0 and one of at least 0 for row "
           "{}, found {} and {}; check the network and memory",
           row, negative, other);
    }
    add_signs(plane, row * columns, scale * negative, scale * other,
              sum.subspan(row * columns, columns));
  }
}

}  // namespace

const CompressorRow kOneBit = {.name = "onebit",
                               .about = "the sign, means of both sides of zero per row (1-bit SGD)",
                               .id = CodecId::onebit,
                               .make = make_a<OneBit>,
                               .colour = "#ff4b87"};

}  // namespace eqt::codec
