// SPDX-License-Identifier: Apache-2.0
#include "model/own/vision_transformer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/worker_threads.hpp"
#include "model/gelu_kernels.hpp"
#include "model/model_options.hpp"
#include "model/own/dense.hpp"
#include "model/own/flat_replica.hpp"
#include "model/own/operands.hpp"
#include "model/own/passes.hpp"
#include "model/own/plan.hpp"
#include "model/own/token_passes.hpp"
#include "model/position_table.hpp"
#include "model/process_settings.hpp"

namespace eqt::model::precision {
namespace {

constexpr auto kEpsilon = static_cast<float>(kVitEpsilon);
constexpr std::size_t kMostThreads = 16;

std::string layer_name(std::int64_t layer) { return "blocks." + std::to_string(layer) + "."; }

/// Takes pieces of a block of memory one after the other. Without a block it counts their bytes.
class Pieces {
 public:
  explicit Pieces(std::byte* block = nullptr) : block_(block) {}

  std::size_t bytes() const { return bytes_; }
  template <typename Value>
  std::span<Value> take(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += (count * sizeof(Value) + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    if (block_ == nullptr) return {};
    return {reinterpret_cast<Value*>(block_ + at), count};
  }
  template <typename Operand>
  Samples<Operand> take_samples(std::size_t samples, std::size_t count) {
    const std::span<Operand> values = take<Operand>(samples * count);
    return {values, take<float>(samples), count};
  }

 private:
  std::byte* block_;
  std::size_t bytes_ = 0;
};

/// Sizes says how many values the arrays of a sample have.
struct Sizes {
  explicit Sizes(const VisionPlan& plan)
      : tokens(static_cast<std::size_t>(plan.shape.tokens())),
        hidden(static_cast<std::size_t>(plan.shape.hidden)),
        heads(static_cast<std::size_t>(plan.shape.heads)),
        patch_values(plan.channels * static_cast<std::size_t>(plan.shape.patch) *
                     static_cast<std::size_t>(plan.shape.patch)) {}

  std::size_t tokens, hidden, heads, patch_values;
  std::size_t head_width() const { return hidden / heads; }
  std::size_t values() const { return tokens * hidden; }  // of all tokens
  std::size_t head_values() const { return tokens * head_width(); }
  std::size_t scores() const { return tokens * tokens; }  // of a head
  std::size_t patches() const { return (tokens - 1) * patch_values; }
  std::size_t most() const { return std::max(4 * values(), patches()); }
};

int8::ConvolutionShape product_shape(std::size_t tokens, std::size_t in, std::size_t out) {
  return {.height = 1,
          .width = static_cast<int>(tokens),
          .in_channels = static_cast<int>(in),
          .out_channels = static_cast<int>(out),
          .kernel = 1};
}

/// A LayerMemory has what samples leave to the backward pass in a layer.
template <typename Operand>
struct LayerMemory {
  Samples<Operand> first, mixed, second, after;    // operands of the four products
  Samples<Operand> before;                         // what GELU is given
  Samples<Operand> query, key, value;              // of each head; value is (head width, tokens)
  std::span<float> first_inverse, second_inverse;  // (n, tokens), of the norms

  LayerMemory(Pieces& pieces, const Sizes& sizes, std::size_t samples)
      : first(pieces.take_samples<Operand>(samples, sizes.values())),
        mixed(pieces.take_samples<Operand>(samples, sizes.values())),
        second(pieces.take_samples<Operand>(samples, sizes.values())),
        after(pieces.take_samples<Operand>(samples, 4 * sizes.values())),
        before(pieces.take_samples<Operand>(samples, 4 * sizes.values())),
        query(pieces.take_samples<Operand>(samples * sizes.heads, sizes.head_values())),
        key(pieces.take_samples<Operand>(samples * sizes.heads, sizes.head_values())),
        value(pieces.take_samples<Operand>(samples * sizes.heads, sizes.head_values())),
        first_inverse(pieces.take<float>(samples * sizes.tokens)),
        second_inverse(pieces.take<float>(samples * sizes.tokens)) {}
};

/// A BatchMemory has what a batch leaves to the backward pass, and the errors of that.
template <typename Operand>
struct BatchMemory {
  std::vector<LayerMemory<Operand>> layers;  // from the first one that is trained on
  Samples<Operand> patches;
  std::size_t left_bytes = 0;  // of both
  // Errors of a layer's products, which the layers share; of the patches' product, attended_error.
  Samples<Operand> together_error, attended_error, wide_error, narrow_error;
  std::span<float> stream_error;  // (n, tokens, hidden), of what the layers add up
  std::span<double> bias_sums;    // (n, 9 hidden), of the errors of a layer's products

  BatchMemory(Pieces& pieces, const Sizes& sizes, std::size_t kept_layers, bool keeps_patches,
              std::size_t samples) {
    if (kept_layers == 0 && !keeps_patches) return;
    for (std::size_t i = 0; i < kept_layers; ++i) layers.emplace_back(pieces, sizes, samples);
    if (keeps_patches) patches = pieces.take_samples<Operand>(samples, sizes.patches());
    left_bytes = pieces.bytes();
    together_error = pieces.take_samples<Operand>(samples, 3 * sizes.values());
    attended_error = pieces.take_samples<Operand>(samples, sizes.values());
    wide_error = pieces.take_samples<Operand>(samples, 4 * sizes.values());
    narrow_error = pieces.take_samples<Operand>(samples, sizes.values());
    stream_error = pieces.take<float>(samples * sizes.values());
    bias_sums = pieces.take<double>(samples * 9 * sizes.hidden);
  }
};

/// Places in a sample's bias_sums, in units of the hidden width.
enum BiasSums : std::size_t { kOfTogether = 0, kOfAttended = 3, kOfWide = 4, kOfNarrow = 8 };

/// RoundedError says what is rounded. It is part of the key of random bits.
enum RoundedError : std::uint32_t {
  kNarrowError,
  kWideError,
  kAttendedError,
  kHeadError,
  kScoreError,
  kTogetherError,
  kPatchError,
};

template <typename Operand>
class VisionTransformer final : public FlatReplica {
 public:
  VisionTransformer(const ModelOptions& options, const VisionPlan& plan, TensorValues start,
                    int8::Kernels kernels, int threads);

