// SPDX-License-Identifier: Apache-2.0
#include "codec/entropy/rans.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "codec/entropy/bit_stream.hpp"
#include "codec/entropy/elias.hpp"
#include "codec/entropy/rans_kernels.hpp"
#include "codec/levels/ieee_math.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr int kModeBits = 2;
constexpr int kWideBits = 12;             // the other precision is 8
constexpr int kSpareBits = 3;             // k of a state
constexpr std::uint64_t kOne = 1u << 16;  // of the costs below

// Bits of the field m - 1.
constexpr int symbols_bits(int precision) { return precision == 8 ? 4 : 7; }

std::size_t lanes_of(std::size_t count) { return std::min(count, kRansLanes); }

// Number of signs that the initial states hold.
std::size_t held_signs(std::size_t count) { return 16 * lanes_of(count); }

// log2(f) * 2^16, rounded: the same integers everywhere.
const std::array<std::uint32_t, (1 << kWideBits) + 1>& log2_table() {
  static const auto table = [] {
    std::array<std::uint32_t, (1 << kWideBits) + 1> logs{};
    for (std::size_t f = 2; f < logs.size(); ++f) {
      logs[f] = static_cast<std::uint32_t>(ieee_log(static_cast<double>(f)) / kLn2 * 65536 + 0.5);
    }
    return logs;
  }();
  return table;
}

// Adds units to the frequency where that saves most, or removes them where that costs least.
void fit_sum(const IndexCounts& counts, std::int64_t missing, RansModel& model) {
  for (; missing != 0; missing += missing < 0 ? 1 : -1) {
    const bool add = missing > 0;
    std::size_t best = kMaxLevels;
    std::uint64_t best_slope = 1;
    for (std::size_t i = 0; i < model.symbols; ++i) {
      const std::uint64_t f = model.frequency[i];
      if (f < (add ? 1 : 2)) continue;
      // The derivative of count * log f, half a unit further.
      const std::uint64_t slope = add ? 2 * f + 1 : 2 * f - 1;
      if (best < kMaxLevels) {
        const std::uint64_t mine = counts[i] * best_slope, its = counts[best] * slope;
        if (add ? mine <= its : mine >= its) continue;
      }
      best = i;
      best_slope = slope;
    }
    model.frequency[best] = static_cast<std::uint16_t>(model.frequency[best] + (add ? 1 : -1));
  }
}

RansModel model_of(const IndexCounts& counts, std::size_t symbols, int precision) {
  RansModel model{.precision = precision, .symbols = symbols};
  std::uint64_t total = 0;
  for (const std::uint64_t count : counts) total += count;
  const std::uint64_t whole = std::uint64_t{1} << precision;
  std::int64_t missing = static_cast<std::int64_t>(whole);
  for (std::size_t i = 0; i < symbols; ++i) {
    if (counts[i] == 0) continue;
    const std::uint64_t nearest = (2 * counts[i] * whole + total) / (2 * total);
    model.frequency[i] = static_cast<std::uint16_t>(std::max<std::uint64_t>(nearest, 1));
    missing -= model.frequency[i];
  }
  fit_sum(counts, missing, model);
  return model;
}

// The largest index that occurs, plus 1.
std::size_t symbols_of(const IndexCounts& counts) {
  std::size_t symbols = kMaxLevels;
  while (symbols > 1 && counts[symbols - 1] == 0) --symbols;
  return symbols;
}

int frequency_bits(const RansModel& model, std::size_t i) {
  return model.precision == 8 ? 8 : delta_code(model.frequency[i] + 1u).length;
}

// Reads the frequencies and derives the model from them.
RansModel read_model(BitReader& reader, std::size_t symbols) {
  reader.skip(kModeBits);
  RansModel model;
  model.precision = reader.take(1) != 0 ? kWideBits : 8;
  model.symbols = static_cast<std::size_t>(reader.take(symbols_bits(model.precision))) + 1;
  if (model.symbols > symbols) {
    fail(Kind::wire, "rANS container: expected a model of at most {} indices, found {}", symbols,
         model.symbols);
  }
  const std::uint32_t whole = 1u << model.precision;
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < model.symbols; ++i) {
    const std::uint64_t f = model.precision == 8 ? reader.take(8) : read_delta(reader) - 1;
    sum += static_cast<std::uint32_t>(std::min<std::uint64_t>(f, whole));
    if (sum >= whole) {
      fail(Kind::wire,
           "rANS container: expected frequencies with a sum below {}, found at least {} before bit "
           "{}",
           whole, sum, reader.position());
    }
    model.frequency[i] = static_cast<std::uint16_t>(f);
  }
  model.frequency[model.symbols - 1] = static_cast<std::uint16_t>(whole - sum);
  return model;
}

