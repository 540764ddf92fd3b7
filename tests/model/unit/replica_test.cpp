// SPDX-License-Identifier: Apache-2.0
// Replicas, through the torch-free interface.

#include "model/replica.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "core/error.hpp"
#include "data/catalogue.hpp"
#include "model/unit/support.hpp"
#include "support/catch.hpp"

namespace eqt::model {
namespace {

constexpr data::ImageShape kCifar{3, 32, 32};

TEST_CASE("a frame makes small pictures as large as the network needs them") {
  const auto frame = [](const ModelRow& model, int height, int width) {
    return frame_of(model, {3, height, width});
  };
  CHECK(frame(models::resnet20, 32, 32) == Frame{});
  CHECK(frame(models::resnet20, 64, 20) == Frame{0, 0, 6, 6});
  CHECK(frame(models::resnet20, 28, 28) == Frame{2, 2, 2, 2});
  CHECK(frame(models::resnet20, 17, 16) == Frame{7, 8, 8, 8});
  CHECK(frame(models::resnet20, 16, 16) == Frame{});
  CHECK(frame(models::resnet20, 13, 16) == Frame{1, 2, 0, 0});
  CHECK(frame(models::vgg11, 16, 16) == Frame{8, 8, 8, 8});
  CHECK(frame(models::torchscript, 16, 16) == Frame{});
}

TEST_CASE("pictures of 16 pixels train every network for pictures") {
  for (const Entry<ModelRow> model : ModelRow::all()) {
    if (!model->images_only) continue;
    INFO(model->name);
    const data::ImageShape shape{3, 16, 16};
    const auto replica = make_replica({.model = model, .inputs = test::pictures(shape)});
    replica->forward_backward(random_batch(2, shape), {});
    const auto gradient = replica->gradient();
    CHECK(std::ranges::all_of(gradient, [](float value) { return std::isfinite(value); }));
    CHECK(std::ranges::any_of(gradient, [](float value) { return value != 0; }));
  }
}

TEST_CASE("parameter counts are the published ones") {
  struct Published {
    ModelOptions options;
    std::size_t parameters;
  };
  using namespace models;
  using namespace normalizations;
  using enum Shortcut;
  const auto cifar = [](const ModelRow& model, Shortcut shortcut) {
    return ModelOptions{.model = model, .inputs = test::pictures(kCifar), .shortcut = shortcut};
  };
  const auto normalized = [](const ModelRow& model, Shortcut shortcut,
                             const NormalizationRow& normalization) {
    return ModelOptions{.model = model,
                        .inputs = test::pictures(kCifar),
                        .normalization = normalization,
                        .shortcut = shortcut};
  };
  const auto image_net = [](const ModelRow& model, int classes, int side) {
    return ModelOptions{
        .model = model, .inputs = test::pictures({3, side, side}), .outputs = classes};
  };
  // He et al. with shortcut A and B; torchvision's documentation for 1000 classes; EvoNorms have a
  // third parameter for each channel.
  const Published published = GENERATE_COPY(values<Published>({
      {cifar(resnet20, padding), 269'722},
      {cifar(resnet20, projection), 272'474},
      {cifar(resnet54, padding), 755'802},
      {cifar(resnet54, projection), 758'554},
      {cifar(resnet56, padding), 853'018},
      {cifar(resnet56, projection), 855'770},
      {cifar(resnet110, padding), 1'727'962},
      {cifar(resnet110, projection), 1'730'714},
      {normalized(resnet20, padding, evonorm_s0), 270'410},
      {normalized(resnet20, projection, evonorm_s0), 273'258},
      {normalized(resnet54, padding, range_evonorm), 757'610},
      {normalized(resnet54, projection, range_evonorm), 760'458},
      {normalized(resnet56, padding, evonorm_s0), 855'050},
      {normalized(resnet56, projection, evonorm_s0), 857'898},
      {normalized(resnet110, padding, evonorm_s0), 1'732'010},
      {normalized(resnet110, projection, evonorm_s0), 1'734'858},
      {normalized(resnet20, projection, groupnorm), 272'474},
      {normalized(resnet20, projection, range_batchnorm), 272'474},
      {image_net(resnet18, 1000, 224), 11'689'512},
      {image_net(resnet34, 1000, 224), 21'797'672},
      {image_net(resnet50, 1000, 224), 25'557'032},
      {image_net(resnet18, 10, 224), 11'181'642},
      {{.model = resnet18, .inputs = test::pictures({3, 224, 224}), .normalization = evonorm_s0},
       11'186'442},
      {image_net(resnet18, 10, 32), 11'173'962},
      {image_net(resnet18, 100, 32), 11'220'132},
  }));
  CAPTURE(published.options.model->name, name_of(published.options.shortcut),
          published.options.outputs);
  const auto replica = make_replica(published.options);
  CHECK(replica->parameters().size() == published.parameters);
  CHECK(replica->gradient().size() == published.parameters);
  CHECK(total_count(replica->layout()) == published.parameters);
}

TEST_CASE("the layout has no gaps and follows the forward pass with torchvision's names") {
  const auto replica = make_replica({.model = models::resnet18, .inputs = test::pictures(kCifar)});
  const Layout& layout = replica->layout();
  std::size_t offset = 0;
  for (const TensorSlice& slice : layout) {
    CHECK(slice.offset == offset);
    std::size_t count = 1;
    for (const auto extent : slice.shape) count *= static_cast<std::size_t>(extent);
    CHECK(slice.count == count);
    offset += slice.count;
  }
  REQUIRE(layout.size() == 62);
  CHECK(layout[0].name == "conv1.weight");
  CHECK(layout[1].name == "bn1.weight");
  CHECK(layout[2].name == "bn1.bias");
  CHECK(layout[3].name == "layer1.0.conv1.weight");
  CHECK(layout.back().name == "fc.bias");
  CHECK(std::ranges::count(layout, "layer2.0.downsample.0.weight", &TensorSlice::name) == 1);
  CHECK(layout[0].shape == std::vector<std::int64_t>{64, 3, 3, 3});
}

TEST_CASE("initial weights: He's fan-out variance, unit scales, depending only on the seed") {
  const auto replica =
      make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar), .seed = 5});
  const auto parameters = replica->parameters();
  for (const TensorSlice& slice : replica->layout()) {
    const auto values = parameters.subspan(slice.offset, slice.count);
    if (slice.shape.size() == 4 && slice.count > 2000) {
      double squares = 0;
      for (const float v : values) squares += static_cast<double>(v) * v;
      const double variance = squares / static_cast<double>(slice.count);
      const double he = 2.0 / static_cast<double>(slice.shape[0] * slice.shape[2] * slice.shape[3]);
      // Five standard errors of a variance: sqrt(2 / count) each.
      CHECK(variance == Approx(he).epsilon(5 * std::sqrt(2.0 / static_cast<double>(slice.count))));
    } else if (slice.name.find("bn") != std::string::npos) {
      const float constant = slice.name.ends_with("weight") ? 1.0f : 0.0f;
      CHECK(std::ranges::all_of(values, [&](float v) { return v == constant; }));
    } else if (slice.name.starts_with("fc")) {
      CHECK(std::ranges::all_of(values, [](float v) { return std::abs(v) <= 0.125f; }));
    }
  }
  const auto same =
      make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar), .seed = 5});
  const auto other =
      make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar), .seed = 6});
  CHECK(std::ranges::equal(parameters, same->parameters()));
  CHECK_FALSE(std::ranges::equal(parameters, other->parameters()));
}

TEST_CASE("each slice is announced once, complete, last layer first") {
  const auto replica = make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar)});
  const auto batch = random_batch(8, kCifar);
  std::vector<std::size_t> order;
  std::vector<std::vector<float>> seen(replica->layout().size());
  for (int round = 0; round < 2; ++round) {
    order.clear();
    replica->forward_backward(batch, [&](std::size_t i) {
      order.push_back(i);
      const TensorSlice& slice = replica->layout()[i];
      const auto values = replica->gradient().subspan(slice.offset, slice.count);
      seen[i].assign(values.begin(), values.end());
    });
  }
  CHECK(order.size() == replica->layout().size());
  CHECK(std::set(order.begin(), order.end()).size() == order.size());
  CHECK(replica->layout()[order.front()].name.starts_with("fc."));
  CHECK(order.back() <= 2);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const TensorSlice& slice = replica->layout()[i];
    CAPTURE(slice.name);
    CHECK(std::ranges::equal(seen[i], replica->gradient().subspan(slice.offset, slice.count)));
    CHECK(std::ranges::any_of(seen[i], [](float v) { return v != 0; }));
  }
}

TEST_CASE("a step repeats exactly: same parameters and batch, same loss and gradient") {
  const auto batch = random_batch(8, kCifar);
  const auto replica = make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar)});
  const double loss = replica->forward_backward(batch, {});
  const std::vector<float> gradient(replica->gradient().begin(), replica->gradient().end());
  CHECK(replica->forward_backward(batch, {}) == loss);
  CHECK(std::ranges::equal(gradient, replica->gradient()));
}