  std::optional<Int8Use> int8_use(std::size_t batch_size) const override {
    if constexpr (!kIsRounded<Operand>) return {};
    Pieces arena;
    const std::size_t left_bytes = lay_out(arena, batch_size).left_bytes;
    return Int8Use{
        .kernels = name_of(kernels_), .arena_bytes = arena.bytes(), .saved_bytes = left_bytes};
  }

  std::size_t bytes(std::size_t samples) const;

 private:
  enum class Role : std::size_t { weight, bias, gain, shift };

  struct Linear {
    std::string name;
    std::size_t weight;               // in the plan's tensors; its bias follows
    std::optional<std::size_t> norm;  // before it: the gain, behind which its bias is
    ConvolutionOf<Operand> product;
    std::vector<float> bias = {};  // with what the norm's bias adds
  };
  struct Layer {
    Linear together, attended, wide, narrow;
    std::vector<float> first_factors = {}, second_factors = {};  // of samples; empty: all are 1
  };

  /// A Room holds what a thread needs for itself.
  struct Room {
    LongArray<float> stream;        // (tokens, hidden), what the layers add up
    LongArray<float> a, b, c;       // the most values of a sample
    LongArray<float> scores;        // (tokens, tokens)
    LongArray<float> head, turned;  // (tokens, head width)
    LongArray<Operand> weights, score_error, head_error;
    std::vector<float> totals;  // (tokens)
    std::vector<double> sums;   // of channels
    LongArray<std::byte> scratch;
    LongArray<std::byte> kept;  // a sample's LayerMemory, where it is not kept
    std::optional<LayerMemory<Operand>> layer = {};
    Samples<Operand> patches = {};
    // Keys and values of a head are the weights of these: scores (tokens, tokens) of queries, and
    // means (tokens, head width).
    std::optional<ConvolutionOf<Operand>> score, mix;
    LabelText label{};
  };

  Linear make_linear(const std::string& name, std::size_t weight, std::optional<std::size_t> norm,
                     std::size_t tokens, std::size_t in, std::size_t out) const;
  void make_room(Room& room) const;
  BatchMemory<Operand> lay_out(Pieces& pieces, std::size_t samples) const {
    return {pieces, sizes_, static_cast<std::size_t>(plan_.shape.layers - first_trained_),
            trains_patches_, samples};
  }
  /// Calls work(n, room) for each sample, with as many threads as there are.
  template <typename Work>
  void for_each_sample(const Work& work) {
    const std::size_t parts = std::min(threads_.count(), samples_);
    threads_.run(parts, [&](std::size_t part) {
      for (std::size_t n = samples_ * part / parts; n < samples_ * (part + 1) / parts; ++n)
        work(n, rooms_[part]);
    });
  }
  template <typename Work>
  void for_each_linear(const Work& work) {
    work(patches_);
    for (Layer& layer : layers_)
      for (Linear* const linear : {&layer.together, &layer.attended, &layer.wide, &layer.narrow})
        work(*linear);
  }

  std::span<const float> forward(const Pictures& pictures, const RandomKey* dropout) override;
  void backward(std::span<const float> errors, const RandomKey& rounding,
                const SliceReady& ready) override;

  void expect_other_frozen() override { frozen_are_set_ = false; }
  weights::FileNames file_names() const override { return file_names_of(plan_.shape); }

  void set_parameters();
  bool is_set(const Linear& linear) const {
    return frozen_are_set_ && !plan_.trains(linear.weight) && !plan_.trains(linear.weight + 1) &&
           !(linear.norm && (plan_.trains(*linear.norm) || plan_.trains(*linear.norm + 1)));
  }
  void prepare(std::size_t samples, const RandomKey* dropout);
  void embed(std::size_t n, Room& room);
  void through_layer(std::int64_t i, std::size_t n, Room& room);
  float attend(std::size_t head, const LayerMemory<Operand>& memory, std::size_t k, Room& room);
  void first_sum(const Layer& layer, const LayerMemory<Operand>& memory, std::size_t k,
                 float factor, Room& room);
  void second_sum(const Layer& layer, const LayerMemory<Operand>& memory, std::size_t k,
                  float factor, Room& room);
  void normalize(const Linear& linear, std::span<float> inverse, const Samples<Operand>& to,
                 std::size_t k, Room& room);
  void add_to_stream(std::span<float> x, float factor, Room& room);
  void classify();
  void classify_backward(std::span<const float> errors, const SliceReady& ready);
  void layer_backward(std::int64_t i, std::size_t n, Room& room);
  std::span<float> error_of_sum(Floats stream, float factor, Room& room) const;
  void through_norm(const Samples<Operand>& normalized, Floats inverse, std::size_t n, Floats error,
                    std::span<float> stream) const;
  void second_backward(std::int64_t i, std::size_t n, Room& room, std::span<float> stream);
  void first_backward(std::int64_t i, std::size_t n, Room& room, std::span<float> stream);
  void head_backward(std::int64_t i, std::size_t n, std::size_t head, Room& room);
  void finish_linear(Linear& linear, const Samples<Operand>& in, int zero_point,
                     const Samples<Operand>& error, BiasSums sums,
                     const std::vector<float>& factors, const SliceReady& ready);
  void embed_backward(const SliceReady& ready);

  Layer& layer_of(std::int64_t i) { return layers_[static_cast<std::size_t>(i)]; }
  /// Returns what is left in a layer from the first trained one on.
  const LayerMemory<Operand>& left_in(std::int64_t i) const {
    return memory_->layers[static_cast<std::size_t>(i - first_trained_)];
  }
  static float factor_of(const std::vector<float>& factors, std::size_t n) {
    return factors.empty() ? 1 : factors[n];
  }
  std::string_view label(const std::string& name, const char* what, Room& room) const {
    return write_label(step(), name, what, room.label);
  }
  void keep(Floats x, int zero_point, const Samples<Operand>& to, std::size_t k,
            std::string_view what) const {
    to.scales[k] = round_activation(zero_point, int8::largest_magnitude(x, what), x, to.sample(k));
  }
  float round_error(Floats x, std::int64_t layer, RoundedError kind, std::size_t block,
                    std::span<Operand> q, std::string_view what) const;
  void round_product_error(const Linear& linear, Floats x, std::int64_t layer, RoundedError kind,
                           std::size_t n, const Samples<Operand>& to, BiasSums sums, Room& room);
  void multiply(const Linear& linear, const Samples<Operand>& in, int zero_point, std::size_t k,
                std::span<float> out, Room& room) const;
  void multiply_back(const Linear& linear, const Samples<Operand>& error, std::size_t n,
                     std::span<float> out, Room& room) const;
  static void set_operands(ConvolutionOf<Operand>& product, std::span<const Operand> values,
                           float scale) {
    if constexpr (kIsRounded<Operand>) {
      product.set_rounded(values, scale);
    } else {
      product.set_weights(values);
    }
  }
  static int zero_point(int of_8_bits) { return kIsRounded<Operand> ? of_8_bits : 0; }
  static int exponential_zero() { return zero_point(int8::kUnsignedZeroPoint); }
  static int gelu_zero() { return zero_point(int8::kShiftedZeroPoint); }
  std::span<std::byte> scratch_of(Room& room) const { return {room.scratch.get(), scratch_bytes_}; }
  /// Returns where the gradient of a tensor is computed. That of a frozen one is lost with the next
  /// of the same role.
  std::span<float> gradient_of(std::size_t tensor, Role role) {
    if (plan_.trains(tensor)) return plan_.values(tensor, all_gradients(), std::span<float>());
    std::vector<float>& unwanted = unwanted_[static_cast<std::size_t>(role)];
    const std::size_t count = plan_.tensors[tensor].count;
    if (unwanted.size() < count) unwanted.resize(count);
    return std::span(unwanted).first(count);
  }
  void tell(const SliceReady& ready, std::size_t tensor) const {
    if (const auto slice = plan_.trained[tensor]) ready(*slice);
  }

