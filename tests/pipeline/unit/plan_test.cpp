// SPDX-License-Identifier: Apache-2.0
#include "pipeline/plan.hpp"

#include <algorithm>
#include <string>

#include "codec/catalogue.hpp"
#include "pipeline/messages.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"

using namespace eqt;
using namespace eqt::pipeline;
using eqt::test::layout_of;

TEST_CASE("fusion buckets cover the gradient from its end to its beginning", "[plan]") {
  const Layout layout = layout_of({{64, 64}, {64}, {100, 100}, {1}, {3000, 7}, {10}});
  const auto none = codec::make_compressor("none");
  for (const Granularity granularity : {Granularity::layer, Granularity::model}) {
    for (const std::size_t bytes :
         {std::size_t{1}, std::size_t{5000}, std::size_t{100000}, std::size_t{1} << 30}) {
      const auto plan =
          plan_buckets(layout, *none, {.granularity = granularity, .bucket_bytes = bytes});
      std::size_t end = total_count(layout);
      for (std::size_t b = 0; b < plan.size(); ++b) {
        CHECK(plan[b].index == b);
        CHECK(plan[b].end == end);
        std::size_t at = plan[b].begin;
        for (const codec::Segment& segment : plan[b].segments) {
          CHECK(segment.begin == at);
          at += segment.count;
        }
        CHECK(at == plan[b].end);
        end = plan[b].begin;
      }
      CHECK(end == 0);
    }
  }
}

TEST_CASE("buckets are split at segments of the codec, and only of codecs that can be cut",
          "[plan]") {
  const Layout layout = layout_of({{100, 500}, {100}, {64, 64}, {64}});
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{40000}, std::size_t{1} << 20}) {
    const PlanOptions options = {.split_bytes = bytes};
    const auto qsgd = codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 3000});
    std::size_t longest = 0, buckets = 0;
    for (const FusionBucket& bucket : plan_buckets(layout, *qsgd, options)) {
      ++buckets;
      for (const codec::Segment& segment : bucket.segments) {
        CHECK(segment.first_index % 9000 == 0);
        CHECK(segment.begin == layout[segment.slice].offset + segment.first_index);
        longest = std::max(longest, segment.count);
      }
    }
    CHECK(longest == (bytes == (std::size_t{1} << 20) ? 50000 : 9000));
    CHECK(buckets == (bytes == 1 ? 9 : bytes == 40000 ? 6 : 1));
    const auto topk = codec::make_compressor("topk");
    for (const FusionBucket& bucket : plan_buckets(layout, *topk, options)) {
      for (const codec::Segment& segment : bucket.segments) {
        CHECK(segment.count == layout[segment.slice].count);
      }
    }
  }
}

TEST_CASE("small and one-dimensional tensors are sent raw", "[plan]") {
  const Layout layout = layout_of({{32, 32}, {31, 33}, {5000}, {2, 512}});
  const auto qsgd = codec::make_compressor("qsgd", {.bucket_size = 512});
  const auto plan = plan_buckets(layout, *qsgd, {.skip_below = 1024});
  REQUIRE(plan.size() == 1);
  const std::vector<bool> compressed = {true, false, false, true};
  for (std::size_t i = 0; i < layout.size(); ++i) {
    CHECK(plan[0].segments[i].compressed == compressed[i]);
  }
}

TEST_CASE("a whole-model top-k is one segment", "[plan]") {
  const Layout layout = layout_of({{300, 300}, {300}});
  const auto topk = codec::make_compressor("topk");
  const auto plan =
      plan_buckets(layout, *topk, {.granularity = Granularity::model, .bucket_bytes = 1000});
  REQUIRE(plan.size() == 1);
  CHECK(plan[0].segments.size() == 1);
  CHECK(plan[0].segments[0].count == total_count(layout));
}

TEST_CASE("segments are multiples of the codec's bucket", "[plan]") {
  CHECK(segment_length(*codec::make_compressor("none")) == 8192);
  CHECK(segment_length(*codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 512})) == 8192);
  CHECK(segment_length(*codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 3000})) == 9000);
  CHECK(segment_length(*codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 10000})) ==
        10000);
}

TEST_CASE("tensors without values are in no message", "[plan]") {
  const Layout layout = layout_of({{0, 5}, {8, 8}, {0}, {5, 0}});
  for (const char* const name : {"none", "qsgd", "topk", "powersgd"}) {
    const auto compressor = codec::make_compressor(name);
    std::size_t values = 0;
    for (const FusionBucket& bucket : plan_buckets(layout, *compressor, {.skip_below = 0}))
      for (const codec::Segment& segment : bucket.segments) values += segment.count;
    CHECK(values == 64);
  }
}

TEST_CASE("messages with a frame and without one never share a channel", "[plan]") {
  // Every turn that channels without a frame take, and some steps far beyond.
  std::vector<StepId> steps = {StepId{1} << 40, ~StepId{0}};
  for (StepId step = 0; step < comm::Transfers::kChannels; ++step) steps.push_back(step);
  for (std::uint32_t b = 0; b < 200; b += 7) {
    const FusionBucket bucket{.index = b, .segments = {}};
    const std::uint32_t framed = route_of(bucket).channel;
    bool apart = framed > 0 && framed < kFirstUnframedChannel;
    for (const StepId step : steps) {
      const std::uint32_t channel = route_of(bucket, step).channel;
      apart &= channel >= kFirstUnframedChannel && channel < comm::Transfers::kChannels;
      apart &= channel != route_of(bucket, step + 1).channel;
    }
    INFO("bucket " << b);
    CHECK(apart);
  }
}

TEST_CASE("a bucket is ready with the last of its slices, and not before the one ahead", "[plan]") {
  const Layout layout = layout_of({{10}, {20}, {30}});
  const auto plan = [](std::size_t begin, std::size_t end) {
    FusionBucket bucket;
    bucket.begin = begin;
    bucket.end = end;
    return bucket;
  };
  const std::vector<FusionBucket> buckets = {plan(40, 60), plan(20, 40), plan(0, 20)};
  CHECK(ready_times(buckets, layout, std::vector<double>{5, 4, 2}) == std::vector<double>{2, 4, 5});
  CHECK(ready_times(buckets, layout, std::vector<double>{1, 1, 3}) == std::vector<double>{3, 3, 3});
}
