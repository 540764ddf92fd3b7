// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/saving_visitor.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "core/random.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::checkpoint;

namespace {

std::size_t values_in(std::span<const SliceRange> ranges) {
  std::size_t values = 0;
  for (const SliceRange& range : ranges) values += static_cast<std::size_t>(range.count);
  return values;
}

bool is_refused(std::span<const std::byte> bytes, std::size_t values) {
  try {
    (void)read_places(bytes, values, "x");
  } catch (const Error& error) {
    return error.kind() == Kind::data;
  }
  return false;
}

}  // namespace

TEST_CASE("places are restored, in any order", "[checkpoint]") {
  const std::vector<std::vector<SliceRange>> lists = {
      {},
      {{0, 0, 1}},
      {{3, 8192, 8192}, {3, 24576, 100}, {1, 0, 7}, {0xFFFFFFFF, std::uint64_t{1} << 40, 5}},
      {{5, 100, 1}, {5, 50, 1}, {5, 51, 1}, {5, 0, 1}}};
  for (const auto& ranges : lists) {
    CHECK(read_places(write_places(ranges), values_in(ranges), "x") == ranges);
  }
}

TEST_CASE("single values that are every fourth of a tensor take three bytes each", "[checkpoint]") {
  std::vector<SliceRange> ranges;
  for (std::uint64_t i = 0; i < 1000; ++i) ranges.push_back({0, 4 * i + mix64(i) % 4, 1});
  CHECK(write_places(ranges).size() <= 3 * ranges.size());
}

TEST_CASE("invalid lists are refused", "[checkpoint]") {
  const std::vector<SliceRange> ranges = {{3, 8192, 8192}, {4, 0, 300}};
  const auto bytes = write_places(ranges);
  CHECK(is_refused(bytes, 8491));
  CHECK(is_refused(bytes, 8493));
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK(is_refused(std::span(bytes).first(length), 8492));
  const auto byte = [](int value) { return static_cast<std::byte>(value); };
  CHECK(is_refused(std::vector{byte(1), byte(0), byte(1)}, 1));  // slice -1
  CHECK(is_refused(std::vector{byte(0), byte(1), byte(1)}, 1));  // place -1
  CHECK(is_refused(std::vector{byte(0), byte(0), byte(0)}, 0));  // no value
  CHECK(is_refused(std::vector(20, byte(0xFF)), 1));             // a number without an end
}
