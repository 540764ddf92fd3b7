// SPDX-License-Identifier: Apache-2.0
// MobileNets, EfficientNet-Lite0 and vision transformers, through the torch-free interface.
// network_reference.py compares their outputs and gradients with Python's.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "model/emulated_replica.hpp"
#include "model/export.hpp"
#include "model/own/own_replica.hpp"
#include "model/replica.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::model {
namespace {

constexpr data::ImageShape kSmall{3, 32, 32};

ModelOptions options_for(const ModelRow& model, data::ImageShape shape = kSmall) {
  return {.model = model, .inputs = test::pictures(shape)};
}

const TensorSlice& named(const Layout& layout, const std::string& name) {
  const auto found = std::ranges::find(layout, name, &TensorSlice::name);
  INFO(name);
  REQUIRE(found != layout.end());
  return *found;
}

Entry<ModelRow> any_network() {
  const std::string name =
      GENERATE("mobilenet_v2", "mobilenet_v3_small", "efficientnet_lite0", "vit_tiny", "vit_small");
  return ModelRow::all().at(name);
}

}  // namespace

TEST_CASE("networks with depthwise filters and vision transformers have the published sizes",
          "[mobile]") {
  // Parameters: torchvision's and timm's documentation. Multiply-adds: torchvision's (0.30 and 0.06
  // G) with the digits of the papers; timm's 0.41 G for Lite0, and 1.26 and 4.61 G by Touvron et
  // al. for the transformers.
  struct Published {
    const ModelRow& model;
    std::size_t parameters;
    double giga, margin;
  };
  const Published published = GENERATE(values<Published>({
      {models::mobilenet_v2, 3'504'872, 0.3, 0.01},
      {models::mobilenet_v3_small, 2'542'856, 0.0565, 0.02},
      {models::efficientnet_lite0, 4'652'008, 0.4, 0.05},
      {models::vit_tiny, 5'717'416, 1.26, 0.01},
      {models::vit_small, 22'050'664, 4.61, 0.01},
  }));
  INFO(published.model.name);
  const Layout layout = make_idle_replica(published_options(published.model))->layout();
  CHECK(total_count(layout) == published.parameters);
  const std::vector<double> work = multiply_adds(layout, 224);
  double sum = 0;  // of products alone, without norms and biases
  for (std::size_t i = 0; i < layout.size(); ++i)
    if (layout[i].shape.size() > 1) sum += work[i];
  CHECK(sum / 1e9 == Approx(published.giga).epsilon(published.margin));
}

TEST_CASE("parameters have the names and the order of torchvision and timm", "[mobile]") {
  const auto layout_of = [](const ModelRow& model) {
    return make_idle_replica(published_options(model))->layout();
  };
  const auto names = [](const Layout& layout, std::size_t count) {
    std::vector<std::string> first;
    for (std::size_t i = 0; i < count; ++i) first.push_back(layout[i].name);
    return first;
  };
  using Names = std::vector<std::string>;
  using Shape = std::vector<std::int64_t>;
  const Layout v2 = layout_of(models::mobilenet_v2);
  CHECK(names(v2, 10) == Names{"features.0.0.weight", "features.0.1.weight", "features.0.1.bias",
                               "features.1.conv.0.0.weight", "features.1.conv.0.1.weight",
                               "features.1.conv.0.1.bias", "features.1.conv.1.weight",
                               "features.1.conv.2.weight", "features.1.conv.2.bias",
                               "features.2.conv.0.0.weight"});
  CHECK(named(v2, "features.2.conv.1.0.weight").shape == Shape{96, 1, 3, 3});
  CHECK(named(v2, "features.17.conv.2.weight").shape == Shape{320, 960, 1, 1});
  CHECK(v2.back().name == "classifier.1.bias");
  const Layout v3 = layout_of(models::mobilenet_v3_small);
  CHECK(named(v3, "features.1.block.1.fc1.weight").shape == Shape{8, 16, 1, 1});
  CHECK(named(v3, "features.1.block.2.0.weight").shape == Shape{16, 16, 1, 1});
  CHECK(named(v3, "features.4.block.2.fc2.bias").shape == Shape{96});
  CHECK(named(v3, "classifier.0.weight").shape == Shape{1024, 576});
  const Layout lite = layout_of(models::efficientnet_lite0);
  CHECK(names(lite, 4) ==
        Names{"conv_stem.weight", "bn1.weight", "bn1.bias", "blocks.0.0.conv_dw.weight"});
  CHECK(named(lite, "blocks.2.1.conv_dw.weight").shape == Shape{240, 1, 5, 5});
  CHECK(named(lite, "blocks.6.0.bn3.bias").shape == Shape{320});
  const Layout vit = layout_of(models::vit_tiny);
  CHECK(names(vit, 5) == Names{"cls_token", "pos_embed", "patch_embed.proj.weight",
                               "patch_embed.proj.bias", "blocks.0.norm1.weight"});
  CHECK(named(vit, "pos_embed").shape == Shape{1, 197, 192});
  CHECK(named(vit, "blocks.11.attn.qkv.weight").shape == Shape{576, 192});
}

