// SPDX-License-Identifier: Apache-2.0
#include "theory/paper_volume.hpp"

#include <algorithm>
#include <array>

#include "core/error.hpp"

namespace eqt::theory {
namespace {

constexpr std::string_view kRing = "directed ring", kTorus = "torus 4x4";

constexpr std::array kRows{
    PublishedVolume{"resnet20", kRing, 8, 1, {}, 196, 42.85, 10.71, ""},
    PublishedVolume{"resnet20", kRing, 8, 1, 0.01, 196, 0.651, 0.163, ""},
    PublishedVolume{"resnet54", kRing, 8, 1, {}, 196, 119.2, 29.81, ""},
    PublishedVolume{"resnet54", kRing, 8, 1, 0.01, 196, 1.808, 0.452, ""},
    PublishedVolume{"resnet20", kRing, 16, 1, {}, 98, 21.21, 5.301, "the printed one has 97 steps"},
    PublishedVolume{"resnet20", kRing, 16, 1, 0.1, 98, 3.177, 0.794,
                    "the printed one has 97 steps"},
    PublishedVolume{"resnet20", kRing, 16, 1, {}, 97, 21.21, 5.301, ""},
    PublishedVolume{"resnet20", kRing, 16, 1, 0.1, 97, 3.177, 0.794, ""},
    PublishedVolume{"vgg11", kTorus, 16, 4, {}, 98, 744.5, 186.1, "printed for one edge of four"},
    PublishedVolume{"vgg11", kTorus, 16, 4, 0.01, 98, 8.12, 2.03, "not reproduced: 11/8 of it"},
};

}  // namespace

std::uint64_t paper_kept_values(const Layout& layout, double density) {
  const double left_out = 1.0 - density;
  std::uint64_t kept = 0;
  for (const TensorSlice& slice : layout) {
    kept += std::max<std::uint64_t>(
        1, static_cast<std::uint64_t>(static_cast<double>(slice.count) * (1.0 - left_out)));
  }
  return kept;
}

std::uint64_t paper_bytes_per_step(const Layout& layout, std::optional<double> density) {
  if (!density) return 4 * (std::uint64_t{total_count(layout)} + 1);
  return 6 * paper_kept_values(layout, *density) + 3;
}

std::uint64_t paper_steps_per_epoch(std::size_t samples, std::size_t ranks,
                                    std::size_t batch_size) {
  EQT_CHECK(ranks > 0 && batch_size > 0, "{} ranks, batches of {}", ranks, batch_size);
  return (samples / ranks + batch_size - 1) / batch_size;
}

std::span<const PublishedVolume> published_volumes() { return kRows; }

}  // namespace eqt::theory
