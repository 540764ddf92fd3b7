// SPDX-License-Identifier: Apache-2.0
// Synthetic images: noisy coloured stripes whose angle and wavelength are the class.
//
// All arithmetic on pixels is in integers, so the bytes are the same on every machine.

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/random.hpp"
#include "data/known_images.hpp"

namespace eqt::data {
namespace {

constexpr int kSide = 32;  // [pixels]
constexpr int kClasses = 10;
constexpr int kAngles = 5;                                  // 0, 22.5, 45, 67.5, 90 degrees
constexpr std::array<double, 2> kWavelengths = {4.0, 8.0};  // [pixels]
// The angle changes fastest, see wave_of().
constexpr std::array<std::string_view, kClasses> kSyntheticClasses = {
    "0 degrees, 4 pixels",    "22.5 degrees, 4 pixels", "45 degrees, 4 pixels",
    "67.5 degrees, 4 pixels", "90 degrees, 4 pixels",   "0 degrees, 8 pixels",
    "22.5 degrees, 8 pixels", "45 degrees, 8 pixels",   "67.5 degrees, 8 pixels",
    "90 degrees, 8 pixels"};
constexpr int kNoise = 22;  // [1/64 grey level] per unit of noise()'s sum: 51 grey levels rms

/// A full turn is 2^32, so phases wrap around automatically.
using Phase = std::uint32_t;

struct Wave {
  Phase per_column = 0;
  Phase per_row = 0;
};

Wave wave_of(int label) {
  const double angle = (label % kAngles) * std::numbers::pi / 8;
  const double turns = 1 / kWavelengths.at(static_cast<std::size_t>(label / kAngles));
  const auto to_phase = [](double t) { return static_cast<Phase>(std::llround(t * 0x1p32)); };
  return {to_phase(std::cos(angle) * turns), to_phase(std::sin(angle) * turns)};
}

/// 127 cos(2 pi i / 256)
std::array<int, 256> cosines() {
  std::array<int, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = static_cast<int>(
        std::lround(127 * std::cos(2 * std::numbers::pi * static_cast<double>(i) / 256)));
  }
  return table;
}

/// Nearly Gaussian noise with mean 0, in grey levels: the sum of four uniform bytes.
int noise(std::uint32_t bits) {
  const auto sum =
      static_cast<int>((bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24));
  return (sum - 510) * kNoise / 64;
}

void draw_image(int label, const RandomStream& stream, const std::array<int, 256>& cosine,
                std::uint8_t* pixels) {
  enum : std::uint32_t { phase_draw, mirror_draw, level_draw, gain_draw, noise_draw = 8 };
  Wave wave = wave_of(label);
  // Both mirror images belong to the class, so that flips do not change it.
  if (stream.bounded(mirror_draw, 2) == 1) wave.per_column = 0 - wave.per_column;
  const int level = 96 + static_cast<int>(stream.bounded(level_draw, 64));
  std::array<int, 3> gain{};  // amplitude of each colour, 24 to 55 grey levels
  for (std::uint32_t c = 0; c < 3; ++c) {
    gain.at(c) = 24 + static_cast<int>(stream.bounded(gain_draw + c, 32));
  }
  Phase row_phase = stream.bits(phase_draw);
  std::uint32_t draw = noise_draw;
  for (int y = 0; y < kSide; ++y, row_phase += wave.per_row) {
    Phase phase = row_phase;
    for (int x = 0; x < kSide; ++x, phase += wave.per_column) {
      const int stripe = cosine[phase >> 24];
      for (const int amplitude : gain) {
        const int value = level + stripe * amplitude / 127 + noise(stream.bits(draw++));
        *pixels++ = static_cast<std::uint8_t>(std::clamp(value, 0, 255));
      }
    }
  }
}

LabelledSets read_synthetic(const DatasetOptions& options);

const KnownImages kSynthetic = {.shape = {3, kSide, kSide},
                                .classes = kClasses,
                                .train = 10000,
                                .test = 2000,
                                .mean = {0.5, 0.5, 0.5},
                                .deviation = {0.25, 0.25, 0.25},
                                .class_names = kSyntheticClasses,
                                .read = read_synthetic};

LabelledSets read_synthetic(const DatasetOptions& options) {
  return {make_synthetic(kSynthetic.train, SyntheticPart::train, options.seed),
          make_synthetic(kSynthetic.test, SyntheticPart::test, options.seed)};
}

}  // namespace

LabelledBytes make_synthetic(std::size_t count, SyntheticPart part, std::uint64_t seed) {
  LabelledBytes data;
  data.shape = {3, kSide, kSide};
  data.classes = kClasses;
  data.labels.resize(count);
  data.pixels.resize(count * data.shape.values());
  const auto cosine = cosines();
  for (std::size_t i = 0; i < count; ++i) {
    const auto label = static_cast<int>(i % kClasses);
    data.labels[i] = static_cast<std::uint8_t>(label);
    const RandomStream stream(
        make_key(seed, i, static_cast<std::uint32_t>(part), RandomPurpose::synthetic));
    draw_image(label, stream, cosine, data.pixels.data() + i * data.shape.values());
  }
  return data;
}

const DatasetRow sets::synthetic = {.name = "synthetic",
                                    .about = "generated images; needs no files",
                                    .title = "synthetic",
                                    .needs_files = false,
                                    .keys = kKnownImageKeys,
                                    .look = look_at_known<kSynthetic>,
                                    .open = open_known<kSynthetic>};

}  // namespace eqt::data