TEST_CASE("a width changes all numbers of channels to multiples of 8", "[mobile]") {
  // torchvision's mobilenet_v2(width_mult) and the table of the authors' code on the web: 1.0, 0.75
  // and 0.5 have 3.5, 2.6 and 2.0 million parameters, 1.4 has 6.1.
  const auto [width, millions] =
      GENERATE(table<double, double>({{0.5, 1.97}, {0.75, 2.64}, {1.0, 3.50}, {1.4, 6.11}}));
  ModelOptions options = published_options(models::mobilenet_v2);
  options.width = width;
  const auto count = static_cast<double>(make_idle_replica(options)->parameters().size());
  CHECK(count / 1e6 == Approx(millions).margin(0.005));
}

TEST_CASE("small pictures are halved three times, and their patches are small", "[mobile]") {
  // The last filters of 7^2 pixels at 224, and of 4^2 at 32.
  const auto side_at = [](const ModelRow& model, int side, const std::string& name) {
    const Layout layout = make_idle_replica(options_for(model, {3, side, side}))->layout();
    const auto work = multiply_adds(layout, side);
    const TensorSlice& slice = named(layout, name);
    const auto i = static_cast<std::size_t>(&slice - layout.data());
    return std::sqrt(work[i] / static_cast<double>(slice.count));
  };
  CHECK(side_at(models::mobilenet_v2, 224, "features.17.conv.1.0.weight") == 7);
  CHECK(side_at(models::mobilenet_v2, 32, "features.17.conv.1.0.weight") == 4);
  CHECK(side_at(models::mobilenet_v2, 96, "features.17.conv.1.0.weight") == 3);
  CHECK(side_at(models::mobilenet_v3_small, 64, "features.11.block.1.0.weight") == 8);
  CHECK(side_at(models::efficientnet_lite0, 32, "blocks.5.0.conv_dw.weight") == 4);
  const auto vit = make_idle_replica(options_for(models::vit_tiny))->layout();
  CHECK(named(vit, "patch_embed.proj.weight").shape == std::vector<std::int64_t>{192, 3, 4, 4});
  CHECK(named(vit, "pos_embed").shape == std::vector<std::int64_t>{1, 65, 192});
}

TEST_CASE("what these networks cannot compute is refused in one sentence", "[mobile]") {
  const auto refusal = [](const ModelOptions& options) {
    return test::refusal(Kind::usage, [&] { make_replica(options); });
  };
  ModelOptions options = options_for(*any_network());
  INFO(options.model->name);
  options.normalization = normalizations::evonorm_s0;
  test::says(refusal(options), "model.normalization: expected ");
  options.normalization = normalizations::batchnorm;
  options.shortcut = Shortcut::padding;
  test::says(refusal(options), "model.shortcut");
  test::says(refusal(options_for(models::vit_tiny, {3, 100, 96})),
             "expected images whose sides are multiples of 16 pixels, found 100x96");
  CHECK_NOTHROW(make_replica(options_for(models::vit_tiny, {1, 28, 28})));  // in a frame of 32
}

TEST_CASE("a step repeats its bits, ranks drop independently, and evaluation drops nothing",
          "[mobile]") {
  ModelOptions options = options_for(*any_network());
  INFO(options.model->name);
  options.precision = GENERATE(Precision::fp32, Precision::bf16);
  const auto first = make_replica(options), second = make_replica(options);
  options.rank = 3;
  const auto other = make_replica(options);
  CHECK(std::ranges::equal(first->parameters(), other->parameters()));
  const data::Batch batch = random_batch(3, kSmall);
  CHECK(first->evaluate(batch).loss_sum == other->evaluate(batch).loss_sum);
  const double loss = first->forward_backward(batch, {});
  CHECK(std::isfinite(loss));
  CHECK(second->forward_backward(batch, {}) == loss);
  CHECK(std::ranges::equal(first->gradient(), second->gradient()));
  other->forward_backward(batch, {});
  CHECK_FALSE(std::ranges::equal(first->gradient(), other->gradient()));
}

