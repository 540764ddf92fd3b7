// SPDX-License-Identifier: Apache-2.0
#include "data/images.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace eqt::data {
namespace {

constexpr Named<Border> kBorders[] = {
    {Border::black, "black", "black pixels"},
    {Border::reflect, "reflect", "the picture's own, mirrored at its edge, which is not repeated"}};

constexpr Named<Flips> kFlips[] = {
    {Flips::random, "random", "each with probability 1/2, in every epoch"},
    {Flips::alternating, "alternating",
     "a half that is drawn once, and in every second epoch the other half"},
    {Flips::none, "none", "none"}};

}  // namespace

std::span<const Named<Border>> names_of(Border) { return kBorders; }
std::span<const Named<Flips>> names_of(Flips) { return kFlips; }

ArraySpec image_spec(const ImageShape& shape) {
  return {.name = std::string(kImages),
          .type = ElementType::float32,
          .shape = {shape.height, shape.width, shape.channels}};
}

ArraySpec class_spec(int classes) {
  return {.name = "labels", .type = ElementType::int64, .shape = {}, .bound = classes};
}

std::optional<ImageShape> image_shape(const ArraySpec& spec) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const bool pictures =
      spec.name == kImages && spec.type == ElementType::float32 && spec.shape.size() == 3 &&
      std::ranges::all_of(spec.shape, [](std::int64_t n) { return n >= 0 && n <= kMost; });
  if (!pictures) return {};
  return ImageShape{.channels = static_cast<int>(spec.shape[2]),
                    .height = static_cast<int>(spec.shape[0]),
                    .width = static_cast<int>(spec.shape[1])};
}

std::optional<ImageShape> image_shape(std::span<const ArraySpec> inputs) {
  if (inputs.size() != 1) return {};
  return image_shape(inputs.front());
}

std::optional<ImageShape> image_shape(const Batch& batch) {
  if (batch.inputs.size() != 1) return {};
  return image_shape(batch.inputs.front().spec);
}

}  // namespace eqt::data
