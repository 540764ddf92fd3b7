// SPDX-License-Identifier: Apache-2.0
#include "bench/measure_collective.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "bench/measure_codec.hpp"
#include "codec/message.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "comm/host_facts.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/square_norm.hpp"
#include "setup/build_collective.hpp"

namespace eqt::bench {
namespace {

using pipeline::FusionBucket;

constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kRows = 512;
constexpr std::size_t kMatrix = kRows * 4608;

/// Means for measurements: they count what was encoded.
class CountingMeans final : public collective::MeanWork {
 public:
  using MeanWork::MeanWork;
  std::uint64_t encoded_bytes = 0;

 private:
  void after(const pipeline::FusionBucket&, const collective::MeanResult& result) override {
    encoded_bytes += result.traffic.encoded_bytes;
  }
};

/// The smallest of the samples that at least `share` of them do not exceed.
double quantile(std::vector<double> samples, double share) {
  std::ranges::sort(samples);
  const auto count = static_cast<double>(samples.size());
  return samples[static_cast<std::size_t>(std::ceil(share * count)) - 1];
}

double sum_over_ranks(comm::Communicator& comm, double value) {
  comm.allreduce_sum(std::span(&value, 1));
  return value;
}

}  // namespace

Layout bench_layout(std::size_t values) {
  Layout layout;
  const auto add = [&](std::vector<std::int64_t> shape, std::size_t count) {
    layout.push_back({.name = fmt::format("tensor{}", layout.size()),
                      .shape = std::move(shape),
                      .offset = total_count(layout),
                      .count = count});
  };
  while (total_count(layout) < values) {
    const std::size_t left = std::min(kMatrix, values - total_count(layout));
    // About a square where there is too little for all rows.
    std::size_t rows = kRows;
    while (rows * rows > left) rows /= 2;
    const std::size_t columns = left / rows;
    add({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)}, rows * columns);
    const std::size_t rest = left % rows;
    if (rest > 0) add({static_cast<std::int64_t>(rest)}, rest);
  }
  return layout;
}

RankGradients::RankGradients(std::size_t values, int ranks)
    : base_(bench_gradient(values)), ranks_(ranks) {}

std::size_t RankGradients::start_of(Rank rank) const {
  return base_.span().size() * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks_);
}

void RankGradients::copy(Rank rank, std::span<float> to) const {
  const auto base = base_.span();
  std::ranges::rotate_copy(base, base.begin() + static_cast<std::ptrdiff_t>(start_of(rank)),
                           to.begin());
}

RankGradients::Distance RankGradients::distance(std::span<const float> result) const {
  // n additions, the share 1/n and the product with it each round once.
  const double roundings = (ranks_ + 2) * 0x1p-24;
  const auto base = base_.span();
  Distance found{.rounding_only = true};
  for (std::size_t i = 0; i < result.size(); ++i) {
    double mean = 0, magnitude = 0;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      std::size_t from = start_of(rank) + i;
      if (from >= base.size()) from -= base.size();
      mean += base[from];
      magnitude += std::abs(base[from]);
    }
    mean /= ranks_;
    const double error = std::abs(result[i] - mean);
    found.error += error * error;
    found.mean += mean * mean;
    found.along += result[i] * mean;
    found.size += static_cast<double>(result[i]) * result[i];
    // Written so that a NaN is no rounding error.
    if (!(error <= roundings * magnitude / ranks_)) found.rounding_only = false;
  }
  if (found.mean > 0) {
    found.along /= found.mean;
    found.size /= found.mean;
  }
  const double square = square_norm(base);
  found.error /= square;
  found.mean /= square;
  return found;
}

void RankGradients::mean_of_signs(std::span<float> to) const {
  std::vector<float> values(to.size());
  std::ranges::fill(to, 0.0f);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    copy(rank, values);
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] += std::copysign(1.0f, values[i]) / static_cast<float>(ranks_);
    }
  }
}