void write_model(const RansModel& model, BitWriter& writer) {
  writer.append(model.precision == kWideBits, kModeBits + 1);
  writer.put(model.symbols - 1, symbols_bits(model.precision));
  for (std::size_t i = 0; i + 1 < model.symbols; ++i) {
    const CodeWord word = delta_code(model.frequency[i] + 1u);
    if (model.precision == 8) {
      writer.put(model.frequency[i], 8);
    } else {
      writer.put(word.bits, word.length);
    }
  }
}

void write_states(std::span<const std::uint32_t> states, BitWriter& writer) {
  for (const std::uint32_t x : states) {
    const int width = static_cast<int>(std::bit_width(x));  // 17 ... 24
    const int spare = kRansHighBits - width;
    const std::uint32_t lower = x ^ 1u << (width - 1);
    writer.put(std::uint64_t(static_cast<unsigned>(spare)) << (width - 1) | lower,
               kSpareBits + width - 1);
  }
}

void read_states(BitReader& reader, std::span<std::uint32_t> states) {
  for (std::uint32_t& x : states) {
    const std::uint64_t window = reader.window();
    const int spare = static_cast<int>(window >> (64 - kSpareBits));
    const int width = kRansHighBits - 1 - spare;  // of the lower bits
    x = 1u << width | static_cast<std::uint32_t>(window << kSpareBits >> (64 - width));
    reader.skip(kSpareBits + width);
  }
}

// Scratch memory that is reused for all buckets.
std::span<std::byte> sign_row(std::size_t count) {
  thread_local std::vector<std::byte> row;
  const std::size_t size = sign_room(count) + 2 * kRansLanes;
  if (row.size() < size) row.resize(size);
  return {row.data(), size};
}

// Reads the signs after the states' bytes and appends them to those of the states.
// @return bytes read
std::size_t read_signs(std::span<const std::byte> from, std::size_t held, std::span<std::byte> row,
                       std::span<LevelCode> codes) {
  const std::size_t nonzeros = count_nonzeros(codes);
  const std::size_t bytes = nonzeros > held ? (nonzeros - held + 7) / 8 : 0;
  if (from.size() < bytes) {
    fail(Kind::wire, "level payload: expected {} bytes of signs in a bucket, found {}", bytes,
         from.size());
  }
  std::memcpy(row.data() + held / 8, from.data(), bytes);
  const std::size_t end = std::max(held, held + 8 * bytes);
  for (std::size_t i = nonzeros; i < end; i += 8 - i % 8) {
    if (std::to_integer<unsigned>(row[i / 8]) >> i % 8 != 0) {
      fail(Kind::wire,
           "level payload: expected {} signs in a bucket and zero bits behind, found "
           "others",
           nonzeros);
    }
  }
  apply_signs(row, codes);
  return bytes;
}

}  // namespace

RansModel rans_narrow_model(const IndexCounts& counts) {
  return model_of(counts, symbols_of(counts), 8);
}

RansModel rans_model(const IndexCounts& counts) {
  const std::size_t symbols = symbols_of(counts);
  if (symbols > kRansVectorSymbols) return model_of(counts, symbols, kWideBits);
  const RansModel narrow = rans_narrow_model(counts);
  if (narrow.has_one_symbol()) return narrow;
  const RansModel wide = model_of(counts, symbols, kWideBits);
  const std::uint64_t bits = rans_bits(wide, counts);
  return bits + bits / 256 < rans_bits(narrow, counts) ? wide : narrow;
}

std::uint64_t rans_bits(const RansModel& model, const IndexCounts& counts) {
  const auto& logs = log2_table();
  std::uint64_t cost = 0, count = 0;
  auto bits = static_cast<std::uint64_t>(kModeBits + 1 + symbols_bits(model.precision));
  for (std::size_t i = 0; i < model.symbols; ++i) {
    const std::uint64_t log = logs[model.frequency[i]];
    cost += counts[i] * (static_cast<std::uint64_t>(model.precision) * kOne - log);
    count += counts[i];
    if (i + 1 < model.symbols) bits += static_cast<std::uint64_t>(frequency_bits(model, i));
  }
  const std::uint64_t signs = count - counts[0];
  bits += cost / kOne + signs;
  if (model.has_one_symbol()) return bits;
  // A written state has 16.5 bits on average, and 3 bits for its length, minus half a bit for its
  // leading one.
  return bits + 19 * lanes_of(count) - std::min<std::uint64_t>(signs, held_signs(count));
}

