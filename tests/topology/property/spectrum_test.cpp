// SPDX-License-Identifier: Apache-2.0
// Eigenvalues and norms against closed forms, a published table and other ways to compute them.

#include "topology/spectrum.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <random>

#include "support/topologies.hpp"

using namespace eqt::topology;
using eqt::test::make;

namespace {

constexpr double kPi = std::numbers::pi;

double gap(GraphKind kind, int ranks, bool directed = false) {
  return spectral_gap(make(kind, ranks, directed)->at(0));
}

/// The eigenvalues of a matrix whose rows are shifts of one another: sums of roots of unity.
std::vector<std::complex<double>> circulant_eigenvalues(const MixingMatrix& w) {
  std::vector<std::complex<double>> values;
  for (int k = 0; k < w.ranks(); ++k) {
    std::complex<double> value = w.self_weight(0);
    for (const Neighbour& from : w.in_neighbours(0))
      value += from.weight * std::polar(1.0, 2 * kPi * k * from.rank / w.ranks());
    values.push_back(value);
  }
  return values;
}

using Dense = std::vector<double>;

Dense times(const Dense& a, const Dense& b, std::size_t n) {
  Dense result(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t j = 0; j < n; ++j) result[i * n + j] += a[i * n + k] * b[k * n + j];
  return result;
}

Dense without_mean(Dense matrix, std::size_t n) {
  for (double& value : matrix) value -= 1 / static_cast<double>(n);
  return matrix;
}

double largest(const Dense& matrix) {
  double most = 0;
  for (const double value : matrix) most = std::max(most, std::abs(value));
  return most;
}

/// max |lambda| by Gelfand's formula: |A^k|^(1/k), k = 2^20 by squaring.
double gelfand(Dense matrix, std::size_t n) {
  double logarithm = 0, power = 1;
  for (int squaring = 0; squaring < 20; ++squaring) {
    const double scale = largest(matrix);
    for (double& value : matrix) value /= scale;
    logarithm += std::log(scale) / power;
    matrix = times(matrix, matrix, n);
    power *= 2;
  }
  return std::exp(logarithm + std::log(largest(matrix)) / power);
}

/// The largest singular value by the trace of (A^T A)^k, k = 2^20: between one and n of its powers.
double norm_by_powers(const Dense& matrix, std::size_t n) {
  Dense transposed(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) transposed[j * n + i] = matrix[i * n + j];
  return std::sqrt(gelfand(times(transposed, matrix, n), n));
}

Graph lopsided_graph(int ranks, unsigned seed) {
  std::mt19937 random(seed);
  std::bernoulli_distribution chord(0.25);
  Graph graph{.ranks = ranks, .directed = true, .edges = {}};
  for (eqt::Rank from = 0; from < ranks; ++from)
    for (eqt::Rank to = 0; to < ranks; ++to)
      if (to == (from + 1) % ranks || (from != to && chord(random)))
        graph.edges.push_back({from, to});
  return graph;
}

}  // namespace

TEST_CASE("spectral gaps of the named graphs, to 4 decimals", "[topology]") {
  struct Row {
    int ranks;
    double directed_ring, ring, torus, exponential, star, mesh;
  };
  // Computed by numpy.linalg.eigvals from the definitions.
  constexpr Row kTable[] = {{4, 0.2929, 0.6667, 0.4, 0.6667, 0.25, 0.6667},
                            {8, 0.0761, 0.1953, 0.4, 0.5, 0.125, 0.1464},
                            {16, 0.0192, 0.0507, 0.4, 0.4, 0.0625, 0.1314},
                            {32, 0.0048, 0.0128, 0.1172, 0.3333, 0.03125, 0.0342},
                            {64, 0.0012, 0.0032, 0.1172, 0.2857, 0.015625, 0.0323}};
  for (const Row& row : kTable) {
    INFO(row.ranks);
    const auto near = [](double expected) { return Approx(expected).margin(0.5e-4).epsilon(0); };
    CHECK(gap(GraphKind::ring, row.ranks, true) == near(row.directed_ring));
    CHECK(gap(GraphKind::ring, row.ranks) == near(row.ring));
    CHECK(gap(GraphKind::torus, row.ranks) == near(row.torus));
    CHECK(gap(GraphKind::exponential, row.ranks) == near(row.exponential));
    CHECK(gap(GraphKind::star, row.ranks) == near(row.star));
    CHECK(gap(GraphKind::mesh, row.ranks) == near(row.mesh));
  }
}

TEST_CASE("spectral gaps have closed forms", "[topology]") {
  for (int n = 2; n <= 65; ++n) {
    INFO(n);
    const auto near = [](double expected) { return Approx(expected).margin(1e-11).epsilon(0); };
    CHECK(gap(GraphKind::ring, n, true) == near(1 - std::cos(kPi / n)));
    CHECK(gap(GraphKind::complete, n) == near(1));
    CHECK(gap(GraphKind::star, n) == near(n == 2 ? 1 : 1.0 / n));
    if (n > 3) {
      const double smallest = 1.0 / 3 + 2.0 / 3 * std::cos(2 * kPi * (n / 2) / n);
      CHECK(gap(GraphKind::ring, n) ==
            near(std::min(2.0 / 3 * (1 - std::cos(2 * kPi / n)), 1 - std::abs(smallest))));
      CHECK(smallest_eigenvalue(make(GraphKind::ring, n)->at(0)) == near(smallest));
    }
  }
  for (const int n : {2, 4, 8, 16, 32, 64, 128}) {
    const double degree = std::log2(n);
    CHECK(gap(GraphKind::exponential, n) == Approx(2 / (1 + degree)).epsilon(1e-11));
  }
}

