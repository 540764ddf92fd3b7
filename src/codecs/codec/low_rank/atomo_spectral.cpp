// SPDX-License-Identifier: Apache-2.0
// Spectral ATOMO: samples singular triples, large ones with a higher probability, and scales them
// to remove the bias.
//
// Source   H. Wang et al., NeurIPS 2018, arXiv:1806.04090, algorithm 1 with the singular value
//          decomposition
// Symbols  M the values as an R x c matrix, M = sum of sigma_i u_i v_i^T; s atoms kept on average
// Method   p_i = min(1, sigma_i / t) with sum p_i = s; out = sum over kept i of (sigma_i / p_i) u_i
//          v_i^T, where sigma_i u_i is computed as M v_i
// View     c is the largest divisor of the slice's columns that is at most 64 and at most sqrt(n):
//          a row of the view is a run of input channels at one kernel position. If there is no
//          divisor of similar size (a prime number of columns, a vector), c is the bound itself and
//          the last row is padded with zeros
// Payload  c and the number k of atoms, u32 each; k vectors (sigma_i / p_i) u_i, then k vectors
//          v_i, float32
// Size     8 + 4 k (R + c) bytes, E[k] = s
// Error    E[out] = M and E|out - M|^2 = sum sigma_i^2 (1/p_i - 1), to float32 rounding
// Differs from the authors' code: the view has few columns, so that the decomposition is fast; the
//          excess of p > 1 is redistributed; an empty draw is sent as it is, because drawing again
//          would add bias

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/finite.hpp"
#include "codec/low_rank/atom_sampling.hpp"
#include "codec/low_rank/atomo.hpp"
#include "codec/low_rank/low_rank.hpp"
#include "codec/low_rank/scratch.hpp"
#include "codec/low_rank/spectrum.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kHeadBytes = 8;

struct View {
  std::size_t rows, columns;
};

View view_of(std::size_t count, std::size_t slice_rows) {
  const auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(count)));
  const std::size_t most = std::clamp<std::size_t>(root, 1, kMaxColumns);
  const std::size_t slice_columns = slice_rows > 0 ? count / slice_rows : 0;
  std::size_t columns = std::min(most, slice_columns);
  while (columns > 1 && slice_columns % columns != 0) --columns;
  if (columns == 0 || (columns != slice_columns && columns < most / 2)) columns = most;
  return {(count + columns - 1) / columns, columns};
}

/// The kept atoms of one matrix.
struct Kept {
  std::array<double, kMaxColumns> probability;
  std::array<std::size_t, kMaxColumns> atom;
  std::size_t count = 0;
};

class Spectral final : public Compressor {
 public:
  explicit Spectral(const CompressorOptions& options) : budget_(options.rank) {
    EQT_CHECK(options.rank >= 1 && static_cast<std::size_t>(options.rank) <= kMaxRank,
              "atomo of rank {}", options.rank);
  }

  CodecId id() const noexcept override { return CodecId::atomo; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.unbiased = true, .random = true, .granule = 0};
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    // All c atoms: c R < n + c and c^2 <= n.
    return count == 0 ? 0 : kHeadBytes + 4 * (2 * count + kMaxColumns);
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

 private:
  Kept draw(std::span<const double> singular, const RandomKey& key) const;

  const double budget_;
};

/// The values themselves, or a copy with zeros up to the end of the last row.
std::span<const float> padded(std::span<const float> values, const View& view,
                              Workspace& workspace) {
  const std::size_t count = view.rows * view.columns;
  if (count == values.size()) return values;
  const auto copy = workspace.array(kPaddedMatrix, count);
  std::fill(std::copy(values.begin(), values.end(), copy.begin()), copy.end(), 0.0f);
  return copy;
}

Kept Spectral::draw(std::span<const double> singular, const RandomKey& key) const {
  Kept kept;
  const auto probability = std::span(kept.probability).first(singular.size());
  keep_probabilities(singular, budget_, probability);
  const RandomStream stream(key);
  for (std::size_t i = 0; i < singular.size(); ++i) {
    const double u = stream.bits(static_cast<std::uint32_t>(i)) * 0x1p-32;
    if (u < probability[i]) kept.atom[kept.count++] = i;
  }
  return kept;
}

