// SPDX-License-Identifier: Apache-2.0
// Files in the safetensors format, and everything that only looks like one.

#include <cstring>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/zip_bytes.hpp"
#include "weights/state_dict.hpp"

using namespace eqt;
using support::number_bytes;
using test::says;

namespace {

std::string file_of(const std::string& header, const std::string& data = {}) {
  return number_bytes(header.size(), 8) + header + data;
}

weights::StateDict read(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file));
  return weights::StateDict({bytes.begin(), bytes.end()}, "a.safetensors");
}

/// The sentence that refuses a file.
std::string refusal(const std::string& file) {
  const std::string sentence = test::refusal(Kind::data, [&] { (void)read(file); });
  says(sentence, "a.safetensors");
  return sentence;
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape,
                  std::size_t begin, std::size_t end) {
  return "\"" + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

TEST_CASE("tensors come back with names, shapes and values", "[safetensors]") {
  // The order of the header differs from that of the bytes, which the format allows.
  const std::string header =
      "{" + entry("b", "I64", "[]", 24, 32) + "," + R"("__metadata__":{"format":"pt"},)" +
      entry("a", "F32", "[2,3]", 0, 24) + "," + entry("none", "U8", "[4,0]", 32, 32) + "}  ";
  const auto dict = read(file_of(header, floats({0, 1, 2, 3, 4, 5}) + number_bytes(7, 8)));
  REQUIRE(dict.tensors().size() == 3);
  const weights::Tensor& a = dict.tensors()[0];
  CHECK(a.name == "a");
  CHECK(a.type == weights::ElementType::float32);
  CHECK(a.sizes == std::vector<std::int64_t>{2, 3});
  std::vector<float> values(6);
  weights::copy_row_major(a, std::as_writable_bytes(std::span(values)));
  CHECK(values == std::vector<float>{0, 1, 2, 3, 4, 5});
  const weights::Tensor& b = dict.tensors()[1];
  CHECK(b.sizes.empty());
  std::int64_t number = 0;
  weights::copy_row_major(b, std::as_writable_bytes(std::span(&number, 1)));
  CHECK(number == 7);
  weights::copy_row_major(dict.tensors()[2], {});
}

TEST_CASE("the prefix of a wrapper is left out of names", "[safetensors]") {
  const auto dict = read(file_of("{" + entry("module.w", "F32", "[1]", 0, 4) + "}", floats({1})));
  CHECK(dict.tensors()[0].name == "w");
}

TEST_CASE("lengths that do not fit are refused", "[safetensors]") {
  const std::string data = floats({1, 2, 3, 4});
  const auto with = [&](const std::string& entries) { return file_of("{" + entries + "}", data); };
  CHECK_NOTHROW(read(with(entry("w", "F32", "[4]", 0, 16))));
  says(refusal(with(entry("w", "F32", "[3]", 0, 16))), "w needs 12 bytes");
  says(refusal(with(entry("w", "F32", "[5]", 0, 20))), "bytes 0 to 20 of 16");
  says(refusal(with(entry("w", "F32", "[4]", 16, 0))), "bytes 16 to 0");
  says(refusal(with(entry("w", "F32", "[3]", 0, 12))), "4 bytes behind the last tensor");
  says(refusal(with(entry("w", "F32", "[3]", 4, 16))), "w overlaps");
  says(refusal(with(entry("v", "F32", "[3]", 0, 12) + "," + entry("w", "F32", "[2]", 8, 16))),
       "w overlaps");
  says(refusal(with(entry("w", "F32", "[9223372036854775807,9223372036854775807]", 0, 16))),
       "more elements");
  for (const char* empty : {"[0,3]", "[3,0]", "[0,9223372036854775807,3]"}) {
    const auto dict =
        read(with(entry("v", "F32", empty, 0, 0) + "," + entry("w", "F32", "[4]", 0, 16)));
    weights::copy_row_major(dict.tensors()[0], {});
  }
  says(refusal(with(entry("w", "F32", "[18446744073709551615]", 0, 16))), "63 bits");
  says(refusal(with(entry("w", "F32", "[-4]", 0, 16))), "negative");
  says(refusal(number_bytes(1000, 8) + "{}"), "header of 1000 bytes");
  says(refusal(std::string(8, '\xff') + "{}"), "longer than the file");
}

TEST_CASE("a header that is not one is refused", "[safetensors]") {
  const std::string good = entry("w", "F32", "[1]", 0, 4);
  const std::string data = floats({1});
  const auto with = [&](const std::string& header) { return file_of(header, data); };
  says(refusal(with("{" + good)), "no JSON");
  says(refusal(with("{" + good + "," + good + "}")), "w twice");
  says(refusal(with("{" + entry("w", "F8", "[1]", 0, 4) + "}")), "type F8");
  says(refusal(with(R"({"w":{"dtype":"F32","data_offsets":[0,4]}})")), "lacks");
  says(refusal(with(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})")), "lacks");
  says(refusal(with(R"({"w":{"dtype":"F32","dtype":"F32","shape":[1]}})")), "dtype twice");
  says(refusal(with(R"({"w":{"dtype":"F32","shape":[[1]]}})")), "a list");
  says(refusal(with(R"({"w":{"dtype":"F32","shape":[1.5]}})")), "a fraction");
  says(refusal(with(R"({"w":{"dtype":"F32","more":{}}})")), "an object");
  says(refusal(with(R"({"w":5})")), "a number");
  says(refusal(with(R"({"w":null})")), "null");
  says(refusal(with(R"({"__metadata__":{"a":5}})")), "a number");
  const std::string deep = R"({"w":{"shape":)" + std::string(100000, '[');
  says(refusal(with(deep)), "a list");
}
