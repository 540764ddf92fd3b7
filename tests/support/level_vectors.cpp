// SPDX-License-Identifier: Apache-2.0
#include "support/level_vectors.hpp"

#include <cmath>
#include <fstream>
#include <vector>

#include "codec/entropy/elias.hpp"
#include "codec/levels/level_design.hpp"
#include "codec/levels/levels.hpp"
#include "support/catch.hpp"
#include "support/level_oracle.hpp"

namespace eqt::test {
namespace {

using namespace codec;
using nlohmann::json;

// The files have 12 digits, except for columns with a smaller constant below.
void require_near(double found, double expected, double relative = 1e-9) {
  REQUIRE(found == Approx(expected).epsilon(relative).margin(1e-11));
}

std::string text_of(CodeWord word) {
  std::string text;
  for (int k = word.length - 1; k >= 0; --k) text += (word.bits >> k & 1u) != 0 ? '1' : '0';
  return text;
}

Norm norm_of(const json& entry, const char* key) {
  return entry.at(key).get<std::string>() == "inf" ? Norm::max : Norm::l2;
}

double number_after(const std::string& key, const std::string& label) {
  return std::stod(key.substr(key.find(label) + label.size()));
}

Levels block_levels(const std::string& section, const std::string& key) {
  if (section == "qsgd") return uniform_levels(static_cast<int>(number_after(key, "s=")));
  const int n = static_cast<int>(number_after(key, "nonzero_levels="));
  if (section == "nuqsgd") return exponential_levels(n, number_after(key, "p="));
  return sinh_levels(n, number_after(key, "theta="));
}

void check_block_theory(const json& block, const Levels& levels, const std::vector<float>& v,
                        Norm norm) {
  const auto expected_levels = block.at("levels").get<std::vector<double>>();
  REQUIRE(levels.size() == expected_levels.size());
  for (std::size_t j = 0; j < levels.size(); ++j) require_near(levels[j], expected_levels[j]);
  const double scale = vector_norm(v, norm);
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double r = std::abs(static_cast<double>(v[i])) / scale;
    const Cell cell = find_cell(levels, r);
    require_near(r, block.at("r")[i].get<double>());
    REQUIRE(cell.lower == block.at("lower_index")[i].get<std::size_t>());
    require_near(cell.up, block.at("p_up")[i].get<double>());
    const double mean =
        scale * (levels[cell.lower] + cell.up * (levels[cell.lower + 1] - levels[cell.lower]));
    require_near(std::copysign(mean, static_cast<double>(v[i])),
                 block.at("expected_value")[i].get<double>());
  }
  require_near(exact_variance(levels, v, norm), block.at("variance_ratio").get<double>());
  require_near(expected_nonzeros(levels, v, norm), block.at("expected_nonzeros").get<double>());
  require_near(theorem2_variance(levels, v.size(), norm),
               block.at("bound_alq_theorem2_ratio").get<double>());
  require_near(worst_case_variance(levels, v.size(), norm),
               block.at("worst_case_ratio").get<double>());
}

void check_block_rounding(const json& block, const Levels& levels, bool uniform,
                          const std::vector<float>& v, const std::vector<double>& u, Norm norm) {
  const float scale = oracle_norm(v, norm);
  std::vector<unsigned> indices;
  for (std::size_t i = 0; i < v.size(); ++i) {
    indices.push_back(
        oracle_index(v[i], scale, levels, uniform, ~static_cast<std::uint32_t>(u[i] * 0x1p32)));
    const double value =
        std::copysign(static_cast<double>(scale) * levels[indices[i]], static_cast<double>(v[i]));
    require_near(value, block.at("value_given_u8")[i].get<double>(), 1e-6);
  }
  REQUIRE(indices == block.at("index_given_u8").get<std::vector<unsigned>>());
  REQUIRE(oracle_sparse(indices, v) == block.at("sparse_erc_bits_given_u8").get<std::string>());
  REQUIRE(oracle_dense(indices, v) == block.at("dense_erc_bits_given_u8").get<std::string>());
}

// Levels of a Monte-Carlo row's scheme.
Levels scheme_levels(const std::string& scheme, std::size_t d, Norm norm) {
  if (scheme.starts_with("qsgd")) {
    return uniform_levels(static_cast<int>(number_after(scheme, "_s")));
  }
  if (scheme.starts_with("nuqsgd")) {
    return exponential_levels(static_cast<int>(number_after(scheme, "s1=")), 0.5);
  }
  const int n = (1 << (static_cast<int>(number_after(scheme, "_b")) - 1)) - 1;
  return sinh_levels(n, optimal_theta(n, d, norm));
}

}  // namespace

json read_json(const std::string& path) {
  std::ifstream file(path);
  INFO("cannot open " << path);
  REQUIRE(file.good());
  return json::parse(file);
}

