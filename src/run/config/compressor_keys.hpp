// SPDX-License-Identifier: Apache-2.0
// The section `compressor`: its keys, and reading it alone. Nothing in here needs MPI.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/mixed/menu.hpp"
#include "config/key_types.hpp"
#include "core/catalogue.hpp"

namespace eqt::config {

template <typename Config>
struct FieldOf;  // config/field.hpp

struct CompressorConfig : codec::CompressorOptions {
  Entry<codec::CompressorRow> name = codec::kNone;
  codec::OpenOptions open;        // bits "auto", elasticity "measured"
  std::uint64_t adapt_every = 0;  // [steps], 0 = 0, 100, 2000 and each 10000th
  double warmup_epochs = 4;       // dgc: epochs in which density falls to its value
  double clip_norm = 0;           // dgc: local gradient clipping threshold, 0 = off
  bool momentum_masking = true;   // dgc: zero the momentum of values that are sent
  std::size_t skip_below = 1024;  // [values]
  codec::SmallTensors small_tensors = codec::SmallTensors::float32;
  double noise_share = 0.1;            // auto: most noise added, in units of the gradients' own
  double noise_cap = 0.5;              // auto: the same for a single tensor
  double error_share = 0.25;           // auto with rates: squares that may stay in the memory
  std::uint64_t observe_every = 50;    // auto [steps]
  std::uint64_t decide_every = 4;      // auto [observations]
  LinkRate link = LinkRule::measured;  // auto [Mb/s]
  std::string replay;                  // auto: decisions.jsonl of another run; "" = decide

  /// Returns true if the run chooses a grade for each tensor, so that make() has mixed grades.
  bool adapts_grades() const { return name->reads.has(codec::Option::menu) || open.any(); }
  /// Why it cannot be made: "expected ..., found ...; try ..."; "" if it can.
  std::string why_not() const;
  /// @throws Error{usage} for what why_not() says
  std::unique_ptr<codec::Compressor> make() const;

  bool operator==(const CompressorConfig&) const = default;
};

/// The section's keys, "compressor.name" and so on, in the order of the documentation.
const std::vector<FieldOf<CompressorConfig>>& compressor_fields();

/// Gives keys that nobody gave the values that the compressor has of its own.
/// @param is_given whether somebody gave the key, "compressor.bits"
void choose_compressor_defaults(const std::function<bool(std::string_view)>& is_given,
                                CompressorConfig& compressor);

/// Parses the section alone: a JSON object with its keys ("bits", ...). `name` is the compressor's;
/// the object may repeat it. `origin` names the object in messages.
/// @throws Error{usage}: malformed JSON (with line and column), a key that occurs twice, unknown
/// key or name (with the nearest), another name, wrong type, out of range, options that the
/// compressor refuses.
CompressorConfig parse_compressor(const std::string& name, const std::string& json_text,
                                  const std::string& origin);

}  // namespace eqt::config