CollectiveBench::CollectiveBench(comm::Communicator& comm, const codec::Compressor& compressor,
                                 collective::Collective& collective,
                                 std::span<const FusionBucket> plan, const RankGradients& gradients,
                                 std::size_t values)
    : comm_(comm),
      compressor_(compressor),
      collective_(collective),
      plan_(plan),
      gradients_(gradients),
      room_(values),
      room_of_mpi_(values),
      values_(room_.span()),
      engine_(comm, plan) {}

void CollectiveBench::run(StepId step) {
  CountingMeans means(collective_);
  means.prepare({.run_seed = kSeed, .step = step, .density = {}}, values_);
  engine_.run(means);
  encoded_bytes_ = means.encoded_bytes;
}

void CollectiveBench::run_mpi() { comm_.allreduce_sum(room_of_mpi_.span()); }

void CollectiveBench::verify() {
  const auto by_mpi = room_of_mpi_.span();
  gradients_.copy(comm_.rank(), by_mpi);
  run_mpi();
  for (float& value : by_mpi) value /= static_cast<float>(comm_.size());
  if (!gradients_.distance(by_mpi).rounding_only)
    fail(Kind::bug, "MPI_Allreduce: expected the mean up to rounding, found another on rank {}",
         comm_.rank());

  gradients_.copy(comm_.rank(), values_);
  const comm::ByteCount before = comm_.byte_count();
  run(0);
  count_bytes(before, comm_.byte_count());
  comm_.require_same(XXH3_64bits(values_.data(), values_.size_bytes()),
                     fmt::format("bits from the collective {}", collective_.name()));
  const RankGradients::Distance found = gradients_.distance(values_);
  if (compressor_.properties().votes) {
    verify_votes();
    return;
  }
  figures_.relative_error = found.error;
  if (compressor_.properties().lossless) {
    if (!found.rounding_only)
      fail(Kind::bug,
           "collective {}: expected the mean of float32 values up to rounding, found a relative "
           "error of {:.3g}",
           collective_.name(), found.error);
    return;
  }
  const double limit = error_limit(found.mean);
  if (!(found.error <= limit))
    fail(Kind::bug,
         "collective {} of {}: expected a relative error of at most {:.4g}, which its messages' "
         "own errors allow, found {:.4g}",
         collective_.name(), codec::codec_name(compressor_.id()), limit, found.error);
  verify_direction(found);
}

/// Returns the standard error of the mean's part in a result, relative to it. Noise of independent
/// values has the share of one value in any direction. Where few values are sent, the noise that is
/// found says little, and n of these have about the variance of n products of normal values.
/// @pre error_limit() counted the values that are sent
double CollectiveBench::spread_along(const RankGradients::Distance& found) const {
  constexpr double kOfProduct = 5;  // (E x^2) / (E x)^2 of a value times the mean of three ranks'
  const codec::Properties& properties = compressor_.properties();
  if (!properties.random || properties.averages_itself) return 0;
  const double noise = found.error / found.mean / static_cast<double>(values_.size());
  return std::sqrt(std::max(noise, kOfProduct / sent_values_));
}

/// Where errors may be as large as the mean, zeros or twice the mean would pass. A random
/// compressor whose noise is as large in the direction of the mean may send these, too.
void CollectiveBench::verify_direction(const RankGradients::Distance& found) {
  constexpr std::size_t kFewValues = 4096;  // of which a compressor's noise may be a large part
  constexpr double kLeastSlack = 0.5, kStandardErrors = 6, kProjection = 1e-3;
  const codec::Properties& properties = compressor_.properties();
  const double slack = std::max(kLeastSlack, kStandardErrors * spread_along(found));
  if (!(slack < 1)) return;
  const double least = properties.unbiased && values_.size() >= kFewValues ? 1 - slack : 0;
  const double most =
      values_.size() >= kFewValues ? 1 + slack : std::numeric_limits<double>::infinity();
  // A projection P satisfies <Pm, m> = |Pm|^2.
  const bool projects = !properties.averages_itself ||
                        std::abs(found.along - found.size) <= kProjection * found.along;
  if (found.along > least && found.along <= most && projects) return;
  fail(Kind::bug,
       "collective {} of {}: expected a result along the mean of the gradients, found {:.4g} times "
       "the mean in its direction and {:.4g} of its square",
       collective_.name(), codec::codec_name(compressor_.id()), found.along, found.size);
}

