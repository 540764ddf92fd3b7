// SPDX-License-Identifier: Apache-2.0
// The values that a network starts training with. No torch.
//
// Source   K. He, X. Zhang, S. Ren, J. Sun, ICCV 2015, eq. (14), by fan-out, for convolutions;
//          PyTorch's uniform values for linear layers; M. Matsumoto, T. Nishimura, 1998 (the
//          Mersenne twister); G. Box, M. Muller, 1958 (normal values)
// Draws    those of the network that LibTorch runs, in the same order, so that runs of one seed
//          start from the same weights in every precision. LibTorch's own values depend on the
//          processor in their last bits, for it has approximations of its own on some. These are
//          the same on all processors, and differ from LibTorch's by rounding alone.

#pragma once

#include <cstdint>
#include <span>

#include "model/own/plan.hpp"

namespace eqt::model::precision {

/// @param parameters, buffers  of the plan's layouts
void draw_initial_values(const Plan& plan, std::uint64_t seed, std::span<float> parameters,
                         std::span<float> buffers);

}  // namespace eqt::model::precision