void check_elias(const json& vectors) {
  const json& elias = vectors.at("elias");
  for (const json& row : elias.at("table_1_to_20")) {
    const auto k = row.at("k").get<std::uint64_t>();
    INFO("k = " << k);
    REQUIRE(text_of(gamma_code(k)) == row.at("gamma").get<std::string>());
    REQUIRE(text_of(delta_code(k)) == row.at("delta").get<std::string>());
    REQUIRE(text_of(omega_code(k)) == row.at("omega").get<std::string>());
    REQUIRE(oracle_omega(k) == row.at("omega").get<std::string>());
  }
  for (const auto& [k, length] : elias.at("omega_len_more").items()) {
    REQUIRE(omega_length(std::stoull(k)) == length.get<int>());
  }
  std::string stream;
  for (const json& k : elias.at("omega_stream_example").at("ints")) {
    stream += text_of(omega_code(k.get<std::uint64_t>()));
  }
  REQUIRE(stream == elias.at("omega_stream_example").at("bits").get<std::string>());
}

void check_blocks(const json& vectors) {
  const auto v = vectors.at("common").at("v8").get<std::vector<float>>();
  const auto u = vectors.at("common").at("u8").get<std::vector<double>>();
  for (const std::string section : {"qsgd", "nuqsgd", "elastiquant_sinh"}) {
    REQUIRE_FALSE(vectors.at(section).empty());
    for (const auto& [key, block] : vectors.at(section).items()) {
      INFO(section << " " << key);
      const Levels levels = block_levels(section, key);
      const Norm norm = norm_of(block, "norm_type");
      check_block_theory(block, levels, v, norm);
      check_block_rounding(block, levels, section == "qsgd", v, u, norm);
    }
  }
}

void check_worst_cases(const json& vectors) {
  constexpr double kDigits = 1e-6;  // the table has eight digits, flat minima fewer
  for (const json& row : vectors.at("worst_case_table")) {
    const int n = row.at("nonzero_levels").get<int>();
    const auto d = row.at("bucket").get<std::size_t>();
    INFO(n << " levels, buckets of " << d);
    const auto worst = [&](const Levels& levels, Norm norm) {
      return worst_case_variance(levels, d, norm);
    };
    const auto expect = [&](double found, const char* key) {
      INFO(key);
      require_near(found, row.at(key).get<double>(), kDigits);
    };
    const double theta_l2 = optimal_theta(n, d, Norm::l2);
    const double theta_max = optimal_theta(n, d, Norm::max);
    expect(theta_l2, "theta_l2");
    expect(theta_max, "theta_linf");
    expect(sinh_worst_case_l2(n, d, theta_l2), "eps_l2_closed_form");
    expect(worst(sinh_levels(n, theta_l2), Norm::l2), "eps_l2_dual");
    expect(std::pow(std::sinh(theta_max / 2), 2), "eps_linf_closed_form");
    expect(worst(sinh_levels(n, theta_max), Norm::max), "eps_linf_fixed_point");
    expect(phi(std::sqrt(static_cast<double>(d)) / n), "qsgd_l2_worst");
    expect(worst(uniform_levels(n), Norm::l2), "qsgd_l2_worst_dual");
    expect(worst(uniform_levels(n), Norm::max), "qsgd_linf_worst");
    expect(worst(exponential_levels(n, 0.5), Norm::l2), "nuqsgd_p05_l2_worst");
    expect(worst(exponential_levels(n, 0.5), Norm::max), "nuqsgd_p05_linf_worst");
    expect(theorem2_variance(exponential_levels(n, 0.5), d, Norm::l2), "nuqsgd_p05_theorem_bound");
    if (n > 1 && row.contains("exp_best_p")) {
      const double p = optimal_p(n, d, Norm::l2);
      require_near(p, row.at("exp_best_p").get<double>(), 1e-3);  // a kink found on a grid
      expect(worst(exponential_levels(n, p), Norm::l2), "exp_best_p_l2_worst");
    }
  }
  for (const json& row : vectors.at("extra_derivation_checks").at("b8_best_exponential")) {
    const auto d = row.at("d").get<std::size_t>();
    const double p = optimal_p(127, d, Norm::l2);
    require_near(worst_case_variance(exponential_levels(127, p), d, Norm::l2),
                 row.at("eps").get<double>(), 1e-5);
  }
  for (const json& row : vectors.at("inf_p_closed_form_check")) {
    require_near(phi(row.at("A").get<double>()), row.at("closed").get<double>());
  }
}