/// The vote over plainly added signs. Values that are sent uncompressed are not voted on.
void CollectiveBench::verify_votes() {
  std::vector<float> expected(values_.size());
  gradients_.mean_of_signs(expected);
  compressor_.finish_mean(expected);
  for (const FusionBucket& bucket : plan_) {
    for (const codec::Segment& segment : bucket.segments) {
      if (!segment.compressed) continue;
      for (std::size_t i = segment.begin; i < segment.begin + segment.count; ++i) {
        if (values_[i] != expected[i])
          fail(Kind::bug, "collective {}: expected the majority's {} at index {}, found {}",
               collective_.name(), expected[i], i, values_[i]);
      }
    }
  }
}

/// |decoded - gradient|^2 / |gradient|^2 of the messages of verify()'s step, the largest over
/// ranks. Counts the compressed values that the messages of all ranks do not leave out.
double CollectiveBench::largest_compression_error() {
  gradients_.copy(comm_.rank(), values_);
  const double square = square_norm(values_);
  Workspace workspace;
  std::vector<std::byte> frame;
  std::vector<float> shared, own;
  for (const FusionBucket& bucket : plan_) {
    shared.clear();
    if (compressor_.properties().shared_scale) {
      for (const codec::Segment& s : bucket.segments) {
        shared.push_back(s.compressed ? compressor_.local_scale(values_.subspan(s.begin, s.count))
                                      : 0.0f);
      }
    }
    own = shared;
    comm_.allreduce_max(std::span(shared));
    frame.resize(codec::max_message_bytes(compressor_, bucket.segments));
    const codec::MessageCodec messages(compressor_, bucket.segments, workspace);
    const codec::MessageContext context = {.run_seed = kSeed,
                                           .id = {.index = bucket.index},
                                           .rank = static_cast<std::uint32_t>(comm_.rank()),
                                           .scales = shared,
                                           .own_scales = own};
    const std::size_t bytes = messages.encode(values_, context, frame);
    messages.decode_add(std::span(frame).first(bytes), context.id, -1.0f, values_);
  }
  std::vector<float> given(values_.size());
  gradients_.copy(comm_.rank(), given);
  double sent = 0;
  for (const FusionBucket& bucket : plan_) {
    for (const codec::Segment& s : bucket.segments) {
      if (!s.compressed) continue;
      for (std::size_t i = s.begin; i < s.begin + s.count; ++i) sent += values_[i] != given[i];
    }
  }
  sent_values_ = sum_over_ranks(comm_, sent);
  double largest = square_norm(values_) / square;
  comm_.allreduce_max(std::span(&largest, 1));
  return largest;
}

/// Bound of |result - mean|^2 / mean |gradient|^2. By the triangle inequality each quantisation
/// adds at most sqrt(e) times the norm of its input. For the first one, whose messages are known,
/// that is exact; later ones, which have other values, get some slack.
double CollectiveBench::error_limit(double mean) {
  constexpr double kRounding = 1e-6, kSlack = 2;
  if (compressor_.properties().averages_itself) return mean * (1 + kRounding);  // a projection
  const auto cost = collective::collective_cost(collective_.row(), {.ranks = comm_.size()});
  const int quantisations = cost ? cost->quantisations : comm_.size();
  const double own = largest_compression_error();
  double error = std::sqrt(own);
  for (int i = 1; i < quantisations; ++i) {
    error += std::sqrt(kSlack * own) * (std::sqrt(mean) + error);
  }
  return error * error * (1 + kRounding) + kRounding * kRounding;
}

