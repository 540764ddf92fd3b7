// SPDX-License-Identifier: Apache-2.0
// ATOMO: samples atoms, large ones with a higher probability, and scales them to remove the bias.
//
// Source   H. Wang et al., NeurIPS 2018, arXiv:1806.04090, algorithm 1
// Differs  from the authors' code: the excess of p > 1 is redistributed, and an empty draw is sent
//          as it is, because drawing again would add bias; the spectral view has few columns, so
//          that the decomposition is fast
//
// Entrywise: the atoms are the values, the standard basis.
//
// Symbols  n values g; s = density * n values kept on average; p_i probability of keeping g_i
// Method   p_i = min(1, |g_i| / t) with sum p_i = s; out_i = g_i / p_i if kept, else 0: g_i itself
//          where p_i = 1, and sign(g_i) t elsewhere
// Payload  k exact and m drawn values, u32 each; t float32; k indices u32, k values float32; m
//          indices u32 with the value's sign in bit 31
// Size     12 + 8 k + 4 m bytes, E[k + m] = s
// Error    E[out] = g and E|out - g|^2 = sum g_i^2 (1/p_i - 1); |g|_1^2 / s - |g|_2^2 where no p_i
//          reaches 1. With s = |g|_1 / max|g| this is TernGrad
// Damped   t is the mean magnitude of the drawn values: out is nearer to g than the unbiased one
//          divided by 1 + w, so E|out - g|^2 <= w / (1 + w) |g|^2 for the error w |g|^2 above.
//          These p have the least w of all that sum to s, at most n / s - 1, that of p_i = s / n:
//          E|out - g|^2 <= (1 - density) |g|^2
//
// Spectral: the atoms are singular triples, by the singular value decomposition.
//
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
// Damped   kept atoms are not divided by p_i: out is the projection of M on them, and
//          E|out - M|^2 = sum sigma_i^2 (1 - p_i) <= (1 - s / c) |M|^2 for s <= c, since p_i grows
//          with sigma_i

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/low_rank/atom_sampling.hpp"
#include "codec/low_rank/low_rank.hpp"
#include "codec/low_rank/spectrum.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kEntrywiseHeadBytes = 12;
constexpr std::uint32_t kSignBit = 0x80000000u;

class Entrywise final : public Compressor {
 public:
  explicit Entrywise(const CompressorOptions& options)
      : density_(options.density), rounding_(options.rounding), damped_(options.damped) {
    EQT_CHECK(density_ > 0 && density_ <= 1, "atomo of density {}", density_);
  }

  CodecId id() const noexcept override { return CodecId::atomo; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.unbiased = !damped_, .random = true, .granule = 0};
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return count == 0 ? 0 : kEntrywiseHeadBytes + 8 * count;
  }
  std::optional<double> variance_bound(std::size_t count) const override {
    if (!damped_) return {};
    return count == 0 ? 0 : 1 - density_;
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

 private:
  const double density_;
  const Rounding rounding_;
  const bool damped_;
};

std::size_t Entrywise::encode(std::span<const float> values, const EncodeContext& context,
                              Workspace& workspace, std::span<std::byte> payload) const {
  EQT_CHECK(payload.size() >= max_payload_bytes(values.size()) && values.size() < kSignBit,
            "a payload buffer of {} bytes for {} values", payload.size(), values.size());
  if (values.empty()) return 0;
  const double budget = context.density.value_or(density_) * static_cast<double>(values.size());
  const float threshold = keep_threshold(values, budget);
  if (std::isnan(threshold)) require_finite("atomo", values);
  auto kept = workspace.array(kKeptIndices, values.size());
  const Strata* const strata = strata_for(rounding_, context.strata);
  kept = kept.first(
      threshold > 0 ? draw_values(values, threshold, context.key, strata, context.first_index, kept)
                    : 0);

  const auto is_exact = [&](std::uint32_t i) { return std::abs(values[i]) >= threshold; };
  std::size_t exact = 0;
  double drawn_sum = 0;
  for (const std::uint32_t i : kept) {
    exact += is_exact(i) ? 1u : 0u;
    if (!is_exact(i)) drawn_sum += static_cast<double>(std::abs(values[i]));
  }
  const std::size_t drawn_count = kept.size() - exact;
  store(payload.data(), static_cast<std::uint32_t>(exact));
  store(payload.data() + 4, static_cast<std::uint32_t>(drawn_count));
  store(payload.data() + 8, damped_ && drawn_count > 0
                                ? static_cast<float>(drawn_sum / static_cast<double>(drawn_count))
                                : threshold);
  std::byte* index = payload.data() + kEntrywiseHeadBytes;
  std::byte* value = index + 4 * exact;
  std::byte* drawn = value + 4 * exact;
  for (const std::uint32_t i : kept) {
    if (is_exact(i)) {
      store(index, i);
      store(value, values[i]);
      index += 4;
      value += 4;
    } else {
      store(drawn, i | (std::signbit(values[i]) ? kSignBit : 0u));
      drawn += 4;
    }
  }
  return kEntrywiseHeadBytes + 8 * exact + 4 * drawn_count;
}

/// Reads ascending indices below `count`.
class Indices {
 public:
  explicit Indices(std::size_t count) : count_(count) {}

  std::size_t next(std::uint32_t index) {
    if (index < least_ || index >= count_) {
      fail(Kind::wire,
           "compressor atomo: expected an index of at least {} and below {}, found {}; check the "
           "network and memory",
           least_, count_, index);
    }
    least_ = std::uint64_t{index} + 1;
    return index;
  }

 private:
  const std::size_t count_;
  std::uint64_t least_ = 0;
};

