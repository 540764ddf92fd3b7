// SPDX-License-Identifier: Apache-2.0
// The compressors that an `analyze` question is about, ready to be asked.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analyze/commands.hpp"
#include "codec/compressor.hpp"
#include "config/run_config.hpp"
#include "figures/rows.hpp"
#include "theory/level_scheme.hpp"

namespace eqt::analyze {

using figures::Row;
using figures::RowColumn;

struct Subject {
  config::RunConfig config;  // of a run with this compressor, all else by default
  std::unique_ptr<codec::Compressor> compressor;
  std::optional<theory::LevelScheme> scheme;  // none: no level codec
  std::string label() const;                  // "qsgd, 4 bits, buckets of 512"
  /// A row that begins with what names the subject: compressor, bits, bucket_size, norm, coding.
  Row row() const;
};

/// @param about the verb, for the message
/// @throws Error{usage} without a scheme: no level codec, or one whose levels a run chooses
void require_levels(const Subject& subject, const char* about);

/// Prints what stands for grades that a run would choose, a line for each such subject.
void print_notes(std::span<const Subject> subjects);

/// The columns that Subject::row() fills.
std::vector<RowColumn> subject_columns();

/// The named ones, or the `usual` ones; those that a setting does not suit are left out.
/// @param values of the message: a scheme without buckets takes all of them as one bucket
/// @param about the verb, for messages
/// @throws Error{usage}
std::vector<Subject> analyzed_compressors(const CompressorQuestion& question,
                                          std::span<const std::string_view> usual,
                                          std::size_t values, const char* about);

}  // namespace eqt::analyze
