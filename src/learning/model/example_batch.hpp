// SPDX-License-Identifier: Apache-2.0
// A batch to try a network on. Private to this room.

#pragma once

#include <cstddef>

#include "data/batch.hpp"
#include "model/replica.hpp"

namespace eqt::model {

/// `size` equal samples, as large as the data set's can be: floats are 0, integers 1, which is a
/// token, a class and a mask's value of every set.
data::Batch example_batch(const ModelOptions& options, std::size_t size);

}  // namespace eqt::model
