#include "model/normalization.hpp"

#include <string_view>

#include "core/error.hpp"
#include "model/batch_norm.hpp"
#include "model/norm_layers.hpp"

namespace eqt::model {
namespace {

constexpr int kGroupNormGroups = 2;
constexpr int kEvoNormGroups = 8;

/// The groups to use, once they are known to fit.
std::int64_t groups_for(const NormalizationOptions& options, std::int64_t channels, int otherwise) {
  const std::int64_t groups = options.groups == 0 ? otherwise : options.groups;
  if (groups < 1 || channels % groups != 0) {
    fail(Kind::usage,
         "model.normalization {}: expected groups that divide a layer's channels, found {} groups "
         "of {} channels; choose another model.norm_groups, or batchnorm",
         options.kind, groups, channels);
  }
  return groups;
}

void refuse_groups(const NormalizationOptions& options) {
  if (options.groups == 0) return;
  fail(Kind::usage, "model.norm_groups: expected 0 for {}, which has no groups, found {}",
       options.kind, options.groups);
}

}  // namespace

at::Tensor Normalization::forward(const at::Tensor& x) {
  return apply(x.contiguous(kChannelsLast), {}, false);
}

at::Tensor Normalization::relu(const at::Tensor& x) {
  return apply(x.contiguous(kChannelsLast), {}, !replaces_activation());
}

at::Tensor Normalization::add_relu(const at::Tensor& x, const at::Tensor& residual) {
  return apply(x.contiguous(kChannelsLast), residual.contiguous(kChannelsLast),
               !replaces_activation());
}

std::shared_ptr<Normalization> make_normalization(const NormalizationOptions& options,
                                                  std::int64_t channels) {
  const std::string_view kind = options.kind;
  if (kind == "groupnorm") {
    return make_group_norm(channels, groups_for(options, channels, kGroupNormGroups));
  }
  if (kind == "evonorm-s0") {
    return make_evonorm_s0(channels, groups_for(options, channels, kEvoNormGroups));
  }
  if (kind == "range-evonorm") {
    return make_range_evonorm(channels, groups_for(options, channels, kEvoNormGroups));
  }
  if (kind == "batchnorm" || kind == "range-batchnorm") {
    refuse_groups(options);
    if (kind == "range-batchnorm") return make_range_batch_norm(channels);
    return std::make_shared<BatchNormImpl>(channels);
  }
  fail(Kind::usage,
       "model.normalization must be batchnorm, groupnorm, evonorm-s0, range-batchnorm or "
       "range-evonorm, found \"{}\"",
       kind);
}

}  // namespace eqt::model
