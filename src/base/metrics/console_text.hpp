// SPDX-License-Identifier: Apache-2.0
// The texts of the console: pure functions of the records.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "metrics/records.hpp"

namespace eqt::metrics {

/// The progress after a step.
struct Progress {
  StepId step = 0;         // completed
  StepId total_steps = 0;  // 0 = unknown
  std::uint64_t epoch = 0;
  std::uint64_t epochs = 0;  // 0 = unknown
  double loss = 0;
  double images_per_second = 0;   // 0 = unknown
  std::uint64_t sent_bytes = 0;   // mean over ranks, since the first step of the run
  double compression_ratio = 0;   // 0 = unknown
  double remaining_seconds = -1;  // negative = unknown
};

/// "step 120/900  epoch 1/3  loss 1.2345  812 samples/s  sent 12.3 MB  ratio 7.80  ETA 0:42";
/// unknown figures are left out.
std::string progress_text(const Progress& progress);

/// "[######--------------]  30 %" and as many parts of progress_text() as fit into `columns`, the
/// most important (epoch, loss, speed, ETA, bytes) first; below 90 columns half the bar.
std::string bar_text(const Progress& progress, std::size_t columns);

/// "evaluating  epoch 1/3  40 %  812 samples/s  ETA 0:07"; unknown figures are left out.
/// @param epochs 0 = unknown
/// @param taken [seconds] since the evaluation began
std::string evaluation_text(const EvaluationProgress& progress, std::uint64_t epochs, double taken);

/// "[########------------]  40 %  evaluating  epoch 1/3  ..." in at most `columns`.
std::string evaluation_bar_text(const EvaluationProgress& progress, std::uint64_t epochs,
                                double taken, std::size_t columns);

/// "epoch 1/3  train loss 1.2345  test accuracy 56.78 %  ..."; bytes sent as in Progress.
std::string epoch_text(const EpochRecord& record, std::uint64_t epochs, int ranks);

/// The final table, in lines of at most `columns` that break between words. A longer word is cut
/// and ends with three dots. @param columns at least 40; more than 80 count as 80
std::string summary_table(const RunRecord& run, const Summary& summary, std::size_t columns = 80);

/// "0:07", "12:34", "1:02:03", rounded up.
std::string duration_text(double seconds);

/// "123 B", "1.5 kB", "12.3 MB", "4.56 GB": decimal units.
std::string bytes_text(std::uint64_t bytes);

/// The text with a question mark for each control character, including line breaks.
std::string plain(std::string_view text);

/// The text in lines of at most `columns` that break between words. All lines but the first are
/// indented; a word that is too long has its own line.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns, std::size_t indent);

/// The first `columns` characters of UTF-8 text; if some are missing, the last three are dots.
std::string fitted(std::string_view text, std::size_t columns);

/// A heading and a line for each of the first 16 ranks with its samples and its most frequent
/// classes. Lines have at most 70 columns; with the time they have 80. Empty if the partition is
/// IID.
std::vector<std::string> partition_lines(const PartitionRecord& record);

}  // namespace eqt::metrics
