// SPDX-License-Identifier: Apache-2.0
// Split and reduce of sparse messages.

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/frame.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "pipeline/engine.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/payload_bytes.hpp"
#include "support/saved_state.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using namespace eqt::collective;

namespace {

/// Tensors of one owner, of several, and raw ones of one value and of several segments.
Layout test_layout() {
  return test::layout_of(
      {{40, 27}, {16}, {1}, {130, 129}, {9000}, {64, 64}, {7}, {301, 101}, {10, 100}, {10}});
}

Layout one_tensor(std::size_t count) {
  return {{"weight", {256, static_cast<std::int64_t>(count / 256)}, 0, count}};
}

/// Drawn once, because drawing takes longer than the test itself.
const std::vector<float>& gradient_of(Rank rank, std::size_t count, StepId step = 0) {
  static std::map<std::tuple<Rank, std::size_t, StepId>, std::vector<float>> drawn;
  auto& gradient = drawn[{rank, count, step}];
  if (gradient.empty()) {
    gradient = test::gaussian(
        count, {.run_seed = 5, .step = step, .rank = static_cast<std::uint32_t>(rank)});
  }
  return gradient;
}

std::size_t nonzeros(std::span<const float> values) {
  std::size_t n = 0;
  for (const float v : values) n += v != 0 ? 1 : 0;
  return n;
}

using Make = std::function<std::unique_ptr<codec::Compressor>()>;

std::vector<std::pair<std::string, Make>> sparse_compressors(double density, int bits = 32) {
  using namespace codec;
  return {
      {"topk", [=] { return make_compressor("topk", {.density = density, .value_bits = bits}); }},
      {"dgc", [=] { return make_compressor("dgc", {.density = density, .value_bits = bits}); }},
      {"threshold",
       [=] { return make_compressor("threshold", {.density = density, .value_bits = bits}); }},
      {"fixed threshold",
       [=] { return make_compressor("threshold", {.threshold = 2, .value_bits = bits}); }},
      {"randomk",
       [=] { return make_compressor("randomk", {.density = density, .value_bits = bits}); }}};
}

/// Error feedback on each rank around a collective, bucket after bucket.
class Averager {
 public:
  Averager(comm::Communicator& comm, Collective& collective, std::span<const FusionBucket> plan,
           std::size_t count)
      : comm_(comm), collective_(collective), plan_(plan), memory_(make_error_feedback(count)) {}

  std::vector<float> mean(std::vector<float> values, StepId step,
                          std::optional<double> density = {}) {
    for (const FusionBucket& bucket : plan_) {
      memory_->compensate(bucket, values);
      const MeanResult result = mean_of(collective_, comm_, bucket,
                                        {.run_seed = 1, .step = step, .density = density}, values);
      memory_->remember(bucket, result.contribution);
      sent += result.traffic.encoded_bytes;
    }
    return values;
  }

  std::uint64_t sent = 0;

 private:
  comm::Communicator& comm_;
  Collective& collective_;
  const std::span<const FusionBucket> plan_;
  const std::unique_ptr<GradientMemory> memory_;
};

std::vector<float> plain_mean(comm::Communicator& comm, Collective& collective,
                              std::span<const FusionBucket> plan, std::vector<float> values,
                              StepId step = 3) {
  for (const FusionBucket& bucket : plan) {
    (void)mean_of(collective, comm, bucket, {.run_seed = 1, .step = step, .density = {}}, values);
  }
  return values;
}

}  // namespace

TEST_CASE("without feedback the sparse mean is the allgather's, bit for bit", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  for (const double density : {0.01, 0.3, 0.9}) {
    for (const auto& [name, make] : sparse_compressors(density)) {
      for (const pipeline::Granularity granularity :
           {pipeline::Granularity::layer, pipeline::Granularity::model}) {
        const auto compressor = make();
        const auto plan = pipeline::plan_buckets(
            layout, *compressor, {.granularity = granularity, .bucket_bytes = 20000});
        const auto gradient = gradient_of(comm.rank(), total_count(layout));
        const auto sparse = make_sparse(comm, *compressor, plan, {});
        const auto allgather = make_allgather(comm, *compressor, plan);
        INFO(name << " " << density);
        CHECK(plain_mean(comm, *sparse, plan, gradient) ==
              plain_mean(comm, *allgather, plan, gradient));
        CHECK(test::state_of(*sparse).empty());
      }
    }
  }
}

