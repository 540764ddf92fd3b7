// SPDX-License-Identifier: Apache-2.0
// Sets that are made of other sets: what ranks with data of their own need to train one network.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "data/dataset.hpp"

namespace eqt::data {

/// `set` with other numbers for its classes.
/// @param labels of the new numbers, by old number @pre each in [0, classes)
std::unique_ptr<Dataset> relabelled(std::unique_ptr<Dataset> set, std::vector<int> labels,
                                    int classes);

/// Several sets one after another. Keeps pointers to them.
/// @pre at least one; all have the same inputs, targets and classes
std::unique_ptr<Dataset> joined(std::vector<const Dataset*> sets);

/// All samples of a set, prepared for the network, as bytes for another rank.
/// @pre has_fixed_shapes(set)
std::vector<std::byte> packed_samples(const Dataset& set);
/// Bytes that packed_samples() makes.
std::size_t packed_bytes(const Dataset& set);
/// Returns true where every sample has as many numbers as any other.
bool has_fixed_shapes(const Dataset& set);

/// The set that another rank packed.
/// @param like a set of the same inputs, targets and classes
/// @throws Error{wire} for bytes of another length than `samples` samples have, or a class or token
/// that is none
std::unique_ptr<Dataset> unpacked_samples(std::vector<std::byte> bytes, std::size_t samples,
                                          const Dataset& like);

}  // namespace eqt::data
