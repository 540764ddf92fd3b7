// SPDX-License-Identifier: Apache-2.0
#include "codec/sparse/entries.hpp"

#include <algorithm>
#include <numeric>

#include "codec/catalogue.hpp"
#include "codec/sparse/sparse.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

std::vector<float> decoded(std::span<const std::byte> payload, std::size_t count) {
  Workspace workspace;
  std::vector<float> values(count);
  make_compressor("topk")->decode_add(payload, 1.0f, workspace, values);
  return values;
}

}  // namespace

TEST_CASE("a deal gives every value to one owner", "[entries]") {
  for (const std::size_t parts : {1u, 2u, 3u, 5u, 8u, 64u}) {
    for (const std::size_t count : {0u, 1u, 2u, 7u, 8u, 63u, 64u, 65u, 1000u}) {
      const Deal deal(count, parts, 42);
      std::vector<std::size_t> next(parts);  // indices within a part are consecutive
      for (std::size_t i = 0; i < count; ++i) {
        const Deal::Place place = deal.place(i);
        CHECK(place.part < parts);
        CHECK(place.at == next[place.part]++);
        CHECK(deal.index(place) == i);
      }
      for (std::size_t p = 0; p < parts; ++p) CHECK(deal.size_of(p) == next[p]);
    }
  }
}

TEST_CASE("a deal is even for ranges of neighbours and for periodic indices", "[entries]") {
  constexpr std::size_t kParts = 8;
  const Deal deal(1 << 20, kParts, 7);
  const auto loads = [&](std::size_t begin, std::size_t stride, std::size_t number) {
    std::vector<std::size_t> of(kParts);
    for (std::size_t i = 0; i < number; ++i) ++of[deal.place(begin + i * stride).part];
    return of;
  };
  // Whole groups and at most one value of each group cut off at either end.
  for (const std::size_t of : loads(12345, 1, 4003)) {
    CHECK(of >= 4003 / kParts - 1);
    CHECK(of <= 4003 / kParts + 2);
  }
  // Without the rotation a period that is a multiple of the number of parts would have one owner
  // only: 4000 +- 5 sqrt(4000).
  for (const std::size_t stride : {8u, 9u, 64u, 16u}) {
    for (const std::size_t of : loads(4, stride, 32000)) {
      CHECK(of > 3680);
      CHECK(of < 4320);
    }
  }
}

TEST_CASE("dealt entries keep their bits", "[entries]") {
  constexpr std::size_t kCount = 5000, kParts = 3;
  auto values = test::gaussian(kCount, {.run_seed = 3});
  values[17] = 1e-30f;  // far below the largest: a half of few bits
  values[18] = 3e30f;
  const Deal deal(kCount, kParts, 1);
  Workspace workspace;
  for (const int bits : {1, 2, 4, 8, 16, 32}) {
    std::vector<std::unique_ptr<Compressor>> codecs;
    codecs.push_back(make_compressor("topk", {.density = 0.3, .value_bits = bits}));
    codecs.push_back(make_compressor("topk", {.density = 1, .value_bits = bits}));
    codecs.push_back(make_compressor("threshold", {.density = 0.1, .value_bits = bits}));
    codecs.push_back(make_compressor("randomk", {.density = 0.3, .value_bits = bits}));
    for (const auto& codec : codecs) {
      EncodeContext context;
      context.key = {1, 2, 0, 3};
      std::vector<std::byte> payload(codec->max_payload_bytes(kCount));
      payload.resize(codec->encode(values, context, workspace, payload));
      std::vector<float> expected(kCount), found(kCount);
      codec->decode_add(payload, 1.0f, workspace, expected);

      const Entries sent = sent_entries(codec->id(), payload, kCount, workspace);
      CHECK(sent.form.bits == bits);
      std::vector<Selection> parts(kParts);
      deal_entries(sent.selection, deal, workspace, parts);
      std::size_t total = 0;
      for (std::size_t p = 0; p < kParts; ++p) {
        const std::size_t size = deal.size_of(p);
        std::vector<std::byte> part(max_sparse_bytes(size, bits));
        part.resize(write_entries(parts[p], size, sent.coding(), workspace, part));
        const PayloadHead head = sparse_head(part, size);
        CHECK(head.value_bits == bits);
        total += head.entries;
        Workspace other;
        place_entries(part, deal, p, other, found);
      }
      CHECK(total == sent.selection.indices.size());
      CHECK(found == expected);
    }
  }
}