TEST_CASE("the gradient is the loss's slope along itself") {
  const Shortcut shortcut = GENERATE(Shortcut::projection, Shortcut::padding);
  const auto batch = random_batch(16, kCifar);
  const auto replica = make_replica(
      {.model = models::resnet20, .inputs = test::pictures(kCifar), .shortcut = shortcut});
  replica->forward_backward(batch, {});
  const std::vector<float> g(replica->gradient().begin(), replica->gradient().end());
  const std::vector<float> start(replica->parameters().begin(), replica->parameters().end());
  double squares = 0;
  for (const float v : g) squares += static_cast<double>(v) * v;
  const double norm = std::sqrt(squares);
  const auto loss_at = [&](double distance) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      replica->parameters()[i] = start[i] + static_cast<float>(distance * g[i] / norm);
    }
    return replica->forward_backward(batch, {});
  };
  const double h = 2e-3;
  CHECK((loss_at(h) - loss_at(-h)) / (2 * h) == Approx(norm).epsilon(0.02));
}

TEST_CASE("a kernel's gradient is orthogonal to it: the norm that follows undoes scaling") {
  const std::string name = GENERATE("resnet20", "resnet50");
  const auto replica =
      make_replica({.model = ModelRow::all().at(name), .inputs = test::pictures(kCifar)});
  replica->forward_backward(random_batch(8, kCifar), {});
  for (const TensorSlice& slice : replica->layout()) {
    if (slice.shape.size() != 4) continue;
    double dot = 0, weights = 0, gradients = 0;
    for (std::size_t i = slice.offset; i < slice.offset + slice.count; ++i) {
      const double w = replica->parameters()[i], g = replica->gradient()[i];
      dot += w * g;
      weights += w * w;
      gradients += g * g;
    }
    CAPTURE(slice.name);
    CHECK(gradients > 0);
    CHECK(std::abs(dot) < 1e-3 * std::sqrt(weights * gradients));
  }
}

