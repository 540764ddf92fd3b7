// SPDX-License-Identifier: Apache-2.0
// One hash of the encoded bytes and one of the decoded bits per compressor, on every instruction
// set of this machine. The lines are the same on every machine; exit 1 if instruction sets differ.
//
//   codec_bytes            lines "NAME BYTES VALUES", the instruction sets on stderr

#include <fmt/core.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "core/error.hpp"
#include "support/decoder_table.hpp"

namespace {

using namespace eqt;
using namespace eqt::test;

/// FNV-1a, 64 bits.
class Hash {
 public:
  void add(std::byte b) {
    value_ = (value_ ^ std::to_integer<std::uint64_t>(b)) * 0x100000001B3ull;
  }
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) add(b);
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325ull;
};

struct Hashes {
  std::uint64_t bytes = 0, values = 0;
  bool operator==(const Hashes&) const = default;
};

/// Lengths around every vector width and bucket, and magnitudes from subnormal to huge.
std::vector<std::vector<float>> inputs() {
  std::vector<std::vector<float>> all;
  constexpr std::size_t kCounts[] = {0,  1,  2,  3,  7,   8,   15,  16,  17,
                                     31, 33, 63, 65, 511, 512, 513, 4099};
  for (const std::size_t count : kCounts) all.push_back(portable_values(count, count));
  // fp16 refuses values above 65504.
  for (const float scale : {0x1p-140f, 0x1p-100f, 0x1p-30f, 0x1p-15f, 0x1p10f})
    all.push_back(portable_values(640, 5, scale));
  auto special = portable_values(192, 6);
  for (std::size_t i = 0; i < special.size(); i += 3) special[i] = i % 2 == 0 ? 0.0f : -0.0f;
  special[1] = std::numeric_limits<float>::denorm_min();
  special[4] = 65504.0f;
  all.push_back(special);
  return all;
}

Hashes hash_of(const codec::Compressor& compressor) {
  Hash bytes, values;
  StepId step = 0;
  for (const std::vector<float>& input : inputs()) {
    const auto payload = payload_of(compressor, input, rows_for(input.size()), ++step);
    bytes.add(payload);
    Workspace workspace;
    std::vector<float> sum = portable_values(input.size(), 99);
    compressor.decode_add(payload, 0.3f, workspace, sum);
    values.add(std::as_bytes(std::span(sum)));
  }
  return {bytes.value(), values.value()};
}

std::vector<Decoder> all_decoders() {
  auto table = decoder_table(64);
  for (Decoder& decoder : decoder_table(512)) {
    decoder.name += "/512";
    table.push_back(std::move(decoder));
  }
  return table;
}

std::vector<Hashes> hashes_of(const std::vector<Decoder>& table) {
  std::vector<Hashes> hashes;
  for (const Decoder& decoder : table) hashes.push_back(hash_of(*decoder.compressor));
  return hashes;
}

/// Says which lines differ; @return how many
int compare(const std::vector<Decoder>& table, const std::vector<Hashes>& expected,
            const std::vector<Hashes>& found, const std::string& where) {
  int differences = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (expected[i] == found[i]) continue;
    fmt::print(stderr, "{}: expected {:016x} {:016x}, found {:016x} {:016x} {}\n", table[i].name,
               expected[i].bytes, expected[i].values, found[i].bytes, found[i].values, where);
    ++differences;
  }
  return differences;
}

}  // namespace

int main() try {
  const auto table = all_decoders();
  std::vector<Hashes> expected;
  int differences = 0;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    const auto found = hashes_of(table);
    if (expected.empty()) expected = found;
    const std::string name = hwy::TargetName(target);
    fmt::print(stderr, "{}\n", name);
    differences += compare(table, expected, found, "on " + name);
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  // Four threads at once: a compressor is shared, its workspaces are not.
  std::vector<std::vector<Hashes>> of_threads(4);
  {
    std::vector<std::jthread> threads;
    for (auto& found : of_threads) threads.emplace_back([&] { found = hashes_of(table); });
  }
  for (const auto& found : of_threads)
    differences += compare(table, expected, found, "in a thread");
  for (std::size_t i = 0; i < table.size(); ++i)
    fmt::print("{} {:016x} {:016x}\n", table[i].name, expected[i].bytes, expected[i].values);
  return differences == 0 ? 0 : 1;
} catch (const eqt::Error& error) {
  fmt::print(stderr, "codec_bytes: {}\n", error.what());
  return error.exit_code();
}
