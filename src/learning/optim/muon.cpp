// SPDX-License-Identifier: Apache-2.0
// Muon: momentum whose matrices are made orthogonal before they are applied; other parameters by
// stochastic gradient descent with the same momentum.
//
// Source   K. Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; the
//          fixed norm: K. Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU",
//          arXiv:2404.00498, in its later version with Muon; the decay: J. Liu et al.,
//          arXiv:2502.16982, equation 3
// Symbols  p matrix of rows x columns, g gradient, m momentum buffer, mu momentum, wd weight decay;
//          a convolution is a matrix with a row for each output channel
// Step     m <- mu m + g;  d = nesterov ? g + mu m : m;  O = orthogonal.hpp of d
//          fixed norm:  p <- p sqrt(rows) / |p| - rate O, in Frobenius's norm
//          else         p <- (1 - rate wd) p - rate sqrt(max(1, rows / columns)) O
//          other parameters as in sgd.cpp
// Speed    of the products, about iterations * (2 rows + columns) * rows^2 multiply-adds, where
//          rows are the smaller side
// Deviation  m is not scaled by 1 - mu, as in sgd; O does not depend on it

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "optim/optimizer.hpp"
#include "optim/orthogonal.hpp"

namespace eqt::optim {
namespace {

constexpr std::size_t kLeastSide = 2;  // of a matrix: a single row would be divided by its norm

/// A range of values: a matrix, or some that are not.
struct Piece {
  std::size_t begin = 0, end = 0;
  std::size_t rows = 0, columns = 0;  // 0: no matrix
  float rate_factor = 1;
  double weight_decay = 0;
  std::optional<float> momentum = {};
};

/// Returns where a slice is a matrix; rows 0: it is none.
Piece piece_of(const TensorSlice& slice) {
  Piece piece = {.begin = slice.offset, .end = slice.offset + slice.count};
  if (slice.shape.size() < 2 || slice.count == 0) return piece;
  const auto rows = static_cast<std::size_t>(slice.shape.front());
  const std::size_t columns = slice.count / rows;
  if (std::min(rows, columns) < kLeastSide) return piece;
  piece.rows = rows;
  piece.columns = columns;
  return piece;
}

/// Cuts the slices where the rules change, within which none is a matrix.
std::vector<Piece> cut(const Layout& layout, const UpdateRules& rules) {
  std::vector<Piece> pieces;
  for (const TensorSlice& slice : layout) {
    const Piece whole = piece_of(slice);
    for (const UpdateRule& rule : rules) {
      Piece piece = whole;
      piece.begin = std::max(whole.begin, rule.begin);
      piece.end = std::min(whole.end, rule.end);
      if (piece.begin >= piece.end) continue;
      EQT_CHECK(piece.end - piece.begin == slice.count, "a rule for a part of {}", slice.name);
      if (!rule.orthogonal) piece.rows = piece.columns = 0;
      piece.rate_factor = rule.rate_factor;
      piece.weight_decay = rule.weight_decay;
      piece.momentum = rule.momentum;
      pieces.push_back(piece);
    }
  }
  return pieces;
}

class Muon final : public Optimizer {
 public:
  Muon(const Layout& layout, const MuonOptions& options)
      : options_(options),
        pieces_(cut(layout, rules_for(total_count(layout), options.weight_decay, options.rules))),
        momentum_(total_count(layout)) {
    std::size_t most = 0;
    for (const Piece& piece : pieces_)
      if (piece.rows > 0) most = std::max(most, piece.end - piece.begin);
    direction_.resize(most);
  }

  void step(std::span<float> parameters, std::span<const float> gradient, float rate) override {
    EQT_CHECK(parameters.size() == momentum_.size() && gradient.size() == momentum_.size(),
              "{} parameters and {} gradient values, {} expected", parameters.size(),
              gradient.size(), momentum_.size());
    for (const Piece& piece : pieces_) {
      const std::size_t count = piece.end - piece.begin;
      const auto p = parameters.subspan(piece.begin, count);
      const auto g = gradient.subspan(piece.begin, count);
      const auto m = std::span(momentum_).subspan(piece.begin, count);
      const float own_rate = rate * piece.rate_factor;
      if (piece.rows > 0)
        step_matrix(piece, own_rate, p, g, m);
      else
        step_others(piece, own_rate, p, g, m);
    }
  }

