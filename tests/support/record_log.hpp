// SPDX-License-Identifier: Apache-2.0
// A sink that keeps all records.

#pragma once

#include <vector>

#include "metrics/sink.hpp"

namespace eqt::test {

struct RecordLog final : metrics::Sink {
  std::vector<metrics::StepRecord> steps;
  std::vector<metrics::EpochRecord> epochs;
  std::vector<metrics::EvaluationProgress> evaluations;
  std::vector<metrics::NoteRecord> notes;

  void write(const metrics::StepRecord& record) override { steps.push_back(record); }
  void write(const metrics::EpochRecord& record) override { epochs.push_back(record); }
  void write(const metrics::EvaluationProgress& record) override { evaluations.push_back(record); }
  void write(const metrics::NoteRecord& record) override { notes.push_back(record); }
};

}  // namespace eqt::test
