// SPDX-License-Identifier: Apache-2.0
#include "metrics/sink.hpp"

#include <utility>

namespace eqt::metrics {
namespace {

class FanOut : public Sink {
 public:
  explicit FanOut(std::vector<std::unique_ptr<Sink>> sinks) : sinks_(std::move(sinks)) {}

  void write(const RunRecord& record) override { write_all(record); }
  void write(const StartRecord& record) override { write_all(record); }
  void write(const StepRecord& record) override { write_all(record); }
  void write(const NoteRecord& record) override { write_all(record); }
  void write(const DecisionRecord& record) override { write_all(record); }
  void write(const NoiseRecord& record) override { write_all(record); }
  void write(const ProfileRecord& record) override { write_all(record); }
  void write(const TimelineRecord& record) override { write_all(record); }
  void write(const EpochRecord& record) override { write_all(record); }
  void write(const EvaluationProgress& record) override { write_all(record); }
  void write(const HistogramRecord& record) override { write_all(record); }
  void write(const ImageRecord& record) override { write_all(record); }
  void write(const Summary& summary) override { write_all(summary); }

 private:
  template <typename Record>
  void write_all(const Record& record) {
    for (const auto& sink : sinks_) sink->write(record);
  }

  std::vector<std::unique_ptr<Sink>> sinks_;
};

}  // namespace

std::unique_ptr<Sink> make_fan_out(std::vector<std::unique_ptr<Sink>> sinks) {
  return std::make_unique<FanOut>(std::move(sinks));
}

std::span<const Named<ProgressStyle>> names_of(ProgressStyle) {
  static constexpr Named<ProgressStyle> kStyles[] = {
      {ProgressStyle::automatic, "auto", "a bar on a terminal, else lines"},
      {ProgressStyle::bar, "bar", "one line that is rewritten; lines where there is no terminal"},
      {ProgressStyle::lines, "lines", "a line every 10 seconds or 10 %"},
      {ProgressStyle::off, "off", "nothing until the final table"}};
  return kStyles;
}

}  // namespace eqt::metrics
