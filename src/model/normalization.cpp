#include "model/normalization.hpp"

#include "core/error.hpp"
#include "model/batch_norm.hpp"

namespace eqt::model {

std::shared_ptr<Normalization> make_normalization(const NormalizationOptions& options,
                                                  std::int64_t channels) {
  if (options.kind == "batchnorm") return std::make_shared<BatchNormImpl>(channels);
  fail(Kind::usage, "model.normalization must be batchnorm, found \"{}\"", options.kind);
}

}  // namespace eqt::model