TEST_CASE("evaluation adds over batches of any size and does not change the gradient") {
  const auto replica = make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar)});
  const auto whole = random_batch(12, kCifar);
  replica->forward_backward(whole, {});
  const std::vector<float> gradient(replica->gradient().begin(), replica->gradient().end());
  const std::vector<float> buffers(replica->buffers().begin(), replica->buffers().end());
  const Evaluation all = replica->evaluate(whole);
  Evaluation sum;
  for (const auto& [first, count] : {std::pair<std::size_t, std::size_t>{0, 7}, {7, 5}}) {
    data::Batch part;
    test::write_pictures(
        kCifar, 10,
        test::images_in(whole).subspan(first * kCifar.values(), count * kCifar.values()),
        test::labels_in(whole).subspan(first, count), part);
    sum += replica->evaluate(part);
  }
  CHECK(all.count == 12);
  CHECK(sum.count == 12);
  CHECK(sum.sums == all.sums);
  CHECK(sum.loss_sum == Approx(all.loss_sum).epsilon(1e-5));
  CHECK(std::ranges::equal(gradient, replica->gradient()));
  CHECK(std::ranges::equal(buffers, replica->buffers()));
}

TEST_CASE("plain descent on one batch memorises it") {
  const data::ImageShape grey{1, 28, 28};
  const auto replica = make_replica({.model = models::resnet20, .inputs = test::pictures(grey)});
  const auto batch = random_batch(20, grey);
  const double first = replica->forward_backward(batch, {});
  for (int step = 0; step < 40; ++step) {
    replica->forward_backward(batch, {});
    for (std::size_t i = 0; i < replica->parameters().size(); ++i) {
      replica->parameters()[i] -= 0.1f * replica->gradient()[i];
    }
  }
  CHECK(first > 1.5);
  CHECK(replica->forward_backward(batch, {}) < 0.1);
}

TEST_CASE("a network learns the synthetic images with every normalization") {
  const auto data =
      data::open_dataset({.set = data::sets::synthetic, .limit_train = 64, .limit_test = 1});
  const auto kind =
      GENERATE(from_range(NormalizationRow::all().begin(), NormalizationRow::all().end()));
  CAPTURE(kind->name);
  const auto replica = make_replica(
      {.model = models::resnet20, .inputs = data.train->inputs(), .normalization = kind});
  const bool keeps_statistics = kind->name.ends_with("batchnorm");
  CHECK(replica->buffers().empty() != keeps_statistics);
  std::vector<float> velocity(replica->parameters().size());
  data::Batch batch;
  const auto epoch_loss = [&] {
    double sum = 0;
    for (std::size_t first = 0; first < 64; first += 16) {
      std::vector<std::size_t> indices(16);
      std::iota(indices.begin(), indices.end(), first);
      data.train->read(indices, std::nullopt, batch);
      sum += replica->forward_backward(batch, {}) / 4;
      for (std::size_t i = 0; i < velocity.size(); ++i) {
        velocity[i] = 0.9f * velocity[i] + replica->gradient()[i];
        replica->parameters()[i] -= 0.01f * velocity[i];
      }
    }
    return sum;
  };
  const double first = epoch_loss();
  for (int epoch = 0; epoch < 4; ++epoch) epoch_loss();
  const double last = epoch_loss();
  CHECK(last < 0.95 * first);
  CHECK(last < std::log(10.0) - 0.05);  // better than guessing
  CHECK(std::isfinite(replica->evaluate(batch).loss_sum));
}

