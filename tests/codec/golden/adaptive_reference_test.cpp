// SPDX-License-Identifier: Apache-2.0
// The reference's numbers for adapted levels, mu-law levels and NUQSGD, if the folder EQT_SHARED
// has them.

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include "codec/levels/adaptive_levels.hpp"
#include "support/catch.hpp"

using namespace eqt::codec;
using nlohmann::json;

namespace {

/// Null if there is no reference.
json reference() {
  const char* shared = std::getenv("EQT_SHARED");
  if (shared == nullptr) {
    std::cout << "[eqt-skip] EQT_SHARED is not set: the reference numbers are not here\n";
    return {};
  }
  std::ifstream file(std::string(shared) + "/reference/vectors/vectors.json");
  REQUIRE(file);
  return json::parse(file);
}

Approx near(const json& number, double relative = 1e-9) {
  return Approx(number.get<double>()).epsilon(relative).margin(0);
}

void check_levels(const Levels& found, const json& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t j = 0; j < found.size(); ++j) {
    INFO("level " << j);
    CHECK(found[j] == Approx(expected[j].get<double>()).epsilon(0).margin(tolerance));
  }
}

Levels swept(const NormalMixture& mixture, Levels levels, int sweeps) {
  for (int i = 0; i < sweeps; ++i) sweep_levels(mixture, levels);
  return levels;
}

const NormalMixture& single() {
  static const NormalMixture mixture(std::vector<NormalComponent>{{.deviation = 0.05}});
  return mixture;
}

}  // namespace

TEST_CASE("coordinate and gradient descent reach the reference's levels", "[adaptive][vectors]") {
  const json all = reference();
  if (all.is_null()) return;
  const json& v = all["alq_amq"];
  const Levels exponential = exponential_levels(7, 0.5);
  CHECK(expected_variance(single(), exponential) == near(v["psi_exp05_7levels"]));
  CHECK(expected_variance(single(), uniform_levels(7)) == near(v["psi_uniform_7levels"]));
  CHECK(best_between(single(), 0, 0.125, 0.0625) == near(v["beta(0,0.125)"]));
  CHECK(best_between(single(), 0.015625, 0.0625, 0.0390625) == near(v["beta(0.015625,0.0625)"]));
  CHECK(level_slope(single(), 0.015625, 0.03125, 0.0625) ==
        near(v["dPsi(0.015625,0.03125,0.0625)"]));

  check_levels(swept(single(), exponential, 1), v["cd_1sweep_from_exp05"], 1e-9);
  CHECK(expected_variance(single(), swept(single(), exponential, 1)) ==
        near(v["cd_psi_after_1_sweep"]));
  CHECK(expected_variance(single(), swept(single(), exponential, 10)) ==
        near(v["cd_10sweeps_psi"]));
  const Levels fixed_point = swept(single(), exponential, 60);
  check_levels(fixed_point, v["cd_60sweeps_levels"], 1e-7);
  CHECK(expected_variance(single(), fixed_point) == near(v["cd_60sweeps_psi"]));
  const Levels from_uniform = swept(single(), uniform_levels(7), 200);
  check_levels(from_uniform, v["cd_200sweeps_from_uniform_levels"], 1e-7);
  CHECK(expected_variance(single(), from_uniform) == near(v["cd_200sweeps_from_uniform_psi"]));

  // The reference's 400 gradient sweeps at rate 20 are chaotic: steps overshoot, and the last bits
  // decide where near the minimum they end. So only the variance is compared;
  // tests/codec/golden/adaptive.json has sweeps that are not chaotic.
  Levels descended = exponential;
  for (int i = 0; i < 400; ++i) gradient_sweep_levels(single(), descended, 20);
  const double psi = expected_variance(single(), descended);
  for (const double end : {psi, v["gd_lr20_400steps_psi"].get<double>()}) {
    CHECK(end < v["psi_exp05_7levels"].get<double>());
    CHECK(end > v["cd_60sweeps_psi"].get<double>());
  }
}