TEST_CASE("a sparse mean has the same bits on every rank, for any buckets", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  for (const int bits : {2, 8, 16, 32}) {
    for (const auto& [name, make] : sparse_compressors(0.02, bits)) {
      const auto compressor = make();
      std::vector<std::uint64_t> hashes;
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{20000}, std::size_t{1} << 22}) {
        const auto plan = pipeline::plan_buckets(layout, *compressor,
                                                 {.bucket_bytes = bytes, .split_bytes = bytes});
        const auto collective = make_sparse(comm, *compressor, plan, {.reducer_feedback = true});
        Averager averager(comm, *collective, plan, count);
        std::uint64_t hash = 0;
        for (StepId step = 0; step < 4; ++step) {
          hash = mix64(hash ^
                       test::hash_of(averager.mean(gradient_of(comm.rank(), count, step), step)));
        }
        hashes.push_back(hash);
        hashes.push_back(mix64(test::hash_of(test::state_of(*collective))));
        INFO(name << " " << bits);
        CHECK_NOTHROW(comm.require_same(hash, "sparse mean"));
      }
      INFO(name << " " << bits);
      CHECK(hashes[0] == hashes[2]);
      CHECK(hashes[0] == hashes[4]);
      // A run may continue from a checkpoint with other buckets.
      CHECK(hashes[1] == hashes[3]);
      CHECK(hashes[1] == hashes[5]);
    }
  }
}

TEST_CASE("values that owners keep are sent later, and nothing is lost", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  for (const int bits : {16, 32}) {
    for (const auto& [name, make] : sparse_compressors(0.02, bits)) {
      if (name == "fixed threshold") continue;  // has no density, so it cannot be flushed
      const auto compressor = make();
      const auto plan = pipeline::plan_buckets(layout, *compressor, {.bucket_bytes = 20000});
      const auto collective = make_sparse(comm, *compressor, plan, {.reducer_feedback = true});
      Averager averager(comm, *collective, plan, count);
      std::vector<double> exact(count), sum(count);
      constexpr StepId kSteps = 6, kFlushes = 2;
      constexpr float kLittle = 0x1p-20f;  // threshold sends no zeros
      std::vector<float> output;
      for (StepId step = 0; step < kSteps + kFlushes; ++step) {
        const bool flush = step >= kSteps;  // all remaining values are sent
        const auto gradient_in = [&](Rank rank) {
          return flush ? std::vector<float>(count, kLittle) : gradient_of(rank, count, step);
        };
        for (Rank r = 0; r < comm.size(); ++r) {
          const auto gradient = gradient_in(r);
          for (std::size_t i = 0; i < count; ++i) exact[i] += double{gradient[i]} / comm.size();
        }
        output = averager.mean(gradient_in(comm.rank()), step,
                               flush ? std::optional(1.0) : std::nullopt);
        for (std::size_t i = 0; i < count; ++i) sum[i] += double{output[i]};
      }
      double worst = 0;
      for (std::size_t i = 0; i < count; ++i) worst = std::max(worst, std::abs(sum[i] - exact[i]));
      INFO(name << " " << bits);
      // Float rounding of sums below 6 * 5; each flush of halves leaves 2^-11 of the values.
      CHECK(worst < 1e-4);
      double left = 0;
      for (const float value : test::state_of(*collective))
        left = std::max(left, std::abs(double{value}));
      CHECK(left < 1e-4);
    }
  }
}

