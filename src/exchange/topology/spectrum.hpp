// SPDX-License-Identifier: Apache-2.0
// How fast a topology brings ranks together: eigenvalues and norms of its matrices.
//
// J is the matrix whose entries are all 1 / ranks: the mean. Costs grow with ranks^3: for 256 ranks
// well below a second, for 1024 some ten seconds.

#pragma once

#include <optional>
#include <vector>

#include "topology/mixing_matrix.hpp"
#include "topology/topology.hpp"

namespace eqt::topology {

/// max |lambda| over all eigenvalues but the one that is 1; 0 for one rank.
double second_modulus(const MixingMatrix& matrix);
/// 1 - second_modulus.
double spectral_gap(const MixingMatrix& matrix);
/// @throws Error{bug} unless the matrix is symmetric: otherwise eigenvalues may be complex
double smallest_eigenvalue(const MixingMatrix& matrix);
/// ||W - J||_2: a step leaves at most this part of the distance from the mean, if W is doubly
/// stochastic. Equals second_modulus where W is normal (W W^T = W^T W).
double contraction(const MixingMatrix& matrix);
/// beta = ||I - W||_2 of CHOCO's theory (Koloskova et al. 2019, theorem 2).
double distance_from_identity(const MixingMatrix& matrix);

/// The effect of one period of a topology.
struct Spectrum {
  double second_modulus = 0;  // of the product of a period's matrices
  double spectral_gap = 1;    // 1 - second_modulus
  double contraction = 0;     // ||W_p ... W_1 - J||_2: the product's distance from the mean
  double beta = 0;            // the largest ||I - W||_2 of a period
  std::optional<double>
      smallest;  // smallest eigenvalue, where the topology is static and symmetric
};
Spectrum analyse(const Topology& topology);

/// W_p ... W_1, the matrix that a whole period from step 0 applies; row-major.
std::vector<double> product_of_period(const Topology& topology);

}  // namespace eqt::topology