void Entrywise::decode_add(std::span<const std::byte> payload, float scale,
                           Workspace& /*workspace*/, std::span<float> sum) const {
  if (sum.empty() && payload.empty()) return;
  const bool has_head = payload.size() >= kEntrywiseHeadBytes && !sum.empty();
  const std::uint64_t exact = has_head ? load<std::uint32_t>(payload.data()) : 0;
  const std::uint64_t drawn = has_head ? load<std::uint32_t>(payload.data() + 4) : 0;
  if (!has_head || payload.size() != kEntrywiseHeadBytes + 8 * exact + 4 * drawn) {
    fail(Kind::wire,
         "compressor atomo: expected {} exact and {} drawn values of {}, found {} bytes; the ranks "
         "run different configs or builds",
         exact, drawn, sum.size(), payload.size());
  }
  const auto threshold = load<float>(payload.data() + 8);
  if (!(std::isfinite(threshold) && !std::signbit(threshold))) {
    fail(Kind::wire,
         "compressor atomo: expected a finite scale of at least 0, found {}; check the network and "
         "memory",
         threshold);
  }
  const std::byte* index = payload.data() + kEntrywiseHeadBytes;
  const std::byte* value = index + 4 * exact;
  Indices of_exact(sum.size()), of_drawn(sum.size());
  for (std::uint64_t k = 0; k < exact; ++k, index += 4, value += 4) {
    const auto v = load<float>(value);
    if (!std::isfinite(v)) {
      fail(Kind::wire, "compressor atomo: expected finite values, found {}; check the network", v);
    }
    sum[of_exact.next(load<std::uint32_t>(index))] += scale * v;
  }
  const float step[2] = {scale * threshold, -(scale * threshold)};
  for (std::uint64_t k = 0; k < drawn; ++k, value += 4) {
    const auto word = load<std::uint32_t>(value);
    sum[of_drawn.next(word & ~kSignBit)] += step[word >> 31];
  }
}

constexpr std::size_t kSpectralHeadBytes = 8;

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
  explicit Spectral(const CompressorOptions& options)
      : budget_(options.rank), damped_(options.damped) {
    EQT_CHECK(options.rank >= 1 && static_cast<std::size_t>(options.rank) <= kMaxRank,
              "atomo of rank {}", options.rank);
  }

  CodecId id() const noexcept override { return CodecId::atomo; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.unbiased = !damped_, .random = true, .granule = 0};
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    // All c atoms: c R < n + c and c^2 <= n.
    return count == 0 ? 0 : kSpectralHeadBytes + 4 * (2 * count + kMaxColumns);
  }
  std::optional<double> variance_bound(std::size_t count) const override {
    if (!damped_) return {};
    const auto atoms = static_cast<double>(std::min(count, kMaxColumns));
    return count == 0 ? 0 : 1 - std::min(1.0, budget_ / atoms);
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

 private:
  Kept draw(std::span<const double> singular, const RandomKey& key) const;

  const double budget_;
  const bool damped_;
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
  for (std::size_t k = 0; !damped_ && k < kept.count; ++k) {
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
  std::byte* const body = payload.data() + kSpectralHeadBytes;
  if (kept.count > 0) {
    std::memcpy(body, left.data(), left.size_bytes());
    std::memcpy(body + left.size_bytes(), right.data(), right.size_bytes());
  }
  return kSpectralHeadBytes + left.size_bytes() + right.size_bytes();
}

void Spectral::decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                          std::span<float> sum) const {
  if (sum.empty() && payload.empty()) return;
  const bool has_head = payload.size() >= kSpectralHeadBytes;
  const std::size_t columns = has_head ? load<std::uint32_t>(payload.data()) : 0;
  const std::size_t atoms = has_head ? load<std::uint32_t>(payload.data() + 4) : 0;
  const bool possible =
      columns >= 1 && columns <= kMaxColumns && columns <= sum.size() && atoms <= columns;
  const FactorShape shape{possible ? (sum.size() + columns - 1) / columns : 0, columns, atoms};
  if (!possible || payload.size() != kSpectralHeadBytes + 4 * (shape.left() + shape.right())) {
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
  std::memcpy(factors.data(), payload.data() + kSpectralHeadBytes, factors.size_bytes());
  if (const std::size_t bad = first_non_finite(factors); bad != factors.size()) {
    fail(Kind::wire,
         "compressor atomo: expected finite factors, found {} at index {} of {}; check the network "
         "and memory",
         factors[bad], bad, factors.size());
  }
  expand_add(factors.first(shape.left()), factors.subspan(shape.left()), shape, scale, sum);
}

}  // namespace

const CompressorRow kAtomo = {
    .name = "atomo",
    .about = "singular triples or values at random, large ones more often",
    .id = CodecId::atomo,
    .make =
        [](const CompressorRow&, const CompressorOptions& options) {
          return options.atoms == Atoms::spectral
                     ? std::unique_ptr<Compressor>(std::make_unique<Spectral>(options))
                     : std::make_unique<Entrywise>(options);
        },
    .reads = {Option::atoms, Option::rank, Option::density, Option::rounding},
    .why_not = [](const CompressorOptions& options) -> std::string {
      if (options.rounding != Rounding::correlated || options.atoms != Atoms::spectral) return {};
      return "expected compressor.rounding \"independent\" for atomo of spectral atoms, whose "
             "signs "
             "differ from rank to rank, found \"correlated\"; set compressor.atoms to "
             "\"entrywise\" or leave the rounding out";
    },
    .title = "ATOMO",
    .colour = "#c35aff"};

}  // namespace eqt::codec
