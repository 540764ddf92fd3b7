// SPDX-License-Identifier: Apache-2.0
#include "app/gradient_dump.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "app/run_folder.hpp"
#include "core/error.hpp"
#include "metrics/gradient_file.hpp"

namespace eqt::app {
namespace {

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

std::unique_ptr<train::GradientObserver> make_gradient_dump(model::Replica& replica,
                                                            const GradientDumpOptions& options) {
  return std::make_unique<GradientDump>(replica, options);
}

}  // namespace eqt::app
