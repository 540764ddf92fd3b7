// SPDX-License-Identifier: Apache-2.0
#include "model/torch/normalization.hpp"

#include <ATen/Functions.h>
#include <ATen/TracerMode.h>

#include "core/error.hpp"
#include "model/model_options.hpp"

namespace eqt::model {

at::Tensor Normalization::by_torch(const at::Tensor& /*x*/) {
  fail(Kind::usage,
       "model.normalization: expected a layer that NVIDIA devices compute, batchnorm, groupnorm or "
       "evonorm-s0, found one by range at {}; take one of these, or set device to \"cpu\"",
       path_);
}

at::Tensor Normalization::run(const at::Tensor& x, const at::Tensor* residual, bool relu) {
  const bool traced = at::tracer::impl::is_dispatch_enabled();
  if (traced || by_torch_) {
    at::Tensor y = traced ? traceable(x) : by_torch(x);
    if (residual != nullptr) y = y + *residual;
    return relu ? at::relu(y) : y;
  }
  const at::Tensor rows = x.contiguous(kChannelsLast);
  if (residual == nullptr) return apply(rows, {}, relu);
  return apply(rows, residual->contiguous(kChannelsLast), relu);
}

at::Tensor Normalization::forward(const at::Tensor& x) { return run(x, nullptr, false); }

at::Tensor Normalization::relu(const at::Tensor& x) {
  return run(x, nullptr, !replaces_activation());
}

at::Tensor Normalization::add_relu(const at::Tensor& x, const at::Tensor& residual) {
  return run(x, &residual, !replaces_activation());
}

at::Tensor Normalization::add(const at::Tensor& x, const at::Tensor& residual) {
  return run(x, &residual, false);
}

std::shared_ptr<Normalization> make_normalization(const NormalizationOptions& options,
                                                  std::int64_t channels) {
  const std::int64_t groups = groups_for(*options.kind, options.groups, channels);
#define EQT_NORMALIZATION(id, ...) \
  if (options.kind == normalizations::id) return make_##id(channels, groups);
#include "model/normalizations.def"
  fail(Kind::bug, "no normalization layer is called {}", options.kind->name);
}

}  // namespace eqt::model