void check_adversarial_vectors(const json& vectors) {
  for (const json& row : vectors.at("adversarial_vectors")) {
    const auto d = row.at("d").get<std::size_t>();
    if (row.contains("norm")) {  // equal entries under L2: A - 1, attained
      const auto levels = row.at("levels").get<std::vector<double>>();
      const std::vector<float> equal(d, 1.0f);
      require_near(exact_variance(levels, equal, Norm::l2),
                   row.at("equal_entries_ratio").get<double>(), 1e-6);
      require_near(worst_case_variance(levels, d, Norm::l2),
                   row.at("worst_case_dual").get<double>(), 1e-6);
      continue;
    }
    const auto name = row.at("levels").get<std::string>();
    const Levels levels = name == "uniform7"   ? uniform_levels(7)
                          : name == "exp7_p.5" ? exponential_levels(7, 0.5)
                                               : sinh_levels(7, optimal_theta(7, d, Norm::max));
    std::vector<float> v(d, row.at("r").get<float>());
    v[0] = 1;
    require_near(exact_variance(levels, v, Norm::max), row.at("achieved_ratio").get<double>(),
                 1e-6);
    require_near(worst_case_variance(levels, d, Norm::max), row.at("worst_case").get<double>());
  }
  const json& counterexample = vectors.at("nuqsgd_threshold_counterexample");
  const auto d = counterexample.at("d").get<std::size_t>();
  std::vector<float> v(
      d, static_cast<float>(std::sqrt((1 - 0.7275 * 0.7275) / static_cast<double>(d - 1))));
  v[0] = 0.7275f;
  const Levels levels = exponential_levels(counterexample.at("s").get<int>() + 1, 0.5);
  require_near(exact_variance(levels, v, Norm::l2),
               counterexample.at("exact_variance_ratio").get<double>(), 1e-6);
  require_near(worst_case_variance(levels, d, Norm::l2),
               counterexample.at("dual_worst_case").get<double>());
}

void check_monte_carlo(const json& vectors) {
  int exact_rows = 0;
  for (const json& row : vectors.at("monte_carlo").at("rows")) {
    const auto d = row.at("d").get<std::size_t>();
    const Norm norm = norm_of(row, "norm");
    const Levels levels = scheme_levels(row.at("scheme").get<std::string>(), d, norm);
    INFO(row.at("scheme") << " " << row.at("source") << " " << d);
    const double worst = worst_case_variance(levels, d, norm);
    require_near(worst, row.at("worst_case_ratio").get<double>(), 1e-5);
    require_near(theorem2_variance(levels, d, norm), row.at("alq_bound").get<double>(), 1e-5);
    REQUIRE(row.at("exact_var_ratio").get<double>() <= worst * (1 + 1e-5) + 1e-9);
    const auto source = row.at("source").get<std::string>();
    if (source != "equal" && source != "onehot") continue;
    std::vector<float> v(d, source == "equal" ? 1.0f : 0.0f);
    if (source == "onehot") v[d / 3] = 2.5f;
    const double exact = exact_variance(levels, v, norm);
    require_near(exact, row.at("exact_var_ratio").get<double>(), 1e-5);
    require_near(expected_nonzeros(levels, v, norm), row.at("exact_nonzeros").get<double>(), 1e-5);
    // 40 or more quantisations of at least 512 values are this close.
    REQUIRE(row.at("mc_var_ratio").get<double>() == Approx(exact).epsilon(0.1).margin(1e-6));
    ++exact_rows;
  }
  REQUIRE(exact_rows > 0);
}

void check_elasticity_sweep(const json& vectors) {
  constexpr double kDigits = 1e-4;  // theta has six digits, and the levels multiply its error by n
  for (const json& row : vectors.at("elasticity_sweep_gaussian")) {
    const auto d = row.at("d").get<std::size_t>();
    const int n = row.at("nonzero_levels").get<int>();
    const Norm norm = norm_of(row, "norm");
    const Levels levels = sinh_levels(n, row.at("theta").get<double>());
    INFO("d = " << d << ", theta = " << row.at("theta"));
    require_near(levels[1], row.at("l1").get<double>(), kDigits);
    require_near(worst_case_variance(levels, d, norm), row.at("worst_case").get<double>(), kDigits);
    // The row is one Gaussian vector of d values; the model is the average over all of them, so
    // they agree up to the sampling error of d values. Under the maximum norm the scale is an
    // extreme value, and the model is only approximate.
    if (norm == Norm::max) continue;
    const double sampling = 5 / std::sqrt(static_cast<double>(d));
    const GaussianCost cost = gaussian_cost(levels, d, norm);
    REQUIRE(cost.variance == Approx(row.at("gauss_var_ratio").get<double>()).epsilon(sampling));
    REQUIRE(cost.sparse_bits ==
            Approx(row.at("bits_per_coord_sparse").get<double>()).epsilon(sampling));
    REQUIRE(cost.dense_bits ==
            Approx(row.at("bits_per_coord_dense").get<double>()).epsilon(sampling));
    const double table_bits = 4 * static_cast<double>(levels.size()) / static_cast<double>(d);
    REQUIRE(cost.huffman_bits - table_bits ==
            Approx(row.at("bits_per_coord_huffman").get<double>()).epsilon(sampling));
  }
}

}  // namespace eqt::test
