// SPDX-License-Identifier: Apache-2.0
#include "model/catalogue.hpp"

#include <array>

namespace eqt::model {
namespace {

constexpr std::string_view kEncoderKeys[] = {"layers", "hidden", "heads", "intermediate",
                                             "dropout"};

}  // namespace

#define EQT_MODEL(id, ...) const ModelRow models::id = {.name = #id, __VA_ARGS__};
#include "model/models.def"

#define EQT_NORMALIZATION(id, ...) const NormalizationRow normalizations::id = {__VA_ARGS__};
#include "model/normalizations.def"

const Catalogue<ModelRow>& ModelRow::all() {
  static const Catalogue<ModelRow> rows = {
#define EQT_MODEL(id, ...) models::id,
#include "model/models.def"
  };
  return rows;
}

const Catalogue<NormalizationRow>& NormalizationRow::all() {
  static const Catalogue<NormalizationRow> rows = {
#define EQT_NORMALIZATION(id, ...) normalizations::id,
#include "model/normalizations.def"
  };
  return rows;
}

std::span<const Named<Shortcut>> names_of(Shortcut) {
  static constexpr std::array<Named<Shortcut>, 2> kNames = {{
      {Shortcut::projection, "projection", "1 x 1 convolution (option B of He et al. 2016)"},
      {Shortcut::padding, "padding", "stride and zero channels, no parameters (option A)"},
  }};
  return kNames;
}

std::span<const Named<Precision>> names_of(Precision) {
  static constexpr std::array<Named<Precision>, 3> kNames = {{
      {Precision::fp32, "fp32", "float32 everywhere"},
      {Precision::bf16, "bf16",
       "bf16 images inside the network and bf16 operands of convolutions; sums, statistics, "
       "classifier and loss in float32 (all networks but bert and torchscript)"},
      {Precision::int8, "int8",
       "8-bit operands of all convolutions, forward and backward, with exact sums (ResNets and "
       "vgg11 with batchnorm; src/model/precision/README.md)"},
  }};
  return kNames;
}

}  // namespace eqt::model
