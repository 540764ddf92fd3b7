// SPDX-License-Identifier: Apache-2.0
// The integer collective compared with the exact mean, the codecs' own codes, and computed widths.

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/frame.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "pipeline/engine.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/payload_bytes.hpp"

using namespace eqt;
using namespace eqt::collective;

namespace {

/// Tensors around every width that matters, biases that are sent raw, several segments, a part of
/// one.
Layout test_layout() {
  return test::layout_of(
      {{16, 3, 3, 3}, {16}, {1}, {64, 40}, {64}, {230, 129}, {3, 7}, {130}, {10, 641}});
}

std::vector<float> gradient_of(Rank rank, std::size_t count) {
  auto values = test::gaussian(count, {.run_seed = 5, .rank = static_cast<std::uint32_t>(rank)});
  // Ranks have different magnitudes, so that shared scales differ from their own.
  for (float& value : values) value *= static_cast<float>(1 + rank);
  return values;
}

struct Case {
  std::string name;
  std::function<std::unique_ptr<codec::Compressor>()> make;
  std::uint32_t largest_code;
};

std::vector<Case> cases() {
  using namespace codec;
  return {
      {"terngrad", [] { return make_compressor("terngrad"); }, 1},
      {"terngrad unclipped", [] { return make_compressor("terngrad", {.clip = 0}); }, 1},
      {"int8", [] { return make_compressor("int8", {.bucket_size = 512}); }, 127},
      {"int8 in odd buckets", [] { return make_compressor("int8", {.bucket_size = 100}); }, 127},
      {"qsgd-v 2", [] { return make_compressor("qsgd-v", {.bits = 2, .bucket_size = 512}); }, 1},
      {"qsgd-v 4", [] { return make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512}); }, 7},
      {"qsgd-v 5 in odd buckets",
       [] { return make_compressor("qsgd-v", {.bits = 5, .bucket_size = 77}); }, 15},
      {"qsgd-v 8", [] { return make_compressor("qsgd-v", {.bits = 8, .bucket_size = 8192}); },
       127}};
}

struct Outcome {
  std::vector<float> values;
  std::uint64_t sent_bytes = 0;
};

Outcome run(comm::Communicator& comm, Collective& collective, std::span<const FusionBucket> plan,
            std::vector<float> values, StepId step = 3, std::span<float> residual = {}) {
  const auto before = comm.byte_count();
  for (const FusionBucket& bucket : plan) {
    (void)mean_of(collective, comm, bucket,
                  {.run_seed = 1, .step = step, .density = {}, .residual = residual}, values);
  }
  return {std::move(values), test::payload_between(before, comm.byte_count()).sent};
}

