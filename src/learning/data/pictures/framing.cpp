// SPDX-License-Identifier: Apache-2.0
#include "data/pictures/framing.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::data {
namespace {

constexpr int kSmall = 64;  // [pixels] below it pictures are like CIFAR's

constexpr Named<CropKind> kCropKinds[] = {
    {CropKind::automatic, "auto", "padded below 64 pixels, else resized"},
    {CropKind::resized, "resized",
     "a random part of 8 to 100 % of the picture, resized (Szegedy et al. 2015); tests show the "
     "middle 7/8"},
    {CropKind::padded, "padded",
     "shifted by up to 4 pixels in a frame of black; tests show the whole shorter side"}};

// Draws of a sample, by their index.
constexpr std::uint32_t kTries = 10;
constexpr std::uint32_t kTopDraw = 2 * kTries, kLeftDraw = kTopDraw + 1, kFlipDraw = kTopDraw + 2;
constexpr std::uint32_t kDrawsPerSample = 32;
constexpr std::uint64_t kSamplesPerBlock = (std::uint64_t{1} << 32) / kDrawsPerSample;

constexpr double kMinArea = 0.08;
constexpr double kMinRatio = 3.0 / 4, kMaxRatio = 4.0 / 3;

int rounded(double x) { return static_cast<int>(std::min(std::round(x), 1e9)); }

/// Returns where `inner` of `outer` pixels begin in the middle; Python's round() rounds halves to
/// even.
std::int64_t middle(std::int64_t outer, std::int64_t inner) {
  const std::int64_t rest = outer - inner, half = rest / 2;
  return half + (rest & half & 1);
}

}  // namespace

std::span<const Named<CropKind>> names_of(CropKind) { return kCropKinds; }

PictureFraming framing_of(int channels, int size, CropKind crop) {
  if (crop == CropKind::automatic) crop = size < kSmall ? CropKind::padded : CropKind::resized;
  const int resize = crop == CropKind::padded ? size : (8 * size + 3) / 7;
  return {.channels = channels, .size = size, .resize = resize, .crop = crop};
}

DrawnCrop draw_resized_crop(const AugmentKey& key, std::size_t sample, int width, int height) {
  const RandomStream stream(make_key(key.run_seed, key.epoch, 1, RandomPurpose::augmentation),
                            static_cast<std::uint32_t>(sample / kSamplesPerBlock));
  const auto first = static_cast<std::uint32_t>(sample % kSamplesPerBlock * kDrawsPerSample);
  const auto uniform = [&](std::uint32_t draw, double least, double most) {
    return least + (most - least) * static_cast<double>(stream.uniform(first + draw));
  };
  DrawnCrop crop;
  crop.mirrored = stream.bounded(first + kFlipDraw, 2) == 1;
  const double pixels = static_cast<double>(width) * height;
  for (std::uint32_t attempt = 0; attempt < kTries; ++attempt) {
    const double area = pixels * uniform(2 * attempt, kMinArea, 1);
    const double ratio =
        std::exp(uniform(2 * attempt + 1, std::log(kMinRatio), std::log(kMaxRatio)));
    const int w = rounded(std::sqrt(area * ratio)), h = rounded(std::sqrt(area / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const auto place = [&](std::uint32_t draw, int rest) {
      return static_cast<int>(stream.bounded(first + draw, static_cast<std::uint64_t>(rest) + 1));
    };
    crop.area = {place(kLeftDraw, width - w), place(kTopDraw, height - h), w, h};
    return crop;
  }
  const double ratio = static_cast<double>(width) / height;
  int w = width, h = height;
  if (ratio < kMinRatio) h = std::clamp(rounded(w / kMinRatio), 1, height);
  if (ratio > kMaxRatio) w = std::clamp(rounded(h * kMaxRatio), 1, width);
  crop.area = {(width - w) / 2, (height - h) / 2, w, h};
  return crop;
}

Sampling centre_of(const PictureFraming& framing, int width, int height) {
  const std::int64_t shorter = std::min(width, height);
  const auto resized = [&](std::int64_t side) { return framing.resize * side / shorter; };
  // Begin and length of the part along a side, in pixels of the picture.
  const auto part = [&](int side, double& begin, double& length) {
    const double scale = side / static_cast<double>(resized(side));
    begin = static_cast<double>(middle(resized(side), framing.size)) * scale;
    length = framing.size * scale;
  };
  Sampling sampling;
  part(width, sampling.left, sampling.width);
  part(height, sampling.top, sampling.height);
  // The filter looks at most this far beyond the part.
  const auto bound = [](double begin, double length, int size, int outputs, int& from, int& count) {
    const double reach = std::max(1.0, length / outputs) + 1;
    from = static_cast<int>(std::max(0.0, std::floor(begin - reach)));
    count = static_cast<int>(std::min<double>(size, std::ceil(begin + length + reach))) - from;
  };
  bound(sampling.left, sampling.width, width, framing.size, sampling.bounds.left,
        sampling.bounds.width);
  bound(sampling.top, sampling.height, height, framing.size, sampling.bounds.top,
        sampling.bounds.height);
  return sampling;
}

PixelTables::PixelTables(const Normalization& normalization) {
  const std::size_t channels = normalization.mean.size();
  EQT_CHECK((channels == 1 || channels == 3) && normalization.deviation.size() == channels,
            "{} means and {} deviations", channels, normalization.deviation.size());
  for (std::size_t c = 0; c < channels; ++c) {
    std::vector<float> table(256);
    for (std::size_t byte = 0; byte < table.size(); ++byte)
      table[byte] = static_cast<float>((static_cast<double>(byte) / 255 - normalization.mean[c]) /
                                       normalization.deviation[c]);
    tables_.push_back(std::move(table));
  }
}

void PixelTables::write(std::span<const std::uint8_t> bytes, float* out) const {
  if (tables_.size() == 1) {
    const float* const table = tables_[0].data();
    for (std::size_t i = 0; i < bytes.size(); ++i) out[i] = table[bytes[i]];
    return;
  }
  const float *red = tables_[0].data(), *green = tables_[1].data(), *blue = tables_[2].data();
  for (std::size_t i = 0; i + 2 < bytes.size(); i += 3) {
    out[i] = red[bytes[i]];
    out[i + 1] = green[bytes[i + 1]];
    out[i + 2] = blue[bytes[i + 2]];
  }
}

PicturePreparation::PicturePreparation(const PictureFraming& framing,
                                       const Normalization& normalization,
                                       const PictureLimits& limits)
    : framing_(framing), tables_(normalization), limits_(limits), bytes_(framing.values()) {
  EQT_CHECK(normalization.mean.size() == static_cast<std::size_t>(framing.channels),
            "{} means for {} channels", normalization.mean.size(), framing.channels);
}

void PicturePreparation::prepare(std::span<const std::uint8_t> file, std::span<float> out) {
  EQT_CHECK(out.size() == framing_.values(), "{} values for {}", out.size(), framing_.values());
  const auto picture = open_picture(file, limits_);
  const Sampling sampling = centre_of(framing_, picture->width(), picture->height());
  picture->decode(sampling.bounds, framing_.size, framing_.channels, part_);
  resizer_.resize(part_, sampling, framing_.size, framing_.size, false, bytes_.data());
  tables_.write(bytes_, out.data());
}

}  // namespace eqt::data
