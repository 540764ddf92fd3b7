// SPDX-License-Identifier: Apache-2.0
// Checks of the theory room against a JSON file of independently computed numbers: the committed
// excerpt, or the whole reference.

#pragma once

#include <nlohmann/json.hpp>

namespace eqt::test {

/// Table of worst cases, to 1e-6.
void check_worst_case_rows(const nlohmann::json& vectors);
/// The worst vectors reach the ratios of the file.
void check_worst_vectors(const nlohmann::json& vectors);
/// Expected lengths of W1 with its parts and of W2 for the vector v8.
void check_block_lengths(const nlohmann::json& vectors, const std::vector<float>& v8);
/// Bounds of variances and lengths, entropies, published estimates.
void check_length_bounds(const nlohmann::json& vectors);
/// Guarantees of SGD and heavy ball, and CHOCO's rate.
void check_guarantees(const nlohmann::json& vectors);

}  // namespace eqt::test
