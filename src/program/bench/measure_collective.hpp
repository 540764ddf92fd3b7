// SPDX-License-Identifier: Apache-2.0
// The cost of a mean over ranks beside MPI_Allreduce: the measurements of `bench collectives`.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/compressor.hpp"
#include "collective/collective.hpp"
#include "comm/communicator.hpp"
#include "core/flat_buffer.hpp"
#include "core/layout.hpp"
#include "pipeline/engine.hpp"

namespace eqt::bench {

/// Milliseconds are the slowest rank's, bytes the mean over ranks of what one of them sends.
struct CollectiveFigures {
  double median_ms = 0, p95_ms = 0;
  double mpi_median_ms = 0, mpi_p95_ms = 0;    // MPI_Allreduce of the same float32 values
  std::uint64_t wire_bytes = 0;                // counted where it is sent, with checksums
  std::uint64_t estimated_bytes = 0;           // of wire_bytes: sent by MPI itself, by formula
  std::uint64_t on_host_bytes = 0;             // of wire_bytes: to ranks of the same host
  std::optional<std::uint64_t> formula_bytes;  // by collective_cost() from what was encoded
  // The bytes that hosts' interfaces sent, minus 66 bytes of headers per packet; empty on one host.
  std::optional<std::uint64_t> interface_bytes;
  // |result - mean|^2 / mean over ranks of |gradient|^2; none for votes, which are no mean.
  std::optional<double> relative_error;
  std::size_t repetitions = 0;
};

/// Tensors like those of a network: matrices of at most 512 x 4608, the largest of ResNet-18 and
/// ResNet-50, and vectors of what is left over.
Layout bench_layout(std::size_t values);

/// Every rank's gradient, known to all: rank r holds bench_gradient() turned round by r / ranks of
/// its length, so that ranks' values at one place are independent of one another.
class RankGradients {
 public:
  RankGradients(std::size_t values, int ranks);
  void copy(Rank rank, std::span<float> to) const;

  /// Says how far a result is from the exact mean.
  struct Distance {
    double error = 0;            // |result - mean|^2 / mean over ranks of |gradient|^2
    double mean = 0;             // |mean|^2 / mean over ranks of |gradient|^2
    double along = 0;            // <result, mean> / |mean|^2: 1 of the mean, 0 of zeros
    double size = 0;             // |result|^2 / |mean|^2
    bool rounding_only = false;  // every value is as near as float32 sums come in any order
  };
  /// Computes the distance by a plain loop in double precision.
  Distance distance(std::span<const float> result) const;
  /// Sum over ranks of what sign codecs send, divided by them.
  void mean_of_signs(std::span<float> to) const;

 private:
  std::size_t start_of(Rank rank) const;
  FlatBuffer base_;
  int ranks_;
};

/// One collective on one communicator.
class CollectiveBench {
 public:
  /// Keeps references to all of these.
  CollectiveBench(comm::Communicator& comm, const codec::Compressor& compressor,
                  collective::Collective& collective, std::span<const pipeline::FusionBucket> plan,
                  const RankGradients& gradients, std::size_t values);

  /// Compares one mean with the exact one: equal to rounding where the compressor is lossless, else
  /// no further away than the compressor's own error on these very values allows; identical bits on
  /// all ranks. Counts bytes. Warms up. Collective.
  /// @throws Error{bug} that says what was expected and what was found
  void verify();
  /// Takes at least 5 repetitions and about `seconds`, ours and MPI's in turn. Collective.
  /// @pre verify() returned
  CollectiveFigures measure(double seconds);
  /// Returns the memory of what is averaged.
  FlatBuffer& memory() { return room_; }

 private:
  void run(StepId step);
  void run_mpi();
  template <typename Work>
  double timed(std::span<float> values, const Work& work);
  double largest_compression_error();
  double error_limit(double mean);
  void count_bytes(const comm::ByteCount& before, const comm::ByteCount& now);
  void look_at_interface();
  void verify_votes();
  double spread_along(const RankGradients::Distance& found) const;
  void verify_direction(const RankGradients::Distance& found);

  comm::Communicator& comm_;
  const codec::Compressor& compressor_;
  collective::Collective& collective_;
  const std::span<const pipeline::FusionBucket> plan_;
  const RankGradients& gradients_;
  // This rank's gradient, then the result. MPI has memory of its own: ours may be shared, which
  // changes its pages.
  FlatBuffer room_, room_of_mpi_;
  std::span<float> values_;
  pipeline::Engine engine_;
  std::uint64_t encoded_bytes_ = 0;  // of the last run
  double sent_values_ = 0;           // of verify()'s step, over all ranks
  CollectiveFigures figures_;
};

}  // namespace eqt::bench
