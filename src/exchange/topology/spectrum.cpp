// SPDX-License-Identifier: Apache-2.0
#include "topology/spectrum.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace eqt::topology {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix dense(const MixingMatrix& matrix) {
  const std::vector<double> values = matrix.row_major();
  return Eigen::Map<const Matrix>(values.data(), matrix.ranks(), matrix.ranks());
}

Matrix product(const Topology& topology) {
  Matrix result = dense(topology.at(0));
  for (StepId step = 1; step < topology.period(); ++step)
    result = (dense(topology.at(step)) * result).eval();
  return result;
}

/// W - J. Where rows or columns of W sum to 1 it has W's eigenvalues, but 0 in place of the 1: the
/// vector of ones is an eigenvector of both, from one side at least (A. Brauer, 1952).
Matrix without_mean(const Matrix& matrix) {
  return matrix.array() - 1.0 / static_cast<double>(matrix.rows());
}

template <typename Solver>
const Solver& solved(const Solver& solver) {
  EQT_CHECK(solver.info() == Eigen::Success, "the eigenvalues of a mixing matrix do not converge");
  return solver;
}

/// Ascending. @pre symmetric
Eigen::VectorXd symmetric_eigenvalues(const Matrix& matrix) {
  return solved(Eigen::SelfAdjointEigenSolver<Matrix>(matrix, Eigen::EigenvaluesOnly))
      .eigenvalues();
}

/// max |lambda|.
double spectral_radius(const Matrix& matrix) {
  if (matrix == matrix.transpose()) return symmetric_eigenvalues(matrix).cwiseAbs().maxCoeff();
  constexpr bool kVectors = false;
  return solved(Eigen::EigenSolver<Matrix>(matrix, kVectors)).eigenvalues().cwiseAbs().maxCoeff();
}

/// The largest singular value. Squaring costs small ones their digits, never the largest.
double norm(const Matrix& matrix) {
  return std::sqrt(std::max(0.0, symmetric_eigenvalues(matrix.transpose() * matrix).maxCoeff()));
}

Matrix identity_minus(const Matrix& matrix) {
  return Matrix::Identity(matrix.rows(), matrix.cols()) - matrix;
}

}  // namespace

double second_modulus(const MixingMatrix& matrix) {
  return spectral_radius(without_mean(dense(matrix)));
}

double spectral_gap(const MixingMatrix& matrix) { return 1 - second_modulus(matrix); }

double smallest_eigenvalue(const MixingMatrix& matrix) {
  EQT_CHECK(matrix.is_symmetric(), "a mixing matrix that is not symmetric");
  return symmetric_eigenvalues(dense(matrix)).minCoeff();
}

double contraction(const MixingMatrix& matrix) { return norm(without_mean(dense(matrix))); }

double distance_from_identity(const MixingMatrix& matrix) {
  return norm(identity_minus(dense(matrix)));
}

Spectrum analyse(const Topology& topology) {
  const Matrix rest = without_mean(product(topology));
  Spectrum found;
  found.second_modulus = spectral_radius(rest);
  found.spectral_gap = 1 - found.second_modulus;
  found.contraction = norm(rest);
  for (StepId step = 0; step < topology.period(); ++step)
    found.beta = std::max(found.beta, distance_from_identity(topology.at(step)));
  if (topology.is_static() && topology.at(0).is_symmetric())
    found.smallest = smallest_eigenvalue(topology.at(0));
  return found;
}

std::vector<double> product_of_period(const Topology& topology) {
  const Matrix result = product(topology);
  return {result.data(), result.data() + result.size()};
}

}  // namespace eqt::topology