bool same_everywhere(comm::Communicator& comm, std::span<const float> values) {
  std::uint64_t hash = 0;
  for (const float value : values) hash = mix64(hash ^ std::bit_cast<std::uint32_t>(value));
  try {
    comm.require_same(hash, "mean");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<double> exact_mean(int ranks, std::size_t count) {
  std::vector<double> mean(count);
  for (Rank r = 0; r < ranks; ++r) {
    const auto g = gradient_of(r, count);
    for (std::size_t i = 0; i < count; ++i) mean[i] += static_cast<double>(g[i]) / ranks;
  }
  return mean;
}

/// Shared scale of each value: the largest magnitude over ranks of its bucket.
std::vector<float> largest_of(int ranks, const Layout& layout, std::size_t bucket_size) {
  std::vector<float> largest(total_count(layout));
  for (Rank r = 0; r < ranks; ++r) {
    const auto g = gradient_of(r, largest.size());
    for (const TensorSlice& slice : layout) {
      const std::size_t size = bucket_size == 0 ? slice.count : bucket_size;
      for (std::size_t b = 0; b < slice.count; b += size) {
        const std::size_t end = slice.offset + std::min(b + size, slice.count);
        float most = 0;
        for (std::size_t i = slice.offset + b; i < end; ++i) most = std::max(most, std::abs(g[i]));
        for (std::size_t i = slice.offset + b; i < end; ++i) {
          largest[i] = std::max(largest[i], most);
        }
      }
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("integer means have the same bits on all ranks, for any fusion buckets", "[integer]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  for (const Case& c : cases()) {
    for (const pipeline::Granularity granularity :
         {pipeline::Granularity::layer, pipeline::Granularity::model}) {
      const auto compressor = c.make();
      std::vector<std::vector<float>> means;
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{40000}, std::size_t{1} << 22}) {
        const auto plan = pipeline::plan_buckets(
            layout, *compressor,
            {.granularity = granularity, .bucket_bytes = bytes, .split_bytes = bytes});
        const auto collective = make_integer(comm, *compressor, plan);
        means.push_back(
            run(comm, *collective, plan, gradient_of(comm.rank(), total_count(layout))).values);
        INFO(c.name);
        CHECK(same_everywhere(comm, means.back()));
      }
      INFO(c.name);
      CHECK(means[1] == means[0]);
      CHECK(means[2] == means[0]);
    }
  }
}

TEST_CASE("each value of an integer mean is a whole number of shared steps near the exact mean",
          "[integer]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const auto mean = exact_mean(comm.size(), total_count(layout));
  for (const Case& c : cases()) {
    if (c.name == "terngrad") continue;  // clips
    const auto compressor = c.make();
    const auto plan = pipeline::plan_buckets(layout, *compressor, {});
    const auto collective = make_integer(comm, *compressor, plan);
    const auto out = run(comm, *collective, plan, gradient_of(comm.rank(), mean.size())).values;
    const bool by_tensor = compressor->properties().shared_scale;
    const auto largest =
        largest_of(comm.size(), layout, by_tensor ? 0 : compressor->properties().granule);
    const bool nearest = !compressor->properties().random;
    double worst_error = 0, worst_fraction = 0, worst_raw = 0;
    for (const TensorSlice& slice : layout) {
      for (std::size_t i = slice.offset; i < slice.offset + slice.count; ++i) {
        const double error = std::abs(static_cast<double>(out[i]) - mean[i]);
        if (!pipeline::is_compressed(slice, pipeline::PlanOptions().skip_below)) {
          worst_raw = std::max(worst_raw, error);
          continue;
        }
        const double step = static_cast<double>(largest[i]) / c.largest_code;
        worst_error = std::max(worst_error, error / step);
        const double steps = static_cast<double>(out[i]) / step * comm.size();
        worst_fraction = std::max(worst_fraction, std::abs(steps - std::round(steps)));
      }
    }
    INFO(c.name);
    CHECK(worst_raw < 1e-5);
    // Every rank's error is below a step, or half a step if it rounds to nearest.
    CHECK(worst_error < (nearest ? 0.501 : 1.0));
    // Sums below n * 127 in float32, and a step rounded to float32.
    CHECK(worst_fraction < 1e-3);
  }
}

TEST_CASE("integer terngrad draws what the allgather of ternary messages draws", "[integer]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  for (const double clip : {0.0, 2.5}) {
    const auto compressor = codec::make_compressor("terngrad", {.clip = clip});
    const auto plan = pipeline::plan_buckets(layout, *compressor, {});
    const auto integer = make_integer(comm, *compressor, plan);
    const auto allgather = make_allgather(comm, *compressor, plan);
    const auto values = gradient_of(comm.rank(), total_count(layout));
    const auto ours = run(comm, *integer, plan, values).values;
    const auto theirs = run(comm, *allgather, plan, values).values;
    double worst = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(ours[i]) - theirs[i]));
    }
    // Scales are below 5 deviations of `size`; n additions in float32.
    CHECK(worst < 5e-6 * comm.size());
  }
}

TEST_CASE("integer means are unbiased", "[integer]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = {{"weight", {64, 64}, 0, 4096}};
  const auto mean = exact_mean(comm.size(), 4096);
  for (const bool ternary : {false, true}) {
    const auto compressor = ternary
                                ? codec::make_compressor("terngrad", {.clip = 0})
                                : codec::make_compressor("qsgd-v", {.bits = 3, .bucket_size = 512});
    const auto plan = pipeline::plan_buckets(layout, *compressor, {});
    const auto collective = make_integer(comm, *compressor, plan);
    constexpr int kDraws = 64;
    std::vector<double> sum(4096);
    for (StepId step = 0; step < kDraws; ++step) {
      const auto out = run(comm, *collective, plan, gradient_of(comm.rank(), 4096), step).values;
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(out[i]);
    }
    const auto largest = largest_of(comm.size(), layout, ternary ? 0 : 512);
    double bias = 0;
    for (std::size_t i = 0; i < sum.size(); ++i) bias += sum[i] / kDraws - mean[i];
    bias /= 4096;
    // One value of one rank has a standard deviation of at most half a step; this is the mean of
    // 64 draws of 4096 values, five deviations of it.
    const double step =
        static_cast<double>(*std::max_element(largest.begin(), largest.end())) / (ternary ? 1 : 3);
    INFO(bias);
    CHECK(std::abs(bias) < 5 * step / 2 / std::sqrt(kDraws * 4096.0));
  }
}

