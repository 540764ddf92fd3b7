// SPDX-License-Identifier: Apache-2.0
// Networks without shortcuts: VGG and AlexNet for small images.
//
// Source   K. Simonyan, A. Zisserman, ICLR 2015, arXiv:1409.1556, table 1; A. Krizhevsky,
//          arXiv:1404.5997
// Differs  VGG-11 has normalization and a classifier of one hidden layer of 512, as networks for
//          CIFAR-10 have. AlexNet's first convolution is padded by 5 and pools 2x2 pixels, so that
//          32 pixels shrink to one. Both end in the mean over the remaining image: one pixel for a
//          side of 32, 7x7 for 224.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include <vector>

#include "model/architecture.hpp"
#include "model/torch/network.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

/// The numbers in names ("features.0.weight") count layers as if there were a normalization, so
/// that names do not depend on it.
class PlainNetwork : public Network {
 public:
  PlainNetwork(const PlainPlan& plan, const ModelOptions& options, const at::Generator& random)
      : features_(register_module("features", std::make_shared<torch::nn::Module>("features"))) {
    std::int64_t channels = images_of(options).channels;
    int place = 0;
    for (const PlainPlan::Layer& layer : plan.layers) {
      add_layer(plan, layer, channels, place, options, random);
      channels = layer.width;
    }
    if (plan.hidden > 0) {
      add_classifier(plan.hidden, channels, options.outputs, random);
    } else {
      last_ = register_module("classifier", Linear(channels, options.outputs, random));
    }
  }

  void draw_from(const RandomKey& key) override {
    if (!dropout_.is_empty()) dropout_->draw_from(key);
  }

  at::Tensor forward(const NetworkInput& input) override {
    at::Tensor x = input.images();
    for (Stage& stage : stages_) {
      x = stage.convolution->forward(x);
      x = stage.norm == nullptr ? at::relu_(x) : stage.norm->relu(x);
      if (stage.pool) x = at::max_pool2d(x, 2);
    }
    x = mean_pixels(x);
    if (!hidden_.is_empty()) x = at::relu(hidden_->forward(dropout_->forward(x)));
    return last_->forward(x);
  }

 private:
  struct Stage {
    Convolution convolution{nullptr};
    std::shared_ptr<Normalization> norm;  // or none
    bool pool = false;
  };

  /// @param place in: where the layer starts in torchvision's numbering; out: where the next does
  void add_layer(const PlainPlan& plan, const PlainPlan::Layer& layer, std::int64_t channels,
                 int& place, const ModelOptions& options, const at::Generator& random) {
    Stage stage;
    stage.pool = layer.pool;
    const ConvolutionShape shape{.in = channels,
                                 .out = layer.width,
                                 .kernel = layer.kernel,
                                 .stride = layer.stride,
                                 .padding = layer.padding,
                                 .bias = plan.bias};
    stage.convolution =
        features_->register_module(std::to_string(place++), Convolution(shape, random));
    if (plan.normalizes) {
      stage.norm = features_->register_module(
          std::to_string(place++),
          make_normalization({options.normalization, options.norm_groups}, layer.width));
    }
    place += layer.pool ? 2 : 1;  // ReLU and pooling have numbers but no parameters
    stages_.push_back(std::move(stage));
  }

  void add_classifier(std::int64_t hidden, std::int64_t channels, std::int64_t classes,
                      const at::Generator& random) {
    const auto classifier =
        register_module("classifier", std::make_shared<torch::nn::Module>("classifier"));
    dropout_ = classifier->register_module("0", Dropout(kPlainDropout, 0));
    hidden_ = classifier->register_module("1", Linear(channels, hidden, random));
    last_ = classifier->register_module("3", Linear(hidden, classes, random));
  }

  std::shared_ptr<torch::nn::Module> features_;
  std::vector<Stage> stages_;
  Dropout dropout_{nullptr};
  Linear hidden_{nullptr};
  Linear last_{nullptr};
};

std::shared_ptr<Network> make_plain_network(const ModelOptions& options) {
  return std::make_shared<PlainNetwork>(plain_plan(options).value(), options,
                                        at::detail::createCPUGenerator(options.seed));
}

}  // namespace

std::shared_ptr<Network> make_vgg11(const ModelOptions& options) {
  return make_plain_network(options);
}
std::shared_ptr<Network> make_alexnet(const ModelOptions& options) {
  return make_plain_network(options);
}

}  // namespace eqt::model
