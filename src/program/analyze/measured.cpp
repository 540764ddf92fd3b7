// SPDX-License-Identifier: Apache-2.0
#include "analyze/measured.hpp"

#include "analyze/frames.hpp"
#include "config/run_config.hpp"
#include "data/images.hpp"
#include "model/own/plan.hpp"
#include "theory/network_shape.hpp"

namespace eqt::analyze {
namespace {

using model::Precision;

/// That rounds values to the type that the network computes with.
Entry<codec::CompressorRow> compressor_for(Precision precision) {
  if (precision == Precision::int8) return codec::kInt8;
  return precision == Precision::bf16 ? codec::kBf16 : codec::kNone;
}

double products_of(const model::precision::Dense& layer) {
  return static_cast<double>(layer.in) * static_cast<double>(layer.out);
}

}  // namespace

model::ModelOptions measured_network(std::string_view model, std::string_view normalization,
                                     Precision precision) {
  return {.model = model::ModelRow::all().at(model),
          .inputs = {data::image_spec(
              {theory::kImageChannels, theory::kImageSize, theory::kImageSize})},
          .normalization = model::NormalizationRow::all().at(normalization),
          .precision = precision};
}

StepBytes measure_step(const model::ModelOptions& options, std::size_t batch_size) {
  const model::NetworkMemory memory = model::measure_network_memory(options, batch_size, 1);
  config::RunConfig config;
  config.compressor.name = compressor_for(options.precision);
  StepBytes bytes{.step = memory.gradient_bytes,
                  .parameters = total_count(memory.layout) * sizeof(float),
                  .buffers = memory.buffer_values * sizeof(float),
                  .message = frames_of(memory.layout, config).bytes(),
                  .compressor = config.compressor.name->name};
  if (options.precision != Precision::int8) return bytes;
  const auto use = model::make_replica(options)->int8_use(batch_size);
  bytes.arena = use->arena_bytes;
  bytes.saved = use->saved_bytes;
  return bytes;
}

theory::MultiplyAdds count_products(const model::ModelOptions& options, std::size_t batch_size) {
  const model::precision::Plan plan = model::precision::make_plan(options);
  double low = 0, gradients = 0, classifier = 0;  // of a sample
  for (const model::precision::Branch& branch : plan.branches) {
    const double products = static_cast<double>(branch.shape.macs());
    constexpr int kPictures = 0;  // nobody needs their gradient
    low += branch.input == kPictures ? products : 2 * products;
    gradients += products;
  }
  constexpr int kPasses = 3;
  classifier = kPasses * products_of(plan.last);
  if (plan.hidden) classifier += kPasses * products_of(*plan.hidden);

  const auto batch = static_cast<double>(batch_size);
  theory::MultiplyAdds counted{.float32 = batch * classifier};
  switch (options.precision) {
    case Precision::fp32:
      counted.float32 += batch * (low + gradients);
      break;
    case Precision::bf16:
      counted.bfloat16 = batch * (low + gradients);
      break;
    case Precision::int8:
      // Errors of 14 bits are two digits of 8.
      const model::WeightGradient kind = options.int8.weight_gradient;
      counted.int8 = batch * low;
      (kind == model::WeightGradient::fp32 ? counted.float32 : counted.int8) +=
          batch * gradients * (kind == model::WeightGradient::int16 ? 2 : 1);
      break;
  }
  return counted;
}

}  // namespace eqt::analyze
