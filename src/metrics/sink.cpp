#include "metrics/sink.hpp"

#include <utility>

#include "core/error.hpp"

namespace eqt::metrics {
namespace {

class FanOut : public Sink {
 public:
  explicit FanOut(std::vector<std::unique_ptr<Sink>> sinks) : sinks_(std::move(sinks)) {}

  void write(const RunRecord& record) override { write_all(record); }
  void write(const StepRecord& record) override { write_all(record); }
  void write(const NoteRecord& record) override { write_all(record); }
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

ProgressStyle progress_style(std::string_view name) {
  if (name == "auto") return ProgressStyle::automatic;
  if (name == "bar") return ProgressStyle::bar;
  if (name == "lines") return ProgressStyle::lines;
  EQT_CHECK(name == "off", "no progress style {}", name);
  return ProgressStyle::off;
}

}  // namespace eqt::metrics