  void visit_state(StateVisitor& visitor, Across models) override {
    visitor.values("momentum", momentum_, models);
  }

 private:
  void step_matrix(const Piece& piece, float rate, std::span<float> p, std::span<const float> g,
                   std::span<float> m) {
    const float mu = piece.momentum.value_or(options_.momentum);
    const auto d = std::span(direction_).first(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      m[i] = mu * m[i] + g[i];
      d[i] = options_.nesterov ? g[i] + mu * m[i] : m[i];
    }
    orthogonalizer_.apply(piece.rows, piece.columns, options_.iterations, d);
    const float keep = options_.fixed_norm
                           ? to_fixed_norm(piece.rows, p)
                           : static_cast<float>(1 - static_cast<double>(rate) * piece.weight_decay);
    const float factor =
        options_.fixed_norm
            ? rate
            : rate * std::sqrt(std::max(
                         1.0f, static_cast<float>(piece.rows) / static_cast<float>(piece.columns)));
    for (std::size_t i = 0; i < p.size(); ++i) p[i] = keep * p[i] - factor * d[i];
  }

  /// The factor by which the Frobenius norm of p becomes sqrt(rows); 1 for zeros.
  static float to_fixed_norm(std::size_t rows, std::span<const float> p) {
    double square = 0;
    for (const float x : p) square += static_cast<double>(x) * static_cast<double>(x);
    if (square == 0) return 1;
    return static_cast<float>(std::sqrt(static_cast<double>(rows) / square));
  }

  void step_others(const Piece& piece, float rate, std::span<float> p, std::span<const float> g,
                   std::span<float> m) const {
    const float mu = piece.momentum.value_or(options_.momentum);
    const auto weight_decay = static_cast<float>(piece.weight_decay);
    for (std::size_t i = 0; i < p.size(); ++i) {
      const float d = g[i] + weight_decay * p[i];
      m[i] = mu * m[i] + d;
      p[i] -= rate * (options_.nesterov ? d + mu * m[i] : m[i]);
    }
  }

  const MuonOptions options_;
  const std::vector<Piece> pieces_;
  std::vector<float> momentum_;   // (count)
  std::vector<float> direction_;  // of the largest matrix
  Orthogonalizer orthogonalizer_;
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const Layout& layout, const MuonOptions& options) {
  check(options.momentum >= 0 && options.momentum < 1, "optimizer.momentum",
        "at least 0 and below 1", static_cast<double>(options.momentum));
  check(options.weight_decay >= 0 && std::isfinite(options.weight_decay), "optimizer.weight_decay",
        "a finite number >= 0", options.weight_decay);
  check(options.iterations >= 1, "optimizer.iterations", "at least 1", options.iterations);
  if (options.nesterov && options.momentum == 0)
    fail(Kind::usage, "optimizer.nesterov needs optimizer.momentum above 0, found 0");
  const auto is_matrix = [](const TensorSlice& slice) { return piece_of(slice).rows > 0; };
  if (std::ranges::none_of(layout, is_matrix))
    fail(Kind::usage,
         "optimizer.name muon: expected a network with a matrix or a convolution of at least {0} x "
         "{0} values, found none among its {1} parameters; use sgd or adamw",
         kLeastSide, layout.size());
  return std::make_unique<Muon>(layout, options);
}

namespace {

constexpr std::string_view kKeys[] = {"momentum", "nesterov", "iterations", "fixed_norm"};

std::unique_ptr<Optimizer> make(const Layout& layout, const OptimizerOptions& options) {
  return make_muon(layout, {.momentum = static_cast<float>(options.momentum),
                            .nesterov = options.nesterov,
                            .weight_decay = options.weight_decay,
                            .iterations = options.iterations,
                            .fixed_norm = options.fixed_norm,
                            .rules = options.rules});
}

}  // namespace

const OptimizerRow kMuon = {
    .name = "muon",
    .about = "Muon: momentum whose matrices are made orthogonal; other parameters as with sgd",
    .keys = kKeys,
    .moments = 1,
    .is_scale_free = true,
    .amplifies_noise = true,
    .make = make};

}  // namespace eqt::optim
