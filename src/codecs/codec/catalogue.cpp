// SPDX-License-Identifier: Apache-2.0
#include "codec/catalogue.hpp"

#include <cmath>
#include <cstdint>

#include "codec/levels/levels.hpp"
#include "codec/sparse/value_coding.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr Named<Norm> kNorms[] = {{Norm::l2, "l2", "Euclidean norm of the bucket"},
                                  {Norm::max, "max", "largest magnitude in the bucket"}};

constexpr Named<Coding> kCodings[] = {
    {Coding::fixed, "fixed", "the same number of bits for every value"},
    {Coding::elias, "elias", "Elias omega codes"},
    {Coding::huffman, "huffman", "canonical Huffman codes, table included"},
    {Coding::rans, "rans", "interleaved rANS, frequencies included"},
    {Coding::automatic, "auto", "the shortest entropy code for each bucket"},
    {Coding::lossless, "lossless", "none and bf16: the same values, exponents by rANS"}};

constexpr Named<Atoms> kAtoms[] = {
    {Atoms::spectral, "spectral", "singular triples of each weight tensor"},
    {Atoms::entrywise, "entrywise", "single values"}};

constexpr Named<Rounding> kRoundings[] = {
    {Rounding::independent, "independent", "each rank with random numbers of its own"},
    {Rounding::correlated, "correlated", "ranks against each other, so that errors cancel"},
    {Rounding::nearest, "nearest", "to the nearest level; a rank's residual keeps the rest"}};
constexpr Named<Granularity> kGranularities[] = {
    {Granularity::layer, "layer", "each tensor by itself"},
    {Granularity::model, "model", "all tensors as one vector"}};

constexpr Named<SmallTensors> kSmallTensors[] = {
    {SmallTensors::float32, "float32", "exactly"},
    {SmallTensors::int8, "int8", "in 8 bits, as by the compressor int8, with a residual"}};

Catalogue<CompressorRow>& catalogue() {
#define EQT_COMPRESSOR(number, id, row) row,
  static Catalogue<CompressorRow> rows = {
#include "codec/compressors.def"
  };
#undef EQT_COMPRESSOR
  return rows;
}

const CompressorRow* find_id(CodecId id) noexcept {
  for (const Entry<CompressorRow> row : catalogue())
    if (row->id == id) return &*row;
  return nullptr;
}

