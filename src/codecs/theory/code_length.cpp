// SPDX-License-Identifier: Apache-2.0
#include "theory/code_length.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <queue>

#include "codec/entropy/elias.hpp"
#include "core/error.hpp"

namespace eqt::theory {
namespace {

// A probability below this adds less than 1e-12 bits to a length.
constexpr double kNegligible = 1e-18;

/// A bucket's cells and the probabilities of rounding up and of an index that is not 0.
struct Rounded {
  std::vector<std::size_t> lower;
  std::vector<double> up;
  std::vector<double> nonzero;
};

Rounded round_bucket(const LevelScheme& scheme, std::span<const float> bucket, double norm) {
  Rounded rounded;
  for (const double v : bucket) {
    const codec::Cell cell = codec::find_cell(scheme.levels, std::min(1.0, std::abs(v) / norm));
    rounded.lower.push_back(cell.lower);
    rounded.up.push_back(cell.up);
    rounded.nonzero.push_back(cell.lower > 0 ? 1 : cell.up);
  }
  return rounded;
}

/// E[L(N + 1)] for a sum N of independent events, from their distribution, with its negligible ends
/// cut off.
double expected_header(const std::vector<double>& nonzero) {
  std::vector<double> share = {1}, next;
  std::size_t first = 0;  // share[k] is P(N = first + k)
  for (const double p : nonzero) {
    if (p == 0) continue;
    next.assign(share.size() + 1, 0);
    for (std::size_t k = 0; k < share.size(); ++k) {
      next[k] += share[k] * (1 - p);
      next[k + 1] += share[k] * p;
    }
    std::size_t begin = 0;
    while (begin + 1 < next.size() && next[begin] < kNegligible) ++begin;
    while (next.size() > begin + 1 && next.back() < kNegligible) next.pop_back();
    share.assign(next.begin() + static_cast<std::ptrdiff_t>(begin), next.end());
    first += begin;
  }
  double bits = 0;
  for (std::size_t k = 0; k < share.size(); ++k)
    bits += share[k] * codec::omega_length(first + k + 1);
  return bits;
}

/// E[sum of L(gap)]: for each value the probability that it is nonzero, times the sum over all
/// distances back to the nonzero before it.
double expected_gaps(const std::vector<double>& nonzero) {
  std::vector<std::size_t> possible;
  for (std::size_t i = 0; i < nonzero.size(); ++i)
    if (nonzero[i] > 0) possible.push_back(i);
  double bits = 0;
  for (std::size_t k = 0; k < possible.size(); ++k) {
    const std::size_t i = possible[k];
    double none = nonzero[i], here = 0;
    std::size_t before = k;
    while (before > 0 && none > kNegligible) {
      --before;
      const std::size_t previous = possible[before];
      here += none * nonzero[previous] * codec::omega_length(i - previous);
      none *= 1 - nonzero[previous];
    }
    bits += here + none * codec::omega_length(i + 1);
  }
  return bits;
}

std::vector<double> shares_of(const Rounded& rounded, std::size_t symbols) {
  std::vector<double> shares(symbols);
  const auto count = static_cast<double>(rounded.lower.size());
  for (std::size_t i = 0; i < rounded.lower.size(); ++i) {
    shares[rounded.lower[i]] += (1 - rounded.up[i]) / count;
    shares[rounded.lower[i] + 1] += rounded.up[i] / count;
  }
  return shares;
}

/// E[sum of L(index + shift)] over indices that have a word.
double expected_words(const Rounded& rounded, std::size_t shift) {
  const auto length = [&](std::size_t index) {
    return index + shift == 0 ? 0.0 : static_cast<double>(codec::omega_length(index + shift));
  };
  double bits = 0;
  for (std::size_t i = 0; i < rounded.lower.size(); ++i) {
    bits += (1 - rounded.up[i]) * length(rounded.lower[i]);
    bits += rounded.up[i] * length(rounded.lower[i] + 1);
  }
  return bits;
}

/// Upper hull of ((l_j / scale)^2, L(j + shift)).
ConcaveHull index_hull(const codec::Levels& levels, double scale, std::size_t shift) {
  std::vector<std::pair<double, double>> points;
  for (std::size_t j = 1 - shift; j < levels.size(); ++j) {
    const double x = levels[j] / scale;
    points.emplace_back(x * x, codec::omega_length(j + shift));
  }
  return ConcaveHull(points);
}

double count_of(std::span<const float> values) { return static_cast<double>(values.size()); }

}  // namespace

ConcaveHull::ConcaveHull(const std::vector<std::pair<double, double>>& points) {
  EQT_CHECK(!points.empty(), "a hull of {} points", points.size());
  for (const auto& [x, y] : points) {
    while (corners_.size() >= 2) {
      const auto& [x1, y1] = corners_[corners_.size() - 2];
      const auto& [x2, y2] = corners_.back();
      if ((y2 - y1) * (x - x1) > (y - y1) * (x2 - x1)) break;
      corners_.pop_back();
    }
    corners_.emplace_back(x, y);
  }
}

double ConcaveHull::operator()(double x) const {
  if (x <= corners_.front().first) return corners_.front().second;
  if (x >= corners_.back().first) return corners_.back().second;
  const auto above =
      std::upper_bound(corners_.begin(), corners_.end(), x,
                       [](double value, const auto& corner) { return value < corner.first; });
  const auto& [x2, y2] = *above;
  const auto& [x1, y1] = *(above - 1);
  return y1 + (y2 - y1) * (x - x1) / (x2 - x1);
}

ExpectedBits& ExpectedBits::operator+=(const ExpectedBits& other) {
  fixed += other.fixed;
  sparse += other.sparse;
  dense += other.dense;
  huffman += other.huffman;
  entropy += other.entropy;
  theorem3 += other.theorem3;
  nonzeros += other.nonzeros;
  header += other.header;
  gaps += other.gaps;
  indices += other.indices;
  buckets += other.buckets;
  return *this;
}

double entropy_of(std::span<const double> shares) {
  double bits = 0;
  for (const double p : shares)
    if (p > 0) bits -= p * std::log2(p);
  return bits;
}

double huffman_bits_of(std::span<const double> shares) {
  std::priority_queue<double, std::vector<double>, std::greater<>> nodes;
  for (const double p : shares)
    if (p > 0) nodes.push(p);
  if (nodes.size() == 1) return nodes.top();
  // Each node that is not a leaf adds a bit to all words below it.
  double bits = 0;
  while (nodes.size() > 1) {
    double both = nodes.top();
    nodes.pop();
    both += nodes.top();
    nodes.pop();
    bits += both;
    nodes.push(both);
  }
  return bits;
}

std::vector<double> index_shares(const LevelScheme& scheme, std::span<const float> bucket) {
  const double norm = codec::vector_norm(bucket, scheme.norm);
  if (norm > 0) return shares_of(round_bucket(scheme, bucket, norm), scheme.levels.size());
  std::vector<double> shares(scheme.levels.size());
  shares[0] = 1;
  return shares;
}

ExpectedBits expected_bits(const LevelScheme& scheme, std::span<const float> bucket) {
  const double norm = codec::vector_norm(bucket, scheme.norm);
  ExpectedBits bits;
  bits.buckets = 1;
  if (norm == 0) {
    for (double* length :
         {&bits.fixed, &bits.sparse, &bits.dense, &bits.huffman, &bits.entropy, &bits.theorem3})
      *length = kNormBits;
    return bits;
  }
  const Rounded rounded = round_bucket(scheme, bucket, norm);
  const std::vector<double> shares = shares_of(rounded, scheme.levels.size());
  const double d = count_of(bucket), entropy = entropy_of(shares);
  for (const double p : rounded.nonzero) bits.nonzeros += p;
  bits.header = expected_header(rounded.nonzero);
  bits.gaps = expected_gaps(rounded.nonzero);
  bits.indices = expected_words(rounded, 0);
  bits.fixed = kNormBits + d * scheme.fixed_bits();
  bits.sparse = kNormBits + bits.header + bits.gaps + bits.nonzeros + bits.indices;
  bits.dense = kNormBits + expected_words(rounded, 1) + bits.nonzeros;
  bits.huffman = kNormBits + d * huffman_bits_of(shares) + bits.nonzeros;
  bits.entropy = kNormBits + d * entropy + bits.nonzeros;
  bits.theorem3 = kNormBits + most_nonzeros(scheme, bucket.size()) + d * (entropy + 1);
  return bits;
}

ExpectedBits expected_bits_of_segment(const LevelScheme& scheme, std::span<const float> values) {
  ExpectedBits all;
  each_bucket(values, scheme.bucket_size,
              [&](std::span<const float> bucket) { all += expected_bits(scheme, bucket); });
  return all;
}

double most_nonzeros(const LevelScheme& scheme, std::size_t d) {
  const auto count = static_cast<double>(d);
  if (scheme.norm == codec::Norm::max) return count;
  const double inverse = 1 / scheme.levels[1];
  return std::min(inverse * inverse + std::sqrt(count) * inverse, count);
}

ConcaveHull omega_hull(std::uint64_t most) {
  // L is constant between powers of two, so there are no other corners.
  std::vector<std::pair<double, double>> points;
  const std::uint64_t end = std::max(std::bit_ceil(most), std::uint64_t{1} << 17);
  EQT_CHECK(end <= std::uint64_t{1} << 31, "an omega word of {}", most);
  for (std::uint64_t k = 1; k <= end; k *= 2)
    points.emplace_back(static_cast<double>(k), codec::omega_length(k));
  return ConcaveHull(points);
}

BitBounds bit_bounds(const LevelScheme& scheme, std::size_t d) {
  const auto count = static_cast<double>(d);
  const double most = most_nonzeros(scheme, d), inverse = 1 / scheme.levels[1];
  const double epsilon = codec::worst_case_variance(scheme.levels, d, scheme.norm);
  const bool l2 = scheme.norm == codec::Norm::l2;
  const ConcaveHull words = omega_hull(d + 1);
  const double largest_square = inverse * inverse;
  const double mean_square =
      l2 ? std::clamp((1 + epsilon) * largest_square / most, 1.0, largest_square) : largest_square;
  BitBounds bounds;
  bounds.sparse = kNormBits + words(most + 1) +
                  most * (1 + words(std::max(1.0, count / most)) +
                          index_hull(scheme.levels, scheme.levels[1], 0)(mean_square));
  bounds.dense =
      kNormBits + count * index_hull(scheme.levels, 1, 1)(l2 ? (1 + epsilon) / count : 1.0) + most;
  bounds.fixed = kNormBits + count * scheme.fixed_bits();
  constexpr double kLengthBits = 4;  // of each index's word length in W3
  bounds.huffman = kNormBits + kLengthBits * static_cast<double>(scheme.levels.size()) +
                   count * (scheme.fixed_bits() - 1) + most;
  return bounds;
}

std::optional<double> bucket_bound(const LevelScheme& scheme, std::size_t d, codec::Coding coding) {
  const BitBounds bounds = bit_bounds(scheme, d);
  switch (coding) {
    case codec::Coding::fixed:
      return 8 * std::ceil(bounds.fixed / 8);
    case codec::Coding::elias:
      return std::min(bounds.sparse, bounds.dense) + kFramingBits;
    case codec::Coding::huffman:
      return bounds.huffman + kFramingBits;
    case codec::Coding::automatic:
      return std::min({bounds.sparse, bounds.dense, bounds.huffman}) + kFramingBits;
    case codec::Coding::rans:
    case codec::Coding::lossless:
      break;
  }
  return {};
}

double PublishedBits::qsgd_sparse(int s, double d) {
  const double nonzeros = s * (s + std::sqrt(d));
  return (3 + 1.5 * std::log2(2 * (s * s + d) / nonzeros)) * nonzeros + 32;
}

double PublishedBits::qsgd_dense(double d) { return 2.8 * d + 32; }

double PublishedBits::nuqsgd(int s, double d) {
  const double power = std::ldexp(1.0, s);
  const double nonzeros = power * power + power * std::sqrt(d);
  const double inner = std::log2(8 * (power * power + d) / nonzeros);
  return 32 + 3 * nonzeros + nonzeros * std::log2(d / nonzeros) + nonzeros * std::log2(inner);
}

}  // namespace eqt::theory