  const VisionPlan plan_;
  const Sizes sizes_;
  const int8::Kernels kernels_;
  const bool nearest_;  // errors are rounded so
  WorkerThreads threads_;
  std::int64_t first_trained_ = 0;  // layers before it keep nothing, and get no errors
  bool trains_patches_ = true;      // or positions, or the class token
  Linear patches_;
  std::vector<Layer> layers_;
  std::size_t scratch_bytes_ = 0, weight_bytes_ = 0;
  std::vector<Room> rooms_;  // by thread

  Pictures pictures_;
  bool training_ = false;
  bool frozen_are_set_ = false;  // the products have them
  std::size_t samples_ = 0, kept_samples_ = 0;
  RandomKey key_;  // of rounding
  LongArray<std::byte> block_;
  std::optional<BatchMemory<Operand>> memory_;
  // These belong to the head, (n, hidden) and (n); outputs (n, outputs).
  std::vector<float> class_tokens_, class_inverse_, normalized_, head_inputs_, outputs_;
  std::vector<float> head_errors_;
  std::vector<float> folded_;                   // weights with the gains of a norm
  std::array<std::vector<float>, 4> unwanted_;  // gradients of frozen tensors, by role
};

template <typename Operand>
VisionTransformer<Operand>::VisionTransformer(const ModelOptions& options, const VisionPlan& plan,
                                              TensorValues start, int8::Kernels kernels,
                                              int threads)
    : FlatReplica(options, plan, std::move(start), plan.head()),
      plan_(plan),
      sizes_(plan),
      kernels_(kernels),
      nearest_(options.int8.error_rounding == ErrorRounding::nearest),
      threads_(std::clamp<std::size_t>(static_cast<std::size_t>(threads), 1, kMostThreads)),
      patches_(make_linear("patch_embed.proj", VisionPlan::kFilters, {}, sizes_.tokens - 1,
                           sizes_.patch_values, sizes_.hidden)),
      rooms_(threads_.count()) {
  const std::size_t h = sizes_.hidden;
  std::size_t largest = 0;
  for (std::int64_t i = 0; i < plan.shape.layers; ++i) {
    const auto linear = [&](const char* name, VisionPlan::OfLayer weight,
                            std::optional<VisionPlan::OfLayer> norm, std::size_t in,
                            std::size_t out) {
      std::optional<std::size_t> gain;
      if (norm) gain = VisionPlan::of_layer(i, *norm);
      return make_linear(layer_name(i) + name, VisionPlan::of_layer(i, weight), gain, sizes_.tokens,
                         in, out);
    };
    layers_.push_back(
        {.together = linear("attn.qkv", VisionPlan::kTogether, VisionPlan::kFirst, h, 3 * h),
         .attended = linear("attn.proj", VisionPlan::kAttended, {}, h, h),
         .wide = linear("mlp.fc1", VisionPlan::kWide, VisionPlan::kSecond, h, 4 * h),
         .narrow = linear("mlp.fc2", VisionPlan::kNarrow, {}, 4 * h, h)});
  }
  const auto first =
      std::ranges::find_if(plan.trained, [](const auto& t) { return t.has_value(); });
  const auto index = static_cast<std::size_t>(first - plan.trained.begin());
  trains_patches_ = index < VisionPlan::kLayers;
  if (!trains_patches_)
    first_trained_ =
        std::min(plan.shape.layers,
                 static_cast<std::int64_t>((index - VisionPlan::kLayers) / VisionPlan::kOfLayer));
  for_each_linear([&](const Linear& linear) {
    scratch_bytes_ = std::max(scratch_bytes_, linear.product.scratch_bytes());
    weight_bytes_ += linear.product.weight_bytes();
    largest = std::max(largest, plan.tensors[linear.weight].count);
  });
  folded_.resize(largest);
  for (Room& room : rooms_) make_room(room);
  for (const auto* const product : {&*rooms_.front().score, &*rooms_.front().mix})
    scratch_bytes_ = std::max(scratch_bytes_, product->scratch_bytes());
  for (Room& room : rooms_) room.scratch = make_long_array<std::byte>(scratch_bytes_);
}

template <typename Operand>
typename VisionTransformer<Operand>::Linear VisionTransformer<Operand>::make_linear(
    const std::string& name, std::size_t weight, std::optional<std::size_t> norm,
    std::size_t tokens, std::size_t in, std::size_t out) const {
  return {.name = name,
          .weight = weight,
          .norm = norm,
          .product = make_convolution<Operand>(product_shape(tokens, in, out), kernels_),
          .bias = std::vector<float>(out)};
}

template <typename Operand>
void VisionTransformer<Operand>::make_room(Room& room) const {
  room.stream = make_long_array<float>(sizes_.values());
  for (auto* const floats : {&room.a, &room.b, &room.c})
    *floats = make_long_array<float>(sizes_.most());
  room.scores = make_long_array<float>(sizes_.scores());
  for (auto* const operands : {&room.weights, &room.score_error})
    *operands = make_long_array<Operand>(sizes_.scores());
  for (auto* const floats : {&room.head, &room.turned})
    *floats = make_long_array<float>(sizes_.head_values());
  room.head_error = make_long_array<Operand>(sizes_.head_values());
  room.totals.resize(sizes_.tokens);
  room.sums.resize(4 * sizes_.hidden);
  const auto product = [&](std::size_t in, std::size_t out) {
    return make_convolution<Operand>(product_shape(sizes_.tokens, in, out), kernels_);
  };
  room.score.emplace(product(sizes_.head_width(), sizes_.tokens));
  room.mix.emplace(product(sizes_.tokens, sizes_.head_width()));
  const auto lay = [&](Pieces& pieces) {
    room.layer.emplace(pieces, sizes_, 1);
    room.patches = pieces.take_samples<Operand>(1, sizes_.patches());
  };
  Pieces counted;
  lay(counted);
  room.kept = make_long_array<std::byte>(counted.bytes());
  Pieces pieces(room.kept.get());
  lay(pieces);
}

template <typename Operand>
std::size_t VisionTransformer<Operand>::bytes(std::size_t samples) const {
  Pieces arena, kept;
  lay_out(arena, samples);
  LayerMemory<Operand>(kept, sizes_, 1);
  kept.take_samples<Operand>(1, sizes_.patches());
  const std::size_t attention =
      rooms_.front().score->weight_bytes() + rooms_.front().mix->weight_bytes();
  const std::size_t room =
      scratch_bytes_ + kept.bytes() + attention +
      (sizes_.values() + 3 * sizes_.most() + sizes_.scores() + 2 * sizes_.head_values()) *
          sizeof(float) +
      (2 * sizes_.scores() + sizes_.head_values()) * sizeof(Operand);
  return arena.bytes() + weight_bytes_ + rooms_.size() * room +
         (2 * folded_.size() + 5 * samples * sizes_.hidden) * sizeof(float);
}

/// Rounds the weights, with the gains of the norms before them.
template <typename Operand>
void VisionTransformer<Operand>::set_parameters() {
  for_each_linear([&](Linear& linear) {
    if (is_set(linear)) return;
    const Floats weights = values(linear.weight), bias = values(linear.weight + 1);
    std::span<const float> used = weights;
    std::ranges::copy(bias, linear.bias.begin());
    if (linear.norm) {
      const std::span<float> folded = std::span(folded_).first(weights.size());
      scale_columns(weights, values(*linear.norm), folded);
      dense_forward(values(*linear.norm + 1), weights, bias, linear.bias);
      used = folded;
    }
    set_weights(linear.product, used, false, step(), linear.name);
  });
  frozen_are_set_ = true;
}

template <typename Operand>
void VisionTransformer<Operand>::prepare(std::size_t samples, const RandomKey* dropout) {
  training_ = dropout != nullptr;
  samples_ = samples;
  for (auto* const rows : {&class_tokens_, &normalized_, &head_inputs_, &head_errors_})
    rows->resize(samples * sizes_.hidden);
  class_inverse_.resize(samples);
  outputs_.resize(samples * plan_.outputs);
  if (!training_) return;
  for (std::int64_t i = 0; i < plan_.shape.layers; ++i) {
    Layer& layer = layer_of(i);
    if (plan_.shape.drop(i) == 0) continue;
    for (const bool second : {false, true}) {
      std::vector<float>& factors = second ? layer.second_factors : layer.first_factors;
      factors.resize(samples);
      draw_dropout(*dropout, VitPlan::drop_number(i, second), plan_.shape.drop(i), factors);
    }
  }
  if (memory_ && samples == kept_samples_) return;
  Pieces counted;
  lay_out(counted, samples);
  if (samples > kept_samples_ || !memory_) block_ = make_long_array<std::byte>(counted.bytes());
  Pieces pieces(block_.get());
  memory_.emplace(lay_out(pieces, samples));
  kept_samples_ = samples;
}

template <typename Operand>
std::span<const float> VisionTransformer<Operand>::forward(const Pictures& pictures,
                                                           const RandomKey* dropout) {
  pictures_ = pictures;
  prepare(pictures.count(), dropout);
  set_parameters();
  for_each_sample([&](std::size_t n, Room& room) {
    embed(n, room);
    for (std::int64_t i = 0; i < plan_.shape.layers; ++i) through_layer(i, n, room);
    std::copy_n(room.stream.get(), sizes_.hidden, &class_tokens_[n * sizes_.hidden]);
  });
  classify();
  return outputs_;
}

template <typename Operand>
void VisionTransformer<Operand>::multiply(const Linear& linear, const Samples<Operand>& in,
                                          int zero_point, std::size_t k, std::span<float> out,
                                          Room& room) const {
  linear.product.forward(in.sample(k), zero_point, in.scales.subspan(k, 1), out, scratch_of(room));
  add_bias(linear.bias, out);
}

/// Cuts a picture into patches, and makes a token of each.
template <typename Operand>
void VisionTransformer<Operand>::embed(std::size_t n, Room& room) {
  const std::span<float> picture(room.a.get(), sizes_.patches());
  const std::span<float> patches(room.b.get(), sizes_.patches());
  pictures_.write_framed(n, picture);
  const auto side = static_cast<std::size_t>(plan_.shape.patch);
  const std::size_t row = side * plan_.channels;  // of a patch
  const auto columns = static_cast<std::size_t>(plan_.shape.columns);
  float* to = patches.data();
  for (std::size_t y = 0; y < static_cast<std::size_t>(plan_.shape.rows); ++y)
    for (std::size_t x = 0; x < columns; ++x)
      for (std::size_t r = 0; r < side; ++r, to += row)
        std::copy_n(&picture[((y * side + r) * columns + x) * row], row, to);
  const bool kept = training_ && trains_patches_;
  const Samples<Operand>& rounded = kept ? memory_->patches : room.patches;
  const std::size_t k = kept ? n : 0;
  keep(patches, 0, rounded, k, "input: pictures");
  const std::span<float> tokens(room.a.get(), sizes_.values() - sizes_.hidden);
  multiply(patches_, rounded, 0, k, tokens, room);
  const std::span<float> stream(room.stream.get(), sizes_.values());
  std::ranges::copy(values(VisionPlan::kPositions), stream.begin());
  add(values(VisionPlan::kClassToken), stream.first(sizes_.hidden));
  add(tokens, stream.subspan(sizes_.hidden));
}

/// Puts the exponentials of a head's scores into the room's weights, and their sums into totals.
/// The room's products have the head's keys and values from then on. @return the weights' scale
template <typename Operand>
float VisionTransformer<Operand>::attend(std::size_t head, const LayerMemory<Operand>& memory,
                                         std::size_t k, Room& room) {
  const std::size_t at = k * sizes_.heads + head;
  set_operands(*room.score, memory.key.sample(at), memory.key.scales[at]);
  set_operands(*room.mix, memory.value.sample(at), memory.value.scales[at]);
  const std::span<float> scores(room.scores.get(), sizes_.scores());
  const std::span<Operand> weights(room.weights.get(), sizes_.scores());
  room.score->forward(memory.query.sample(at), 0, memory.query.scales.subspan(at, 1), scores,
                      scratch_of(room));
  exponentials(sizes_.tokens, scores);
  const float scale = round_activation(exponential_zero(), 1, scores, weights);
  row_sums(std::span<const Operand>(weights), exponential_zero(), scale, room.totals);
  return scale;
}

template <typename Operand>
void VisionTransformer<Operand>::through_layer(std::int64_t i, std::size_t n, Room& room) {
  const Layer& layer = layer_of(i);
  const bool stays = training_ && i >= first_trained_;
  const LayerMemory<Operand>& memory = stays ? left_in(i) : *room.layer;
  const std::size_t k = stays ? n : 0;
  const float first = training_ ? factor_of(layer.first_factors, n) : 1;
  const float second = training_ ? factor_of(layer.second_factors, n) : 1;
  if (first != 0) first_sum(layer, memory, k, first, room);
  if (second != 0) second_sum(layer, memory, k, second, room);
}

/// Makes the inputs of a product behind a norm from the stream.
template <typename Operand>
void VisionTransformer<Operand>::normalize(const Linear& linear, std::span<float> inverse,
                                           const Samples<Operand>& to, std::size_t k, Room& room) {
  const std::size_t tokens = sizes_.tokens;
  const std::span<float> normalized(room.a.get(), sizes_.values());
  layer_norm(Floats(room.stream.get(), sizes_.values()), kEpsilon,
             inverse.subspan(k * tokens, tokens), normalized);
  keep(normalized, 0, to, k, label(linear.name, "inputs", room));
}

template <typename Operand>
void VisionTransformer<Operand>::add_to_stream(std::span<float> x, float factor, Room& room) {
  if (factor != 1)
    for (float& value : x) value *= factor;
  add(x, std::span(room.stream.get(), sizes_.values()));
}

/// Adds attention to the stream.
template <typename Operand>
void VisionTransformer<Operand>::first_sum(const Layer& layer, const LayerMemory<Operand>& memory,
                                           std::size_t k, float factor, Room& room) {
  const std::size_t h = sizes_.hidden, width = sizes_.head_width(), tokens = sizes_.tokens;
  const std::span<float> a(room.a.get(), sizes_.values());
  const std::span<float> all(room.b.get(), 3 * sizes_.values());
  const std::span<float> part(room.head.get(), sizes_.head_values());
  const std::span<float> turned(room.turned.get(), sizes_.head_values());
  const std::span<const Operand> weights(room.weights.get(), sizes_.scores());
  normalize(layer.together, memory.first_inverse, memory.first, k, room);
  multiply(layer.together, memory.first, 0, k, all, room);
  const std::string_view what = label(layer.together.name, "outputs", room);
  const float root = 1 / std::sqrt(static_cast<float>(width));
  for (std::size_t head = 0; head < sizes_.heads; ++head) {
    const std::size_t at = k * sizes_.heads + head;
    take_columns(all, 3 * h, head * width, width, root, part);
    keep(part, 0, memory.query, at, what);
    take_columns(all, 3 * h, h + head * width, width, 1, part);
    keep(part, 0, memory.key, at, what);
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t c = 0; c < width; ++c)
        turned[c * tokens + t] = all[t * 3 * h + 2 * h + head * width + c];
    keep(turned, 0, memory.value, at, what);
    const float scale = attend(head, memory, k, room);
    room.mix->forward(weights, exponential_zero(), std::span(&scale, 1), part, scratch_of(room));
    for (std::size_t t = 0; t < tokens; ++t)
      for (std::size_t c = 0; c < width; ++c)
        a[t * h + head * width + c] = part[t * width + c] / room.totals[t];
  }
  keep(a, 0, memory.mixed, k, label(layer.attended.name, "inputs", room));
  multiply(layer.attended, memory.mixed, 0, k, a, room);
  add_to_stream(a, factor, room);
}

/// Adds two linear layers, with GELU between them, to the stream.
template <typename Operand>
void VisionTransformer<Operand>::second_sum(const Layer& layer, const LayerMemory<Operand>& memory,
                                            std::size_t k, float factor, Room& room) {
  const std::span<float> a(room.a.get(), sizes_.values());
  const std::span<float> wide(room.b.get(), 4 * sizes_.values());
  normalize(layer.wide, memory.second_inverse, memory.second, k, room);
  multiply(layer.wide, memory.second, 0, k, wide, room);
  if (training_) keep(wide, 0, memory.before, k, label(layer.wide.name, "outputs", room));
  gelu(wide, wide);
  keep(wide, gelu_zero(), memory.after, k, label(layer.narrow.name, "inputs", room));
  multiply(layer.narrow, memory.after, gelu_zero(), k, a, room);
  add_to_stream(a, factor, room);
}

template <typename Operand>
void VisionTransformer<Operand>::classify() {
  const std::size_t h = sizes_.hidden;
  layer_norm(class_tokens_, kEpsilon, class_inverse_, normalized_);
  const Floats gain = values(plan_.norm()), bias = values(plan_.norm() + 1);
  for (std::size_t i = 0; i < head_inputs_.size(); ++i)
    head_inputs_[i] = normalized_[i] * gain[i % h] + bias[i % h];
  dense_forward(head_inputs_, values(plan_.head()), values(plan_.head() + 1), outputs_);
}

/// The error of the class tokens becomes that of the stream.
template <typename Operand>
void VisionTransformer<Operand>::classify_backward(std::span<const float> errors,
                                                   const SliceReady& ready) {
  const std::size_t h = sizes_.hidden, head = plan_.head(), norm = plan_.norm();
  dense_backward(errors, head_inputs_, values(head), plan_.outputs, head_errors_,
                 gradient_of(head, Role::weight), gradient_of(head + 1, Role::bias));
  tell(ready, head + 1);
  tell(ready, head);
  const Floats gain = values(norm);
  const std::span<float> gains = gradient_of(norm, Role::gain),
                         biases = gradient_of(norm + 1, Role::shift);
  std::ranges::fill(gains, 0.0f);
  std::ranges::fill(biases, 0.0f);
  for (std::size_t i = 0; i < head_errors_.size(); ++i) {
    gains[i % h] += head_errors_[i] * normalized_[i];
    biases[i % h] += head_errors_[i];
    head_errors_[i] *= gain[i % h];
  }
  tell(ready, norm + 1);
  tell(ready, norm);
  if (first_trained_ == plan_.shape.layers) return;
  std::ranges::fill(class_tokens_, 0.0f);  // these are no longer needed
  add_layer_norm_error(head_errors_, Floats(normalized_), 1, class_inverse_, class_tokens_);
  std::ranges::fill(memory_->stream_error, 0.0f);
  for (std::size_t n = 0; n < samples_; ++n)
    std::copy_n(&class_tokens_[n * h], h, &memory_->stream_error[n * sizes_.values()]);
}

template <typename Operand>
void VisionTransformer<Operand>::backward(std::span<const float> errors, const RandomKey& rounding,
                                          const SliceReady& ready) {
  key_ = rounding;
  classify_backward(errors, ready);
  for (std::int64_t i = plan_.shape.layers - 1; i >= first_trained_; --i) {
    Layer& layer = layer_of(i);
    for_each_sample([&](std::size_t n, Room& room) { layer_backward(i, n, room); });
    const LayerMemory<Operand>& kept = left_in(i);
    finish_linear(layer.narrow, kept.after, gelu_zero(), memory_->narrow_error, kOfNarrow,
                  layer.second_factors, ready);
    finish_linear(layer.wide, kept.second, 0, memory_->wide_error, kOfWide, layer.second_factors,
                  ready);
    finish_linear(layer.attended, kept.mixed, 0, memory_->attended_error, kOfAttended,
                  layer.first_factors, ready);
    finish_linear(layer.together, kept.first, 0, memory_->together_error, kOfTogether,
                  layer.first_factors, ready);
  }
  if (trains_patches_) embed_backward(ready);
}

template <typename Operand>
float VisionTransformer<Operand>::round_error(Floats x, std::int64_t layer, RoundedError kind,
                                              std::size_t block, std::span<Operand> q,
                                              std::string_view what) const {
  RandomKey key = key_;
  key.slice = static_cast<std::uint32_t>(layer) * 8 + kind;
  return precision::round_error(nearest_, int8::largest_magnitude(x, what), x, q, key,
                                static_cast<std::uint32_t>(block), 0);
}

/// Rounds the error of a product's output, times the weights' scales, and sums it for the bias.
template <typename Operand>
void VisionTransformer<Operand>::round_product_error(const Linear& linear, Floats x,
                                                     std::int64_t layer, RoundedError kind,
                                                     std::size_t n, const Samples<Operand>& to,
                                                     BiasSums sums, Room& room) {
  const std::size_t out = linear.bias.size(), h = sizes_.hidden;
  const std::span<double> by_channel = std::span(room.sums).first(out);
  channel_sums(x, by_channel);
  std::ranges::copy(by_channel, memory_->bias_sums.subspan((n * 9 + sums) * h).begin());
  const std::span<float> scaled(room.c.get(), x.size());
  scale_columns(x, linear.product.weight_scales(), scaled);
  to.scales[n] = round_error(scaled, layer, kind, n, to.sample(n),
                             label(linear.name, "errors of the outputs", room));
}

template <typename Operand>
void VisionTransformer<Operand>::multiply_back(const Linear& linear, const Samples<Operand>& error,
                                               std::size_t n, std::span<float> out,
                                               Room& room) const {
  linear.product.backward_input(error.sample(n), error.scales.subspan(n, 1), out, scratch_of(room));
}

template <typename Operand>
void VisionTransformer<Operand>::layer_backward(std::int64_t i, std::size_t n, Room& room) {
  const Layer& layer = layer_of(i);
  const std::span<float> stream =
      memory_->stream_error.subspan(n * sizes_.values(), sizes_.values());
  if (factor_of(layer.second_factors, n) != 0) second_backward(i, n, room, stream);
  if (factor_of(layer.first_factors, n) != 0) first_backward(i, n, room, stream);
}

/// Puts the error of what was added to the stream into the room's `a`.
template <typename Operand>
std::span<float> VisionTransformer<Operand>::error_of_sum(Floats stream, float factor,
                                                          Room& room) const {
  const std::span<float> error(room.a.get(), stream.size());
  take_columns(stream, sizes_.hidden, 0, sizes_.hidden, factor, error);
  return error;
}

/// Adds the error of normalized values to that of the stream.
template <typename Operand>
void VisionTransformer<Operand>::through_norm(const Samples<Operand>& normalized, Floats inverse,
                                              std::size_t n, Floats error,
                                              std::span<float> stream) const {
  const std::size_t tokens = sizes_.tokens;
  add_layer_norm_error(error, std::span<const Operand>(normalized.sample(n)), normalized.scales[n],
                       inverse.subspan(n * tokens, tokens), stream);
}

/// Goes back through two linear layers with GELU between them.
template <typename Operand>
void VisionTransformer<Operand>::second_backward(std::int64_t i, std::size_t n, Room& room,
                                                 std::span<float> stream) {
  const Layer& layer = layer_of(i);
  const LayerMemory<Operand>& kept = left_in(i);
  const std::span<float> a = error_of_sum(stream, factor_of(layer.second_factors, n), room);
  const std::span<float> wide(room.b.get(), 4 * sizes_.values());
  round_product_error(layer.narrow, a, i, kNarrowError, n, memory_->narrow_error, kOfNarrow, room);
  multiply_back(layer.narrow, memory_->narrow_error, n, wide, room);
  const std::span<float> before(room.c.get(), wide.size());
  std::ranges::fill(before, 0.0f);
  add_scaled(std::span<const Operand>(kept.before.sample(n)), 0, kept.before.scales[n], before);
  gelu_gradient(wide, before, wide);
  round_product_error(layer.wide, wide, i, kWideError, n, memory_->wide_error, kOfWide, room);
  multiply_back(layer.wide, memory_->wide_error, n, a, room);
  through_norm(kept.second, kept.second_inverse, n, a, stream);
}

/// Goes back through attention.
template <typename Operand>
void VisionTransformer<Operand>::first_backward(std::int64_t i, std::size_t n, Room& room,
                                                std::span<float> stream) {
  const Layer& layer = layer_of(i);
  const LayerMemory<Operand>& kept = left_in(i);
  const std::span<float> a = error_of_sum(stream, factor_of(layer.first_factors, n), room);
  round_product_error(layer.attended, a, i, kAttendedError, n, memory_->attended_error, kOfAttended,
                      room);
  multiply_back(layer.attended, memory_->attended_error, n, a, room);
  for (std::size_t head = 0; head < sizes_.heads; ++head) head_backward(i, n, head, room);
  round_product_error(layer.together, {room.b.get(), 3 * sizes_.values()}, i, kTogetherError, n,
                      memory_->together_error, kOfTogether, room);
  multiply_back(layer.together, memory_->together_error, n, a, room);
  through_norm(kept.first, kept.first_inverse, n, a, stream);
}

/// Computes the errors of a head's queries, keys and values, in the room's `b`, from those of its
/// means in `a`.
template <typename Operand>
void VisionTransformer<Operand>::head_backward(std::int64_t i, std::size_t n, std::size_t head,
                                               Room& room) {
  const Layer& layer = layer_of(i);
  const LayerMemory<Operand>& kept = left_in(i);
  const std::size_t h = sizes_.hidden, width = sizes_.head_width(), tokens = sizes_.tokens;
  const std::size_t at = n * sizes_.heads + head;
  const std::span<float> scores(room.scores.get(), sizes_.scores());
  const std::span<float> part(room.head.get(), sizes_.head_values());
  const std::span<float> turned(room.turned.get(), sizes_.head_values());
  const std::span<Operand> weights(room.weights.get(), sizes_.scores());
  const std::span<Operand> score_error(room.score_error.get(), sizes_.scores());
  const std::span<Operand> head_error(room.head_error.get(), sizes_.head_values());
  const std::string_view what = label(layer.attended.name, "errors of attention", room);

  const float scale = attend(head, kept, n, room);
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t c = 0; c < width; ++c)
      part[t * width + c] = room.a[t * h + head * width + c] / room.totals[t];
  const float of_means = round_error(part, i, kHeadError, at, head_error, what);
  const float through_values = of_means * kept.value.scales[at];
  room.mix->backward_input(head_error, std::span(&through_values, 1), scores, scratch_of(room));
  std::ranges::fill(turned, 0.0f);
  room.mix->add_weight_gradient(weights, exponential_zero(), std::span(&scale, 1), head_error,
                                std::span(&of_means, 1), turned, scratch_of(room));
  const auto write = [&](std::size_t third, std::size_t t, std::size_t c, float value) {
    room.b[t * 3 * h + third * h + head * width + c] = value;
  };
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t c = 0; c < width; ++c) write(2, t, c, turned[c * tokens + t]);

