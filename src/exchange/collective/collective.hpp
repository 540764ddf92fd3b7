// SPDX-License-Identifier: Apache-2.0
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
#include "collective/catalogue.hpp"
#include "comm/communicator.hpp"
#include "core/saved_state.hpp"
#include "core/task.hpp"
#include "core/traffic.hpp"
#include "pipeline/engine.hpp"
#include "pipeline/plan.hpp"

namespace eqt::collective {

using pipeline::FusionBucket;

/// One encoded message and the segments in it.
struct Frame {
  std::span<const std::byte> bytes;
  std::span<const codec::Segment> segments;
  float weight = 1.0f;    // how often the decoded values count in a contribution
  std::uint32_t hop = 0;  // of collectives that encode partial sums, part of the message's index
};

/// Contributed values that a compressor alone cannot decode.
class Contributed {
 public:
  virtual ~Contributed() = default;
  /// flat -= what was contributed; 0 if that was exact.
  virtual void subtract_from(std::span<float> flat) const = 0;
};

/// Holds what this rank contributed to one mean: its messages as all ranks decode them, the ranges
/// that it contributed without encoding, the ranges for which all ranks use a common approximation
/// of the mean, and messages in a format of the collective. If all of these are empty, everything
/// was exact. Valid until the slot's next mean, and as long as the averaged buffer does not change.
///
/// If the messages contain sums over several ranks, the others contributed these values exactly,
/// and the whole error belongs to this rank.
struct Contribution {
  const codec::Compressor* compressor = nullptr;  // of `frames`
  StepId step = 0;
  std::uint32_t index = 0;
  std::span<const Frame> frames = {};
  std::span<const codec::Segment> exact = {};
  std::span<const float> approximation = {};  // a flat buffer
  std::span<const codec::Segment> approximated = {};
  const Contributed* own = nullptr;  // covers the whole bucket
  std::span<const float> sums =
      {};  // sums of several ranks' values, for the segments in `summed`, one after the other
  std::span<const codec::Segment> summed = {};

  bool everything_exact() const {
    return compressor == nullptr && approximated.empty() && own == nullptr;
  }
  /// flat = base + the values that this rank encoded: the sums if its messages contain sums, and 0
  /// for values that were not encoded, such as the chunk that this rank reduces itself.
  /// @param base a flat buffer; empty: 0
  void keep_encoded(std::span<float> flat, const FusionBucket& bucket,
                    std::span<const float> base = {}) const;
  /// flat -= what was contributed, for every value of the bucket. This turns base + the exact
  /// values into base + the error of this rank's own compression. In raw segments that error is 0,
  /// but a base may be lost.
  void subtract_from(std::span<float> flat, const FusionBucket& bucket, Workspace& workspace,
                     std::span<const float> base = {}) const;
  /// flat = 0 wherever a value was sent (sparse compressors).
  void zero_sent(std::span<float> flat) const;
};

/// The parameters of a call besides the values.
struct MeanContext {
  std::uint64_t run_seed = 0;
  StepId step = 0;
  std::optional<double> density;   // of sparse compressors in this step
  std::span<float> residual = {};  // see Collective::takes_residual(); empty otherwise
  std::size_t slot = 0;            // scratch memory to use, below Collective::slots()
  // These are payloads of the segments that Collective::own_parts() says are encoded; null: mean()
  // encodes them.
  const codec::Payloads* payloads = nullptr;

  /// The context with which a message of this mean is encoded, with its residual.
  /// @param rank names the random stream
  codec::MessageContext message(std::uint32_t rank, std::uint32_t index) const {
    return {.run_seed = run_seed,
            .id = {step, index},
            .rank = rank,
            .density = density,
            .residual = residual,
            .payloads = payloads};
  }
};

/// The results of a mean besides the values.
struct MeanResult {
  Contribution contribution;
  Traffic traffic;  // all but bytes, messages and transfer_seconds, which the engine counts
  double blocked_seconds = 0;  // waited inside the MPI library, which the engine cannot measure
};

/// Says which ranks of a group contribute to its means, and how much their values count. It may
/// change between two means, the same on all ranks.
class Senders {
 public:
  /// @param counts by index in the group; 0: sends nothing
  /// @pre at least one is not 0
  void set(std::span<const std::uint64_t> counts);
  bool sends(std::size_t index) const { return counts_.at(index) > 0; }
  /// Returns the weights of those that send, in their order: count / sum of the counts.
  std::span<const float> weights() const noexcept { return weights_; }
  bool equal() const noexcept { return equal_; }