TEST_CASE("the largest values are written, zeros never, and all values if that is shorter",
          "[entries]") {
  constexpr std::size_t kCount = 1000;
  Workspace workspace;
  std::vector<std::byte> buffer(max_sparse_bytes(kCount, 32));
  const auto write = [&](std::span<const float> values, std::size_t k) {
    return std::span(buffer).first(write_largest(values, k, 32, workspace, buffer));
  };
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < 300; ++i) values[3 * i] = static_cast<float>(i + 1);

  const auto few = decoded(write(values, 10), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    CHECK(few[i] == (values[i] > 290 ? values[i] : 0));  // 291 ... 300
  }
  CHECK(decoded(write(values, 999), kCount) == values);
  CHECK(sparse_head(write(values, 999), kCount).entries == 300);
  CHECK(decoded(write(values, kAllNonzero), kCount) == values);
  CHECK(sparse_head(write(values, kAllNonzero), kCount).entries == 300);
  CHECK(sparse_head(write(values, 0), kCount).entries == 0);

  // A head of 4 bytes, and 4 of each value.
  std::iota(values.begin(), values.end(), 1.0f);
  CHECK(write(values, kAllNonzero).size() == 4 + 4 * kCount);
  // Which value is missing takes 8 bits and 2: 500 = 256 + 244.
  values[500] = 0;
  CHECK(write(values, kAllNonzero).size() == 4 + 4 * (kCount - 1) + 2);
  CHECK(decoded(write(values, kAllNonzero), kCount) == values);

  // Here it takes 3 bytes, one more than the value.
  std::vector<float> many(5000, 1.0f);
  many[2500] = 0;
  std::vector<std::byte> more(max_sparse_bytes(many.size(), 16));
  more.resize(write_largest(many, kAllNonzero, 16, workspace, more));
  CHECK(more.size() == 4 + 2 + 2 * many.size());
  CHECK(sparse_head(more, many.size()).entries == many.size());
  CHECK(decoded(more, many.size()) == many);
}

TEST_CASE("damaged payloads of a part are refused or write only inside", "[entries]") {
  constexpr std::size_t kCount = 700, kParts = 3, kPart = 1;
  const Deal deal(kCount, kParts, 5);
  const std::size_t size = deal.size_of(kPart);
  const auto values = test::gaussian(size, {.run_seed = 8});
  Workspace workspace;
  int refused = 0, placed = 0;
  for (const int bits : {2, 5, 16, 32}) {
    std::vector<std::byte> payload(max_sparse_bytes(size, bits));
    payload.resize(write_largest(values, 20, bits, workspace, payload));
    const auto attempt = [&](std::span<const std::byte> damaged) {
      // Separate memory, so that a sanitizer detects accesses outside.
      const std::vector<std::byte> bytes(damaged.begin(), damaged.end());
      std::vector<float> out(kCount);
      try {
        place_entries(bytes, deal, kPart, workspace, out);
        ++placed;
      } catch (const Error& error) {
        CHECK(error.kind() == Kind::wire);
        ++refused;
      }
      for (std::size_t i = 0; i < kCount; ++i) {
        if (out[i] != 0 && deal.place(i).part != kPart) FAIL_CHECK("value " << i << " was written");
      }
    };
    for (std::size_t at = 0; at < payload.size(); ++at) {
      for (const unsigned mask : {0x01u, 0x80u, 0xFFu}) {
        auto damaged = payload;
        damaged[at] ^= std::byte{static_cast<unsigned char>(mask)};
        attempt(damaged);
      }
      attempt(std::span(payload).first(at));
    }
    payload.push_back(std::byte{0});
    attempt(payload);
  }
  CHECK(refused > 200);  // all truncated ones at least
  CHECK(placed > 0);     // another value is a value
}