TEST_CASE("layers that replace the activation leave no ReLU: outputs of blocks can be negative") {
  // With a very negative bias a ReLU anywhere would make the logits independent of the input.
  const auto kind =
      GENERATE(Entry(normalizations::evonorm_s0), Entry(normalizations::range_evonorm),
               Entry(normalizations::batchnorm));
  const auto replica = make_replica(
      {.model = models::resnet20, .inputs = test::pictures(kCifar), .normalization = kind});
  for (const TensorSlice& slice : replica->layout()) {
    if (!slice.name.ends_with(".bias") || slice.name.starts_with("fc")) continue;
    std::ranges::fill(replica->parameters().subspan(slice.offset, slice.count), -100.0f);
  }
  replica->forward_backward(random_batch(2, kCifar), {});
  const TensorSlice& stem = replica->layout()[0];
  const auto gradient = replica->gradient().subspan(stem.offset, stem.count);
  const bool passes = std::ranges::any_of(gradient, [](float v) { return v != 0; });
  CHECK(passes == !(kind == normalizations::batchnorm));
}

TEST_CASE("a listener's exception is thrown unchanged, and the replica still works") {
  const auto replica = make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar)});
  const auto batch = random_batch(4, kCifar);
  int calls = 0;
  const auto listener = [&](std::size_t) {
    if (++calls == 3) fail(Kind::wire, "expected 4 bytes, got 3");
  };
  CHECK_THROWS_MATCHES(
      replica->forward_backward(batch, listener), Error,
      Catch::Matchers::Predicate<Error>([](const Error& e) { return e.kind() == Kind::wire; }));
  CHECK(calls == 3);
  CHECK(std::isfinite(replica->forward_backward(batch, {})));
}

TEST_CASE("options from which no network can be built are a usage error with advice") {
  const auto message = [](const ModelOptions& options) -> std::string {
    try {
      make_replica(options);
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::usage);
      return error.what();
    }
    return "no error";
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(message({.model = models::resnet20, .inputs = test::pictures({3, 224, 224})}),
             ContainsSubstring("resnet18"));
  CHECK_THAT(message({.model = models::resnet20, .inputs = test::pictures({0, 32, 32})}),
             ContainsSubstring("0x32x32"));
  CHECK_THAT(message({.model = models::resnet18, .inputs = test::pictures({3, 2048, 32})}),
             ContainsSubstring("1024"));
  CHECK_THAT(message({.model = models::resnet20, .inputs = test::pictures(kCifar), .outputs = 1}),
             ContainsSubstring("classes"));
  CHECK_THAT(message({.model = models::resnet20,
                      .inputs = test::pictures({3, 36, 36}),
                      .normalization = normalizations::range_evonorm}),
             ContainsSubstring("layer3.0.bn1") && ContainsSubstring("model.normalization"));
  CHECK_THAT(message({.model = models::resnet18,
                      .inputs = test::pictures(kCifar),
                      .shortcut = Shortcut::padding}),
             ContainsSubstring("projection"));
}

TEST_CASE("a batch of another shape is refused") {
  const auto replica = make_replica({.model = models::resnet20, .inputs = test::pictures(kCifar)});
  auto batch = random_batch(4, kCifar);
  test::labels_in(batch)[2] = 10;
  CHECK_THROWS_AS(replica->forward_backward(batch, {}), Error);
  test::labels_in(batch)[2] = -1;
  CHECK_THROWS_AS(replica->evaluate(batch), Error);
  CHECK_THROWS_AS(replica->evaluate(random_batch(4, {3, 28, 28})), Error);
  test::labels_in(batch)[2] = 0;
  std::get<std::vector<float>>(batch.inputs[0].values).pop_back();
  CHECK_THROWS_AS(replica->forward_backward(batch, {}), Error);
}

TEST_CASE("every listed model can be built, and the description is one line") {
  for (const Entry<ModelRow> model : ModelRow::all()) {
    CAPTURE(model->name);
    CHECK_FALSE(model->about.empty());
    if (!model->images_only) continue;
    CHECK(total_count(make_replica({.model = model, .inputs = test::pictures(kCifar)})->layout()) >
          0);
  }
  CHECK(torch_description().find('\n') == std::string::npos);
  CHECK(torch_description().starts_with("LibTorch "));
}

}  // namespace
}  // namespace eqt::model
