// SPDX-License-Identifier: Apache-2.0
// Gradients in device memory, by an emulated device that works on a thread of its own: every mean,
// byte count and residual is that of the host.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/parallel.hpp"
#include "device/gradient_encoder.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/saved_state.hpp"
#include "sync/gradient_averaging.hpp"

using namespace eqt;
using namespace eqt::collective;
using namespace eqt::sync;

namespace {

const Layout& test_layout() {
  static const Layout layout =
      test::layout_of({{64, 300}, {300}, {100, 100}, {3, 5}, {40, 500}, {10}});
  return layout;
}
constexpr std::size_t kCount = 19200 + 300 + 10000 + 15 + 20000 + 10;

struct Case {
  std::string name;
  codec::CompressorOptions options = {};
  bool feedback = false, scatters = false;
  int threads = 1;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const bool scatters : {false, true}) {
    for (const bool feedback : {false, true}) {
      all.push_back({"int8", {.bucket_size = 512}, feedback, scatters});
      all.push_back({"fp16", {}, feedback, scatters});
      all.push_back({"bf16", {}, feedback, scatters});
      all.push_back({"elastiquant", {}, feedback, scatters});
      all.push_back({"qsgd", {.bits = 3, .bucket_size = 1003}, feedback, scatters});
      all.push_back({"nuqsgd", {.bucket_size = 512}, feedback, scatters, 3});
    }
  }
  all.push_back({"signsgd"});
  return all;
}

/// The averaging of one run, on the host or with a device.
class Averaging {
 public:
  Averaging(comm::Communicator& comm, const Case& c, bool overlap, bool with_device)
      : compressor_(codec::make_parallel(codec::make_compressor(c.name, c.options), c.threads, 0)),
        memory_(c.feedback ? make_error_feedback(kCount) : nullptr) {
    auto plan = pipeline::plan_buckets(test_layout(), *compressor_, {.bucket_bytes = 30000});
    collective_ =
        c.scatters ? make_scatter_reduce(comm, *compressor_, plan, {.reducer_feedback = c.feedback})
                   : make_allgather(comm, *compressor_, plan);
    GradientAveragingOptions options;
    options.run_seed = 5;
    options.overlap = overlap;
    options.lossy = true;
    if (with_device) {
      encoder_ = make_encoder(comm, plan);
      options.encoder = encoder_.get();
      options.leave_on_device = [this](bool leave) { left_ = leave; };
    }
    averaging_ = make_gradient_averaging(comm, *collective_, memory_.get(), std::move(plan),
                                         test_layout(), gradient_, options);
  }

  SyncResult step(StepId step, std::span<const float> fresh, bool read = false) {
    if (read) averaging_->read_gradient();
    averaging_->begin(step, 0);
    if (left_) ++left_steps;
    // Whoever reads the host's gradient in place of the device's meets these.
    if (left_) std::ranges::fill(gradient_, std::numeric_limits<float>::quiet_NaN());
    for (std::size_t slice = test_layout().size(); slice-- > 0;) {
      const TensorSlice& s = test_layout()[slice];
      const auto part = fresh.subspan(s.offset, s.count);
      std::ranges::copy(part, on_device_.begin() + static_cast<std::ptrdiff_t>(s.offset));
      if (!left_)
        std::ranges::copy(part, gradient_.begin() + static_cast<std::ptrdiff_t>(s.offset));
      averaging_->slice_ready(slice);
    }
    return averaging_->finish();
  }

  /// As for a checkpoint.
  std::vector<std::vector<float>> state() {
    test::StateSpans spans;
    averaging_->visit_state(spans);
    std::vector<std::vector<float>> copies;
    for (const auto values : spans.floats) copies.emplace_back(values.begin(), values.end());
    return copies;
  }
  void set_state(const std::vector<std::vector<float>>& state) {
    test::StateSpans spans;
    averaging_->visit_state(spans);
    REQUIRE(spans.floats.size() == state.size());
    for (std::size_t i = 0; i < state.size(); ++i)
      std::ranges::copy(state[i], spans.floats[i].begin());
  }

  const std::vector<float>& mean() const { return gradient_; }
  int left_steps = 0;

 private:
  std::unique_ptr<device::GradientEncoder> make_encoder(const comm::Communicator& comm,
                                                        std::span<const FusionBucket> plan) {
    std::vector<device::EncodedBucket> buckets;
    for (const FusionBucket& bucket : plan) {
      const auto own = collective_->own_parts(bucket);
      REQUIRE(own);
      buckets.push_back({bucket.begin, bucket.end, own->encoded, own->strata, own->plain});
    }
    return device::make_gradient_encoder(
        {.compressor = *compressor_,
         .queue = device::make_late_emulated_queue(),
         .device_gradient = on_device_.data(),
         .gradient = gradient_,
         .residual = memory_ == nullptr ? std::span<float>() : memory_->residual(),
         .plain_feedback = !collective_->takes_residual(),
         .rank = comm.rank()},
        std::move(buckets));
  }

  std::unique_ptr<codec::Compressor> compressor_;
  std::unique_ptr<GradientMemory> memory_;
  std::unique_ptr<Collective> collective_;
  std::vector<float> on_device_ = std::vector<float>(kCount), gradient_ = on_device_;
  bool left_ = false;
  std::unique_ptr<device::GradientEncoder> encoder_;
  std::unique_ptr<Synchronizer> averaging_;
};