  softmax_error(std::span<const Operand>(weights), exponential_zero(), scale, room.totals, scores);
  const float of_scores = round_error(scores, i, kScoreError, at, score_error, what);
  const float through_keys = of_scores * kept.key.scales[at];
  room.score->backward_input(score_error, std::span(&through_keys, 1), part, scratch_of(room));
  std::ranges::fill(turned, 0.0f);
  room.score->add_weight_gradient(kept.query.sample(at), 0, kept.query.scales.subspan(at, 1),
                                  score_error, std::span(&of_scores, 1), turned, scratch_of(room));
  const float root = 1 / std::sqrt(static_cast<float>(width));
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t c = 0; c < width; ++c) {
      write(0, t, c, part[t * width + c] * root);
      write(1, t, c, turned[t * width + c]);
    }
  }
}

/// Computes the gradients of a product's weight and bias, and of the norm before it, from the
/// errors of all samples that were not left out, whose factor is 0.
template <typename Operand>
void VisionTransformer<Operand>::finish_linear(Linear& linear, const Samples<Operand>& in,
                                               int zero_point, const Samples<Operand>& error,
                                               BiasSums sums, const std::vector<float>& factors,
                                               const SliceReady& ready) {
  const std::size_t out = linear.bias.size(), h = sizes_.hidden;
  const std::span<float> weight = gradient_of(linear.weight, Role::weight),
                         bias = gradient_of(linear.weight + 1, Role::bias);
  for (std::size_t o = 0; o < out; ++o) {
    double sum = 0;
    for (std::size_t n = 0; n < samples_; ++n)
      if (factor_of(factors, n) != 0) sum += memory_->bias_sums[(n * 9 + sums) * h + o];
    bias[o] = static_cast<float>(sum);
  }
  const bool wanted =
      plan_.trains(linear.weight) ||
      (linear.norm && (plan_.trains(*linear.norm) || plan_.trains(*linear.norm + 1)));
  if (!wanted) return tell(ready, linear.weight + 1);
  std::ranges::fill(weight, 0.0f);
  const std::size_t parts = threads_.count();
  const Samples<Operand> inputs = in.part(0, samples_), errors = error.part(0, samples_);
  const std::size_t row = weight.size() / out;
  threads_.run(parts, [&](std::size_t part) {
    // The sums are those of samples in their order; the scratch of one stays in a cache.
    for (std::size_t n = 0; n < samples_; ++n) {
      if (factor_of(factors, n) == 0) continue;  // it has neither inputs nor errors
      const Samples<Operand> x = inputs.part(n, 1), e = errors.part(n, 1);
      linear.product.add_weight_gradient(x.values, zero_point, x.scales, e.values, e.scales, weight,
                                         scratch_of(rooms_[part]), {part, parts});
    }
  });
  const Floats scales = linear.product.weight_scales();
  threads_.run(parts, [&](std::size_t part) {  // by rows, which are not the parts of a product
    for (std::size_t o = out * part / parts; o < out * (part + 1) / parts; ++o)
      for (std::size_t c = 0; c < row; ++c) weight[o * row + c] /= scales[o];
  });
  if (linear.norm)
    unfold_gradient(values(linear.weight), values(*linear.norm), values(*linear.norm + 1), bias,
                    weight, gradient_of(*linear.norm, Role::gain),
                    gradient_of(*linear.norm + 1, Role::shift));
  // A gradient that is announced may become a mean at once.
  tell(ready, linear.weight + 1);
  tell(ready, linear.weight);
  if (!linear.norm) return;
  tell(ready, *linear.norm + 1);
  tell(ready, *linear.norm);
}

