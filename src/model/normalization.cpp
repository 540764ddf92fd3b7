// SPDX-License-Identifier: Apache-2.0
#include "model/normalization.hpp"

#include <ATen/Functions.h>
#include <ATen/TracerMode.h>

#include "core/error.hpp"

namespace eqt::model {
namespace {

/// The number of groups. @throws Error{usage} if it does not divide the channels
std::int64_t groups_for(const NormalizationOptions& options, std::int64_t channels) {
  const NormalizationRow& kind = *options.kind;
  if (kind.groups == 0) {
    if (options.groups == 0) return 0;
    fail(Kind::usage, "model.norm_groups: expected 0 for {}, which has no groups, found {}",
         kind.name, options.groups);
  }
  const std::int64_t groups = options.groups == 0 ? kind.groups : options.groups;
  if (groups < 1 || channels % groups != 0) {
    fail(Kind::usage,
         "model.normalization {}: expected groups that divide a layer's channels, found {} groups "
         "of {} channels; choose another model.norm_groups, or batchnorm",
         kind.name, groups, channels);
  }
  return groups;
}

}  // namespace

at::Tensor Normalization::run(const at::Tensor& x, const at::Tensor* residual, bool relu) {
  if (at::tracer::impl::is_dispatch_enabled()) {
    at::Tensor y = traceable(x);
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

std::shared_ptr<Normalization> make_normalization(const NormalizationOptions& options,
                                                  std::int64_t channels) {
  const std::int64_t groups = groups_for(options, channels);
#define EQT_NORMALIZATION(id, ...) \
  if (options.kind == normalizations::id) return make_##id(channels, groups);
#include "model/normalizations.def"
  fail(Kind::bug, "no normalization layer is called {}", options.kind->name);
}

}  // namespace eqt::model