TEST_CASE("group normalization takes the place of batch normalization", "[mobile]") {
  ModelOptions options = options_for(models::mobilenet_v2);
  options.normalization = normalizations::groupnorm;
  const auto replica = make_replica(options);
  CHECK(replica->buffers().empty());
  CHECK(std::isfinite(replica->forward_backward(random_batch(2, kSmall), {})));
}

TEST_CASE("their archives compute the same for any number of pictures", "[mobile]") {
  const test::TemporaryFolder folder;
  const ModelOptions options = options_for(*any_network());
  INFO(options.model->name);
  const auto replica = make_replica(options);
  replica->forward_backward(random_batch(8, kSmall), {});
  replica->save_weights(folder.path() + "/model.pt");
  CHECK_NOTHROW(export_network(options, {.format = ExportFormat::torchscript,
                                         .weights = folder.path() + "/model.pt",
                                         .preprocessing = "{}",
                                         .out = folder.path() + "/out"}));
}

TEST_CASE("a head for other classes starts new, alone trained if all else is frozen", "[mobile]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/model.pt";
  ModelOptions options = options_for(*any_network());
  INFO(options.model->name);
  options.seed = 7;
  const auto trained = make_replica(options);
  trained->save_weights(path);
  const std::string head = trained->layout().back().name;  // "classifier.1.bias"
  const std::string layer = head.substr(0, head.rfind('.') + 1);

  options.seed = 8;
  options.outputs = 3;
  options.freeze = {"*"};
  test::says(test::refusal(Kind::usage, [&] { make_replica(options); }), "model.freeze");
  options.freeze.clear();
  for (const TensorSlice& slice : trained->layout())
    if (!slice.name.starts_with(layer)) options.freeze.push_back(slice.name);
  const auto other = make_replica(options);
  const std::vector<float> fresh(other->parameters().begin(), other->parameters().end());
  test::says(test::refusal(Kind::data, [&] { other->load_pretrained(path, false); }),
             "set model.new_head to \"auto\"");
  CHECK(other->load_pretrained(path, true).kept ==
        std::vector<std::string>{layer + "weight", layer + "bias"});
  CHECK(std::ranges::equal(other->parameters(), fresh));
  CHECK(other->layout().size() == 2);
  CHECK(std::ranges::equal(other->frozen(), trained->parameters().first(other->frozen().size())));
  other->forward_backward(random_batch(4, kSmall, 3), {});
  CHECK(std::ranges::any_of(other->gradient(), [](float value) { return value != 0; }));
}

TEST_CASE("a vision transformer takes weights for pictures of another size", "[mobile]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/model.pt";
  const auto larger = make_replica(options_for(models::vit_tiny, {3, 64, 64}));
  larger->save_weights(path);
  const ModelOptions options = options_for(models::vit_tiny, kSmall);
  const auto with_torch = make_replica(options), own = make_float32_replica(options);
  for (Replica* const replica : {with_torch.get(), own.get()}) {
    const weights::LoadedNames loaded = replica->load_pretrained(path, true);
    CHECK(loaded.kept.empty());
    CHECK(loaded.resized == std::vector<std::string>{"pos_embed"});
  }
  CHECK(std::ranges::equal(with_torch->parameters(), own->parameters()));
  const TensorSlice& filters = named(own->layout(), "patch_embed.proj.weight");
  const TensorSlice& same = named(larger->layout(), "patch_embed.proj.weight");
  CHECK(std::ranges::equal(own->parameters().subspan(filters.offset, filters.count),
                           larger->parameters().subspan(same.offset, same.count)));
  // Patches of 16 pixels in place of 4 are another network.
  const auto other = make_replica(options_for(models::vit_tiny, {3, 96, 96}));
  test::says(test::refusal(Kind::data, [&] { other->load_pretrained(path, true); }),
             "expected patch_embed.proj.weight of shape");
}

}  // namespace eqt::model
