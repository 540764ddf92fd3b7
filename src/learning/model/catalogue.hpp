// SPDX-License-Identifier: Apache-2.0
// The catalogues of networks and normalization layers, one row each, without torch. models.def and
// normalizations.def have the rows; each network's file has the function that builds it.

#pragma once

#include <span>
#include <string_view>

#include "core/catalogue.hpp"
#include "data/dataset.hpp"

namespace eqt::model {

/// The images that a network was published with.
struct PublishedInput {
  data::ImageShape images;
  int classes = 0;
};
inline constexpr PublishedInput kImageNet{{3, 224, 224}, 1000}, kCifar10{{3, 32, 32}, 10};

inline constexpr int kSmallImages = 64;    // [pixels] the side up to which images count as small
inline constexpr int kLargestSide = 1024;  // [pixels] of images for any network

struct ModelRow {
  std::string_view name;   // in configs
  std::string_view title;  // in tables of results
  std::string_view about;  // one line
  PublishedInput published = kImageNet;
  int largest_side = kLargestSide;  // [pixels] of the images that it takes
  int least_side = 16;              // [pixels] of the images that it can halve as often as it does
  bool normalizes = true;           // it has normalization layers
  bool pads_shortcuts = false;      // it takes Shortcut::padding
  bool images_only = true;          // pictures are its only input
  bool whitens = false;             // its first layer is made of the training pictures, and frozen
  bool from_folder = false;         // model.path may name a folder with its shape and weights
  bool torch_only = false;          // own/ does not compute it: no 8-bit operands
  bool casts = false;               // bf16 is what LibTorch's autocast makes of its operations
  bool linear_bottlenecks = false;  // some of its norms are followed by no activation
  std::span<const std::string_view> keys = {};  // of the config's section, read by no other network
  bool users_own = false;  // its parameters and operations are in a file of the user's

  static const Catalogue<ModelRow>& all();
};

namespace models {
#define EQT_MODEL(id, ...) extern const ModelRow id;
#include "model/models.def"
}  // namespace models

struct NormalizationRow {
  std::string_view name;   // in configs
  std::string_view about;  // one line
  // Number of channel groups, as published; 0: the layer has none.
  int groups = 0;
  bool replaces_bias = false;  // its shift replaces the bias of VGG's convolutions
  bool by_range = false;       // only kernels of our own compute it
  bool needs_chunks = false;   // it cuts every sample into chunks, which not all image sizes allow

  static const Catalogue<NormalizationRow>& all();
};

namespace normalizations {
#define EQT_NORMALIZATION(id, ...) extern const NormalizationRow id;
#include "model/normalizations.def"
}  // namespace normalizations

/// Shortcuts of residual networks where the shape changes.
enum class Shortcut { projection, padding };
std::span<const Named<Shortcut>> names_of(Shortcut);

/// NewHead says what becomes of a last layer that has another number of outputs than that of the
/// file with initial weights.
enum class NewHead { automatic, refuse };
std::span<const Named<NewHead>> names_of(NewHead);

/// FrozenNorms says what a batch normalization of which all parameters are frozen trains by: the
/// batch, which its running statistics follow, or these, which then stay.
enum class FrozenNorms { batch, running };
std::span<const Named<FrozenNorms>> names_of(FrozenNorms);

/// Precision says what the network computes with. Parameters and gradients are float32 in any case.
enum class Precision { fp32, bf16, int8 };
std::span<const Named<Precision>> names_of(Precision);

/// Int8Ranges says which values of activations and errors share a scale with int8, and of what it
/// is made.
enum class Int8Ranges { sample, tensor, paper };
std::span<const Named<Int8Ranges>> names_of(Int8Ranges);

/// ErrorRounding says how errors are rounded with int8.
enum class ErrorRounding { stochastic, nearest };
std::span<const Named<ErrorRounding>> names_of(ErrorRounding);

/// The errors that weight gradients are computed from with int8.
enum class WeightGradient { int8, int16, fp32 };
std::span<const Named<WeightGradient>> names_of(WeightGradient);

struct Int8Options {
  Int8Ranges ranges = Int8Ranges::sample;
  ErrorRounding error_rounding = ErrorRounding::stochastic;
  WeightGradient weight_gradient = WeightGradient::int8;

  bool operator==(const Int8Options&) const = default;
};

}  // namespace eqt::model