/// "elastiquant or e-elastiquant": the compressors that read an option.
std::string readers_of(Option option) {
  std::vector<std::string_view> names;
  for (const Entry<CompressorRow> row : catalogue())
    if (row->reads.has(option)) names.push_back(row->name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

std::string why_no_coding(const CompressorRow& row, Coding coding) {
  if (coding == Coding::fixed) return {};
  if (coding == Coding::lossless && !row.codes_floats)
    return fmt::format(
        "expected the compressor bf16 or none for compressor.coding \"lossless\", found \"{}\"; "
        "set compressor.name to \"bf16\", or leave the coding out",
        row.name);
  if (coding != Coding::lossless && row.codes_floats)
    return fmt::format(
        "expected compressor.coding \"fixed\" or \"lossless\" for the compressor \"{}\", which has "
        "no levels to code, found \"{}\"; set it to \"lossless\"",
        row.name, name_of(coding));
  if (row.reads.has(Option::coding) || row.codes_floats) return {};
  return fmt::format(
      "expected compressor.coding \"fixed\" for the compressor \"{}\", which has no levels to "
      "code, "
      "found \"{}\"; leave it out",
      row.name, name_of(coding));
}

std::string why_no_elasticity(LevelFamily levels, double elasticity) {
  const LevelFamilyRow& family = row_of(levels);
  if (family.elasticity.empty())
    return fmt::format(
        "expected no compressor.elasticity with compressor.levels \"{}\", found {}; the levels are "
        "compressor.table",
        family.name, elasticity);
  const bool small_enough = family.most_is_excluded ? elasticity < family.most_elasticity
                                                    : elasticity <= family.most_elasticity;
  if (elasticity > 0 && small_enough) return {};
  return fmt::format(
      "expected compressor.elasticity in (0, {}{} with compressor.levels \"{}\", found {}; it is "
      "{}",
      family.most_elasticity, family.most_is_excluded ? ')' : ']', family.name, elasticity,
      family.elasticity);
}

std::string why_no_table(const CompressorOptions& options) {
  const std::vector<double>& table = options.table;
  if (options.levels != LevelFamily::general) {
    if (table.empty()) return {};
    return fmt::format(
        "expected compressor.levels \"general\" for a compressor.table, found \"{}\"; leave the "
        "table out",
        name_of(options.levels));
  }
  if (options.bits < 2 || options.bits > 8) return {};  // make() has its own message
  const std::size_t levels = (std::size_t{1} << (options.bits - 1)) - 1;
  if (table.size() != levels)
    return fmt::format(
        "expected {} levels in compressor.table, 2^(bits - 1) - 1 for compressor.bits {}, found {}",
        levels, options.bits, table.size());
  const std::size_t bad = first_bad_level(table);
  if (bad == table.size()) return {};
  return fmt::format(
      "expected increasing levels in compressor.table, the last one 1, found {} at index {}",
      table[bad], bad);
}

std::string why_no_levels(const CompressorRow& row, const CompressorOptions& options) {
  if (options.levels != LevelFamily::sinh && !row.reads.has(Option::levels))
    return fmt::format(
        "expected the compressor {} for compressor.levels \"{}\", found \"{}\"; leave the levels "
        "out",
        readers_of(Option::levels), name_of(options.levels), row.name);
  if (std::string why = why_no_table(options); !why.empty()) return why;
  if (!options.elasticity) return {};
  if (!row.reads.has(Option::elasticity))
    return fmt::format(
        "expected the compressor {} for compressor.elasticity {}, found \"{}\"; leave the "
        "elasticity out",
        readers_of(Option::elasticity), *options.elasticity, row.name);
  return why_no_elasticity(options.levels, *options.elasticity);
}

/// Why a rate and its rounding cannot be had, or "".
std::string why_no_rate(const CompressorRow& row, const CompressorOptions& options) {
  const bool nearest = options.rounding == Rounding::nearest;
  if (!options.rate && !nearest) return {};
  if (!row.reads.has(Option::rate))
    return fmt::format(
        "expected the compressor {} for compressor.{}, found \"{}\"; leave it out",
        readers_of(Option::rate),
        options.rate ? fmt::format("rate {}", *options.rate) : "rounding \"nearest\"", row.name);
  if (!options.rate && options.coding != Coding::fixed)
    return fmt::format(
        "expected a compressor.rate for compressor.rounding \"nearest\" with compressor.coding "
        "\"{}\", found none; set the bits per value, for example 1.2, or compressor.name to "
        "\"elastiquant\" for whole bits with the coding \"fixed\"",
        name_of(options.coding));
  if (!options.rate) return {};
  if (!(*options.rate >= kLeastRate && *options.rate <= kMostRate))
    return fmt::format("expected compressor.rate in [{}, {}] bits per value, found {}", kLeastRate,
                       kMostRate, *options.rate);
  if (!nearest)
    return fmt::format(
        "expected compressor.rounding \"nearest\" for compressor.rate {}, found \"{}\"; leave the "
        "rounding out",
        *options.rate, name_of(options.rounding));
  if (options.coding != Coding::automatic)
    return fmt::format(
        "expected compressor.coding \"auto\" for compressor.rate {}, found \"{}\"; leave the "
        "coding "
        "out, or set compressor.bits in place of the rate",
        *options.rate, name_of(options.coding));
  return {};
}

}  // namespace

std::span<const Named<Norm>> names_of(Norm) { return kNorms; }
std::span<const Named<Coding>> names_of(Coding) { return kCodings; }
std::span<const Named<Coding>> level_codings() {
  return std::span(kCodings).first(std::size(kCodings) - 1);
}
std::span<const Named<Atoms>> names_of(Atoms) { return kAtoms; }
std::span<const Named<Rounding>> names_of(Rounding) { return kRoundings; }
std::span<const Named<Granularity>> names_of(Granularity) { return kGranularities; }
std::span<const Named<SmallTensors>> names_of(SmallTensors) { return kSmallTensors; }

const Catalogue<CompressorRow>& CompressorRow::all() { return catalogue(); }

void add_compressor(const CompressorRow& row) {
  if (catalogue().find(row.name) != nullptr)
    fail(Kind::usage, "expected a new name for a compressor, found \"{}\", which exists already",
         row.name);
  if (const CompressorRow* const other = find_id(row.id); other != nullptr)
    fail(Kind::usage,
         "compressor {}: expected a number on the wire of its own, found {}, which is that of {}",
         row.name, static_cast<std::uint16_t>(row.id), other->name);
  catalogue().add(row);
}

std::string why_not(const CompressorRow& row, const CompressorOptions& options) {
  if (row.why_not != nullptr)
    if (std::string why = row.why_not(options); !why.empty()) return why;
  if (std::string why = why_no_coding(row, options.coding); !why.empty()) return why;
  if (std::string why = why_no_levels(row, options); !why.empty()) return why;
  if (std::string why = why_no_rate(row, options); !why.empty()) return why;
  if (!is_value_bits(options.value_bits))
    return fmt::format(
        "expected compressor.value_bits 1 to 8, 16 or 32, found {}; leave it out for 32",
        options.value_bits);
  if (options.value_bits != CompressorOptions{}.value_bits && !row.reads.has(Option::value_bits))
    return fmt::format(
        "expected the compressor {} for compressor.value_bits {}, found \"{}\"; leave it out",
        readers_of(Option::value_bits), options.value_bits, row.name);
  if (options.unbiased && !row.reads.has(Option::unbiased))
    return fmt::format(
        "expected the compressor {} for compressor.unbiased, found \"{}\"; leave it out",
        readers_of(Option::unbiased), row.name);
  return {};
}

std::unique_ptr<Compressor> make_compressor(const CompressorRow& row,
                                            const CompressorOptions& options) {
  if (const std::string why = why_not(row, options); !why.empty())
    fail(Kind::usage, "compressor {}: {}", row.name, why);
  return row.make(row, options);
}

std::unique_ptr<Compressor> make_compressor(std::string_view name,
                                            const CompressorOptions& options) {
  return make_compressor(*CompressorRow::all().at(name), options);
}

std::string_view codec_name(CodecId id) noexcept {
  const CompressorRow* const row = find_id(id);
  return row != nullptr ? row->name : "unknown";
}

}  // namespace eqt::codec