TEST_CASE("the integer collective sends the bytes of its cost formula", "[integer]") {
  comm::Communicator comm(test::session(), 30);
  const auto n = static_cast<std::uint64_t>(comm.size());
  const std::size_t count = 8192 * 16 * n;
  const Layout layout = {{"weight", {8192, static_cast<std::int64_t>(16 * n)}, 0, count}};
  const auto bits_for = [](std::uint64_t largest) {
    return static_cast<std::uint64_t>(std::ceil(std::log2(2.0 * static_cast<double>(largest) + 1)));
  };
  const std::uint64_t header = codec::kFrameHeaderBytes;
  for (const Case& c : cases()) {
    const auto compressor = c.make();
    const std::size_t granule = compressor->properties().granule;
    if (8192 % granule != 0) continue;  // segments of another length
    const auto plan =
        pipeline::plan_buckets(layout, *compressor, {.split_bytes = std::size_t{1} << 30});
    const auto collective = make_integer(comm, *compressor, plan);
    const auto out = run(comm, *collective, plan, gradient_of(comm.rank(), count));
    const std::uint64_t scales = compressor->properties().shared_scale ? 1 : count / granule;
    const std::uint64_t b = bits_for(c.largest_code), w = bits_for(c.largest_code * n);
    const std::uint64_t round0 = (n - 1) * (header + 4 * scales);
    INFO(c.name);
    if (n == 2) {
      CHECK(out.sent_bytes == round0 + header + count * b / 8);
    } else {
      CHECK(out.sent_bytes == round0 + (n - 1) * (2 * header + count / n * (b + w) / 8));
    }
  }
}

TEST_CASE("error feedback keeps exactly the error of the codes", "[integer]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const std::size_t count = total_count(layout);
  for (const Case& c : cases()) {
    const auto compressor = c.make();
    const auto plan = pipeline::plan_buckets(layout, *compressor, {.bucket_bytes = 40000});
    const auto collective = make_integer(comm, *compressor, plan);
    const auto memory = make_error_feedback(count);
    const auto values = gradient_of(comm.rank(), count);
    std::vector<float> residual(count);
    for (StepId step = 0; step < 3; ++step) {
      // The residual has the same bits if it is computed during encoding or from the contribution.
      const auto fused = run(comm, *collective, plan, values, step, residual).values;
      auto apart = values;
      for (const FusionBucket& bucket : plan) {
        memory->compensate(bucket, apart);
        const MeanResult result =
            mean_of(*collective, comm, bucket,
                    {.run_seed = 1, .step = step, .density = {}, .residual = {}}, apart);
        memory->remember(bucket, result.contribution);
      }
      INFO(c.name << ", step " << step);
      CHECK(apart == fused);
      CHECK(std::equal(residual.begin(), residual.end(), memory->residual().begin()));
    }
    // The mean of (g - residual) is the applied mean of a first step.
    std::vector<float> fresh(count);
    const auto sent = run(comm, *collective, plan, values, 9, fresh).values;
    std::vector<float> decoded(count);
    for (std::size_t i = 0; i < count; ++i) decoded[i] = values[i] - fresh[i];
    const auto none = codec::make_compressor("none");
    const auto raw_plan = pipeline::plan_buckets(layout, *none, {});
    const auto dense = make_dense(comm);
    const auto mean = run(comm, *dense, raw_plan, decoded, 9).values;
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
      worst =
          std::max(worst, std::abs(static_cast<double>(mean[i]) - static_cast<double>(sent[i])));
    }
    INFO(c.name);
    CHECK(worst < 1e-5 * comm.size());
  }
}

TEST_CASE("the integer collective refuses messages of other steps and codecs with their sender",
          "[integer]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() == 1) return;
  const Layout layout = test_layout();
  const auto refused = [&](const codec::Compressor& compressor, StepId step,
                           const std::string& word) {
    const auto plan = pipeline::plan_buckets(layout, compressor, {});
    const auto collective = make_integer(comm, compressor, plan);
    auto values = gradient_of(comm.rank(), total_count(layout));
    try {
      (void)mean_of(*collective, comm, plan[0], {.run_seed = 1, .step = step, .density = {}},
                    values);
      FAIL_CHECK("ranks that differ were not noticed");
    } catch (const Error& error) {
      INFO(error.what());
      CHECK(error.kind() == Kind::wire);
      CHECK(std::string(error.what()).find(word) != std::string::npos);
      CHECK(std::string(error.what()).find("from rank") != std::string::npos);
    }
  };
  const auto qsgd = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  const auto int8 = codec::make_compressor("int8", {.bucket_size = 512});
  refused(*qsgd, comm.rank() == 0 ? 8 : 7, "step");
  refused(comm.rank() == 0 ? *int8 : *qsgd, 7, "codec");
}

TEST_CASE("the integer collective refuses compressors without integer codes", "[integer]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  const auto refuses = [&](std::unique_ptr<codec::Compressor> compressor) {
    const auto plan = pipeline::plan_buckets(layout, *compressor, {});
    try {
      (void)make_integer(comm, *compressor, plan);
      FAIL_CHECK("it took " << codec::codec_name(compressor->id()));
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::usage);
      CHECK(std::string(error.what()).find("qsgd-v") != std::string::npos);
    }
  };
  refuses(codec::make_compressor("elastiquant"));
  refuses(codec::make_compressor("qsgd", {.bucket_size = 512}));
  refuses(codec::make_compressor("topk"));
  refuses(codec::make_compressor("qsgd-v", {.bucket_size = 512, .coding = codec::Coding::elias}));
}
