// SPDX-License-Identifier: Apache-2.0
// Top-k, DGC's codec and threshold: the values of largest magnitude with their indices.
//
// Source   top-k: A. F. Aji and K. Heafield, EMNLP 2017, arXiv:1704.05021; its contraction:
//          S. Stich et al., NeurIPS 2018, arXiv:1809.07599; DGC: Y. Lin et al., ICLR 2018,
//          arXiv:1712.01887, whose momentum correction is in the collective room; a fixed
//          threshold: N. Strom, Interspeech 2015
// Symbols  d values, k = max(1, floor(density d)), tau threshold
// Method   top-k, DGC: exactly k, the lowest index first among equals. Threshold, tau given: all
//          |x| > tau, but the ceil(d / 2) largest if they are more; tau = 0: down to a threshold
//          that k values reach, k ... k + k/20 of them, and no zeros
// Payload  sparse.hpp
// Size     about k (log2(d / k) + 1.5 + w) / 8 + 4 bytes with w bits a value; with 1 to 8 of them
//          also the magnitudes, 2 + 2^w bytes or 6
// Error    |in - out|^2 <= (1 - k'/d) |in|^2 for k' sent, deterministic, biased: needs error
//          feedback. Values of 16 bits add at most 2^-22 |in|^2; with 1 to 8 bits it is always
//          below |in|^2
// Differs from DGC, which estimates the threshold from a sample: here the sample only narrows the
//          search, and the selection is exact

#include "codec/sparse/sparse.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/sparse/largest.hpp"
#include "codec/sparse/scratch.hpp"
#include "codec/sparse/value_coding.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

double checked_density(double density, std::string_view name) {
  if (!(density > 0 && density <= 1)) {
    fail(Kind::usage, "compressor {}: expected a density above 0 and up to 1, found {}; try 0.01",
         name, density);
  }
  return density;
}

/// k for `count` values.
std::size_t entries(double density, std::size_t count) {
  const auto share = static_cast<std::size_t>(density * static_cast<double>(count));
  return std::clamp<std::size_t>(share, 1, count);
}

float checked_threshold(double threshold) {
  const auto rounded = static_cast<float>(threshold);
  if (!(std::isfinite(rounded) && rounded >= 0)) {
    fail(Kind::usage,
         "compressor threshold: expected a finite threshold of at least 0, found {}; try 0, which "
         "derives it from the density",
         threshold);
  }
  return rounded;
}

/// sum[index] += scale * value for each index. The places are far apart in memory, so a block of
/// them is prefetched before the first is needed.
class ScatterAdd {
 public:
  ScatterAdd(const std::byte* values, float scale, std::span<float> sum)
      : values_(values), scale_(scale), sum_(sum) {}

  void take(std::size_t index) {
    __builtin_prefetch(&sum_[index], 1);
    block_[waiting_++] = index;
    if (waiting_ == kBlock) flush();
  }

  void flush() {
    for (std::size_t i = 0; i < waiting_; ++i) {
      sum_[block_[i]] += scale_ * load<float>(values_ + i * sizeof(float));
    }
    values_ += waiting_ * sizeof(float);
    waiting_ = 0;
  }

 private:
  static constexpr std::size_t kBlock = 128;

  const std::byte* values_;  // of the first index that is not added yet
  float scale_;
  std::span<float> sum_;
  std::size_t block_[kBlock];
  std::size_t waiting_ = 0;
};

class Sparse : public Compressor {
 public:
  Sparse(const CompressorRow& row, const CompressorOptions& options)
      : row_(row),
        density_(checked_density(options.density, row.name)),
        value_bits_(checked_value_bits(options.value_bits, row.name)) {}

  CodecId id() const noexcept override { return row_.id; }
  std::uint8_t format_version() const noexcept override { return 3; }
  Properties properties() const noexcept override {
    return {.sparse = true,
            .has_entries = true,
            .needs_feedback = true,
            .forgets_sent = row_.id == CodecId::dgc,
            .granule = 0};
  }

  /// The bound holds for every density that a context may have.
  std::size_t max_payload_bytes(std::size_t count) const override {
    return max_sparse_bytes(count, value_bits_);
  }

