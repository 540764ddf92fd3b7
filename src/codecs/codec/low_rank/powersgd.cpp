// SPDX-License-Identifier: Apache-2.0
// PowerSGD: a matrix becomes two thin factors, by one step of subspace iteration.
//
// Source   T. Vogels, S. P. Karimireddy, M. Jaggi, NeurIPS 2019, arXiv:1905.13727, algorithm 1
// Symbols  M gradient, n x m; r rank; P n x r, Q m x r
// Method   Q of the run seed and the slice; P = M Q, made orthonormal; Q = M^T P; out = P Q^T
// Payload  rows and rank, u32 each; P, then Q, vector after vector, float32. Rank 0: the values
// Size     8 + 4 r (n + m) bytes; where that is no less than the values, and for vectors, 8 + 4 n m
// Error    |out - M|^2 = |M|^2 - |P^T M|^2, a projection; no bound below |M|^2 holds for every M.
//          Exact for matrices of rank r
// Differs  from the paper's collective (collective/power_sgd.cpp, which training uses): that one
//          iterates once over the mean of all ranks and keeps Q from step to step. This codec has
//          no memory, so it starts every step from the same Q.

#include <cstring>

#include "codec/bytes.hpp"
#include "codec/catalogue.hpp"
#include "codec/finite.hpp"
#include "codec/low_rank/low_rank.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kHeadBytes = 8;

class PowerSgd final : public Compressor {
 public:
  explicit PowerSgd(const CompressorOptions& options)
      : rank_(static_cast<std::size_t>(options.rank)) {
    EQT_CHECK(options.rank >= 1 && rank_ <= kMaxRank, "powersgd of rank {}", options.rank);
  }

  CodecId id() const noexcept override { return CodecId::powersgd; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.random = true,
            .same_draw = true,
            .needs_feedback = true,
            .averages_itself = true,
            .granule = 0};
  }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return count == 0 ? 0 : kHeadBytes + count * sizeof(float);
  }

  /// A projection has no larger norm; rounding adds far less than this.
  std::optional<double> variance_bound(std::size_t /*count*/) const override {
    return 1.0 + 0x1p-16;
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  void decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override;

 private:
  const std::size_t rank_;
};

std::span<const float> factor(std::span<const float> values, const EncodeContext& context,
                              const FactorShape& shape, Workspace& workspace,
                              std::span<float> left) {
  const auto right = workspace.array(kRightFactor, shape.right());
  draw_start(context.key.run_seed, context.key.slice, shape, right);
  multiply(values, right, shape, left);
  if (!orthonormalise(shape, workspace, left)) {
    require_finite("powersgd", values);
    fail(Kind::diverged,
         "compressor powersgd: expected values whose products stay below 3.4e38, found larger ones "
         "in a {} x {} matrix; training has diverged, try a lower optimizer.learning_rate",
         shape.rows, shape.columns);
  }
  multiply_transposed(values, left, shape, right);
  return right;
}

std::size_t PowerSgd::encode(std::span<const float> values, const EncodeContext& context,
                             Workspace& workspace, std::span<std::byte> payload) const {
  EQT_CHECK(payload.size() >= max_payload_bytes(values.size()),
            "a payload buffer of {} bytes for {} values", payload.size(), values.size());
  if (values.empty()) return 0;
  const FactorShape shape = factor_shape(values.size(), context.rows, rank_);
  EQT_CHECK(shape.rows <= UINT32_MAX, "{} rows", shape.rows);
  store(payload.data(), static_cast<std::uint32_t>(shape.rows));
  store(payload.data() + 4, static_cast<std::uint32_t>(shape.rank));
  std::byte* const body = payload.data() + kHeadBytes;
  if (shape.rank == 0) {
    require_finite("powersgd", values);
    std::memcpy(body, values.data(), values.size_bytes());
    return kHeadBytes + values.size_bytes();
  }
  const auto left = workspace.array(kLeftFactor, shape.left());
  const auto right = factor(values, context, shape, workspace, left);
  require_finite("powersgd", right);
  std::memcpy(body, left.data(), left.size_bytes());
  std::memcpy(body + left.size_bytes(), right.data(), right.size_bytes());
  return kHeadBytes + left.size_bytes() + right.size_bytes();
}

/// The shape that a payload claims for `count` values, whose body has `body_bytes` bytes.
/// @throws Error{wire} unless the encoder could have written it
FactorShape read_shape(std::span<const std::byte> payload, std::size_t count) {
  if (payload.size() < kHeadBytes) {
    fail(Kind::wire,
         "compressor powersgd: expected {} bytes of rows and rank for {} values, found {}; the "
         "ranks run different configs or builds",
         kHeadBytes, count, payload.size());
  }
  const std::size_t rows = load<std::uint32_t>(payload.data());
  const std::size_t rank = load<std::uint32_t>(payload.data() + 4);
  const bool divides = rows > 0 && count % rows == 0;
  FactorShape shape{.rows = rows, .columns = divides ? count / rows : 0, .rank = rank};
  const bool possible = (rank == 0 && (rows == 0 || divides) && count > 0) ||
                        (divides && rank <= kMaxRank && rank <= rows && rank <= shape.columns &&
                         shape.left() + shape.right() < count);
  const std::size_t floats = rank == 0 || !possible ? count : shape.left() + shape.right();
  if (!possible || (payload.size() - kHeadBytes) / sizeof(float) != floats ||
      payload.size() % sizeof(float) != 0) {
    fail(Kind::wire,
         "compressor powersgd: expected the factors of a matrix of {} values, found {} rows and "
         "rank {} in {} bytes; the ranks run different configs or builds",
         count, rows, rank, payload.size());
  }
  return shape;
}

void PowerSgd::decode_add(std::span<const std::byte> payload, float scale, Workspace& workspace,
                          std::span<float> sum) const {
  if (sum.empty() && payload.empty()) return;
  const FactorShape shape = read_shape(payload, sum.size());
  const auto body = payload.subspan(kHeadBytes);
  // A copy, because the payload's floats may be unaligned.
  const auto values = workspace.array(kLeftFactor, body.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), body.data(), body.size());
  if (const std::size_t bad = first_non_finite(values); bad != values.size()) {
    fail(Kind::wire,
         "compressor powersgd: expected finite values, found {} at index {} of {} on the wire; "
         "check the network and memory",
         values[bad], bad, values.size());
  }
  if (shape.rank == 0) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += scale * values[i];
  } else {
    expand_add(values.first(shape.left()), values.subspan(shape.left()), shape, scale, sum);
  }
}

}  // namespace

const CompressorRow kPowerSgd = {
    .name = "powersgd",
    .about = "low-rank factors of each weight tensor, averaged over ranks",
    .id = CodecId::powersgd,
    .make = make_a<PowerSgd>,
    .reads = {Option::rank},
    .why_not = [](const CompressorOptions& options) -> std::string {
      if (options.granularity == Granularity::layer) return {};
      return "expected compressor.granularity \"layer\" for powersgd, which needs matrices, found "
             "\"model\"; leave it out";
    },
    .colour = "#ff00f0"};

}  // namespace eqt::codec