std::size_t Spectral::encode(std::span<const float> values, const EncodeContext& context,
                             Workspace& workspace, std::span<std::byte> payload) const {
  EQT_CHECK(payload.size() >= max_payload_bytes(values.size()),
            "a payload buffer of {} bytes for {} values", payload.size(), values.size());
  if (values.empty()) return 0;
  const View view = view_of(values.size(), context.rows);
  const auto matrix = padded(values, view, workspace);
  std::array<double, kMaxColumns> singular_room;
  std::array<double, kMaxColumns * kMaxColumns> vector_room;
  const auto singular = std::span(singular_room).first(view.columns);
  const auto vectors = std::span(vector_room).first(view.columns * view.columns);
  spectrum(matrix, view.columns, workspace, singular, vectors);
  if (std::isnan(singular[0])) require_finite("atomo", values);

  const Kept kept = draw(singular, context.key);
  const FactorShape shape{view.rows, view.columns, kept.count};
  // Room for every atom, so that no draw allocates memory.
  const FactorShape most{view.rows, view.columns, view.columns};
  const auto left = workspace.array(kLeftFactor, most.left()).first(shape.left());
  const auto right = workspace.array(kRightFactor, most.right()).first(shape.right());
  for (std::size_t k = 0; k < kept.count; ++k) {
    const auto from = vectors.subspan(kept.atom[k] * view.columns, view.columns);
    std::transform(from.begin(), from.end(), right.subspan(k * view.columns).begin(),
                   [](double v) { return static_cast<float>(v); });
  }
  multiply(matrix, right, shape, left);
  for (std::size_t k = 0; k < kept.count; ++k) {
    const auto factor = static_cast<float>(1 / kept.probability[kept.atom[k]]);
    for (float& v : left.subspan(k * view.rows, view.rows)) v *= factor;
  }
  if (first_non_finite(left) != left.size()) {
    fail(Kind::diverged,
         "compressor atomo: expected atoms below 3.4e38, found larger ones in a {} x {} matrix; "
         "training has diverged, try a lower optimizer.learning_rate",
         view.rows, view.columns);
  }
  store(payload.data(), static_cast<std::uint32_t>(view.columns));
  store(payload.data() + 4, static_cast<std::uint32_t>(kept.count));
  std::byte* const body = payload.data() + kHeadBytes;
  if (kept.count > 0) {
    std::memcpy(body, left.data(), left.size_bytes());
    std::memcpy(body + left.size_bytes(), right.data(), right.size_bytes());
  }
  return kHeadBytes + left.size_bytes() + right.size_bytes();
}

void Spectral::decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                          std::span<float> sum) const {
  if (sum.empty() && payload.empty()) return;
  const bool has_head = payload.size() >= kHeadBytes;
  const std::size_t columns = has_head ? load<std::uint32_t>(payload.data()) : 0;
  const std::size_t atoms = has_head ? load<std::uint32_t>(payload.data() + 4) : 0;
  const bool possible =
      columns >= 1 && columns <= kMaxColumns && columns <= sum.size() && atoms <= columns;
  const FactorShape shape{possible ? (sum.size() + columns - 1) / columns : 0, columns, atoms};
  if (!possible || payload.size() != kHeadBytes + 4 * (shape.left() + shape.right())) {
    fail(Kind::wire,
         "compressor atomo: expected singular vectors of a matrix of {} values, found {} columns "
         "and {} atoms in {} bytes; the ranks run different configs or builds",
         sum.size(), columns, atoms, payload.size());
  }
  if (atoms == 0) return;
  // A copy, because the payload's floats may be unaligned.
  const FactorShape most{shape.rows, columns, columns};
  const auto factors =
      workspace.array(kLeftFactor, most.left() + most.right()).first(shape.left() + shape.right());
  std::memcpy(factors.data(), payload.data() + kHeadBytes, factors.size_bytes());
  if (const std::size_t bad = first_non_finite(factors); bad != factors.size()) {
    fail(Kind::wire,
         "compressor atomo: expected finite factors, found {} at index {} of {}; check the network "
         "and memory",
         factors[bad], bad, factors.size());
  }
  expand_add(factors.first(shape.left()), factors.subspan(shape.left()), shape, scale, sum);
}

}  // namespace

std::unique_ptr<Compressor> make_atomo_spectral(const CompressorOptions& options) {
  return std::make_unique<Spectral>(options);
}

}  // namespace eqt::codec