TEST_CASE("graphs of shifts have sums of roots of unity as eigenvalues", "[topology]") {
  for (int n = 2; n <= 40; ++n) {
    for (const auto& w : {make(GraphKind::ring, n, true), make(GraphKind::ring, n),
                          make(GraphKind::exponential, n)}) {
      INFO(w->name() << " of " << n);
      const auto values = circulant_eigenvalues(w->at(0));
      double second = 0, beta = 0;
      for (std::size_t k = 1; k < values.size(); ++k) {
        second = std::max(second, std::abs(values[k]));
        beta = std::max(beta, std::abs(1.0 - values[k]));
      }
      const auto near = [](double expected) { return Approx(expected).margin(1e-11).epsilon(0); };
      CHECK(second_modulus(w->at(0)) == near(second));
      // Such a matrix is normal: norms are moduli of eigenvalues.
      CHECK(contraction(w->at(0)) == near(second));
      CHECK(distance_from_identity(w->at(0)) == near(beta));
    }
  }
}

TEST_CASE("irregular directed graphs: eigenvalues as by Gelfand's formula", "[topology]") {
  for (int n = 3; n <= 24; n += 3) {
    INFO(n);
    const Graph graph = lopsided_graph(n, static_cast<unsigned>(n));
    const auto topology = make_topology({.kind = GraphKind::graph, .graph = graph}, n);
    const MixingMatrix& w = topology->at(0);
    const auto count = static_cast<std::size_t>(n);
    const Dense rest = without_mean(w.row_major(), count);
    CHECK(second_modulus(w) == Approx(gelfand(rest, count)).epsilon(1e-4));
    CHECK(contraction(w) == Approx(norm_by_powers(rest, count)).epsilon(1e-4));
    Dense complement = w.row_major();
    for (double& value : complement) value = -value;
    for (std::size_t r = 0; r < count; ++r) complement[r * count + r] += 1;
    CHECK(distance_from_identity(w) == Approx(norm_by_powers(complement, count)).epsilon(1e-4));
    CHECK(contraction(w) >= second_modulus(w));  // no norm is below an eigenvalue
  }
}

TEST_CASE("one peer at a time reaches the mean exactly for powers of two", "[topology]") {
  for (const int n : {2, 4, 8, 16, 32}) {
    INFO(n);
    const auto topology = make(GraphKind::one_peer_exponential, n);
    const Dense product = product_of_period(*topology);
    for (const double value : product) CHECK(value == 1.0 / n);
    CHECK(analyse(*topology).contraction == 0);
  }
  for (const int n : {3, 5, 6, 7, 9, 12, 31}) {
    double expected = 0;  // products of (1 + w^(k 2^i)) / 2 over the period
    for (int k = 1; k < n; ++k) {
      double modulus = 1;
      for (int hop = 1; hop < n; hop *= 2) modulus *= std::abs(std::cos(kPi * hop * k / n));
      expected = std::max(expected, modulus);
    }
    INFO(n);
    const Spectrum found = analyse(*make(GraphKind::one_peer_exponential, n));
    CHECK(found.contraction == Approx(expected).epsilon(1e-9));
    if (n == 5) CHECK(found.contraction == Approx(0.2023).margin(0.5e-4).epsilon(0));
  }
}

TEST_CASE("a whole period: the numbers of the product", "[topology]") {
  const auto ring = make(GraphKind::ring, 6);
  const Spectrum found = analyse(*ring);
  CHECK(found.second_modulus == second_modulus(ring->at(0)));
  CHECK(found.spectral_gap == 1 - found.second_modulus);
  CHECK(found.beta == Approx(4.0 / 3));  // 1 - 1/3 + 2/3
  REQUIRE(found.smallest);
  CHECK(*found.smallest == Approx(-1.0 / 3));
  const auto directed = make(GraphKind::one_peer_exponential, 6);
  CHECK_FALSE(analyse(*directed).smallest);
  CHECK_FALSE(analyse(*make(GraphKind::ring, 6, true)).smallest);
}

TEST_CASE("the product applies later steps to earlier ones", "[topology]") {
  // Rank 0 gives all to 1, then 1 half to 2: after both, 2 holds half of what 0 had.
  const auto keep = [](eqt::Rank r) { return Entry{r, r, 1}; };
  const auto topology =
      make_cycle("chain", {MixingMatrix(3, {{0, 1, 1}, keep(1), keep(2)}),
                           MixingMatrix(3, {keep(0), {1, 2, 0.5}, {1, 1, 0.5}, {2, 0, 1}})});
  const Dense expected = {0, 0, 1, 0.5, 0.5, 0, 0.5, 0.5, 0};
  CHECK(product_of_period(*topology) == expected);
}

TEST_CASE("a single rank is its own mean", "[topology]") {
  for (const Options& options : eqt::test::named_options()) {
    const auto topology = make_topology(options, 1);
    INFO(topology->name());
    CHECK(topology->at(0).self_weight(0) == 1);
    CHECK(analyse(*topology).spectral_gap == 1);
    CHECK(analyse(*topology).contraction == 0);
    CHECK(analyse(*topology).beta == 0);
  }
}
