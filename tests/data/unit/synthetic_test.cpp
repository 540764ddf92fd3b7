// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "data/known_images.hpp"
#include "support/catch.hpp"

using namespace eqt::data;

namespace {

/// Energy of an image (all colours) at the plane wave of (angle, wavelength), in either mirroring.
double energy(const std::uint8_t* pixels, double angle, double wavelength) {
  double best = 0;
  for (const double side : {-1.0, 1.0}) {
    double real = 0, imaginary = 0;
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x) {
        const double turn =
            2 * std::numbers::pi / wavelength * (side * x * std::cos(angle) + y * std::sin(angle));
        const std::uint8_t* p = pixels + (y * 32 + x) * 3;
        const double grey = (p[0] + p[1] + p[2]) / 3.0 - 128;
        real += grey * std::cos(turn);
        imaginary += grey * std::sin(turn);
      }
    }
    best = std::max(best, real * real + imaginary * imaginary);
  }
  return best;
}

/// The class whose wave is strongest, by a matched filter.
int strongest_wave(const std::uint8_t* pixels) {
  std::array<double, 10> energies{};
  for (int k = 0; k < 10; ++k) {
    energies.at(static_cast<std::size_t>(k)) =
        energy(pixels, (k % 5) * std::numbers::pi / 8, k < 5 ? 4 : 8);
  }
  return static_cast<int>(std::max_element(energies.begin(), energies.end()) - energies.begin());
}

std::array<std::vector<double>, 10> class_means(const LabelledBytes& data) {
  std::array<std::vector<double>, 10> means;
  std::array<double, 10> counts{};
  for (auto& mean : means) mean.assign(data.shape.values(), 0);
  for (std::size_t i = 0; i < data.labels.size(); ++i) {
    ++counts.at(data.labels[i]);
    auto& mean = means.at(data.labels[i]);
    for (std::size_t v = 0; v < mean.size(); ++v) mean[v] += data.pixels[i * mean.size() + v];
  }
  for (std::size_t k = 0; k < 10; ++k) {
    for (double& value : means.at(k)) value /= counts.at(k);
  }
  return means;
}

}  // namespace

TEST_CASE("synthetic classes are balanced and sized", "[synthetic]") {
  const auto data = make_synthetic(500, SyntheticPart::train, 1);
  REQUIRE(data.shape == ImageShape{3, 32, 32});
  REQUIRE(data.pixels.size() == 500 * 3072);
  for (std::uint8_t label = 0; label < 10; ++label) {
    REQUIRE(std::count(data.labels.begin(), data.labels.end(), label) == 50);
  }
}

TEST_CASE("synthetic images are a function of part, seed and index", "[synthetic]") {
  const auto data = make_synthetic(50, SyntheticPart::train, 1);
  REQUIRE(data.pixels == make_synthetic(50, SyntheticPart::train, 1).pixels);
  REQUIRE(data.pixels != make_synthetic(50, SyntheticPart::train, 2).pixels);
  REQUIRE(data.pixels != make_synthetic(50, SyntheticPart::test, 1).pixels);
  const auto longer = make_synthetic(60, SyntheticPart::train, 1);
  REQUIRE(std::equal(data.pixels.begin(), data.pixels.end(), longer.pixels.begin()));
}

TEST_CASE("synthetic classes can be distinguished by their waves", "[synthetic]") {
  const auto data = make_synthetic(300, SyntheticPart::test, 3);
  int right = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    right += strongest_wave(data.pixels.data() + i * 3072) == data.labels[i];
  }
  REQUIRE(right >= 294);
}

TEST_CASE("synthetic classes cannot be distinguished by their mean images", "[synthetic]") {
  const auto means = class_means(make_synthetic(2000, SyntheticPart::train, 3));
  const auto test = make_synthetic(300, SyntheticPart::test, 3);
  int right = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    std::array<double, 10> distances{};
    for (std::size_t k = 0; k < 10; ++k) {
      for (std::size_t v = 0; v < 3072; ++v) {
        const double difference = test.pixels[i * 3072 + v] - means.at(k)[v];
        distances.at(k) += difference * difference;
      }
    }
    right +=
        std::min_element(distances.begin(), distances.end()) - distances.begin() == test.labels[i];
  }
  REQUIRE(right < 75);  // chance is 30 +- 5.2
}
