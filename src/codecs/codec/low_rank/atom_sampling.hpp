// SPDX-License-Identifier: Apache-2.0
// ATOMO's sampling: keep probabilities of least variance for a given number of atoms.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/random.hpp"

namespace eqt::codec {

/// Probabilities min(1, |lambda_i| / t) with the t that makes them add up to `budget`: those that
/// minimise the variance sum lambda_i^2 (1/p_i - 1). An atom that would need more than 1 is always
/// kept, and the excess is redistributed (Wang et al. 2018, algorithm 1). Atoms of 0 have
/// probability 0; if no more than `budget` are left, all have 1.
/// @pre budget > 0, lambda finite, p.size() == lambda.size()
void keep_probabilities(std::span<const double> lambda, double budget, std::span<double> p);

/// Returns the t of keep_probabilities() for the values of a gradient as atoms, rounded to float32
/// and at least the smallest positive number: |v| >= t is kept, others with probability |v| / t. It
/// is 0 if all values are 0.
/// @return NaN if a value is not finite
float keep_threshold(std::span<const float> values, double budget);

/// Appends the index of each value that is kept: |v| >= threshold, or u * threshold < |v| for the
/// uniform number u (24 bits) of `key`, with strata if they are not null, at counter first_index +
/// index. Ascending.
/// @pre threshold > 0, indices.size() >= values.size(), values.size() <= 2^32
/// @return how many were kept
std::size_t draw_values(std::span<const float> values, float threshold, const RandomKey& key,
                        const Strata* strata, std::uint64_t first_index,
                        std::span<std::uint32_t> indices);

}  // namespace eqt::codec
