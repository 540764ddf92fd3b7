// SPDX-License-Identifier: Apache-2.0
// The network `bert` as a replica. Its values are compared with Python's in encoder_reference.py.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "core/random.hpp"
#include "data/text/text_input.hpp"
#include "model/arithmetic.hpp"
#include "model/export.hpp"
#include "model/replica.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::model {
namespace {

using eqt::test::refusal;
using eqt::test::says;

constexpr std::int64_t kTokens = 20, kLength = 8;
constexpr int kClasses = 3;

std::vector<data::ArraySpec> texts() {
  const auto spec = [](const char* name, std::int64_t bound) {
    return data::ArraySpec{.name = name,
                           .type = data::ElementType::int64,
                           .shape = {-1},
                           .longest = kLength,
                           .bound = bound};
  };
  return {spec("tokens", kTokens), spec("mask", 2)};
}

ModelOptions options_of(double dropout = 0.1) {
  return {.model = models::bert,
          .inputs = texts(),
          .target = data::class_spec(kClasses),
          .outputs = kClasses,
          .encoder = EncoderShape{.layers = 2,
                                  .hidden = 16,
                                  .heads = 2,
                                  .dropout = dropout,
                                  .attention_dropout = dropout,
                                  .head_dropout = dropout}};
}

/// Texts of which the first token tells the class. @param filled tokens behind each
data::Batch batch_of(std::size_t size, std::uint64_t seed, std::int64_t filled = 0) {
  const RandomStream random({.run_seed = seed});
  const std::int64_t shape[] = {4 + filled};
  data::Batch batch;
  batch.inputs.resize(2);
  const auto tokens = batch.inputs[0].prepare<std::int64_t>(texts()[0], size, shape);
  const auto mask = batch.inputs[1].prepare<std::int64_t>(texts()[1], size, shape);
  const auto labels = batch.targets.prepare<std::int64_t>(data::class_spec(kClasses), size);
  std::ranges::fill(tokens, 0);
  std::ranges::fill(mask, 0);
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t begin = i * static_cast<std::size_t>(4 + filled);
    labels[i] = static_cast<std::int64_t>(i % kClasses);
    for (std::uint32_t j = 0; j < 4; ++j) {
      tokens[begin + j] = static_cast<std::int64_t>(
          8 + random.bounded(static_cast<std::uint32_t>(i) * 4 + j, kTokens - 8));
      mask[begin + j] = 1;
    }
    tokens[begin] = 1;
    tokens[begin + 1 + i % 3] = 4 + labels[i];
  }
  return batch;
}

/// |a - b|^2 / |b|^2.
double squared_error(std::span<const float> a, std::span<const float> b) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return error / norm;
}

// With larger weights: as they are drawn, samples hardly differ in the values behind the last
// layer, and gradients depend on these differences.
TEST_CASE("bert in bf16 has float32's loss and gradient but for rounding", "[bert][bf16]") {
  ModelOptions options = options_of(0);
  const auto exact = make_replica(options);
  options.precision = Precision::bf16;
  const auto half = make_replica(options), again = make_replica(options);
  CHECK(std::ranges::equal(half->parameters(), exact->parameters()));
  // Rows that are filled up hide tokens from the attention, in which bf16 has another lowest score.
  const data::Batch batch = batch_of(12, 1, GENERATE(0, 3));
  for (Replica* const replica : {exact.get(), half.get(), again.get()})
    for (const TensorSlice& slice : replica->layout())
      if (slice.shape.size() == 2)
        for (float& weight : replica->parameters().subspan(slice.offset, slice.count)) weight *= 10;
  const double loss = exact->forward_backward(batch, {}),
               rounded = half->forward_backward(batch, {});
  CHECK(rounded == Approx(loss).epsilon(0.01));
  CHECK(again->forward_backward(batch, {}) == rounded);
  CHECK(std::ranges::equal(half->gradient(), again->gradient()));
  const double error = squared_error(half->gradient(), exact->gradient());
  CHECK(error < 1e-3);
  // Elsewhere there are no fast products of bf16, and the network computes in float32.
  CHECK((error > 0) == (bf16_arithmetic() == Bf16Arithmetic::native));
  CHECK(half->evaluate(batch).loss() == Approx(exact->evaluate(batch).loss()).epsilon(0.01));
}

