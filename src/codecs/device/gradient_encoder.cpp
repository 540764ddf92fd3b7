// SPDX-License-Identifier: Apache-2.0
#include "device/gradient_encoder.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "codec/finite.hpp"
#include "core/error.hpp"
#include "device/device_codec.hpp"

namespace eqt::device {
namespace {

constexpr std::size_t kAlignment = 16;  // of payloads in pinned memory [bytes]

std::size_t most_values(std::span<const EncodedBucket> buckets) {
  std::size_t most = 0;
  for (const EncodedBucket& bucket : buckets)
    for (const codec::Segment& segment : bucket.encoded) most = std::max(most, segment.count);
  return most;
}

class Encoder final : public GradientEncoder {
 public:
  Encoder(GradientEncoderParts parts, std::vector<EncodedBucket> buckets)
      : p_(std::move(parts)),
        queue_(*p_.queue),
        codec_(p_.compressor, most_values(buckets), queue_),
        residual_(queue_, p_.residual.size()) {
    const codec::CodecId id = p_.compressor.id();
    EQT_CHECK(
        p_.residual.empty() || (id != codec::CodecId::signsgd && id != codec::CodecId::ef_signsgd),
        "residuals of signs of several segments at once");
    std::size_t segments = 0, bytes = 0;
    for (EncodedBucket& bucket : buckets) {
      EQT_CHECK(bucket.strata.empty() || bucket.strata.size() == bucket.encoded.size(),
                "strata of {} of {} segments", bucket.strata.size(), bucket.encoded.size());
      State& state = states_.emplace_back();
      state.bucket = std::move(bucket);
      state.event = queue_.make_event();
      state.first = segments;
      for (const codec::Segment& segment : state.bucket.encoded) {
        places_.push_back({segment.begin, segments++});
        begins_.push_back(bytes);
        bytes += (codec_.queued_bytes(segment.count) + kAlignment - 1) / kAlignment * kAlignment;
      }
    }
    begins_.push_back(bytes);
    std::ranges::sort(places_, {}, &Place::begin);
    slots_.emplace(queue_, bytes);
    flags_.emplace(queue_, segments);
    encodings_.resize(segments);
    payloads_.resize(segments);
    spares_.resize(segments);
  }

  ~Encoder() override {
    try {
      queue_.wait();  // it writes to this object's memory
    } catch (const Error&) {
      // The device does nothing more.
    }
  }

  void begin(std::uint64_t run_seed, StepId step) override {
    run_seed_ = run_seed;
    step_ = step;
    for (State& state : states_) state.started = false;
    if (p_.residual.empty() || on_device_) return;
    queue_.upload(residual_.data(), p_.residual.data(), p_.residual.size_bytes());
    on_device_ = true;
  }

  void start(std::size_t bucket) override {
    State& state = states_.at(bucket);
    for (std::size_t k = 0; k < state.bucket.encoded.size(); ++k) {
      const codec::Segment& segment = state.bucket.encoded[k];
      const std::size_t place = state.first + k;
      const codec::EncodeContext context = {
          .key = {run_seed_, step_, rank(), segment.slice},
          .first_index = segment.first_index,
          .shared_scale = {},
          .own_scale = {},
          .density = {},
          .rows = segment.rows,
          .strata = state.bucket.strata.empty() ? nullptr : state.bucket.strata[k]};
      encodings_[place] =
          codec_.queue(p_.device_gradient + segment.begin, residual_of(segment), segment.count,
                       context, slots_of(place), &flags_->span()[place]);
    }
    for (const codec::Segment& segment : state.bucket.plain) download(segment);
    state.event->record();
    state.started = true;
  }

  bool is_done(std::size_t bucket) const override {
    const State& state = states_.at(bucket);
    return state.started && state.event->passed();
  }

  bool finish(std::size_t bucket) override {
    constexpr std::chrono::microseconds kPoll{20};
    EQT_CHECK(states_.at(bucket).started, "bucket {} was not started", bucket);
    while (!is_done(bucket)) std::this_thread::sleep_for(kPoll);
    const State& state = states_.at(bucket);
    if (!is_finite(state)) {
      const std::size_t begin = state.bucket.begin, count = state.bucket.end - begin;
      queue_.download(&p_.gradient[begin], p_.device_gradient + begin, count * sizeof(float));
      queue_.wait();
      return false;
    }
    for (std::size_t k = 0; k < state.bucket.encoded.size(); ++k) {
      const std::size_t place = state.first + k;
      payloads_[place] = codec_.finish(encodings_[place], spares_[place]);
    }
    return true;
  }

