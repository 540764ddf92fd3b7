// SPDX-License-Identifier: Apache-2.0
#include "data/length_buckets.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::data {

LengthBuckets::LengthBuckets(std::unique_ptr<Partition> partition, const Dataset& set,
                             std::size_t batch_size, std::uint64_t seed)
    : partition_(std::move(partition)), set_(set), batch_size_(batch_size), seed_(seed) {
  EQT_CHECK(batch_size_ > 0, "batches of {} samples", batch_size_);
}

std::vector<std::size_t> LengthBuckets::order(std::uint64_t epoch) const {
  const std::vector<std::size_t> before = partition_->order(epoch);
  std::vector<std::size_t> after = before;
  const std::size_t batches = before.size() / batch_size_;
  for (std::size_t first = 0; first < batches; first += kWindow) {
    const std::size_t count = std::min(kWindow, batches - first);
    const auto at = [&](std::size_t batch) {
      return static_cast<std::ptrdiff_t>((first + batch) * batch_size_);
    };
    std::vector<std::size_t> window(before.begin() + at(0), before.begin() + at(count));
    std::ranges::stable_sort(window, {},
                             [this](std::size_t sample) { return set_.length(sample); });
    const auto places = random_permutation(
        make_key(seed_, epoch, static_cast<std::uint32_t>(first), RandomPurpose::length_buckets),
        count);
    for (std::size_t batch = 0; batch < count; ++batch) {
      const auto from = window.begin() + static_cast<std::ptrdiff_t>(places[batch] * batch_size_);
      std::copy_n(from, batch_size_, after.begin() + at(batch));
    }
  }
  return after;
}

}  // namespace eqt::data