  std::optional<double> variance_bound(std::size_t count) const override {
    if (count == 0) return 0.0;
    if (value_bits_ <= kMostFewBits) return few_bits_variance(count);
    const double left_out =
        1 - static_cast<double>(entries(density_, count)) / static_cast<double>(count);
    return left_out + rounding_variance(value_bits_);
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override {
    EQT_CHECK(payload.size() >= max_payload_bytes(values.size()),
              "a payload buffer of {} bytes for {} values", payload.size(), values.size());
    if (values.empty()) return 0;
    const double density = checked_density(context.density.value_or(density_), row_.name);
    const std::size_t k = entries(density, values.size());
    const auto selection = select(values, k, workspace);
    if (!selection) require_finite(row_.name, values);
    return write_sparse(*selection, values.size(), {value_bits_}, workspace, payload.data());
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override {
    const SparsePayload open = open_sparse(payload, sum.size());
    if (open.k == 0) return;
    const std::byte* values = as_float32(open.values, open.k, open.form, workspace);
    ScatterAdd add(values, scale, sum);
    for_each_entry(open, [&](std::size_t index, std::size_t /*entry*/) { add.take(index); });
    add.flush();
  }

 protected:
  virtual std::optional<Selection> select(std::span<const float> values, std::size_t k,
                                          Workspace& workspace) const {
    return largest_magnitudes(values, k, workspace);
  }

 private:
  const CompressorRow& row_;
  double density_;
  int value_bits_;
};

class Threshold final : public Sparse {
 public:
  Threshold(const CompressorRow& row, const CompressorOptions& options)
      : Sparse(row, options), threshold_(checked_threshold(options.threshold)) {}

  std::uint8_t format_version() const noexcept override { return 2; }
  std::optional<double> variance_bound(std::size_t count) const override {
    if (threshold_ > 0) return {};
    return Sparse::variance_bound(count);
  }

 protected:
  std::optional<Selection> select(std::span<const float> values, std::size_t k,
                                  Workspace& workspace) const override {
    if (threshold_ == 0) return about_largest(values, k, workspace);
    return above_threshold(values, threshold_, (values.size() + 1) / 2, workspace);
  }

 private:
  float threshold_;  // 0: from the density
};

}  // namespace

std::size_t sparse_head_bytes(std::size_t k) {
  return (static_cast<std::size_t>(std::bit_width(k | 1)) + 6) / 7 + 2;
}

std::size_t max_sparse_bytes(std::size_t count, int value_bits) {
  if (count == 0) return 0;
  // With the parameter of rice_bits() a coded set takes at most one bit per value.
  return sparse_head_bytes(count) + max_value_bytes(count, value_bits) + count / 8 + 2;
}

std::size_t write_sparse(const Selection& selection, std::size_t count, const ValueCoding& coding,
                         Workspace& workspace, std::byte* to) {
  const std::size_t k = selection.indices.size();
  auto coded = selection.indices;
  if (2 * k > count) {
    coded = absent_indices(coded, count, workspace.array(kAbsentIndices, count));
  }
  const int bits = rice_bits(coded, count);
  const ValueForm form = shortest_form(k, coding);
  std::byte* at = write_count(k, to);
  store(at++, static_cast<std::uint8_t>(bits));
  store(at++, form.byte());
  at += write_remainders(coded, bits, at);
  write_values(selection.values, coding, form, at);
  at += value_bytes(k, form);
  at += write_quotients(coded, bits, at);
  return static_cast<std::size_t>(at - to);
}

SparsePayload open_sparse(std::span<const std::byte> payload, std::size_t count) {
  if (count == 0 && payload.empty()) return {};
  auto rest = payload;
  const std::size_t k = take_count(rest);
  if (k > count || count == 0) {
    fail(Kind::wire,
         "sparse payload: expected at most {} entries, found {}; the ranks run different configs "
         "or builds",
         count, k);
  }
  const int bits = take_byte(rest);
  if (bits > kMaxRiceBits) {
    fail(Kind::wire,
         "sparse payload: expected a Rice parameter of at most {}, found {}; check the network and "
         "memory",
         kMaxRiceBits, bits);
  }
  SparsePayload open;
  open.count = count;
  open.k = k;
  open.absent = 2 * k > count;
  open.form = form_of(take_byte(rest));
  const std::size_t m = open.absent ? count - k : k;
  const std::size_t fields = field_bytes(m, bits);
  const std::size_t values = value_bytes(k, open.form);
  if (rest.size() < fields + values) {
    fail(Kind::wire,
         "sparse payload: expected at least {} bytes for {} entries, found {}; the ranks run "
         "different configs or builds",
         payload.size() - rest.size() + fields + values, k, payload.size());
  }
  open.gaps = {.m = m,
               .count = count,
               .bits = bits,
               .remainders = rest.first(fields),
               .quotients = rest.subspan(fields + values)};
  open.values = rest.subspan(fields, values);
  check_gaps(open.gaps);
  check_values(open.values, k, open.form);
  return open;
}

void zero_sent(std::span<const std::byte> payload, std::span<float> values) {
  for_each_entry(open_sparse(payload, values.size()),
                 [&](std::size_t index, std::size_t /*entry*/) { values[index] = 0; });
}

const CompressorRow kTopK = {.name = "topk",
                             .about = "the values of largest magnitude",
                             .id = CodecId::topk,
                             .make = make_a<Sparse>,
                             .reads = {Option::density, Option::value_bits},
                             .colour = "#009687"};

const CompressorRow kThreshold = {.name = "threshold",
                                  .about = "the values above a threshold in magnitude",
                                  .id = CodecId::threshold,
                                  .make = make_a<Threshold>,
                                  .reads = {Option::density, Option::value_bits, Option::threshold},
                                  .colour = "#005af0"};

const CompressorRow kDgc = {.name = "dgc",
                            .about = "top-k with momentum correction (Deep Gradient Compression)",
                            .id = CodecId::dgc,
                            .make = make_a<Sparse>,
                            .reads = {Option::density, Option::value_bits},
                            .title = "DGC",
                            .colour = "#e100b4"};

}  // namespace eqt::codec