  void refuse(std::size_t bucket) override {
    const State& state = states_.at(bucket);
    for (std::size_t k = 0; k < state.bucket.encoded.size(); ++k) {
      const std::size_t place = state.first + k;
      if (!DeviceCodec::is_finite(encodings_[place]))
        payloads_[place] = codec_.finish(encodings_[place], spares_[place]);
    }
    fail(Kind::diverged,
         "step {}: gradient and residual of rank {} have a sum that is not finite in fusion bucket "
         "{}; try a smaller optimizer.learning_rate",
         step_, p_.rank, bucket);
  }

  void return_residual() override {
    if (!on_device_) return;
    queue_.download(p_.residual.data(), residual_.data(), p_.residual.size_bytes());
    queue_.wait();
    on_device_ = false;
  }

  std::span<const std::byte> of(const codec::Segment& segment) const override {
    const auto found = std::ranges::lower_bound(places_, segment.begin, {}, &Place::begin);
    EQT_CHECK(found != places_.end() && found->begin == segment.begin &&
                  encodings_[found->place].count == segment.count,
              "no payload of the {} values from {} on", segment.count, segment.begin);
    return payloads_[found->place];
  }

 private:
  struct State {
    EncodedBucket bucket;
    std::unique_ptr<Event> event;
    std::size_t first = 0;  // the place of its first segment
    bool started = false;
  };
  /// Encoded segments are numbered, bucket after bucket.
  struct Place {
    std::size_t begin = 0;  // of the segment
    std::size_t place = 0;
  };

  std::uint32_t rank() const { return static_cast<std::uint32_t>(p_.rank); }
  float* residual_of(const codec::Segment& segment) const {
    return p_.residual.empty() ? nullptr : residual_.data() + segment.begin;
  }
  std::span<std::byte> slots_of(std::size_t place) const {
    return slots_->span().subspan(begins_[place], begins_[place + 1] - begins_[place]);
  }

  void download(const codec::Segment& segment) {
    const std::size_t bytes = segment.count * sizeof(float);
    const float* values = p_.device_gradient + segment.begin;
    float* const residual = p_.plain_feedback ? residual_of(segment) : nullptr;
    if (residual != nullptr) {
      queue_.run(AddValues{values, 1.0f, residual, segment.count, nullptr});
      values = residual;
    }
    queue_.download(&p_.gradient[segment.begin], values, bytes);
    if (residual != nullptr) queue_.clear(residual, bytes);
  }

  bool is_finite(const State& state) const {
    for (std::size_t k = 0; k < state.bucket.encoded.size(); ++k)
      if (!DeviceCodec::is_finite(encodings_[state.first + k])) return false;
    return std::ranges::all_of(state.bucket.plain, [&](const codec::Segment& segment) {
      return codec::first_non_finite(p_.gradient.subspan(segment.begin, segment.count)) ==
             segment.count;
    });
  }

  GradientEncoderParts p_;
  Queue& queue_;
  DeviceCodec codec_;
  Array<float> residual_;
  bool on_device_ = false;  // the residual
  std::uint64_t run_seed_ = 0;
  StepId step_ = 0;
  std::vector<State> states_;                    // by bucket
  std::vector<Place> places_;                    // ascending
  std::vector<std::size_t> begins_;              // by place, in slots_
  std::optional<PinnedArray<std::byte>> slots_;  // as they come from the device
  std::optional<PinnedArray<std::uint32_t>> flags_;
  std::vector<DeviceCodec::Encoding> encodings_;      // by place, so is what follows
  std::vector<std::span<const std::byte>> payloads_;  // after finish()
  std::vector<std::vector<std::byte>> spares_;        // of irregular payloads
};

}  // namespace

std::unique_ptr<GradientEncoder> make_gradient_encoder(GradientEncoderParts parts,
                                                       std::vector<EncodedBucket> buckets) {
  return std::make_unique<Encoder>(std::move(parts), std::move(buckets));
}

}  // namespace eqt::device
