// SPDX-License-Identifier: Apache-2.0
#include "support/theory_vectors.hpp"

#include <cmath>
#include <string>
#include <vector>

#include "codec/levels/level_design.hpp"
#include "support/catch.hpp"
#include "theory/code_length.hpp"
#include "theory/convergence.hpp"
#include "theory/variance.hpp"

namespace eqt::test {
namespace {

using namespace theory;
using codec::Norm;
using nlohmann::json;

void require_near(double found, const json& expected, double relative) {
  REQUIRE(found == Approx(expected.get<double>()).epsilon(relative).margin(1e-9));
}

codec::Levels table_of(const std::string& name) {
  if (name == "uniform7") return codec::uniform_levels(7);
  if (name == "exp7_p.5") return codec::exponential_levels(7, 0.5);
  REQUIRE(name == "sinh7_opt");
  return codec::sinh_levels(7, codec::optimal_theta(7, 512, Norm::max));
}

/// A scheme of the simulations.
LevelScheme scheme_of(const std::string& name, std::size_t d) {
  const auto l2 = [&](codec::Levels levels) { return LevelScheme{std::move(levels), d, Norm::l2}; };
  if (name == "qsgd_s1") return l2(codec::uniform_levels(1));
  if (name == "qsgd_s7") return l2(codec::uniform_levels(7));
  if (name == "qsgd_s90") return l2(codec::uniform_levels(90));
  if (name == "qsgdinf_s7") return {codec::uniform_levels(7), d, Norm::max};
  if (name == "nuqsgd_s1=7_p.5") return l2(codec::exponential_levels(7, 0.5));
  if (name == "nuqsgd_s1=4_p.5") return l2(codec::exponential_levels(4, 0.5));
  if (name == "nuqsgdinf_s1=7_p.5") return {codec::exponential_levels(7, 0.5), d, Norm::max};
  if (name == "sinh_b4_l2") return l2(codec::sinh_levels(7, codec::optimal_theta(7, d, Norm::l2)));
  if (name == "sinh_b8_l2")
    return l2(codec::sinh_levels(127, codec::optimal_theta(127, d, Norm::l2)));
  REQUIRE(name == "sinh_b4_linf");
  return {codec::sinh_levels(7, codec::optimal_theta(7, d, Norm::max)), d, Norm::max};
}

void check_source(const json& row, const LevelScheme& scheme) {
  const bool equal = row.at("source") == "equal";
  if (!equal && row.at("source") != "onehot") return;  // the others need random numbers
  std::vector<float> v(scheme.bucket_size, equal ? 1.0f : 0.0f);
  if (!equal) v[v.size() / 3] = 2.5f;
  const ExpectedBits bits = expected_bits(scheme, v);
  require_near(level_variance(scheme, v).exact_ratio(), row.at("exact_var_ratio"), 1e-5);
  require_near(bits.nonzeros, row.at("exact_nonzeros"), 1e-5);
  require_near(entropy_of(index_shares(scheme, v)), row.at("entropy_bits_per_index"), 1e-5);
  require_near(bits.huffman, row.at("huffman_total_bits"), 1e-5);
  require_near(bits.theorem3, row.at("alq_theorem3_bound"), 1e-5);
  // Means of 120 or 40 draws.
  require_near(bits.sparse, row.at("mc_bits_sparse_erc"), 0.03);
  require_near(bits.dense, row.at("mc_bits_dense_erc"), 0.03);
}

}  // namespace

void check_worst_case_rows(const json& vectors) {
  for (const json& row : vectors.at("worst_case_table")) {
    INFO(row.dump());
    const WorstCaseRow found = worst_case_row(row.at("bits"), row.at("bucket"));
    constexpr double kTolerance = 1e-6;
    REQUIRE(found.levels == row.at("nonzero_levels").get<int>());
    require_near(found.theta_l2, row.at("theta_l2"), kTolerance);
    require_near(found.elastiquant_l2, row.at("eps_l2_closed_form"), kTolerance);
    require_near(found.elastiquant_l2_dual, row.at("eps_l2_dual"), kTolerance);
    require_near(found.theta_max, row.at("theta_linf"), kTolerance);
    require_near(found.elastiquant_max, row.at("eps_linf_closed_form"), kTolerance);
    require_near(found.elastiquant_max_fixed_point, row.at("eps_linf_fixed_point"), kTolerance);
    require_near(found.qsgd, row.at("qsgd_l2_worst"), kTolerance);
    require_near(found.qsgd_dual, row.at("qsgd_l2_worst_dual"), kTolerance);
    require_near(found.qsgd_v, row.at("qsgd_linf_worst"), kTolerance);
    require_near(found.qsgd_v_fixed_point, row.at("qsgd_linf_worst_fixed_point"), kTolerance);
    require_near(found.nuqsgd, row.at("nuqsgd_p05_l2_worst"), kTolerance);
    require_near(found.nuqsgd_max, row.at("nuqsgd_p05_linf_worst"), kTolerance);
    require_near(found.nuqsgd_theorem, row.at("nuqsgd_p05_theorem_bound"), kTolerance);
    if (!row.contains("exp_best_p")) continue;
    require_near(found.exponential, row.at("exp_best_p_l2_worst"), kTolerance);
    // A single level does not depend on p; elsewhere the worst case is flat around its best p.
    if (found.levels > 1) require_near(found.best_p, row.at("exp_best_p"), 1e-3);
  }
}

void check_worst_vectors(const json& vectors) {
  for (const json& entry : vectors.at("adversarial_vectors")) {
    INFO(entry.dump());
    const std::size_t d = entry.at("d");
    if (entry.contains("achieved_ratio")) {
      const LevelScheme scheme{table_of(entry.at("levels")), d, Norm::max};
      const AdversarialVector v = adversarial_vector(scheme);
      // Under the best sinh levels all cells have the same variance.
      if (entry.at("levels") != "sinh7_opt") require_near(v.body, entry.at("r"), 1e-9);
      require_near(v.ratio, entry.at("achieved_ratio"), 1e-9);
      require_near(level_bounds(scheme).worst_case, entry.at("worst_case"), 1e-9);
    } else {
      // The file has 8 digits; these are uniform levels and powers of two.
      auto levels = entry.at("levels").get<codec::Levels>();
      if (levels.size() == 8 && levels[1] > 0.1) levels = codec::uniform_levels(7);
      const AdversarialVector v = adversarial_vector({levels, d, Norm::l2});
      REQUIRE(v.heads == 0);
      require_near(v.ratio, entry.at("equal_entries_ratio"), 1e-9);
    }
  }
  const json& counterexample = vectors.at("nuqsgd_threshold_counterexample");
  const LevelScheme scheme{codec::exponential_levels(counterexample.at("s").get<int>() + 1, 0.5),
                           counterexample.at("d"), Norm::l2};
  const AdversarialVector v = adversarial_vector(scheme);
  // The file's vector need not be the worst one; the dual bound is above both.
  REQUIRE(v.ratio >= counterexample.at("exact_variance_ratio").get<double>() - 1e-9);
  REQUIRE(v.ratio <= counterexample.at("dual_worst_case").get<double>() + 1e-9);
  require_near(level_bounds(scheme).worst_case, counterexample.at("dual_worst_case"), 1e-9);
}

void check_block_lengths(const json& vectors, const std::vector<float>& v8) {
  for (const char* section : {"qsgd", "nuqsgd", "elastiquant_sinh", "elastiquant_mulaw"}) {
    for (const auto& [name, block] : vectors.at(section).items()) {
      INFO(section << ' ' << name);
      // The file's levels have 12 digits.
      const LevelScheme scheme{block.at("levels").get<codec::Levels>(), v8.size(),
                               block.at("norm_type") == "inf" ? Norm::max : Norm::l2};
      const ExpectedBits bits = expected_bits(scheme, v8);
      const json& parts = block.at("expected_bits_sparse_parts");
      require_near(bits.nonzeros, block.at("expected_nonzeros"), 1e-9);
      require_near(bits.header, parts.at("nnz_header"), 1e-9);
      require_near(bits.gaps, parts.at("gaps"), 1e-9);
      require_near(bits.nonzeros, parts.at("signs"), 1e-9);
      require_near(bits.indices, parts.at("indices"), 1e-9);
      require_near(bits.sparse, block.at("expected_bits_sparse_erc"), 1e-9);
      require_near(bits.dense, block.at("expected_bits_dense_erc"), 1e-9);
      const VarianceSums sums = level_variance(scheme, v8);
      require_near(sums.exact_ratio(), block.at("variance_ratio"), 1e-9);
      require_near(sums.worst_case_ratio(), block.at("worst_case_ratio"), 1e-9);
      require_near(sums.theorem2_ratio(), block.at("bound_alq_theorem2_ratio"), 1e-9);
    }
  }
}

void check_length_bounds(const json& vectors) {
  for (const json& row : vectors.at("monte_carlo").at("rows")) {
    INFO(row.dump());
    const std::size_t d = row.at("d");
    const auto count = static_cast<double>(d);
    const LevelScheme scheme = scheme_of(row.at("scheme"), d);
    const LevelBounds bounds = level_bounds(scheme);
    require_near(bounds.worst_case, row.at("worst_case_ratio"), 1e-5);
    require_near(bounds.theorem2, row.at("alq_bound"), 1e-5);
    require_near(most_nonzeros(scheme, d), row.at("nonzero_bound"), 1e-5);
    require_near(bit_bounds(scheme, d).sparse, row.at("bound_sparse_rigorous"), 1e-5);
    // The file uses ceil, the code bit_width: equal for 2^k levels, which all codecs have.
    REQUIRE(32 + count * scheme.fixed_bits() == row.at("fixed_bits").get<double>());
    if (row.contains("qsgd_theorem_bits_o1_dropped"))
      require_near(PublishedBits::qsgd_sparse(scheme.count(), count),
                   row.at("qsgd_theorem_bits_o1_dropped"), 1e-5);
    if (row.contains("nuqsgd_theorem_bits_o1_dropped"))
      require_near(PublishedBits::nuqsgd(scheme.count() - 1, count),
                   row.at("nuqsgd_theorem_bits_o1_dropped"), 1e-5);
    check_source(row, scheme);
  }
  for (const json& row : vectors.at("qsgd_dense_regime")) {
    const std::size_t n = row.at("n");
    const LevelScheme scheme{codec::uniform_levels(row.at("s")), n, Norm::l2};
    const ExpectedBits bits = expected_bits(scheme, std::vector<float>(n, 1.0f));
    require_near((bits.dense - kNormBits) / static_cast<double>(n),
                 row.at("equal_entries_bits_per_coord"), 1e-5);
  }
}

void check_guarantees(const json& vectors) {
  // f(w) = sum w_i^2 / (1 + w_i^2), 256 values that start at 1.5, noise of variance 4, 4 workers;
  // its gradient's largest square is (9 / (8 sqrt 3))^2 per value.
  const double excess = 256 * 2.25 / 3.25;
  const Problem problem{.smoothness = 2,
                        .radius = 0,
                        .excess = excess,
                        .noise = 4,
                        .second_moment = 256 * 81.0 / 192 + 4,
                        .gradient = 0,
                        .ranks = 4};
  constexpr double kSteps = 2000;
  for (const json& row : vectors.at("convergence_check_nonconvex").at("rows")) {
    INFO(row.dump());
    const double variance = row.at("eps_Q");
    const Guarantee sgd = nonconvex_guarantee(problem, variance, kSteps);
    const Guarantee heavy = heavy_ball_guarantee(problem, variance, 0.9, kSteps);
    require_near(mean_variance(problem, variance), row.at("sigma2_avg"), 1e-5);
    require_near(sgd.step_size, row.at("eta"), 1e-5);
    require_near(sgd.bound, row.at("bound_sgd"), 1e-5);
    require_near(heavy.step_size, row.at("eta_hb"), 1e-5);
    require_near(heavy.bound, row.at("bound_heavyball"), 1e-5);
  }
  const json& choco = vectors.at("choco_gossip_check");
  const Mixing mixing{1 - choco.at("spectral_gap").get<double>(), choco.at("beta")};
  const ChocoRate rate = choco_rate(mixing, choco.at("omega_topk"));
  require_near(rate.gamma, choco.at("gamma_theory"), 1e-9);
  require_near(rate.factor, choco.at("rate_bound_per_step"), 1e-9);
}

}  // namespace eqt::test
