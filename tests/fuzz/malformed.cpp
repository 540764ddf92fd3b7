// SPDX-License-Identifier: Apache-2.0
// Malformed messages by the million: each decoder of support/decoder_table.hpp is given damaged
// payloads and frames, and must refuse them with an error or decode them to finite sums.
//
//   malformed [--count N] [--decoder NAME] [--seed S]
//
// N messages in all, shared evenly. Cut and extended messages must be refused. Build it with the
// preset asan to see reads and writes outside. Exit 1 at the first failure, with the options that
// repeat it.

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "core/random.hpp"
#include "support/hostile_bytes.hpp"

namespace {

using namespace eqt;
using namespace eqt::test;

using Bytes = std::vector<std::byte>;

constexpr std::size_t kBucket = 32;
constexpr std::size_t kCounts[] = {1, 2, 7, 31, 32, 33, 64, 96, 101, 256};

struct Options {
  std::uint64_t count = 100000;
  std::uint64_t seed = 1;
  std::string decoder;  // "" = all
};

/// Random numbers by position, so that a failure can be repeated by its number.
class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t round) : stream_({seed, round, 0, 0}) {}
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(stream_.bounded(next_++, bound));
  }
  std::byte byte() { return static_cast<std::byte>(stream_.bits(next_++)); }

 private:
  RandomStream stream_;
  std::uint32_t next_ = 0;
};

enum class Damage { flipped, truncated, extended, noise, spliced, overwritten };
constexpr std::string_view kDamageNames[] = {"flipped", "truncated", "extended",
                                             "noise",   "spliced",   "overwritten"};

/// Numbers that are critical for sizes, counts and norms.
void overwrite_word(Bytes& bytes, Draw& draw) {
  constexpr std::uint32_t kWords[] = {0,          1,          0x7F,       0xFF,       0x7F7FFFFF,
                                      0x7F800000, 0x7FC00000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF};
  const std::uint32_t word = kWords[draw.below(std::size(kWords))];
  const std::size_t at = bytes.size() < 4 ? 0 : draw.below(bytes.size() - 3);
  for (std::size_t k = 0; k < 4 && at + k < bytes.size(); ++k)
    bytes[at + k] = static_cast<std::byte>(word >> (8 * k));
}

Bytes damaged(Bytes bytes, const Bytes& other, Damage damage, Draw& draw) {
  switch (damage) {
    case Damage::flipped:
      for (std::size_t flips = 1 + draw.below(4); flips > 0 && !bytes.empty(); --flips)
        bytes[draw.below(bytes.size())] ^= static_cast<std::byte>(1u << draw.below(8));
      break;
    case Damage::truncated:
      if (!bytes.empty()) bytes.resize(draw.below(bytes.size()));
      break;
    case Damage::extended:
      for (std::size_t more = 1 + draw.below(9); more > 0; --more) bytes.push_back(draw.byte());
      break;
    case Damage::noise:  // from a random position on, so that the first checks often pass
      for (std::size_t i = draw.below(bytes.size() + 1); i < bytes.size(); ++i)
        bytes[i] = draw.byte();
      break;
    case Damage::spliced: {
      const std::size_t head = draw.below(bytes.size() + 1), tail = draw.below(other.size() + 1);
      bytes.resize(head);
      bytes.insert(bytes.end(), other.end() - static_cast<std::ptrdiff_t>(tail), other.end());
      break;
    }
    case Damage::overwritten:
      overwrite_word(bytes, draw);
      break;
  }
  return bytes;
}

struct Sample {
  std::size_t count = 0;  // values; 0: a frame
  Bytes bytes;
};

std::vector<Sample> samples_of(const Decoder& decoder) {
  std::vector<Sample> samples;
  for (const std::size_t count : kCounts) {
    const auto values = portable_values(count, count);
    samples.push_back({count, payload_of(*decoder.compressor, values, rows_for(count))});
  }
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    samples.push_back({0, frame_of(decoder, portable_values(kHostileValues, seed))});
  return samples;
}

DecodeReport check_sample(const Decoder& decoder, std::size_t count, const Bytes& bytes,
                          Workspace& workspace) {
  return count == 0 ? try_frame(decoder, bytes, workspace)
                    : try_payload(decoder, bytes, count, workspace);
}

[[noreturn]] void report(const Decoder& decoder, std::string_view damage, std::uint64_t round,
                         const Options& options, const std::string& reason) {
  fmt::print(stderr, "{}, message {} ({}): {}; repeat with --decoder {} --seed {} --count {}\n",
             decoder.name, round, damage, reason, decoder.name, options.seed, round + 1);
  std::exit(1);
}

void attack(const Decoder& decoder, std::uint64_t rounds, const Options& options) {
  const std::vector<Sample> samples = samples_of(decoder);
  Workspace workspace;
  for (const Sample& sample : samples) {
    const DecodeReport checked = check_sample(decoder, sample.count, sample.bytes, workspace);
    if (checked.result != DecodeResult::decoded)
      report(decoder, "intact", 0, options, "expected it to decode, found: " + checked.reason);
  }
  const Stopwatch watch;
  std::uint64_t refused = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Draw draw(options.seed, round);
    const Sample& sample = samples[draw.below(samples.size())];
    const Sample& other = samples[draw.below(samples.size())];
    const std::size_t kind = draw.below(std::size(kDamageNames));
    const auto damage = static_cast<Damage>(kind);
    const Bytes bytes = damaged(sample.bytes, other.bytes, damage, draw);
    const DecodeReport checked = check_sample(decoder, sample.count, bytes, workspace);
    if (checked.result == DecodeResult::broken)
      report(decoder, kDamageNames[kind], round, options, checked.reason);
    const bool wrong_size = bytes.size() != sample.bytes.size() &&
                            (damage == Damage::truncated || damage == Damage::extended);
    if (wrong_size && checked.result != DecodeResult::refused)
      report(decoder, kDamageNames[kind], round, options, "expected a refusal, but it decoded");
    refused += checked.result == DecodeResult::refused;
  }
  fmt::print("{:<28} {:>9} {:>9} {:>8.2f} s\n", decoder.name, rounds, refused, watch.seconds());
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    if (key == "--count")
      options.count = std::strtoull(argv[i + 1], nullptr, 10);
    else if (key == "--seed")
      options.seed = std::strtoull(argv[i + 1], nullptr, 10);
    else if (key == "--decoder")
      options.decoder = argv[i + 1];
    else
      fail(Kind::usage, "expected --count, --decoder or --seed, found {}", key);
  }
  if (argc % 2 == 0) fail(Kind::usage, "expected a value after {}", argv[argc - 1]);
  if (options.count == 0) fail(Kind::usage, "expected a --count of at least 1");
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  auto table = decoder_table(kBucket);
  if (!options.decoder.empty())
    std::erase_if(table, [&](const Decoder& d) { return d.name != options.decoder; });
  if (table.empty()) fail(Kind::usage, "there is no decoder {}", options.decoder);
  fmt::print("{:<28} {:>9} {:>9}\n", "decoder", "messages", "refused");
  const std::uint64_t share = (options.count + table.size() - 1) / table.size();
  for (const Decoder& decoder : table) attack(decoder, share, options);
} catch (const eqt::Error& error) {
  fmt::print(stderr, "malformed: {}\n", error.what());
  return error.exit_code();
}