TEST_CASE("the multiplier descends as in the reference", "[adaptive][vectors]") {
  const json all = reference();
  if (all.is_null()) return;
  const json& v = all["alq_amq"];
  CHECK(multiplier_variance(single(), 7, 0.5, Centre::cell) == near(v["amq_s7_p05_psi"]));
  CHECK(multiplier_slope(single(), 7, 0.5, Centre::cell) == near(v["amq_s7_p05_grad"]));
  double p = 0.5;
  for (int step = 1; step <= 200; ++step) {
    p -= 0.7 * multiplier_slope(single(), 7, p, Centre::cell);
    if (step == 1) CHECK(p == near(v["amq_lr0.7_p_after_1"]));
    if (step == 40) CHECK(p == near(v["amq_lr0.7_p_after_40"]));
  }
  CHECK(p == near(v["amq_lr0.7_p_after_200"]));
  CHECK(multiplier_variance(single(), 7, p, Centre::cell) == near(v["amq_psi_after_200"]));
}

TEST_CASE("a mixture of normals gives the reference's levels", "[adaptive][vectors]") {
  const json all = reference();
  if (all.is_null()) return;
  const json& v = all["alq_amq"];
  const NormalMixture mixture({{.weight = 1, .deviation = 0.02}, {.weight = 3, .deviation = 0.08}});
  const Levels exponential = exponential_levels(7, 0.5);
  CHECK(expected_variance(mixture, exponential) == near(v["mixture_psi_exp05"]));
  CHECK(best_between(mixture, 0, 0.125, 0.0625) == near(v["mixture_beta(0,0.125)"]));
  const Levels levels = swept(mixture, exponential, 60);
  check_levels(levels, v["mixture_cd60_levels"], 1e-7);
  CHECK(expected_variance(mixture, levels) == near(v["mixture_cd60_psi"]));
}

TEST_CASE("mu-law and NUQSGD's tables have the reference's variances", "[adaptive][vectors]") {
  const json all = reference();
  if (all.is_null()) return;
  const std::vector<float> v8 = all["common"]["v8"].get<std::vector<float>>();
  const auto check_block = [&](const Levels& levels, const json& block) {
    check_levels(levels, block["levels"], 1e-11);
    CHECK(exact_variance(levels, v8, Norm::l2) == near(block["variance_ratio"]));
    CHECK(expected_nonzeros(levels, v8, Norm::l2) == near(block["expected_nonzeros"]));
    CHECK(theorem2_variance(levels, 8, Norm::l2) == near(block["bound_alq_theorem2_ratio"]));
    CHECK(worst_case_variance(levels, 8, Norm::l2) == near(block["worst_case_ratio"]));
    for (std::size_t i = 0; i < v8.size(); ++i) {
      const Cell cell = find_cell(levels, block["r"][i].get<double>());
      CHECK(cell.lower == block["lower_index"][i].get<std::size_t>());
      CHECK(cell.up == Approx(block["p_up"][i].get<double>()).margin(1e-8));
    }
  };
  check_block(mulaw_levels(7, 15), all["elastiquant_mulaw"]["q=2,mu=15.0,nonzero_levels=7"]);
  for (const int n : {2, 3, 4, 7, 8}) {
    check_block(exponential_levels(n, 0.5),
                all["nuqsgd"]["q=2,p=0.5,nonzero_levels=" + std::to_string(n)]);
  }
}

TEST_CASE("without a zero level the centre cell adds a floor", "[adaptive][vectors]") {
  // The published code has levels +-p^j and none at zero: its variance, by cells of signed values.
  const json all = reference();
  if (all.is_null()) return;
  const std::vector<float> v8 = all["common"]["v8"].get<std::vector<float>>();
  for (const auto& [name, block] : all["nuqsgd_reference_code_no_zero_level"].items()) {
    INFO(name);
    const auto levels = block["levels"].get<std::vector<double>>();
    const double norm = vector_norm(v8, Norm::l2);
    double variance = 0;
    for (std::size_t i = 0; i < v8.size(); ++i) {
      const double r = static_cast<double>(v8[i]) / norm;
      const Cell cell = find_cell(levels, r);
      CHECK(cell.lower == block["lower_index"][i].get<std::size_t>());
      CHECK(cell.up == Approx(block["p_up"][i].get<double>()).margin(1e-9));
      variance += (levels[cell.lower + 1] - r) * (r - levels[cell.lower]);
    }
    CHECK(variance == near(block["variance_ratio"]));
  }
}