template <typename Operand>
void VisionTransformer<Operand>::embed_backward(const SliceReady& ready) {
  const std::size_t h = sizes_.hidden, count = sizes_.values();
  const Floats errors = memory_->stream_error;
  // The memory of another product's errors has room for one token more.
  Samples<Operand> rounded = memory_->attended_error;
  rounded.count = count - h;
  rounded.values = rounded.values.first(samples_ * rounded.count);
  for_each_sample([&](std::size_t n, Room& room) {
    round_product_error(patches_, errors.subspan(n * count + h, count - h), plan_.shape.layers,
                        kPatchError, n, rounded, kOfAttended, room);
  });
  finish_linear(patches_, memory_->patches, 0, rounded, kOfAttended, {}, ready);
  const std::span<float> positions = gradient_of(VisionPlan::kPositions, Role::weight);
  std::ranges::fill(positions, 0.0f);
  for (std::size_t n = 0; n < samples_; ++n) add(errors.subspan(n * count, count), positions);
  std::ranges::copy(positions.first(h), gradient_of(VisionPlan::kClassToken, Role::gain).begin());
  tell(ready, VisionPlan::kPositions);
  tell(ready, VisionPlan::kClassToken);
}

}  // namespace

namespace {

void check_rounding(const ModelOptions& options) {
  if (options.precision != Precision::int8) return;
  if (options.int8.ranges != Int8Ranges::sample)
    fail(Kind::usage,
         "model.int8.ranges: expected \"sample\" for {}, whose samples are computed one after the "
         "other, found \"{}\"; leave it out",
         options.model->name, name_of(options.int8.ranges));
  if (options.int8.weight_gradient != WeightGradient::int8)
    fail(
        Kind::usage,
        "model.int8.weight_gradient: expected \"int8\" for {}, whose products have no other, found "
        "\"{}\"; leave it out",
        options.model->name, name_of(options.int8.weight_gradient));
}

}  // namespace

