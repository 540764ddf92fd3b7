// The layers behind make_normalization; NORMALIZATION.md has their formulas.

#pragma once

#include "model/normalization.hpp"

namespace eqt::model {

/// @pre groups divide channels
std::shared_ptr<Normalization> make_group_norm(std::int64_t channels, std::int64_t groups);
std::shared_ptr<Normalization> make_evonorm_s0(std::int64_t channels, std::int64_t groups);

/// Its forward pass throws Error{usage} where 16 chunks of at least 2 values do not cut a group.
std::shared_ptr<Normalization> make_range_evonorm(std::int64_t channels, std::int64_t groups);

/// Its forward pass in training mode throws Error{usage} where 16 chunks of at least 2 pixels do
/// not cut the batch; evaluation takes any batch.
std::shared_ptr<Normalization> make_range_batch_norm(std::int64_t channels);

}  // namespace eqt::model
