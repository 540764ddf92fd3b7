// SPDX-License-Identifier: Apache-2.0
// What the noise of compression adds to that of a batch, and the steps to a target.
//
// Source   S. McCandlish et al., "An Empirical Model of Large-Batch Training", 2018,
//          arXiv:1812.06162: steps = S (1 + X / B) with a batch of B samples, X the noise scale, S
//          the steps of an unlimited batch; with compression S (1 + (1 + q) X / B), where the mean
//          has (1 + q) times the variance
// Model    as collective/gradient_noise.hpp: of |G|^2 = 1 the mean over the batch has the variance
//          V = X / B, and |g|^2 of each of n ranks is 1 + n V; each encoding adds the relative
//          variance e of what it encodes: e (1 + n V) / n for the ranks' gradients, and once more
//          e (|G|^2 + V + that) for each further quantisation of the mean

#pragma once

namespace eqt::planner {

/// q: the variance that compression adds to the mean, in units of V.
/// @param variance e, as of normal values
/// @param quantisations of each value, one after the other
/// @param samples B, of all ranks
/// @pre ranks, quantisations >= 1; samples, noise_scale > 0
double compression_noise(double variance, int quantisations, int ranks, double samples,
                         double noise_scale);

/// S (1 + (1 + q) X / B).
double steps_to_target(double steps_at_1, double noise, double samples, double noise_scale);

}  // namespace eqt::planner