std::optional<VisionPlan> vision_plan(const ModelOptions& options) {
  const auto shape = vit_plan(options);
  if (!shape) return {};
  check_for_own(options);
  check_rounding(options);
  if (options.frozen_norms != FrozenNorms::batch) check_keeps_statistics(false);
  VisionPlan plan;
  plan.shape = *shape;
  plan.channels = static_cast<std::size_t>(images_of(options).channels);
  plan.outputs = static_cast<std::size_t>(options.outputs);
  const std::int64_t h = shape->hidden;
  const auto affine = [&](const std::string& name, std::int64_t in, std::int64_t out) {
    plan.add(name + ".weight", {out, in});
    plan.add(name + ".bias", {out});
  };
  const auto norm = [&](const std::string& name) {
    plan.add(name + ".weight", {h});
    plan.add(name + ".bias", {h});
  };
  plan.add("cls_token", {1, 1, h});
  plan.add("pos_embed", {1, shape->tokens(), h});
  plan.add("patch_embed.proj.weight",
           {h, static_cast<std::int64_t>(plan.channels), shape->patch, shape->patch});
  plan.add("patch_embed.proj.bias", {h});
  for (std::int64_t i = 0; i < shape->layers; ++i) {
    const std::string path = layer_name(i);
    norm(path + "norm1");
    affine(path + "attn.qkv", h, 3 * h);
    affine(path + "attn.proj", h, h);
    norm(path + "norm2");
    affine(path + "mlp.fc1", h, 4 * h);
    affine(path + "mlp.fc2", 4 * h, h);
  }
  norm("norm");
  affine("head", h, options.outputs);
  plan.split(options.freeze);
  return plan;
}