void CollectiveBench::count_bytes(const comm::ByteCount& before, const comm::ByteCount& now) {
  const double ranks = comm_.size();
  std::array<double, 5> sums = {
      static_cast<double>(now.sent_bytes - before.sent_bytes),
      static_cast<double>(now.sent_checksum_bytes - before.sent_checksum_bytes),
      static_cast<double>(now.estimated_bytes - before.estimated_bytes),
      static_cast<double>(now.sent_on_host_bytes - before.sent_on_host_bytes),
      static_cast<double>(encoded_bytes_)};
  comm_.allreduce_sum(sums);
  const auto mean = [&](double sum) {
    return static_cast<std::uint64_t>(std::llround(sum / ranks));
  };
  figures_.wire_bytes = mean(sums[0]);
  figures_.estimated_bytes = mean(sums[2]);
  figures_.on_host_bytes = mean(sums[3]);
  const double checksums = sums[1] / ranks, encoded = sums[4] / ranks;
  collective::Volume volume =
      collective::volume_of(compressor_, plan_, comm_.size(), setup::equal_hosts(comm_));
  auto cost = collective::collective_cost(collective_.row(), volume);
  // Data decide how long messages are, so what was encoded says it; a collective may encode
  // several.
  if (cost && cost->encoded_values > 0) {
    volume.message_bytes = encoded * volume.values / cost->encoded_values;
    cost = collective::collective_cost(collective_.row(), volume);
  }
  figures_.formula_bytes.reset();
  if (cost) figures_.formula_bytes = mean(ranks * (cost->sent_bytes + checksums));
}

/// The bytes that the kernel counted, independently of our counting.
void CollectiveBench::look_at_interface() {
  if (comm_.host_count() <= 1) return;
  constexpr std::uint64_t kEnoughBytes = 8'000'000, kMaxRuns = 64;
  constexpr double kHeaderBytes = 14 + 20 + 32;  // Ethernet, IPv4, TCP with timestamps
  const std::uint64_t runs = std::clamp<std::uint64_t>(
      kEnoughBytes / std::max<std::uint64_t>(figures_.wire_bytes, 1), 1, kMaxRuns);
  comm_.blocking_barrier();
  const auto before = comm::interface_counts();
  comm_.blocking_barrier();  // no rank sends before all have checked
  for (std::uint64_t i = 0; i < runs; ++i) {
    gradients_.copy(comm_.rank(), values_);
    run(i);
  }
  comm_.blocking_barrier();
  auto carried = comm::carried_between(before, comm::interface_counts());
  std::erase_if(carried, [](const auto& interface) { return interface.name == "lo"; });
  double sent = 0;
  if (!carried.empty() && comm_.ranks_on_this_host().front() == comm_.rank()) {
    sent = static_cast<double>(carried.front().sent_bytes) -
           kHeaderBytes * static_cast<double>(carried.front().sent_packets);
  }
  sent = sum_over_ranks(comm_, sent) / (static_cast<double>(runs) * comm_.size());
  if (sent > 0) figures_.interface_bytes = static_cast<std::uint64_t>(std::llround(sent));
}

template <typename Work>
double CollectiveBench::timed(std::span<float> values, const Work& work) {
  gradients_.copy(comm_.rank(), values);
  comm_.blocking_barrier();
  const Stopwatch watch;
  work();
  return watch.seconds();
}

CollectiveFigures CollectiveBench::measure(double seconds) {
  look_at_interface();
  constexpr std::size_t kLeast = 5, kMost = 2000;
  std::vector<double> ours, mpi;
  double spent = 0;
  while (ours.size() < kLeast || (spent < seconds && ours.size() < kMost)) {
    const StepId step = 1 + ours.size();
    std::array<double, 2> pair{};
    const auto time_ours = [&] { pair[0] = timed(values_, [&] { run(step); }); };
    // The order changes, so that neither always benefits from what the other left in the caches.
    if (step % 2 == 0) time_ours();
    pair[1] = timed(room_of_mpi_.span(), [&] { run_mpi(); });
    if (step % 2 == 1) time_ours();
    comm_.allreduce_max(std::span(pair));
    ours.push_back(pair[0]);
    mpi.push_back(pair[1]);
    spent += pair[0] + pair[1];
  }
  constexpr double kMilli = 1e3;
  figures_.median_ms = quantile(ours, 0.5) * kMilli;
  figures_.p95_ms = quantile(ours, 0.95) * kMilli;
  figures_.mpi_median_ms = quantile(mpi, 0.5) * kMilli;
  figures_.mpi_p95_ms = quantile(mpi, 0.95) * kMilli;
  figures_.repetitions = ours.size();
  return figures_;
}

}  // namespace eqt::bench