 private:
  std::vector<std::uint64_t> counts_;
  std::vector<float> weights_;
  bool equal_ = true;
};

/// The ranks that average with each other.
struct Group {
  std::vector<Rank> ranks;    // ascending, this rank among them
  std::size_t me = 0;         // this rank's index in `ranks`, which selects its random stream
  float share = 1;            // the mean is this times the sum
  bool of_host_sums = false;  // each contributes the sum of its host; for error messages
  /// Null: all ranks send, and `share` is the weight of each. Else the mean of values v_i with
  /// counts c_i is sum(c_i v_i) / sum(c_i), without a shared scale.
  const Senders* senders = nullptr;
  bool sends(std::size_t rank) const { return senders == nullptr || senders->sends(rank); }
  std::size_t size() const { return ranks.size(); }
};
/// All ranks.
Group everyone(const comm::Communicator& comm);

/// A rank's own values of a bucket in its mean.
struct OwnParts {
  std::vector<codec::Segment> encoded;  // become payloads: MeanContext::payloads may have them
  std::vector<const Strata*> strata;    // of each, see codec::MessageContext
  std::vector<codec::Segment> plain;    // the others
};

class Collective {
 public:
  static constexpr std::size_t kMaxSlots = pipeline::kMaxSlots;

  virtual ~Collective() = default;
  virtual const CollectiveRow& row() const noexcept = 0;
  std::string_view name() const noexcept { return row().name; }

  /// Replaces the bucket's part of the flat buffer `values` by its mean over ranks, with identical
  /// bits on every rank. The task suspends while it waits for messages, so the means of several
  /// buckets can run at the same time, each with a different slot. All arguments must stay in place
  /// until the task is done. Collective.
  virtual Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
                    MeanResult& result) = 0;

  /// Returns how many means may run at the same time, at most row().slots; 1: one after the other,
  /// in the plan's order.
  virtual std::size_t slots() const noexcept { return row().slots; }

  /// True if mean() can do error feedback while it encodes: it then averages values +
  /// MeanContext::residual and writes the part that was not sent to the residual. It may change
  /// between two steps.
  virtual bool takes_residual() const noexcept { return false; }

  /// Returns what mean() does with a bucket's values, if it takes payloads that were encoded
  /// before: then it reads the plain values alone. Empty: it encodes by itself.
  virtual std::optional<OwnParts> own_parts(const FusionBucket&) const { return {}; }

  /// State such as the reducer's residual or PowerSGD's Q.
  virtual void visit_state(StateVisitor&) {}
};

/// The engine's work on a gradient: it averages every bucket.
class MeanWork : public pipeline::BufferWork<MeanContext, MeanResult> {
 public:
  /// Keeps the reference.
  explicit MeanWork(Collective& collective) : collective_(collective) {}

  std::size_t slots() const noexcept override { return collective_.slots(); }
  void done(const FusionBucket& bucket, std::size_t slot) final {
    const double blocked = result_of(slot).blocked_seconds;
    if (blocked > 0) waited(blocked);
    BufferWork::done(bucket, slot);
  }

 private:
  Task work_on(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
               MeanResult& result) final {
    return collective_.mean(bucket, context, values, result);
  }

  Collective& collective_;
};

/// Exact mean of float32 values by this program's full-duplex pipeline.
std::unique_ptr<Collective> make_dense(comm::Communicator& comm);
/// Makes this mean by MPI_Allreduce, the reference for all others in tests and measurements.
std::unique_ptr<Collective> make_mpi_allreduce(comm::Communicator& comm);

/// Each rank sends its message to all others, and all decode the same bytes in rank order.
std::unique_ptr<Collective> make_allgather(comm::Communicator& comm,
                                           const codec::Compressor& compressor,
                                           std::span<const FusionBucket> plan);
/// Makes the allgather among a group. Collective in the group.
std::unique_ptr<Collective> make_allgather(comm::Communicator& comm,
                                           const codec::Compressor& compressor,
                                           std::span<const FusionBucket> plan, Group group);

struct ScatterReduceOptions {
  bool reducer_feedback = false;  // the owner keeps the error of its second quantisation
  float feedback_decay = 1;       // of that error before it is added, in (0, 1]
};
/// All ranks send each chunk to its owner, which decodes and sums it, encodes the mean and sends it
/// to all.
/// @throws Error{usage} for compressors that need whole slices
std::unique_ptr<Collective> make_scatter_reduce(comm::Communicator& comm,
                                                const codec::Compressor& compressor,
                                                std::span<const FusionBucket> plan,
                                                const ScatterReduceOptions& options);