std::vector<float> fresh_gradient(const comm::Communicator& comm, StepId step) {
  auto values = test::gaussian(
      kCount, {.run_seed = 4, .step = step, .rank = static_cast<std::uint32_t>(comm.rank())});
  std::fill(values.begin() + 22000, values.begin() + 26000, 0.0f);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return test::hash_of(a) == test::hash_of(b);
}

}  // namespace

TEST_CASE("a mean with payloads of a device has the host's bits", "[device]") {
  comm::Communicator comm(test::session(), 30);
  for (const Case& c : cases()) {
    for (const bool overlap : {true, false}) {
      if (!overlap && c.name != "elastiquant") continue;
      INFO(c.name << (c.feedback ? " with feedback" : "") << (c.scatters ? " scattered" : "")
                  << (overlap ? " overlapped" : ""));
      Averaging host(comm, c, overlap, false), device(comm, c, overlap, true);
      // Step 8 measures, and others read the gradient in step 7.
      for (StepId step = 5; step <= 9; ++step) {
        const auto fresh = fresh_gradient(comm, step);
        const SyncResult expected = host.step(step, fresh),
                         found = device.step(step, fresh, step == 7);
        CHECK(same_bits(host.mean(), device.mean()));
        CHECK(found.traffic.sent_bytes == expected.traffic.sent_bytes);
        CHECK(found.traffic.encoded_bytes == expected.traffic.encoded_bytes);
        CHECK(found.quantization_variance == expected.quantization_variance);
        const bool encodes = comm.size() > 1 || !c.scatters;
        CHECK(found.quantization_variance.has_value() == (encodes && step == 8));
      }
      CHECK(device.left_steps == 3);
      const auto expected = host.state(), found = device.state();
      REQUIRE(expected.size() == found.size());
      for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(expected[i], found[i]));
    }
  }
}

TEST_CASE("a state saved with a device goes on without one, and back", "[device]") {
  comm::Communicator comm(test::session(), 30);
  const Case c{"elastiquant", {}, true, false};
  Averaging straight(comm, c, true, false), host(comm, c, true, false), device(comm, c, true, true);
  for (StepId step = 1; step <= 6; ++step) {
    const auto fresh = fresh_gradient(comm, step);
    Averaging& one = step <= 2 || step > 4 ? device : host;
    Averaging& other = &one == &device ? host : device;
    straight.step(step, fresh);
    one.step(step, fresh);
    CHECK(same_bits(straight.mean(), one.mean()));
    if (step == 2 || step == 4) other.set_state(one.state());
  }
}

TEST_CASE("a gradient on a device that is not finite stops the step as on the host", "[device]") {
  comm::Communicator comm(test::session(), 30);
  if (comm.size() > 1) return;  // messages of stopped steps would meet those of the next
  for (const auto& [index, words] : {std::pair<std::size_t, std::string>{19203, "tensor1"},
                                     {19503, "tensor2"},
                                     {49514, "tensor4"}}) {
    for (const bool overlap : {false, true}) {
      const auto sentence = [&, at = index](bool with_device) {
        Averaging averaging(comm, {"qsgd", {}, true, false}, overlap, with_device);
        auto fresh = fresh_gradient(comm, 7);
        averaging.step(6, fresh);
        fresh[at] = std::numeric_limits<float>::infinity();
        try {
          averaging.step(7, fresh);
        } catch (const Error& error) {
          CHECK(error.kind() == Kind::diverged);
          return std::string(error.what());
        }
        return std::string("no error");
      };
      const std::string found = sentence(true);
      CHECK(found == sentence(false));
      INFO(found);
      CHECK(found.find("step 7: the gradient of " + words + " holds inf") != std::string::npos);
    }
  }
}

TEST_CASE("collectives say whether they take payloads", "[device]") {
  comm::Communicator comm(test::session(), 30);
  const auto compressor = codec::make_compressor("qsgd", {.bucket_size = 512});
  const auto plan = pipeline::plan_buckets(test_layout(), *compressor, {});
  CHECK_FALSE(make_ring(comm, *compressor, plan)->own_parts(plan[0]));
  CHECK_FALSE(make_dense(comm)->own_parts(plan[0]));
  CHECK_FALSE(make_hierarchical(comm, *compressor, plan, {})->own_parts(plan[0]));
  const auto terngrad = codec::make_compressor("terngrad");
  CHECK_FALSE(make_allgather(comm, *terngrad, plan)->own_parts(plan[0]));
  for (const bool scatters : {false, true}) {
    const auto taking = scatters ? make_scatter_reduce(comm, *compressor, plan, {})
                                 : make_allgather(comm, *compressor, plan);
    for (const FusionBucket& bucket : plan) {
      const auto own = taking->own_parts(bucket);
      REQUIRE(own);
      // Each value once.
      std::vector<int> covered(kCount);
      for (const auto* const list : {&own->encoded, &own->plain})
        for (const codec::Segment& segment : *list)
          for (std::size_t i = 0; i < segment.count; ++i) ++covered[segment.begin + i];
      for (std::size_t i = 0; i < kCount; ++i)
        REQUIRE(covered[i] == (i >= bucket.begin && i < bucket.end ? 1 : 0));
    }
  }
}
