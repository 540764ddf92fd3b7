// SPDX-License-Identifier: Apache-2.0
#include "data/image_set.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::data {
namespace {

constexpr std::uint32_t kDrawsPerSample = 3;  // top, left, flip
constexpr std::size_t kMaxSamples = std::numeric_limits<std::uint32_t>::max() / kDrawsPerSample;

}  // namespace

Crop draw_crop(const AugmentKey& key, std::size_t sample, int padding, Flips flips) {
  EQT_DCHECK(sample < kMaxSamples, "sample {}", sample);
  const RandomStream stream(make_key(key.run_seed, key.epoch, 0, RandomPurpose::augmentation));
  const auto first = static_cast<std::uint32_t>(sample) * kDrawsPerSample;
  const auto offsets = static_cast<std::uint64_t>(2 * padding + 1);
  Crop crop = {.top = static_cast<int>(stream.bounded(first, offsets)),
               .left = static_cast<int>(stream.bounded(first + 1, offsets))};
  if (flips == Flips::random) crop.flip = stream.bounded(first + 2, 2) == 1;
  if (flips == Flips::alternating) {
    const RandomStream once(make_key(key.run_seed, 0, 0, RandomPurpose::augmentation));
    crop.flip = (once.bounded(first + 2, 2) + key.epoch) % 2 == 1;
  }
  return crop;
}

ImageSet::ImageSet(LabelledBytes data, const Normalization& normalization,
                   const Augmentation& augmentation)
    : data_(std::move(data)),
      input_(image_spec(data_.shape)),
      target_(class_spec(data_.classes)),
      augmentation_(augmentation) {
  const auto channels = static_cast<std::size_t>(data_.shape.channels);
  EQT_CHECK(channels == 1 || channels == 3, "{} channels", channels);
  EQT_CHECK(data_.pixels.size() == data_.labels.size() * data_.shape.values(),
            "{} pixel bytes for {} labels", data_.pixels.size(), data_.labels.size());
  EQT_CHECK(augmentation.border == Border::black ||
                augmentation.shift < std::min(data_.shape.height, data_.shape.width),
            "a reflecting border of {} pixels around {} x {}", augmentation.shift,
            data_.shape.height, data_.shape.width);
  EQT_CHECK(data_.labels.size() <= kMaxSamples, "{} samples", data_.labels.size());
  EQT_CHECK(normalization.mean.size() == channels && normalization.deviation.size() == channels,
            "{} means and {} deviations for {} channels", normalization.mean.size(),
            normalization.deviation.size(), channels);
  tables_.resize(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const double fraction = static_cast<double>(byte) / 255;
      tables_[c][byte] =
          static_cast<float>((fraction - normalization.mean[c]) / normalization.deviation[c]);
    }
  }
}

int ImageSet::label(std::size_t sample) const {
  EQT_CHECK(sample < size(), "sample {} of {}", sample, size());
  return data_.labels[sample];
}

void ImageSet::read(std::span<const std::size_t> indices, const std::optional<AugmentKey>& augment,
                    Batch& out) const {
  for (const std::size_t index : indices) {
    EQT_CHECK(index < size(), "sample {} of {}", index, size());
  }
  out.inputs.resize(1);
  float* const images = out.inputs.front().prepare<float>(input_, indices.size()).data();
  const auto labels = out.targets.prepare<std::int64_t>(target_, indices.size());
  std::ranges::transform(indices, labels.begin(),
                         [this](std::size_t index) { return std::int64_t{data_.labels[index]}; });
  if (shape().channels == 1) {
    read_images<1>(indices, augment, images);
  } else {
    read_images<3>(indices, augment, images);
  }
}

template <int kChannels>
void ImageSet::read_images(std::span<const std::size_t> indices,
                           const std::optional<AugmentKey>& augment, float* out) const {
  const std::size_t values = shape().values();
  for (const std::size_t index : indices) {
    const std::uint8_t* image = data_.pixels.data() + index * values;
    if (augment) {
      const Crop crop = draw_crop(*augment, index, augmentation_.shift, augmentation_.flips);
      if (augmentation_.border == Border::reflect)
        write_reflected<kChannels>(image, crop, out);
      else
        write_crop<kChannels>(image, crop, out);
    } else {
      write_pixels<kChannels>(image, values / kChannels, false, out);
    }
    out += values;
  }
}

template <int kChannels>
void ImageSet::write_pixels(const std::uint8_t* from, std::size_t pixels, bool mirrored,
                            float* out) const {
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::size_t pixel = mirrored ? pixels - 1 - i : i;
    for (std::size_t c = 0; c < kChannels; ++c) {
      out[i * kChannels + c] = tables_[c][from[pixel * kChannels + c]];
    }
  }
}

template <int kChannels>
void ImageSet::write_black(std::size_t pixels, float* out) const {
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < kChannels; ++c) out[i * kChannels + c] = tables_[c][0];
  }
}

template <int kChannels>
void ImageSet::write_crop(const std::uint8_t* image, const Crop& crop, float* out) const {
  const int height = shape().height;
  const int width = shape().width;
  const int shift = crop.left - augmentation_.shift;  // source column of the crop's first column
  const int first = std::clamp(-shift, 0, width);     // crop's columns [first, last) show the image
  const int last = std::clamp(width - shift, first, width);
  const auto shown = static_cast<std::size_t>(last - first);
  // Mirroring swaps the borders and reverses the columns between them.
  const auto before = static_cast<std::size_t>(crop.flip ? width - last : first);
  const auto after = static_cast<std::size_t>(crop.flip ? first : width - last);
  for (int y = 0; y < height; ++y) {
    const int row = y + crop.top - augmentation_.shift;
    if (row < 0 || row >= height || shown == 0) {
      write_black<kChannels>(static_cast<std::size_t>(width), out);
    } else {
      const std::ptrdiff_t at = std::ptrdiff_t{row} * width + first + shift;  // [pixels]
      const std::uint8_t* from = image + at * kChannels;
      write_black<kChannels>(before, out);
      write_pixels<kChannels>(from, shown, crop.flip, out + before * kChannels);
      write_black<kChannels>(after, out + (before + shown) * kChannels);
    }
    out += static_cast<std::size_t>(width) * kChannels;
  }
}

template <int kChannels>
void ImageSet::write_reflected(const std::uint8_t* image, const Crop& crop, float* out) const {
  const int height = shape().height, width = shape().width;
  const int down = crop.top - augmentation_.shift, right = crop.left - augmentation_.shift;
  for (int y = 0; y < height; ++y) {
    const std::uint8_t* const row =
        image + std::ptrdiff_t{reflected(y + down, height)} * width * kChannels;
    for (int x = 0; x < width; ++x) {
      const int column = reflected((crop.flip ? width - 1 - x : x) + right, width);
      for (std::size_t c = 0; c < kChannels; ++c)
        *out++ = tables_[c][row[static_cast<std::size_t>(column) * kChannels + c]];
    }
  }
}

}  // namespace eqt::data
