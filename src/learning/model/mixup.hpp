// SPDX-License-Identifier: Apache-2.0
// Mixup: a batch is trained on together with itself in reverse order, as a weighted sum of both.
//
// Source   H. Zhang et al., ICLR 2018, arXiv:1710.09412, section 2: x = s x_i + (1 - s) x_j with
//          the loss s l(y_i) + (1 - s) l(y_j), s ~ Beta(alpha, alpha), one s for a batch
// Differs  the partner of sample i is sample n - 1 - i instead of a random one; batches are
// shuffled

#pragma once

#include "core/random.hpp"

namespace eqt::model {

/// s, a pure function of its arguments. @pre alpha > 0
double draw_mixup_share(double alpha, const RandomKey& key);

}  // namespace eqt::model
