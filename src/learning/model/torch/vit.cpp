// SPDX-License-Identifier: Apache-2.0
// Vision transformers.
//
// Source   A. Dosovitskiy et al., ICLR 2021, arXiv:2010.11929, section 3.1; H. Touvron et al., ICML
//          2021, arXiv:2012.12877, table 1 for the sizes, section 6 for stochastic depth
// Symbols  n pictures of l - 1 patches, hidden width h, a heads of h / a
// Layer    x = x + W_o attention(LN(x)); x = x + W_2 gelu(W_1 LN(x)), where gelu(x) = x Phi(x), and
//          attention takes the softmax of q k / sqrt(h / a) over all patches and the class token
// Head     W_c LN(x) of the class token
// Names    timm's. Start as timm's: N(0, 0.02), the class token N(0, 1e-6^2), the patches' filters
//          and their bias uniform within 1 / sqrt(fan-in), other biases 0
// Differs  stochastic depth is always on, as Touvron et al. train; timm asks for it

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "model/architecture.hpp"
#include "model/position_table.hpp"
#include "model/torch/network.hpp"

namespace eqt::model {
namespace {

class Vit final : public Network {
 public:
  Vit(const VitPlan& plan, const ModelOptions& options)
      : plan_(plan), random_(at::detail::createCPUGenerator(options.seed)) {
    const std::int64_t h = plan.hidden, channels = images_of(options).channels;
    class_token_ = add("cls_token", at::empty({1, 1, h}).normal_(0, kVitTokenDeviation, random_));
    positions_ = add_drawn("pos_embed", {1, plan.tokens(), h});
    const double bound = 1 / std::sqrt(static_cast<double>(channels * plan.patch * plan.patch));
    filters_ =
        add("patch_embed.proj.weight",
            at::empty({h, channels, plan.patch, plan.patch}).uniform_(-bound, bound, random_));
    filter_bias_ = add("patch_embed.proj.bias", at::empty({h}).uniform_(-bound, bound, random_));
    for (std::int64_t i = 0; i < plan.layers; ++i) add_layer(i);
    norm_ = add_norm("norm");
    head_ = add_affine("head", h, options.outputs);
  }

  NamedTensors parameters_by_name() const override { return parameters_; }
  NamedTensors buffers_by_name() const override { return {}; }
  weights::FileNames file_names() const override { return file_names_of(plan_); }

  void draw_from(const RandomKey& key) override {
    for (Layer& layer : layers_) {
      if (layer.attention_drop.is_empty()) continue;
      layer.attention_drop->draw_from(key);
      layer.second_drop->draw_from(key);
    }
  }

  at::Tensor forward(const NetworkInput& input) override {
    // A row of zeros stands for the class token, so that no operation depends on the number of
    // pictures: what is recorded of them serves for any.
    const at::Tensor patches =
        at::conv2d(input.images(), filters_, filter_bias_, plan_.patch).flatten(2).transpose(1, 2);
    const std::int64_t others = plan_.tokens() - 1;
    at::Tensor x = at::constant_pad_nd(patches, {0, 0, 1, 0}) +
                   (positions_ + at::constant_pad_nd(class_token_, {0, 0, 0, others}));
    for (Layer& layer : layers_) {
      x = x + kept(layer.attention_drop, attention(layer, layer.first(x)));
      x = x + kept(layer.second_drop, layer.narrow(at::gelu(layer.wide(layer.second(x)))));
    }
    return head_(norm_(x.select(1, 0)));
  }

 private:
  struct Affine {
    at::Tensor weight;  // (out, in)
    at::Tensor bias;    // (out)
    at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
  };
  struct Norm {
    at::Tensor weight, bias;  // (h)
    at::Tensor operator()(const at::Tensor& x) const {
      return at::layer_norm(x, {x.size(-1)}, weight, bias, kVitEpsilon);
    }
  };
  struct Layer {
    Norm first, second;
    Affine query_key_value, attended, wide, narrow;
    Dropout attention_drop{nullptr}, second_drop{nullptr};  // of samples; or none
  };

  // These add parameters, in the order of timm's names.
  at::Tensor add(const std::string& name, at::Tensor value) {
    value.set_requires_grad(true);
    parameters_.emplace_back(name, value);
    return value;
  }
  at::Tensor add_drawn(const std::string& name, at::IntArrayRef sizes) {
    return add(name, at::empty(sizes).normal_(0, kVitDeviation, random_));
  }
  Affine add_affine(const std::string& name, std::int64_t in, std::int64_t out) {
    const at::Tensor weight = add_drawn(name + ".weight", {out, in});
    return {weight, add(name + ".bias", at::zeros({out}))};
  }
  Norm add_norm(const std::string& name) {
    const at::Tensor weight = add(name + ".weight", at::ones({plan_.hidden}));
    return {weight, add(name + ".bias", at::zeros({plan_.hidden}))};
  }
  Dropout add_drop(std::int64_t i, bool second) {
    const std::uint32_t number = VitPlan::drop_number(i, second);
    return register_module("drop" + std::to_string(number), Dropout(plan_.drop(i), number));
  }
  void add_layer(std::int64_t i) {
    const std::string base = "blocks." + std::to_string(i) + ".";
    const std::int64_t h = plan_.hidden;
    Layer layer;
    layer.first = add_norm(base + "norm1");
    layer.query_key_value = add_affine(base + "attn.qkv", h, 3 * h);
    layer.attended = add_affine(base + "attn.proj", h, h);
    layer.second = add_norm(base + "norm2");
    layer.wide = add_affine(base + "mlp.fc1", h, 4 * h);
    layer.narrow = add_affine(base + "mlp.fc2", 4 * h, h);
    if (i > 0) {
      layer.attention_drop = add_drop(i, false);
      layer.second_drop = add_drop(i, true);
    }
    layers_.push_back(layer);
  }

  /// Returns x; in training 0 for some samples, and more than x for the others.
  at::Tensor kept(Dropout& drop, const at::Tensor& x) const {
    if (drop.is_empty() || !is_training()) return x;
    const at::Tensor factors = drop->forward(at::ones({x.size(0), 1, 1}));
    return x * factors.to(x.device(), x.scalar_type());
  }

  at::Tensor attention(const Layer& layer, const at::Tensor& x) const {  // (n, l, h)
    const std::int64_t width = plan_.hidden / plan_.heads;
    const at::Tensor all = layer.query_key_value(x)
                               .reshape({-1, plan_.tokens(), 3, plan_.heads, width})
                               .permute({2, 0, 3, 1, 4});  // (3, n, a, l, h / a)
    const at::Tensor query = all.select(0, 0) * (1 / std::sqrt(static_cast<double>(width)));
    const at::Tensor scores = at::matmul(query, all.select(0, 1).transpose(2, 3));
    const at::Tensor mixed = at::matmul(at::softmax(scores, -1), all.select(0, 2));
    return layer.attended(mixed.transpose(1, 2).reshape({-1, plan_.tokens(), plan_.hidden}));
  }

  const VitPlan plan_;
  at::Generator random_;
  NamedTensors parameters_;
  at::Tensor class_token_, positions_, filters_, filter_bias_;
  std::vector<Layer> layers_;
  Norm norm_;
  Affine head_;
};

std::shared_ptr<Network> make_vit(const ModelOptions& options) {
  return std::make_shared<Vit>(vit_plan(options).value(), options);
}

}  // namespace

std::shared_ptr<Network> make_vit_tiny(const ModelOptions& options) { return make_vit(options); }
std::shared_ptr<Network> make_vit_small(const ModelOptions& options) { return make_vit(options); }

}  // namespace eqt::model