TEST_CASE("owners send back about as many values as a rank sent", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  constexpr std::size_t kCount = 1 << 16;
  const Layout layout = one_tensor(kCount);
  const auto compressor = codec::make_compressor("topk", {.density = 0.02});
  const auto plan = pipeline::plan_buckets(layout, *compressor, {});
  const auto collective = make_sparse(comm, *compressor, plan, {.reducer_feedback = true});
  Averager averager(comm, *collective, plan, kCount);
  const auto k = static_cast<std::size_t>(0.02 * kCount);
  for (StepId step = 0; step < 5; ++step) {
    const auto mean = averager.mean(gradient_of(comm.rank(), kCount, step), step);
    CHECK(nonzeros(mean) >= k * 99 / 100);  // sums of opposite survivors may be zero, hardly ever
    CHECK(nonzeros(mean) <= k + k / 20 + static_cast<std::size_t>(comm.size()));
  }
}

TEST_CASE("sparse traffic stays below 3.5 words per survivor", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  constexpr std::size_t kCount = 1 << 18;
  const Layout layout = one_tensor(kCount);
  const auto n = static_cast<double>(comm.size());
  for (const double density : {0.001, 0.01, 0.1}) {
    const auto compressor = codec::make_compressor("topk", {.density = density});
    const auto plan = pipeline::plan_buckets(layout, *compressor, {});
    for (const double common : {0.0, 0.9}) {  // fraction of the gradient that is common to all
                                              // ranks
      for (const bool clustered : {false, true}) {
        const auto collective = make_sparse(comm, *compressor, plan, {.reducer_feedback = true});
        Averager averager(comm, *collective, plan, kCount);
        const auto before = comm.byte_count();
        constexpr StepId kSteps = 2;
        for (StepId step = 0; step < kSteps; ++step) {
          auto gradient = gradient_of(comm.rank(), kCount, step);
          const auto& shared = gradient_of(99, kCount, step);
          for (std::size_t i = 0; i < kCount; ++i) {
            gradient[i] = static_cast<float>(common * shared[i] + (1 - common) * gradient[i]);
            // All survivors in an eighth of the tensor, at every third index.
            if (clustered && (i > kCount / 8 || i % 3 != 0)) gradient[i] *= 1e-3f;
          }
          (void)averager.mean(std::move(gradient), step);
        }
        const auto now = comm.byte_count();
        const double k = std::floor(density * kCount);
        const auto words = [&](std::uint64_t bytes) {
          return static_cast<double>(bytes) / kSteps / 4 / k;
        };
        const double sent = words(now.sent_bytes - before.sent_bytes);
        const double received = words(now.received_bytes - before.received_bytes);
        INFO("density " << density << " common " << common << " clustered " << clustered);
        CHECK(sent < 3.5);
        CHECK(received < 3.5);
        // Every value is sent, 4 bytes in each direction.
        CHECK(sent >= 2 * (n - 1) / n * 0.8);
      }
    }
  }
}

TEST_CASE("sparse bytes equal the cost formula", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  const auto n = static_cast<std::uint64_t>(comm.size());
  const std::size_t count = 8192 * 2 * n;
  // All values survive and are not zero: payloads are a head of 5 bytes and 4 bytes a value.
  const auto compressor = codec::make_compressor("topk", {.density = 1});
  const auto plan =
      pipeline::plan_buckets(one_tensor(count), *compressor, {.split_bytes = 1 << 30});
  const auto collective = make_sparse(comm, *compressor, plan, {.reducer_feedback = true});
  auto values = gradient_of(comm.rank(), count);
  const auto before = comm.byte_count();
  const MeanResult result =
      mean_of(*collective, comm, plan[0], {.run_seed = 1, .step = 0, .density = {}}, values);
  const auto now = comm.byte_count();
  const std::uint64_t message = codec::kFrameHeaderBytes + 4 + 5 + 4 * count / n;
  CHECK(test::payload_between(before, now).sent == 2 * message * (n - 1));
  CHECK(test::payload_between(before, now).received == 2 * message * (n - 1));
  CHECK(result.traffic.encoded_bytes == message * n);
  CHECK(result.traffic.encoded_values == count);
  // No value was left out, so this is the mean.
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i) values[i] *= static_cast<float>(n);
  for (Rank r = 0; r < comm.size(); ++r) {
    const auto gradient = gradient_of(r, count);
    for (std::size_t i = 0; i < count; ++i) values[i] -= gradient[i];
  }
  for (const float left : values) worst = std::max(worst, std::abs(double{left}));
  CHECK(worst < 1e-5);
}

