// SPDX-License-Identifier: Apache-2.0
#include "app/gradient_observers.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "app/run_folder.hpp"
#include "app/sample_grid.hpp"
#include "codec/finite.hpp"
#include "codec/levels/adaptive_codec.hpp"
#include "codec/levels/level_codec.hpp"
#include "core/error.hpp"
#include "metrics/gradient_file.hpp"
#include "metrics/value_histogram.hpp"
#include "pipeline/plan.hpp"

namespace eqt::app {
namespace {

/// True if messages contain codes of the gradient, tensor by tensor.
bool sends_codes_of_tensors(const config::RunConfig& config) {
  return config.synchronization.algorithm->averages_gradients &&
         config.compressor.granularity == codec::Granularity::layer;
}

class GradientHistograms final : public train::GradientObserver {
 public:
  GradientHistograms(const config::RunConfig& config, model::Replica& replica,
                     const codec::Compressor& compressor, metrics::Sink& sink)
      : config_(config),
        replica_(replica),
        compressor_(compressor),
        sink_(sink),
        codec_(config.compressor.make()),
        counts_codes_(sends_codes_of_tensors(config)) {}

  bool begin(const train::ObservedStep& step, const data::Batch& batch) override {
    show_samples(step, batch);
    if (!step.ends_epoch) return false;
    step_ = step;
    all_.clear();
    histograms_.clear();
    adopt_levels();
    if (counts_codes_) usage_ = codec::LevelUsage::of(*codec_);
    return true;
  }

  void slice_ready(std::size_t slice) override {
    const TensorSlice& s = replica_.layout()[slice];
    const std::span<const float> values = replica_.gradient().subspan(s.offset, s.count);
    tensor_.clear();
    tensor_.add(values);
    all_.add(tensor_);
    if (!pipeline::is_compressed(s, config_.compressor.skip_below)) return;
    if (!tensor_.empty()) histograms_.push_back(tensor_.record("gradient/" + s.name, step_.done));
    // The synchronizer reports values that are not finite.
    if (usage_ == nullptr || codec::first_non_finite(values) < values.size()) return;
    codec::EncodeContext context;
    context.key = key_of(slice);
    usage_->add(values, context);
  }

  void finish() override {
    if (!all_.empty()) sink_.write(all_.record("gradient/all", step_.done));
    for (const metrics::HistogramRecord& histogram : histograms_) sink_.write(histogram);
    if (usage_ != nullptr) sink_.write(code_histogram(step_.done, usage_->counts()));
    histograms_.clear();
  }

 private:
  /// Only once, even if the run returns to its beginning.
  void show_samples(const train::ObservedStep& step, const data::Batch& batch) {
    if (shown_ || step.done > 1 || !has_samples_to_show(batch)) return;
    sink_.write(sample_grid(batch));
    shown_ = true;
  }

  /// The run's codec may have adapted its levels.
  void adopt_levels() {
    codec::AdaptiveLevelCodec* const own = codec_->adaptive_levels();
    if (own != nullptr) own->set_levels(compressor_.level_rounding()->levels());
  }

  /// Returns the key of rank 0's message in this step.
  RandomKey key_of(std::size_t slice) const {
    return {config_.seed, step_.done - 1, 0, static_cast<std::uint32_t>(slice)};
  }

  const config::RunConfig config_;
  model::Replica& replica_;
  const codec::Compressor& compressor_;
  metrics::Sink& sink_;
  const std::unique_ptr<codec::Compressor> codec_;  // without threads
  const bool counts_codes_;
  bool shown_ = false;  // the samples
  train::ObservedStep step_;
  metrics::ValueHistogram all_, tensor_;
  std::vector<metrics::HistogramRecord> histograms_;
  std::unique_ptr<codec::LevelUsage> usage_;  // null: there are no codes of tensors
};

class BothObservers final : public train::GradientObserver {
 public:
  BothObservers(std::unique_ptr<train::GradientObserver> first,
                std::unique_ptr<train::GradientObserver> second)
      : observers_{{std::move(first)}, {std::move(second)}} {}

  bool begin(const train::ObservedStep& step, const data::Batch& batch) override {
    for (One& one : observers_) one.asked = one.observer->begin(step, batch);
    return observers_[0].asked || observers_[1].asked;
  }
  void slice_ready(std::size_t slice) override {
    for (One& one : observers_)
      if (one.asked) one.observer->slice_ready(slice);
  }
  void finish() override {
    for (One& one : observers_)
      if (one.asked) one.observer->finish();
  }

 private:
  struct One {
    std::unique_ptr<train::GradientObserver> observer;
    bool asked = false;
  };
  One observers_[2];
};

class GradientDump final : public train::GradientObserver {
 public:
  GradientDump(model::Replica& replica, const GradientDumpOptions& options)
      : replica_(replica),
        options_(options),
        folder_(gradient_folder(options.run_folder)),
        values_(replica.gradient().size()) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error)
      fail(Kind::output, "output.dump_gradients: expected to make the folder {}, found: {}",
           folder_, error.message());
  }

  bool begin(const train::ObservedStep& step, const data::Batch&) override {
    step_ = step;
    return step.done % options_.every == 0;
  }

  void slice_ready(std::size_t slice) override {
    const TensorSlice& s = replica_.layout()[slice];
    const auto from = replica_.gradient().subspan(s.offset, s.count);
    std::copy(from.begin(), from.end(), values_.begin() + static_cast<std::ptrdiff_t>(s.offset));
  }

  void finish() override {
    metrics::write_gradient(folder_,
                            {.step = step_.done,
                             .epoch = step_.epoch,
                             .rank = options_.rank,
                             .batch_size = options_.batch_size},
                            replica_.layout(), values_);
  }

 private:
  model::Replica& replica_;
  GradientDumpOptions options_;
  std::string folder_;
  std::vector<float> values_;
  train::ObservedStep step_;
};

}  // namespace

std::unique_ptr<train::GradientObserver> make_gradient_histograms(
    const config::RunConfig& config, model::Replica& replica, const codec::Compressor& compressor,
    metrics::Sink& sink) {
  return std::make_unique<GradientHistograms>(config, replica, compressor, sink);
}

metrics::HistogramRecord code_histogram(StepId step, std::span<const std::uint64_t> counts) {
  const auto n = static_cast<double>(counts.size() / 2);
  metrics::HistogramRecord record;
  record.step = step;
  record.name = "level_usage";
  // Bins of equal width, each around its code.
  record.least = -n - 0.5;
  record.most = n + 0.5;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double code = static_cast<double>(i) - n, count = static_cast<double>(counts[i]);
    record.upper_limits.push_back(code + 0.5);
    record.counts.push_back(count);
    record.sum += code * count;
    record.sum_squares += code * code * count;
  }
  return record;
}

std::unique_ptr<train::GradientObserver> make_both_observers(
    std::unique_ptr<train::GradientObserver> first,
    std::unique_ptr<train::GradientObserver> second) {
  if (first == nullptr) return second;
  if (second == nullptr) return first;
  return std::make_unique<BothObservers>(std::move(first), std::move(second));
}

std::unique_ptr<train::GradientObserver> make_gradient_dump(model::Replica& replica,
                                                            const GradientDumpOptions& options) {
  return std::make_unique<GradientDump>(replica, options);
}

}  // namespace eqt::app
