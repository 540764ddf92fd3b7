// SPDX-License-Identifier: Apache-2.0
// An `analyze` question is about these: compressors, ready to be asked, and the values that
// `variance` and `bits` quantise, cut as training cuts them.

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "analyze/analyze.hpp"
#include "analyze/dumped_gradient.hpp"
#include "codec/compressor.hpp"
#include "codec/message.hpp"
#include "config/run_config.hpp"
#include "figures/rows.hpp"
#include "theory/variance.hpp"

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

/// A drawn vector, or a file's gradient. @throws Error{data}
DumpedGradient values_for(const ValuesQuestion& question);

/// The segments, and the values that are sent raw. A gradient with a layout is divided as in a run
/// with this compressor and otherwise default settings (including skip_below and granularity);
/// otherwise all values are one segment.
std::vector<codec::Segment> segments_for(const Subject& subject, const DumpedGradient& gradient);

/// "65536 values of source normal, seed 1" or "gradient.npy, step 120, rank 0".
std::string describe_values(const ValuesQuestion& question, const DumpedGradient& gradient);

}  // namespace eqt::analyze
