// SPDX-License-Identifier: Apache-2.0
#include "core/flat_buffer.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "support/catch.hpp"

using namespace eqt;

namespace {

constexpr std::size_t kCounts[] = {0, 1, 1023, 1024, 1025, (1u << 19) - 1, 1u << 19, 700001};

bool all_zero(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return value == 0.0f; });
}

}  // namespace

TEST_CASE("a flat buffer holds zeros at cache lines, or huge pages if it is long",
          "[flat_buffer]") {
  for (const std::size_t count : kCounts) {
    const FlatBuffer buffer(count);
    INFO(count << " values");
    CHECK(buffer.span().size() == count);
    CHECK(all_zero(buffer.span()));
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.span().data());
    CHECK(address % 64 == 0);
    if (count * sizeof(float) >= 2u << 20) CHECK(address % (2u << 20) == 0);
    CHECK((buffer.mapped_bytes() > 0) == (count * sizeof(float) >= 4096));
  }
}

TEST_CASE("a flat buffer can be moved", "[flat_buffer]") {
  for (const std::size_t count : kCounts) {
    FlatBuffer first(count);
    if (count > 0) first.span().back() = 3;
    const float* const address = first.span().data();
    FlatBuffer second(std::move(first));
    CHECK(second.span().data() == address);
    FlatBuffer third(5);
    third = std::move(second);
    CHECK(third.span().data() == address);
    CHECK(third.span().size() == count);
    if (count > 0) CHECK(third.span().back() == 3);
  }
}

TEST_CASE("a shared buffer keeps address and values, and its file is the same memory",
          "[flat_buffer]") {
  for (const std::size_t count : {std::size_t{1024}, std::size_t{1500}, std::size_t{700001}}) {
    FlatBuffer buffer(count);
    for (std::size_t i = 0; i < count; ++i) buffer.span()[i] = static_cast<float>(i);
    const float* const address = buffer.span().data();
    const int file = buffer.share(100);
    INFO(count << " values");
    REQUIRE(file >= 0);
    CHECK(buffer.span().data() == address);
    bool kept = true;
    for (std::size_t i = 0; i < count; ++i) kept &= buffer.span()[i] == static_cast<float>(i);
    CHECK(kept);
    struct stat status {};
    REQUIRE(fstat(file, &status) == 0);
    CHECK(static_cast<std::size_t>(status.st_size) == buffer.mapped_bytes() + 100);
    auto* const other = static_cast<float*>(
        mmap(nullptr, buffer.mapped_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    REQUIRE(other != MAP_FAILED);
    CHECK(other[count - 1] == static_cast<float>(count - 1));
    other[3] = -1;
    CHECK(buffer.span()[3] == -1);
    buffer.span()[4] = -2;
    CHECK(other[4] == -2);
    munmap(other, buffer.mapped_bytes());
    close(file);
    buffer.span()[5] = -3;  // the memory outlives its file
    CHECK(buffer.span()[5] == -3);
  }
}

TEST_CASE("less than a page is not shared", "[flat_buffer]") {
  FlatBuffer buffer(1023);
  buffer.span()[7] = 1;
  CHECK(buffer.share(8) == -1);
  CHECK(buffer.span()[7] == 1);
}