std::vector<int8::ConvolutionShape> products_of(const VisionPlan& plan) {
  const Sizes sizes(plan);
  const std::size_t tokens = sizes.tokens, h = sizes.hidden, width = sizes.head_width();
  return {product_shape(tokens - 1, sizes.patch_values, h),
          product_shape(tokens, h, 3 * h),
          product_shape(tokens, h, h),
          product_shape(tokens, h, 4 * h),
          product_shape(tokens, 4 * h, h),
          product_shape(tokens, width, tokens),
          product_shape(tokens, tokens, width)};
}

TensorValues initial_values(const VisionPlan& plan, std::uint64_t seed) {
  TensorValues start(plan);
  Twister random(static_cast<std::uint32_t>(seed));
  std::vector<float> row_major;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const TensorSlice& slice = plan.tensors[i];
    const std::span<float> values = start.of(plan, i);
    if (i == VisionPlan::kClassToken) {
      draw_normal(random, kVitTokenDeviation, values);
    } else if (slice.shape.size() == 4) {
      row_major.resize(slice.count);
      draw_uniform(random, Sizes(plan).patch_values, row_major);
      reorder(row_major, slice.shape, values);
    } else if (i == VisionPlan::kFilters + 1) {
      draw_uniform(random, Sizes(plan).patch_values, values);
    } else if (slice.shape.size() > 1) {
      draw_normal(random, kVitDeviation, values);
    } else {
      const bool is_gain = slice.name.ends_with(".weight");
      std::ranges::fill(values, is_gain ? 1.0f : 0.0f);
    }
  }
  return start;
}