std::size_t rans_max_bytes(std::size_t count, std::size_t symbols) noexcept {
  constexpr int kWidestFrequency = 18;  // delta(4095); with 4096 the others take a bit each
  const std::size_t head = kModeBits + 1 + 7 + symbols * kWidestFrequency +
                           lanes_of(count) * (kSpareBits + kRansHighBits - 1);
  return head / 8 + 1 + 2 * count + count / 8 + 1;
}

std::size_t rans_held_bytes(const RansModel& model, std::size_t count) noexcept {
  return model.has_one_symbol() ? 0 : 2 * lanes_of(count);
}

std::size_t rans_write_indices(const RansModel& model, std::span<const LevelCode> codes,
                               std::span<const std::byte, kRansHeldBytes> held,
                               std::span<std::byte> to) {
  EQT_CHECK(to.size() >= rans_max_bytes(codes.size(), model.symbols),
            "{} bytes for {} codes of {} indices", to.size(), codes.size(), model.symbols);
  BitWriter writer(to);
  write_model(model, writer);
  if (model.has_one_symbol()) return writer.finish();
  const std::span<std::byte> room = to.first(rans_max_bytes(codes.size(), model.symbols));
  std::byte* const end = room.data() + room.size();
  RansStates states;
  for (std::size_t i = 0; i < kRansLanes; ++i) {
    states[i] = 1u << kRansLowBits | load<std::uint16_t>(held.data() + 2 * i);
  }
  std::byte* const begin = rans_encode(
      rans_encoder_tables(std::span(model.frequency).first(model.symbols), model.precision), codes,
      states, end);
  write_states(std::span(states).first(lanes_of(codes.size())), writer);
  const std::size_t used = writer.finish();
  const auto bytes = static_cast<std::size_t>(end - begin);
  std::memmove(to.data() + used, begin, bytes);
  return used + bytes;
}

std::size_t rans_write(const RansModel& model, std::span<const LevelCode> codes,
                       std::span<std::byte> to) {
  const std::span<std::byte> row = sign_row(codes.size());
  std::memset(row.data(), 0, kRansHeldBytes);
  const std::size_t nonzeros = pack_signs(codes, row);
  const std::size_t used = rans_write_indices(model, codes, row.first<kRansHeldBytes>(), to);
  const std::size_t held = rans_held_bytes(model, codes.size());
  const std::size_t sign_bytes = (nonzeros + 7) / 8;
  if (sign_bytes <= held) return used;
  std::memcpy(to.data() + used, row.data() + held, sign_bytes - held);
  return used + sign_bytes - held;
}

RansRead rans_read_indices(std::span<const std::byte> from, std::size_t symbols,
                           std::span<LevelCode> codes, std::span<std::byte, kRansHeldBytes> held) {
  BitReader reader(from);
  const RansModel model = read_model(reader, symbols);
  if (model.has_one_symbol()) {
    const std::size_t used = reader.finish();
    std::memset(codes.data(), static_cast<int>(model.symbols - 1), codes.size());
    return {.bytes = used};
  }
  RansStates states;
  states.fill(1u << kRansLowBits);
  const auto active = std::span(states).first(lanes_of(codes.size()));
  read_states(reader, active);
  const std::size_t used = reader.finish();
  thread_local RansDecoderTables tables;
  rans_decoder_tables(std::span(model.frequency).first(model.symbols), model.precision, tables);
  const std::size_t bytes = rans_decode(tables, from.subspan(used), states, codes);
  if (bytes > from.size() - used) {
    fail(Kind::wire, "rANS container: expected more than the {} bytes of its stream",
         from.size() - used);
  }
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (active[i] >> kRansLowBits != 1) {
      fail(Kind::wire, "rANS container: expected a state that ends below 2^17, found {}",
           active[i]);
    }
    store(held.data() + 2 * i, static_cast<std::uint16_t>(active[i]));
  }
  return {.bytes = used + bytes, .held = 2 * active.size()};
}

std::size_t rans_read(std::span<const std::byte> from, std::size_t symbols,
                      std::span<LevelCode> codes) {
  const std::span<std::byte> row = sign_row(codes.size());
  const RansRead read = rans_read_indices(from, symbols, codes, row.first<kRansHeldBytes>());
  return read.bytes + read_signs(from.subspan(read.bytes), 8 * read.held, row, codes);
}

}  // namespace eqt::codec
