// SPDX-License-Identifier: Apache-2.0
#include "model/catalogue.hpp"

#include <array>

namespace eqt::model {
namespace {

constexpr std::string_view kEncoderKeys[] = {"layers", "hidden", "heads", "intermediate",
                                             "dropout"};
constexpr std::string_view kHiddenKeys[] = {"layers", "hidden"};
constexpr std::string_view kWidthKeys[] = {"width"};

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

std::span<const Named<NewHead>> names_of(NewHead) {
  static constexpr std::array<Named<NewHead>, 2> kNames = {{
      {NewHead::automatic, "auto", "it starts new, with a note"},
      {NewHead::refuse, "refuse", "the file is refused"},
  }};
  return kNames;
}

std::span<const Named<FrozenNorms>> names_of(FrozenNorms) {
  static constexpr std::array<Named<FrozenNorms>, 2> kNames = {{
      {FrozenNorms::batch, "batch", "the batch, which the running statistics follow"},
      {FrozenNorms::running, "running", "the running statistics, which stay as they are"},
  }};
  return kNames;
}

std::span<const Named<Precision>> names_of(Precision) {
  static constexpr std::array<Named<Precision>, 3> kNames = {{
      {Precision::fp32, "fp32", "float32 everywhere"},
      {Precision::bf16, "bf16",
       "bf16 images inside the network and bf16 operands of convolutions; sums, statistics, "
       "classifier and loss in float32; for vit, mlp, bert and torchscript: bf16 operands of "
       "matrix "
       "products"},
      {Precision::int8, "int8",
       "8-bit operands of all convolutions and of the matrix products of vit, forward and "
       "backward, with exact sums; for all networks of pictures (docs/int8.md)"},
  }};
  return kNames;
}

std::span<const Named<Int8Ranges>> names_of(Int8Ranges) {
  static constexpr std::array<Named<Int8Ranges>, 3> kNames = {{
      {Int8Ranges::sample, "sample", "of a sample, from its largest magnitude: nothing is clipped"},
      {Int8Ranges::tensor, "tensor", "of a batch, from its largest magnitude; slower"},
      {Int8Ranges::paper, "paper",
       "of a batch; in training from the mean of the samples' largest magnitudes, which clips, and "
       "one scale for all weights of a layer: as Aketi et al. 2022, for comparison"},
  }};
  return kNames;
}

std::span<const Named<ErrorRounding>> names_of(ErrorRounding) {
  static constexpr std::array<Named<ErrorRounding>, 2> kNames = {{
      {ErrorRounding::stochastic, "stochastic", "up or down at random, without bias"},
      {ErrorRounding::nearest, "nearest", "to the nearest, which biases gradients"},
  }};
  return kNames;
}

std::span<const Named<WeightGradient>> names_of(WeightGradient) {
  static constexpr std::array<Named<WeightGradient>, 3> kNames = {{
      {WeightGradient::int8, "int8", "the 8-bit errors that are passed down"},
      {WeightGradient::int16, "int16", "errors of 14 bits, to nearest"},
      {WeightGradient::fp32, "fp32", "float32 errors, as in the published code; slow"},
  }};
  return kNames;
}

}  // namespace eqt::model
