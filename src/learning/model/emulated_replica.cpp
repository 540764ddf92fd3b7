// SPDX-License-Identifier: Apache-2.0
// Random gradients with a realistic distribution, without running a network.
//
// Values Laplace, as A. Abdelmoniem et al. fit gradients, MLSys 2021, arXiv:2101.10761 (SIDCo). It
//          gives ResNet-20's layout about the relative variances that training it on CIFAR-10 shows
//          (in brackets): QSGD 1.21 (1.06), ElastiQuant 0.134 (0.107), TernGrad 0.81 (0.79), NUQSGD
//          0.24 (0.26), top-k 0.89 (0.91); QSGD-V, which depends only on a bucket's largest value,
//          0.074 (0.034). Student's t with 3 or 4 degrees of freedom is further off.
// Scale    1 / sqrt(fan-in) per tensor
// Differs  ranks and steps are independent, so ranks' largest values coincide only by chance. That
//          is the worst case for sparse sums, and the mean becomes smaller with more ranks
//
// A step sleeps, so that any number of boards fits on a few cores. All times are counted from the
// start of the step, so that late wake-ups do not add up. The gradient is drawn at the start,
// during the network's forward pass, when nothing is encoded or sent. A step takes longer than
// planned only if drawing takes longer than a third of it.

#include "model/emulated_replica.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"
#include "model/architecture.hpp"

namespace eqt::model {
namespace {

using Clock = std::chrono::steady_clock;

// Larger than any tensor of our networks, so that no value occurs twice in one tensor.
constexpr std::size_t kPoolValues = std::size_t{1} << 22;

constexpr StepId kPoolStep = std::numeric_limits<StepId>::max();  // no step of a run

constexpr float kTypicalGradient = 0.01f;  // [rms of a value with fan-in 1]

/// A value of Laplace's distribution with variance 1, by the inverse distribution function.
float laplace(double uniform) {
  const double centred = uniform - 0.5;
  const double magnitude = -std::log1p(-2 * std::abs(centred)) / std::numbers::sqrt2;
  return static_cast<float>(std::copysign(magnitude, centred));
}

/// Values that all gradients of a rank are cut from.
std::vector<float> draw_pool(std::size_t count, std::uint64_t seed, Rank rank) {
  const RandomStream random(
      make_key(seed, kPoolStep, static_cast<std::uint32_t>(rank), RandomPurpose::emulation));
  std::vector<float> pool(count);
  for (std::size_t i = 0; i < count; ++i) {
    // Half a step of the 32-bit grid is added, so that the number is in the open interval.
    const double bits = random.bits(static_cast<std::uint32_t>(i));
    pool[i] = laplace((bits + 0.5) * 0x1p-32);
  }
  return pool;
}

/// The size of a typical value of each slice: 1 / sqrt(fan-in). A tensor of one dimension belongs
/// to the linear map before it.
std::vector<float> magnitudes(const Layout& layout) {
  std::vector<float> result;
  double fan_in = 1;
  for (const TensorSlice& slice : layout) {
    if (slice.shape.size() > 1) {
      fan_in = static_cast<double>(slice.count) / static_cast<double>(slice.shape[0]);
    }
    result.push_back(kTypicalGradient / static_cast<float>(std::sqrt(fan_in)));
  }
  return result;
}

class EmulatedReplica final : public Replica {
 public:
  EmulatedReplica(std::unique_ptr<Replica> network, const EmulationOptions& options)
      : network_(std::move(network)),
        options_(options),
        pool_(draw_pool(std::min(network_->gradient().size(), kPoolValues), options.seed,
                        options.rank)),
        magnitudes_(magnitudes(network_->layout())),
        ready_(ready_parts(multiply_adds(network_->layout(), options.image_side))) {}

  const Layout& layout() const override { return network_->layout(); }
  std::span<float> parameters() override { return network_->parameters(); }
  std::span<float> gradient() override { return network_->gradient(); }
  FlatBuffer* gradient_memory() override { return network_->gradient_memory(); }
  std::span<float> buffers() override { return {}; }

  double forward_backward(const data::Batch& batch, const SliceReady& on_ready) override {
    const auto start = Clock::now();
    const forecast::StepTime time = time_of_call();
    const double step_seconds = seconds_of(batch.size()) * time.factor;
    draw_gradient();
    for (std::size_t i = ready_.size(); i-- > 0;) {
      const std::chrono::duration<double> moment(time.stall_seconds + ready_[i] * step_seconds);
      std::this_thread::sleep_until(start + std::chrono::duration_cast<Clock::duration>(moment));
      if (on_ready) on_ready(i);
    }
    ++step_;
    return std::numeric_limits<double>::quiet_NaN();
  }

