// SPDX-License-Identifier: Apache-2.0
// Every kernel, run on the host lane after lane, against the codecs and the frozen payloads.

#include <nlohmann/json.hpp>

#include <limits>
#include <string>
#include <vector>

#include "codec/golden/frozen_payloads.hpp"
#include "device/device_codec.hpp"
#include "support/catch.hpp"
#include "support/compressors.hpp"
#include "support/device_cases.hpp"
#include "support/refusal.hpp"

using namespace eqt;
using namespace eqt::device;

namespace {

std::unique_ptr<codec::Compressor> golden_codec(const nlohmann::json& row) {
  codec::CompressorOptions options{.bits = row.value("bits", 4),
                                   .bucket_size = row.value("bucket_size", std::size_t{8192})};
  const auto name = row.at("codec").get<std::string>();
  const codec::CompressorRow& found = *codec::CompressorRow::all().at(name);
  if (row.value("coding", "fixed") != "fixed") return nullptr;
  if (found.reads.has(codec::Option::elasticity) && row.contains("elasticity")) {
    options.norm = find_named<codec::Norm>(row.at("norm").get<std::string>())->value;
    options.levels = find_named<codec::LevelFamily>(row.at("levels").get<std::string>())->value;
    options.elasticity = row.at("elasticity").get<double>();
  }
  if (!codec::why_not(found, options).empty()) return nullptr;
  auto compressor = codec::make_compressor(found, options);
  return has_kernels(*compressor) ? std::move(compressor) : nullptr;
}

std::vector<float> golden_values(const nlohmann::json& input) {
  if (input.empty() || !input.front().is_string()) return input.get<std::vector<float>>();
  return codec::testing::floats(input);
}

/// @return how many of the file's payloads were compared
std::size_t check_golden(const std::string& file) {
  const auto golden =
      codec::testing::read_json(std::string(EQT_SOURCE_DIR "/tests/codec/golden/") + file);
  const auto queue = make_emulated_queue();
  std::size_t compared = 0;
  for (const auto& row : golden.at("cases")) {
    INFO(row.dump());
    const auto compressor = golden_codec(row);
    if (compressor == nullptr) continue;
    const auto values = golden_values(golden.at("inputs").at(row.at("input").get<std::string>()));
    DeviceCodec codec(*compressor, values.size(), *queue);
    codec::testing::Bytes payload(compressor->max_payload_bytes(values.size()));
    codec.start_encode(values.data(), nullptr, values.size(),
                       codec::testing::context_of(golden.at("key"), row), payload);
    payload.resize(codec.finish_encode());
    REQUIRE(codec::testing::hex(payload) == row.at("payload").get<std::string>());
    ++compared;
  }
  return compared;
}

/// start_decode_add() and finish_decode_add() of a payload.
void decode(const codec::Compressor& compressor, std::span<const std::byte> payload,
            std::size_t count) {
  const auto queue = make_emulated_queue();
  DeviceCodec codec(compressor, count, *queue);
  std::vector<float> sum(count);
  codec.start_decode_add(payload, 1.0f, sum.data(), count);
  codec.finish_decode_add();
}

/// Of the Error{wire} that `work` throws; "" if it throws none.
template <typename Work>
std::string sentence(Work work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::wire);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("kernels make and read the bytes of the host's codecs") {
  const auto queue = make_emulated_queue();
  const auto counts = test::check_device(*queue, {1, 31, 513, 2047, 20011}, 2);
  CAPTURE(counts.comparisons, counts.bytes);
  for (const std::string& difference : counts.differences) FAIL_CHECK(difference);
  REQUIRE(counts.comparisons > 4000);
}

TEST_CASE("kernels make the frozen payloads") {
  CHECK(check_golden("levels.json") >= 20);
  CHECK(check_golden("codec_basic.json") >= 5);
  CHECK(check_golden("codec_simple.json") >= 5);
}

TEST_CASE("every compressor with kernels is known") {
  std::string names;
  for (const auto row : codec::CompressorRow::all()) {
    if (has_kernels(*test::made_by_default(*row))) names += std::string(row->name) + " ";
  }
  CHECK(names == "fp16 bf16 int8 qsgd qsgd-v nuqsgd elastiquant signsgd ef-signsgd ");
}

TEST_CASE("values that are not finite are refused as on the host") {
  for (const test::DeviceCase& c : test::device_cases()) {
    CAPTURE(c.name);
    const auto queue = make_emulated_queue();
    for (const float bad :
         {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> values = test::gaussian(3001, {1, 2, 3, 4});
      values[2718] = bad;
      std::vector<std::byte> payload(c.compressor->max_payload_bytes(values.size()));
      DeviceCodec codec(*c.compressor, values.size(), *queue);
      Workspace workspace;
      const auto expected = test::refusal(Kind::diverged, [&] {
        static_cast<void>(c.compressor->encode(values, {}, workspace, payload));
      });
      CHECK(test::refusal(Kind::diverged, [&] {
              codec.start_encode(values.data(), nullptr, values.size(), {}, payload);
              static_cast<void>(codec.finish_encode());
            }) == expected);
    }
  }
}

TEST_CASE("malformed payloads are refused as on the host") {
  int refused = 0;
  for (const test::DeviceCase& c : test::device_cases()) {
    CAPTURE(c.name);
    constexpr std::size_t kCount = 3001;
    const auto values = test::gaussian(kCount, {1, 2, 3, 4});
    auto payload = codec::testing::encode(*c.compressor, values);
    const auto compare = [&](const codec::testing::Bytes& bytes) {
      Workspace workspace;
      std::vector<float> sum(kCount);
      const std::string expected =
          sentence([&] { c.compressor->decode_add(bytes, 1.0f, workspace, sum); });
      refused += expected.empty() ? 0 : 1;
      CHECK(sentence([&] { decode(*c.compressor, bytes, kCount); }) == expected);
    };
    auto longer = payload;
    longer.push_back(std::byte{0});
    compare(longer);
    compare({payload.begin(), payload.end() - 1});
    compare({});
    auto marked = payload;
    for (std::size_t k = 0; k < 4; ++k) marked[k] = std::byte{0xFF};
    compare(marked);
    marked = payload;
    marked[7] = std::byte{0x80};
    compare(marked);
    marked.back() = std::byte{0xFF};
    compare(marked);
  }
  CHECK(refused > 100);
}
