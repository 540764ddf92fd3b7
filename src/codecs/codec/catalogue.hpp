// SPDX-License-Identifier: Apache-2.0
// The catalogue of compressors: one row per compressor, in the compressor's file. compressors.def
// lists the rows; configs, `list`, the schema, reports and tests read them.

#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <string_view>

#include "codec/compressor.hpp"
#include "codec/options.hpp"
#include "core/catalogue.hpp"

namespace eqt::codec {

struct CompressorRow {
  std::string_view name;   // in configs: "e-elastiquant"
  std::string_view about;  // one line
  CodecId id;              // on the wire
  /// Call make_compressor() instead, which checks the options first.
  std::unique_ptr<Compressor> (*make)(const CompressorRow& row, const CompressorOptions& options);
  OptionSet reads = {};  // the options that it uses
  bool codes_floats =
      false;  // its coding is fixed or lossless; else those of levels, if it reads it
  // It is unbiased, and SGD ends nearer to float32's loss with error feedback (docs/choosing.md).
  bool gains_by_feedback = false;
  /// Why it refuses these values of its options, "expected ..., found ...; try ...", or "" if it
  /// accepts them.
  std::string (*why_not)(const CompressorOptions& options) = nullptr;
  /// Sets the options whose default differs from that of CompressorOptions, as in its paper.
  void (*choose_defaults)(CompressorOptions& options) = nullptr;
  std::string_view title = {};   // as papers write it: "QSGD"; "" = name
  std::string_view colour = {};  // in plots: "#0072b2"; "" = derived from the name

  /// All compressors, in the order of the documentation, then those of plugins.
  static const Catalogue<CompressorRow>& all();
};

#define EQT_COMPRESSOR(number, id, row) extern const CompressorRow row;
#include "codec/compressors.def"
#undef EQT_COMPRESSOR

/// Appends a plugin's compressor. `row` must live as long as the program. Not thread-safe: call it
/// before a config is read.
/// @throws Error{usage} if its name or its number on the wire is taken
void add_compressor(const CompressorRow& row);

/// Why `row` cannot be made with these options: "expected ..., found ...; try ..."; "" if it can.
/// Options that it does not read are ignored, except coding, levels, elasticity, value_bits and
/// unbiased.
std::string why_not(const CompressorRow& row, const CompressorOptions& options);

/// @throws Error{usage} for options that why_not() refuses or that are out of range
std::unique_ptr<Compressor> make_compressor(const CompressorRow& row,
                                            const CompressorOptions& options = {});

/// Finds the row by its name.
/// @pre there is a compressor of this name
std::unique_ptr<Compressor> make_compressor(std::string_view name,
                                            const CompressorOptions& options = {});

/// Constructs a C from row and options, from options alone, or from nothing, for
/// CompressorRow::make.
template <std::derived_from<Compressor> C>
std::unique_ptr<Compressor> make_a(const CompressorRow& row, const CompressorOptions& options) {
  if constexpr (std::constructible_from<C, const CompressorRow&, const CompressorOptions&>)
    return std::make_unique<C>(row, options);
  else if constexpr (std::constructible_from<C, const CompressorOptions&>)
    return std::make_unique<C>(options);
  else
    return std::make_unique<C>();
}

}  // namespace eqt::codec