TEST_CASE("the contribution is a rank's own survivors", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  Workspace workspace;
  for (const auto& [name, make] : sparse_compressors(0.05)) {
    const auto compressor = make();
    const auto plan = pipeline::plan_buckets(layout, *compressor, {.bucket_bytes = 20000});
    const auto collective = make_sparse(comm, *compressor, plan, {.reducer_feedback = true});
    const auto exact = gradient_of(comm.rank(), count);
    auto values = exact, error = exact, masked = exact;
    for (const FusionBucket& bucket : plan) {
      const MeanResult result =
          mean_of(*collective, comm, bucket, {.run_seed = 1, .step = 0, .density = {}}, values);
      result.contribution.subtract_from(error, bucket, workspace);
      if (name != "randomk") result.contribution.zero_sent(masked);
    }
    INFO(name);
    for (std::size_t s = 0; s < layout.size(); ++s) {
      const auto part = [&](std::vector<float>& v) {
        return std::span(v).subspan(layout[s].offset, layout[s].count);
      };
      if (!pipeline::is_compressed(layout[s], 1024)) {
        CHECK(nonzeros(part(error)) == 0);
        continue;
      }
      const std::size_t survivors = layout[s].count - nonzeros(part(error));
      CHECK(survivors > 0);
      if (name == "topk" || name == "dgc" || name == "randomk") {
        CHECK(survivors == static_cast<std::size_t>(0.05 * static_cast<double>(layout[s].count)));
      }
      // Others do not change: an entry is zero or unchanged, and both calls name the same.
      for (std::size_t i = layout[s].offset; i < layout[s].offset + layout[s].count; ++i) {
        if (error[i] != 0 && error[i] != exact[i]) FAIL_CHECK("value " << i << " was changed");
        if (name != "randomk" && error[i] != masked[i]) FAIL_CHECK("value " << i << " differs");
      }
    }
  }
}

TEST_CASE("sparse messages of another step are refused with their sender", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() == 1) return;
  const Layout layout = test_layout();
  const auto compressor = codec::make_compressor("topk");
  // In one fusion bucket, so that every rank owns values of it and receives the wrong message
  // itself.
  const auto plan =
      pipeline::plan_buckets(layout, *compressor, {.split_bytes = std::size_t{1} << 30});
  const auto collective = make_sparse(comm, *compressor, plan, {});
  auto values = gradient_of(comm.rank(), total_count(layout));
  const StepId step = comm.rank() == 0 ? 8 : 7;
  try {
    (void)mean_of(*collective, comm, plan[0], {.run_seed = 1, .step = step, .density = {}}, values);
    FAIL_CHECK("ranks out of step were not noticed");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::wire);
    CHECK(std::string(error.what()).find("expected step") != std::string::npos);
    CHECK(std::string(error.what()).find("from rank") != std::string::npos);
  }
}

TEST_CASE("codecs that are not sparse are refused", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  const auto compressor = codec::make_compressor("qsgd", {.bucket_size = 512});
  const auto plan = pipeline::plan_buckets(test_layout(), *compressor, {});
  try {
    (void)make_sparse(comm, *compressor, plan, {});
    FAIL_CHECK("qsgd was accepted");
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::usage);
    CHECK(std::string(error.what()).find("qsgd") != std::string::npos);
  }
}