  void visit_state(StateVisitor& visitor, Across models) override {
    visitor.values("parameters", parameters(), models);
    visitor.number("batches", step_, Across::own);
  }

  Evaluation evaluate(const data::Batch&) override {
    fail(Kind::bug, "an emulated board was asked for its accuracy");
  }
  void save_weights(const std::string&) const override {
    fail(Kind::bug, "an emulated board was asked for its weights");
  }
  void load_weights(const std::string&) override {
    fail(Kind::bug, "an emulated board was given weights");
  }

 private:
  double seconds_of(std::size_t samples) const {
    if (options_.batch_size == 0 || samples == 0) return options_.step_seconds;
    return options_.step_seconds * static_cast<double>(samples) /
           static_cast<double>(options_.batch_size);
  }

  /// A stall comes before the first batch of a step.
  forecast::StepTime time_of_call() const {
    forecast::StepTime time = forecast::step_time(options_.speed, options_.seed,
                                                  1 + step_ / options_.batches, options_.rank);
    if (step_ % options_.batches != 0) time.stall_seconds = 0;
    return time;
  }

  void draw_gradient() {
    const RandomStream random(make_key(
        options_.seed, step_, static_cast<std::uint32_t>(options_.rank), RandomPurpose::emulation));
    const std::span<float> gradient = network_->gradient();
    for (std::size_t s = 0; s < layout().size(); ++s) {
      const TensorSlice& slice = layout()[s];
      const auto index = static_cast<std::uint32_t>(2 * s);
      const float sign = random.bits(index + 1) % 2 == 0 ? 1.0f : -1.0f;
      cut(random.bounded(index, pool_.size()), sign * magnitudes_[s],
          gradient.subspan(slice.offset, slice.count));
    }
  }

  /// to[i] = factor * pool[(begin + i) modulo its size].
  void cut(std::size_t begin, float factor, std::span<float> to) const {
    while (!to.empty()) {
      const std::size_t count = std::min(to.size(), pool_.size() - begin);
      const float* const from = pool_.data() + begin;
      for (std::size_t i = 0; i < count; ++i) to[i] = factor * from[i];
      to = to.subspan(count);
      begin = 0;
    }
  }

  std::unique_ptr<Replica> network_;
  EmulationOptions options_;
  std::vector<float> pool_;
  std::vector<float> magnitudes_;  // by slice
  std::vector<double> ready_;      // by slice, as fraction of the step
  StepId step_ = 0;                // calls so far
};

/// Computes the image's side in a network without shortcuts ("features.N.weight"). Its numbers also
/// count ReLU and pooling layers, so a further number before the next convolution means that the
/// image was halved.
class PlainNetworkSide {
 public:
  explicit PlainNetworkSide(double side) : side_(side) {}

  /// Returns the side as output_side() does; empty for other names. Call it in the layout's order.
  std::optional<double> at(const TensorSlice& slice) {
    constexpr std::string_view kRow = "features.";
    if (!slice.name.starts_with(kRow)) return {};
    const int place = std::atoi(slice.name.c_str() + kRow.size());
    if (slice.shape.size() == 4) {
      if (place > next_) side_ /= 2;
      if (slice.shape[2] == kAlexNetKernel) side_ /= 4;
      convolution_ = place;
    }
    const bool is_norm = place != convolution_;
    next_ = std::max(next_, convolution_ + (is_norm ? 3 : 2));
    return side_;
  }

 private:
  static constexpr int kAlexNetKernel = 11;  // of its first convolution, which has stride 4

