// SPDX-License-Identifier: Apache-2.0
// Names of the files in a run's folder, which several rooms write, read and remove.

#pragma once

namespace eqt::metrics::run_files {

inline constexpr const char* kConfig = "config.json";         // with every default
inline constexpr const char* kRecords = "metrics.jsonl";      // one record a line
inline constexpr const char* kSummary = "summary.json";       // marks a finished run
inline constexpr const char* kStarts = "starts.jsonl";        // with whom, and what was lost
inline constexpr const char* kDecisions = "decisions.jsonl";  // by measured times
inline constexpr const char* kTuned = "tuned.json";           // what train.tune chose
inline constexpr const char* kTimeline = "timeline.jsonl";    // what every rank did when
inline constexpr const char* kLastWeights = "model.pt";       // after the last step
inline constexpr const char* kBestWeights = "model_best.pt";  // of the best test result
inline constexpr const char* kOwnNetwork = "network.pt";      // of the user's own, as it was given
inline constexpr const char* kEncoder = "encoder.json";       // the config.json of model.path
inline constexpr const char* kPreprocessing = "preprocessing.json";  // what the network expects
inline constexpr const char* kVocabulary = "vocab.txt";              // of a network for texts

}  // namespace eqt::metrics::run_files
