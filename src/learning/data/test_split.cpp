// SPDX-License-Identifier: Apache-2.0
#include "data/test_split.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <system_error>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::data {

std::vector<bool> samples_for_test(std::span<const int> labels,
                                   const std::vector<std::string>& classes, double fraction,
                                   std::uint64_t seed, std::string_view samples,
                                   std::string_view remedy, std::string_view place) {
  std::vector<std::vector<std::size_t>> members(classes.size());
  for (std::size_t i = 0; i < labels.size(); ++i)
    members.at(static_cast<std::size_t>(labels[i])).push_back(i);
  std::vector<bool> is_test(labels.size());
  for (std::size_t c = 0; c < members.size(); ++c) {
    const std::size_t count = members[c].size();
    if (count == 0) continue;  // another rank's class
    if (count == 1) {
      fail(Kind::data,
           "{}{}: expected at least 2 {} of the class, one to train and one to test, found 1; add "
           "{}, or {}",
           place, classes[c], samples, samples, remedy);
    }
    const auto tests = std::clamp<std::size_t>(
        static_cast<std::size_t>(std::round(fraction * static_cast<double>(count))), 1, count - 1);
    // The stream is that of the class's name: it stays when other classes come and go. The rank is
    // none that a partition has.
    const std::uint64_t stream = checksum(std::as_bytes(std::span(classes[c])));
    constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
    const auto order =
        random_permutation(make_key(seed, stream, kNoRank, RandomPurpose::partition), count);
    for (std::size_t i = 0; i < tests; ++i) is_test[members[c][order[i]]] = true;
  }
  return is_test;
}

bool is_table_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

}  // namespace eqt::data
