// SPDX-License-Identifier: Apache-2.0
// Checks of level tables, variances, rounding and Elias codes against a JSON file of independently
// computed numbers: the committed excerpt, or the whole reference.

#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace eqt::test {

nlohmann::json read_json(const std::string& path);

void check_elias(const nlohmann::json& vectors);
/// QSGD, NUQSGD and sinh blocks: levels, cells, variance, expectations, rounding of given draws.
void check_blocks(const nlohmann::json& vectors);
void check_worst_cases(const nlohmann::json& vectors);
void check_adversarial_vectors(const nlohmann::json& vectors);
/// Sources that need no random numbers, and the order exact <= worst case <= theorem 2 of the rest.
void check_monte_carlo(const nlohmann::json& vectors);
void check_elasticity_sweep(const nlohmann::json& vectors);

}  // namespace eqt::test
