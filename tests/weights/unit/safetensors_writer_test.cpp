// SPDX-License-Identifier: Apache-2.0
// Files that we write, by the format's own rules and by our reader.

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/written_weights.hpp"
#include "support/zip_bytes.hpp"
#include "weights/safetensors.hpp"
#include "weights/state_dict.hpp"

using namespace eqt;
using support::number_bytes;
using test::bytes_of;

TEST_CASE("the file's bytes are those of the format", "[safetensors]") {
  const std::vector<float> a = {1, 2};
  const std::vector<std::int64_t> b = {7};
  const std::string file = weights::pack_safetensors(
      std::vector<weights::Tensor>{
          {"a", weights::ElementType::float32, {1, 2}, {2, 1}, 0, bytes_of(a)},
          {"b", weights::ElementType::int64, {}, {}, 0, bytes_of(b)}},
      {{"format", "pt"}});
  // b is the wider type and comes first; the header ends where the values are aligned.
  std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]}})";
  while (header.size() % 8 != 0) header += ' ';
  std::string values(16, '\0');
  std::memcpy(values.data(), b.data(), 8);
  std::memcpy(values.data() + 8, a.data(), 8);
  CHECK(file == number_bytes(header.size(), 8) + header + values);
}

TEST_CASE("what is written is read again, whatever the strides", "[safetensors]") {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  // (2, 3, 4) stored with the first dimension last, and a part of it.
  const weights::Tensor moved = {
      "m\xc3\xbcller.weight", weights::ElementType::float32, {2, 3, 4}, {1, 2, 6}, 0,
      bytes_of(values)};
  const weights::Tensor part = {"part",          weights::ElementType::float32, {2, 2}, {6, 2}, 1,
                                bytes_of(values)};
  const weights::Tensor none = {"none", weights::ElementType::uint8, {0, 4}, {4, 1}, 0, {}};
  const auto dict = test::read_weights(
      weights::pack_safetensors(std::vector{moved, part, none}, {}), "a.safetensors");
  REQUIRE(dict.tensors().size() == 3);
  CHECK(dict.tensors()[0].name == moved.name);
  CHECK(dict.tensors()[0].sizes == moved.sizes);
  std::vector<float> read_back(24);
  weights::copy_row_major(dict.tensors()[0], std::as_writable_bytes(std::span(read_back)));
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j)
      for (std::size_t k = 0; k < 4; ++k)
        CHECK(read_back[(i * 3 + j) * 4 + k] == static_cast<float>(i + 2 * j + 6 * k));
  std::array<float, 4> four = {};
  weights::copy_row_major(dict.tensors()[1], std::as_writable_bytes(std::span(four)));
  CHECK(four == std::array<float, 4>{1, 3, 7, 9});
}

TEST_CASE("a file without tensors is a header", "[safetensors]") {
  const std::string file = weights::pack_safetensors({}, {});
  CHECK(file == number_bytes(8, 8) + "{}      ");
}