/// Makes the scatter-reduce among a group. Collective in the group.
std::unique_ptr<Collective> make_scatter_reduce(comm::Communicator& comm,
                                                const codec::Compressor& compressor,
                                                std::span<const FusionBucket> plan,
                                                const ScatterReduceOptions& options, Group group);

struct HierarchicalOptions {
  bool reducer_feedback = false;  // as ScatterReduceOptions
  float feedback_decay = 1;       // likewise
};
/// Exact sums of float32 within each host; between hosts, compressed messages of these sums. On one
/// host the mean is exact. With one rank per host it is the same as allgather or scatter-reduce.
/// @throws Error{usage} for compressors that remember or vote: dgc, signsgd, powersgd
std::unique_ptr<Collective> make_hierarchical(comm::Communicator& comm,
                                              const codec::Compressor& compressor,
                                              std::span<const FusionBucket> plan,
                                              const HierarchicalOptions& options);

/// Partial sums are passed round a ring and encoded again at each hop. The messages with the
/// complete sums are then passed round once more, unchanged.
/// @throws Error{usage} for compressors that need whole slices or whose sums cannot be encoded
std::unique_ptr<Collective> make_ring(comm::Communicator& comm, const codec::Compressor& compressor,
                                      std::span<const FusionBucket> plan);

/// Ranks exchange whole buckets with partners at distances 1, 2, 4, ..., and encode the partial sum
/// again in each round. For any number of ranks.
/// @throws Error{usage} for compressors whose partial sums cannot be encoded
std::unique_ptr<Collective> make_recursive_doubling(comm::Communicator& comm,
                                                    const codec::Compressor& compressor,
                                                    std::span<const FusionBucket> plan);

struct SparseOptions {
  bool reducer_feedback = false;  // owners send only the largest sums and keep the others
  float feedback_decay = 1;       // of kept sums before the next ones are added, in (0, 1]
};
/// All ranks send each survivor to its owner, which sums them and sends the largest sums to all: as
/// many values as a rank sent on average, or up to 5 % more. Without reducer_feedback: all sums
/// that are not zero.
/// @throws Error{usage} for compressors that are not sparse
std::unique_ptr<Collective> make_sparse(comm::Communicator& comm,
                                        const codec::Compressor& compressor,
                                        std::span<const FusionBucket> plan,
                                        const SparseOptions& options);

/// All ranks quantise with shared scales. The owner of each range adds the codes as integers and
/// sends the sums to all, so values are quantised once and decoded once.
/// @throws Error{usage} for compressors without such codes, and for more ranks than 16 bits can sum
std::unique_ptr<Collective> make_integer(comm::Communicator& comm,
                                         const codec::Compressor& compressor,
                                         std::span<const FusionBucket> plan);

struct PowerSgdOptions {
  std::size_t rank = 2;        // 1 ... 32
  std::uint64_t run_seed = 0;  // of the first step's Q, with the slice
};
/// The mean, projected onto a subspace that follows the gradient from step to step. Matrices whose
/// factors would not be smaller, and everything that the plan sends raw, are averaged exactly.
std::unique_ptr<Collective> make_power_sgd(comm::Communicator& comm,
                                           std::span<const FusionBucket> plan,
                                           const PowerSgdOptions& options);

/// Bytes of the factors of these buckets and of the values that have none: what power-sgd averages,
/// Volume::message_bytes of its cost.
double power_sgd_message_bytes(std::span<const FusionBucket> plan, std::size_t rank);

/// Holds what collectives are made from. Everything referred to outlives them.
struct CollectiveParts {
  comm::Communicator& comm;
  const codec::Compressor& compressor;
  std::span<const FusionBucket> plan;
  bool reducer_feedback = false;   // owners of sums keep what they do not send, if they can
  float feedback_decay = 1;        // of what they keep, in (0, 1]
  PowerSgdOptions power_sgd = {};  // only for that collective
};

/// True if scatter-reduce among `ranks` sends so much less than allgather that its second round and
/// second quantisation are worth it. Pure.
bool scatter_pays(const codec::Compressor& compressor, std::size_t values, std::size_t ranks);

/// The collective that `auto` chooses without a cost model, or if none is clearly faster: the one
/// that sends fewer bytes, unless there are so few bytes that the second round costs more. Pure:
/// the same on every rank.
const CollectiveRow& choose_collective(const codec::Compressor& compressor, std::size_t values,
                                       int ranks);

/// Averages one bucket and waits for it. Collective.
MeanResult mean_of(Collective& collective, comm::Communicator& comm, const FusionBucket& bucket,
                   const MeanContext& context, std::span<float> values);

}  // namespace eqt::collective