template <typename Operand>
std::unique_ptr<Replica> make_vision_transformer(const ModelOptions& options,
                                                 const VisionPlan& plan, int8::Kernels kernels,
                                                 int threads) {
  return std::make_unique<VisionTransformer<Operand>>(
      options, plan, initial_values(plan, options.seed), kernels, threads);
}

template <typename Operand>
std::size_t vision_transformer_bytes(const ModelOptions& options, const VisionPlan& plan,
                                     std::size_t samples) {
  // The values do not matter, and drawing them takes longer than all else.
  return VisionTransformer<Operand>(options, plan, TensorValues(plan), int8::fastest_here(),
                                    own_threads())
      .bytes(samples);
}

template std::unique_ptr<Replica> make_vision_transformer<std::int8_t>(const ModelOptions&,
                                                                       const VisionPlan&,
                                                                       int8::Kernels, int);
template std::unique_ptr<Replica> make_vision_transformer<float>(const ModelOptions&,
                                                                 const VisionPlan&, int8::Kernels,
                                                                 int);
template std::size_t vision_transformer_bytes<std::int8_t>(const ModelOptions&, const VisionPlan&,
                                                           std::size_t);
template std::size_t vision_transformer_bytes<float>(const ModelOptions&, const VisionPlan&,
                                                     std::size_t);

}  // namespace eqt::model::precision
