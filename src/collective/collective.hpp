// Mean of the gradient over all ranks, dense or compressed.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "codec/compressor.hpp"
#include "codec/message.hpp"
#include "collective/plan.hpp"
#include "comm/communicator.hpp"
#include "core/traffic.hpp"

namespace eqt::collective {

/// One encoded message and the segments that it carries.
struct Frame {
  std::span<const std::byte> bytes;
  std::span<const codec::Segment> segments;
};

/// What this rank put into one mean: its own messages as everyone decodes them, and the runs that
/// it contributed without encoding. Valid until the collective's next call.
struct Contribution {
  const codec::Compressor* compressor = nullptr;  // null: everything went exactly
  StepId step = 0;
  std::uint32_t index = 0;
  std::span<const Frame> frames;
  std::span<const codec::Segment> exact;

  /// flat -= what was contributed, for every value of the bucket: turns the exact values into the
  /// error of this rank's own compression.
  void subtract_from(std::span<float> flat, const FusionBucket& bucket, Workspace& workspace) const;
  /// flat = 0 wherever a value was sent (sparse compressors).
  void zero_sent(std::span<float> flat) const;
};

/// What a call needs beside the values.
struct MeanContext {
  std::uint64_t run_seed = 0;
  StepId step = 0;
  std::optional<double> density;   // of sparse compressors in this step
  std::span<float> residual = {};  // see Collective::takes_residual(); empty otherwise
};

class Collective {
 public:
  virtual ~Collective() = default;
  virtual std::string_view name() const noexcept = 0;

  /// Replaces the bucket's part of the flat buffer `values` by its mean over ranks: identical bits
  /// on every rank. Adds what it cost to `traffic`. Collective.
  virtual Contribution mean(const FusionBucket& bucket, const MeanContext& context,
                            std::span<float> values, Traffic& traffic) = 0;

  /// Whether mean() can do the bookkeeping of error feedback while it encodes: with
  /// MeanContext::residual it averages values + residual and leaves in it what was not sent.
  virtual bool takes_residual() const noexcept { return false; }

  /// State that must survive a restart (the reducer's residual); empty if there is none.
  virtual std::span<float> state() { return {}; }
};

/// MPI_Allreduce of float32 in place; the oracle for all others.
std::unique_ptr<Collective> make_dense(comm::Communicator& comm);

/// Everyone sends a message to everyone; all decode the same bytes in rank order.
std::unique_ptr<Collective> make_allgather(comm::Communicator& comm,
                                           const codec::Compressor& compressor,
                                           std::span<const FusionBucket> plan);

struct ScatterReduceOptions {
  bool reducer_feedback = false;  // the owner keeps the error of its second quantisation
};
/// Everyone sends each chunk to its owner, who decodes, sums, encodes the mean again and sends it
/// to everyone.
/// @throws Error{usage} for compressors that need whole slices
std::unique_ptr<Collective> make_scatter_reduce(comm::Communicator& comm,
                                                const codec::Compressor& compressor,
                                                std::span<const FusionBucket> plan,
                                                const ScatterReduceOptions& options);

/// The collective that `auto` stands for: the one that sends fewer bytes, unless they are so few
/// that the second round costs more. Pure: the same on every rank.
std::string_view choose_collective(const codec::Compressor& compressor, std::size_t values,
                                   int ranks);

}  // namespace eqt::collective