TEST_CASE("bert has the parameters of its shape", "[bert]") {
  // Embeddings (20 + 8 + 2) * 16 and a norm; in each layer 4 maps of 16 x 16, 2 between 16 and 64,
  // 2 norms; pooler and classifier.
  const std::size_t layer = 4 * (16 * 16 + 16) + 2 * 16 * 64 + 64 + 16 + 4 * 16;
  const std::size_t expected = 30 * 16 + 32 + 2 * layer + 16 * 16 + 16 + 3 * 16 + 3;
  CHECK(total_count(make_replica(options_of())->layout()) == expected);
  // bert-base-uncased with two classes: 109,483,778 (Hugging Face's BertForSequenceClassification).
  ModelOptions base = options_of();
  base.outputs = 2;
  base.target = data::class_spec(2);
  base.encoder =
      EncoderShape{.vocabulary = 30522, .positions = 512, .layers = 12, .hidden = 768, .heads = 12};
  const std::size_t base_layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768;
  CHECK((30522 + 512 + 2) * 768 + 2 * 768 + 12 * base_layer + 768 * 768 + 768 + 2 * 768 + 2 ==
        109'483'778);
}

TEST_CASE("what fills up a batch changes nothing", "[bert]") {
  const auto replica = make_replica(options_of());
  data::Array plain, filled;
  replica->predict(batch_of(6, 3), plain);
  replica->predict(batch_of(6, 3, 3), filled);
  REQUIRE(plain.shape == std::vector<std::int64_t>{6, kClasses});
  const auto a = plain.get<float>(), b = filled.get<float>();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-6);
}

TEST_CASE("bert learns, and dropout is a function of seed, batch and rank", "[bert]") {
  const auto losses = [](std::uint64_t seed, Rank rank, std::uint64_t steps) {
    ModelOptions options = options_of();
    options.seed = seed;
    options.rank = rank;
    const auto replica = make_replica(options);
    const auto gradient = replica->gradient(), parameters = replica->parameters();
    std::vector<double> all;
    std::vector<float> mean(gradient.size()), square(gradient.size());  // as Adam has them
    for (std::uint64_t step = 0; step < steps; ++step) {
      all.push_back(replica->forward_backward(batch_of(24, step), {}));
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        mean[i] += 0.1f * (gradient[i] - mean[i]);
        square[i] += 0.01f * (gradient[i] * gradient[i] - square[i]);
        parameters[i] -= 0.005f * mean[i] / (std::sqrt(square[i]) + 1e-8f);
      }
    }
    return all;
  };
  const auto first = losses(1, 0, 200);
  CHECK(first.front() > 0.9);
  CHECK(first.back() < 0.5);
  const auto again = losses(1, 0, 5);
  CHECK(std::equal(again.begin(), again.end(), first.begin()));
  CHECK(losses(1, 1, 1)[0] != first[0]);
}

TEST_CASE("a language model sees nothing of what follows", "[bert]") {
  ModelOptions options = options_of();
  options.precision = GENERATE(Precision::fp32, Precision::bf16);
  options.task.kind = tasks::language_model;
  options.target = texts()[0];
  options.outputs = kTokens;
  const auto replica = make_replica(options);
  data::Batch batch = batch_of(1, 1);
  data::Array before, after;
  replica->predict(batch, before);
  REQUIRE(before.shape == std::vector<std::int64_t>{1, 4, kTokens});
  batch.inputs[0].get<std::int64_t>()[2] = 19;
  replica->predict(batch, after);
  const auto a = before.get<float>(), b = after.get<float>();
  for (std::size_t i = 0; i < 2 * kTokens; ++i) CHECK(a[i] == b[i]);
  CHECK_FALSE(std::equal(a.begin() + 2 * kTokens, a.end(), b.begin() + 2 * kTokens));
}

// Before an archive is written it is compared with its network, on texts that are longer than those
// that were traced, one of them with a token that fills up.
TEST_CASE("bert can be traced for any number and length of texts", "[bert][export]") {
  const test::TemporaryFolder folder;
  for (const bool language : {false, true}) {
    INFO(language);
    ModelOptions options = options_of();
    if (language) {
      options.task.kind = tasks::language_model;
      options.target = texts()[0];
      options.outputs = kTokens;
    }
    const auto replica = make_replica(options);
    for (float& value : replica->parameters()) value *= 8;  // so that outputs are far from 0
    replica->save_weights(folder.path() + "/model.pt");
    CHECK_NOTHROW(export_network(options, {.format = ExportFormat::torchscript,
                                           .weights = folder.path() + "/model.pt",
                                           .preprocessing = "{}",
                                           .out = folder.path() + "/net.pt"}));
  }
}

TEST_CASE("bert refuses what it cannot read", "[bert]") {
  const auto refused = [](const ModelOptions& options) {
    return refusal(Kind::usage, [&] { make_replica(options); });
  };
  ModelOptions options = options_of();
  options.inputs = {data::image_spec({3, 32, 32})};
  says(refused(options), "texts");
  options = options_of();
  options.encoder->vocabulary = kTokens - 1;
  says(refused(options), "data.vocabulary");
  options = options_of();
  options.encoder->positions = kLength - 1;
  says(refused(options), "data.max_length");
  options = options_of();
  options.encoder->heads = 3;
  says(refused(options), "heads");
}

}  // namespace
}  // namespace eqt::model