namespace {

struct Training {
  std::vector<float> gradient;
  std::uint64_t state_hash = 0;
  std::size_t allocations = 0;  // in the second half of the steps
};

/// Through the engine; slices become ready in a different order on each rank.
Training run_steps(comm::Communicator& comm, const codec::Compressor& compressor, bool overlap,
                   std::size_t bucket_bytes, StepId steps) {
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  const bool dgc = compressor.id() == codec::CodecId::dgc;
  const auto memory = dgc ? make_dgc_memory(count, {}) : make_error_feedback(count);
  auto plan = pipeline::plan_buckets(layout, compressor, {.bucket_bytes = bucket_bytes});
  const auto collective = make_sparse(comm, compressor, plan, {.reducer_feedback = true});
  Training out;
  out.gradient.resize(count);
  sync::GradientAveragingOptions options;
  options.overlap = overlap;
  options.lossy = true;
  const auto synchronizer = sync::make_gradient_averaging(
      comm, *collective, memory.get(), std::move(plan), layout, out.gradient, options);
  std::vector<std::vector<float>> fresh;
  for (StepId step = 0; step < steps; ++step) {
    fresh.push_back(gradient_of(comm.rank(), count, step));
  }
  std::size_t before = 0;
  for (StepId step = 0; step < steps; ++step) {
    if (step == steps / 2) before = test::allocations();
    std::copy(fresh[step].begin(), fresh[step].end(), out.gradient.begin());
    synchronizer->begin(step, 0);
    for (std::size_t i = 0; i < layout.size(); ++i) {
      synchronizer->slice_ready((3 * i + static_cast<std::size_t>(comm.rank())) % layout.size());
    }
    (void)synchronizer->finish();
  }
  out.allocations = test::allocations() - before;
  out.state_hash = test::hash_of(test::state_of(*collective));
  return out;
}

}  // namespace

TEST_CASE("overlap and bucket size change no bit of sparse training", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  for (const auto& [name, make] : sparse_compressors(0.02)) {
    const auto compressor = make();
    const Training plain = run_steps(comm, *compressor, false, std::size_t{1} << 22, 5);
    INFO(name);
    CHECK_NOTHROW(comm.require_same(test::hash_of(plain.gradient), "sparse mean"));
    for (const std::size_t bucket_bytes : {std::size_t{1} << 22, std::size_t{8000}}) {
      const Training other = run_steps(comm, *compressor, true, bucket_bytes, 5);
      CHECK(other.gradient == plain.gradient);
      CHECK(other.state_hash == plain.state_hash);
    }
  }
}

TEST_CASE("after the first steps no sparse step allocates", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  for (const auto& [name, make] : sparse_compressors(0.02)) {
    const auto compressor = make();
    for (const bool overlap : {false, true}) {
      INFO(name << (overlap ? " overlapped" : ""));
      CHECK(run_steps(comm, *compressor, overlap, 20000, 12).allocations == 0);
    }
  }
}

TEST_CASE("sums that an owner keeps decay before the next ones are added", "[sparse]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() != 2) return;
  // Rank 0 owns this small tensor. Of two survivors it sends the larger sum and keeps the other.
  const Layout layout = {{"weight", {2, 2}, 0, 4}};
  const auto compressor = codec::make_compressor("topk", {.density = 0.25});
  const auto plan = pipeline::plan_buckets(layout, *compressor, {.skip_below = 1});
  const auto collective =
      make_sparse(comm, *compressor, plan, {.reducer_feedback = true, .feedback_decay = 0.5f});
  const bool first = comm.rank() == 0;
  const auto mean = [&](std::vector<float> values, StepId step) {
    return plain_mean(comm, *collective, plan, std::move(values), step);
  };
  CHECK(mean(first ? std::vector<float>{16, 0, 0, 0} : std::vector<float>{0, 8, 0, 0}, 0) ==
        std::vector<float>{8, 0, 0, 0});
  // 4 was kept and is 2 now.
  CHECK(mean(first ? std::vector<float>{0, 0, 1, 0} : std::vector<float>{0, 0, 0, 0.5f}, 1) ==
        std::vector<float>{0, 2, 0, 0});
  // 1/2 and 1/4 were kept and are halved; 1/8 joins the first.
  CHECK(mean(first ? std::vector<float>{0, 0, 0.25f, 0} : std::vector<float>{0, 0, 0.25f, 0}, 2) ==
        std::vector<float>{0, 0, 0.5f, 0});
}
