// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "model/bf16.hpp"
#include "model/example_batch.hpp"
#include "model/model_options.hpp"
#include "model/own/own_replica.hpp"
#include "model/torch/network.hpp"
#include "model/torch/torch_errors.hpp"
#include "model/torch/torch_replica.hpp"

namespace eqt::model {
namespace {

std::unique_ptr<Replica> make_float_replica(const ModelOptions& options) {
  const ModelRow& model = *options.model;
  const auto build = [&] {
    auto replica = make_torch_replica(
        make_network(options),
        {.inputs = options.inputs,
         .target = options.target,
         .frame = model.images_only ? frame_of(model, images_of(options)) : Frame{},
         .task = options.task,
         .outputs = options.outputs,
         .freeze = options.freeze,
         .seed = options.seed,
         .rank = options.rank,
         .precision = options.precision,
         .casts = options.precision == Precision::bf16 && !model.images_only &&
                  bf16_arithmetic() == Bf16Arithmetic::native,
         .placement = options.placement});
    // What cannot compute samples of this size, or returns something else, fails here, before
    // training.
    if (options.normalization->needs_chunks || !model.images_only)
      replica->evaluate(example_batch(options, 1));
    return replica;
  };
  if (!model.users_own) return guarded("building a network", build);
  return guarded("being loaded", build, Kind::data, "the network of model.path " + options.path);
}

}  // namespace

std::shared_ptr<Network> make_network(const ModelOptions& options) {
  check_options(options);
#define EQT_MODEL(id, ...) \
  if (options.model == models::id) return make_##id(options);
#include "model/models.def"
  fail(Kind::bug, "no network is called {}", options.model->name);
}

std::unique_ptr<Replica> make_replica(const ModelOptions& options) {
  if (options.placement.torch_layers && options.precision != Precision::fp32)
    fail(Kind::usage,
         "model.precision: expected \"fp32\" for a network on an NVIDIA device, found \"{}\"; set "
         "device to \"cpu\" or model.precision to \"fp32\"",
         name_of(options.precision));
  if (options.precision == Precision::int8) return make_int8_replica(options);
  return make_float_replica(options);
}

std::unique_ptr<Replica> make_idle_replica(const ModelOptions& options) {
  ModelOptions idle = options;
  idle.placement = {};
  return make_replica(idle);
}

}  // namespace eqt::model