  double side_;  // [pixels]
  int convolution_ = 0;
  int next_ = 0;  // number of the next convolution if there is no pooling
};

/// Side of the output of the layer that a parameter belongs to [pixels]; 1 after the last pooling.
double output_side(const TensorSlice& slice, int side, bool large_stem) {
  const std::string_view name = slice.name;
  if (name.starts_with("conv1.") || name.starts_with("bn1.")) return large_stem ? side / 2.0 : side;
  constexpr std::string_view kStage = "layer";
  if (!name.starts_with(kStage) || name.size() == kStage.size()) return 1;
  const int stage = name[kStage.size()] - '1';
  if (stage < 0 || stage > 8) return 1;
  // The first 1x1 convolution of a bottleneck stage comes before its stride.
  const bool before_stride = stage > 0 && name.ends_with(".0.conv1.weight") &&
                             slice.shape.size() == 4 && slice.shape[2] == 1;
  return std::ldexp(large_stem ? side / 4.0 : side, before_stride ? 1 - stage : -stage);
}

/// True if a name begins and goes on so. Some of a network's parameters may be frozen, and in no
/// layout.
bool has_names(const Layout& layout, std::string_view begin, std::string_view part) {
  return std::ranges::any_of(layout, [&](const TensorSlice& slice) {
    return slice.name.starts_with(begin) && slice.name.find(part) != std::string::npos;
  });
}

/// The network of inverted residuals that has these names, for pictures of `side` pixels; none.
std::optional<MobilePlan> mobile_plan_of(const Layout& layout, int side) {
  const ModelRow* model = nullptr;
  if (has_names(layout, "blocks.", ".conv_dw.")) model = &models::efficientnet_lite0;
  if (has_names(layout, "features.", ".conv.")) model = &models::mobilenet_v2;
  if (has_names(layout, "features.", ".block.")) model = &models::mobilenet_v3_small;
  if (model == nullptr) return {};
  return mobile_plan({.model = *model, .inputs = {data::image_spec({3, side, side})}});
}

/// Returns the side of each layer's output [pixels], by the layer's path.
std::map<std::string, double, std::less<>> sides_of(const MobilePlan& plan, int side) {
  std::map<std::string, double, std::less<>> sides;
  double at = side;
  const auto add = [&](const MobileLayer& layer) {
    at = std::ceil(at / static_cast<double>(layer.stride));
    sides[layer.convolution] = sides[layer.norm] = at;
  };
  add(plan.stem);
  for (const MobileBlock& block : plan.blocks) {
    if (block.widen) add(*block.widen);
    add(block.filter);
    add(block.narrow);
  }
  add(plan.last);
  return sides;
}

std::vector<double> mobile_multiply_adds(const Layout& layout, const MobilePlan& plan, int side) {
  const auto sides = sides_of(plan, side);
  std::vector<double> result;
  for (const TensorSlice& slice : layout) {
    const std::string_view name = slice.name;
    const auto found = sides.find(name.substr(0, name.rfind('.')));
    const double output = found == sides.end() ? 1 : found->second;
    result.push_back(static_cast<double>(slice.count) * output * output);
  }
  return result;
}

/// The products of a vision transformer's attention count as those of its queries, keys and values.
std::vector<double> vit_multiply_adds(const Layout& layout, int side) {
  const double patches = std::ceil(static_cast<double>(side) / vit_patch(side));
  const double tokens = patches * patches + 1;
  std::vector<double> result;
  for (const TensorSlice& slice : layout) {
    const std::string_view name = slice.name;
    const bool is_for_all = name.starts_with("blocks.") || name.starts_with("patch_embed.");
    result.push_back(static_cast<double>(slice.count) * (is_for_all ? tokens : 1));
    if (name.ends_with(".attn.qkv.weight"))
      result.back() += 2 * tokens * tokens * static_cast<double>(slice.shape[1]);
  }
  return result;
}

}  // namespace

std::vector<double> multiply_adds(const Layout& layout, int side) {
  if (has_names(layout, "blocks.", ".attn.")) return vit_multiply_adds(layout, side);
  if (const auto plan = mobile_plan_of(layout, side))
    return mobile_multiply_adds(layout, *plan, side);
  const bool large_stem = !layout.empty() && layout[0].shape.size() == 4 && layout[0].shape[2] == 7;
  PlainNetworkSide plain(side);
  std::vector<double> result;
  for (const TensorSlice& slice : layout) {
    const double output = plain.at(slice).value_or(output_side(slice, side, large_stem));
    result.push_back(static_cast<double>(slice.count) * output * output);
  }
  return result;
}

std::vector<double> ready_parts(std::span<const double> multiply_adds) {
  const double all = std::accumulate(multiply_adds.begin(), multiply_adds.end(), 0.0);
  std::vector<double> parts(multiply_adds.size());
  double done = 0;
  for (std::size_t i = parts.size(); i-- > 0;) {
    done += multiply_adds[i];
    parts[i] = kForwardShare + (1 - kForwardShare) * (all > 0 ? done / all : 1);
  }
  return parts;
}

double planned_seconds(const EmulationOptions& options, StepId steps) {
  double sum = 0;
  for (StepId step = 1; step <= steps; ++step) {
    const forecast::StepTime time =
        forecast::step_time(options.speed, options.seed, step, options.rank);
    sum += options.step_seconds * time.factor +
           time.stall_seconds / static_cast<double>(options.batches);
  }
  return sum / static_cast<double>(std::max<StepId>(1, steps));
}

std::unique_ptr<Replica> make_emulated_replica(std::unique_ptr<Replica> network,
                                               const EmulationOptions& options) {
  EQT_CHECK(options.step_seconds >= 0 && options.image_side > 0 && options.batches > 0,
            "{} s, {} pixels, {} batches", options.step_seconds, options.image_side,
            options.batches);
  return std::make_unique<EmulatedReplica>(std::move(network), options);
}

}  // namespace eqt::model
