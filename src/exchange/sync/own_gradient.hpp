// SPDX-License-Identifier: Apache-2.0
// The steps on one rank's own gradient before and after a mean, and what an adaptation has found
// there, as records.

#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "adaptation/adaptation.hpp"
#include "collective/collective.hpp"
#include "collective/memory.hpp"
#include "core/layout.hpp"
#include "core/workspace.hpp"
#include "device/gradient_encoder.hpp"
#include "pipeline/plan.hpp"
#include "sync/divergence.hpp"
#include "sync/mean_sketch.hpp"
#include "sync/synchronizer.hpp"

namespace eqt::sync {

/// Relative squared error of the values that this rank has encoded, summed over the buckets of a
/// step. Values that it does not encode are in neither square.
class VarianceProbe {
 public:
  VarianceProbe(std::size_t count, std::size_t buckets) : exact_(count), squares_(buckets) {}

  void begin(bool measuring);
  bool measuring() const noexcept { return measuring_; }
  void before(const pipeline::FusionBucket& bucket, std::span<const float> gradient);
  void after(const pipeline::FusionBucket& bucket, const collective::Contribution& contribution);
  /// Empty if nothing was measured, or the gradient is zero.
  std::optional<double> result() const;

 private:
  struct Squares {
    double error = 0, exact = 0;
  };

  std::span<float> part(const pipeline::FusionBucket& bucket);

  std::vector<float> exact_;
  std::vector<Squares> squares_;  // by the bucket's index
  Workspace workspace_;
  bool measuring_ = false;
};

struct OwnGradientOptions {
  std::uint64_t run_seed = 0;
  int ranks = 1;                                      // of the job
  Rank rank = 0;                                      // for error messages
  bool lossy = false;                                 // measure the variance every few steps
  float largest = std::numeric_limits<float>::max();  // magnitude that the compressor can send
  collective::GradientMemory* memory = nullptr;       // may be null
  adaptation::Adaptation* adaptation = nullptr;       // likewise
  Divergence* divergence = nullptr;            // may be null: values that are not finite are an
                                               // error
  device::GradientEncoder* encoder = nullptr;  // of a gradient on a device; null: the host's
};

/// Checks that values are finite, adds the residual, passes the result to the adaptation and the
/// variance probe, and keeps the new residual.
class OwnGradient {
 public:
  /// Keeps references to all arguments. @param buckets their number in the plan
  OwnGradient(const Layout& layout, std::span<float> gradient, std::size_t buckets,
              const OwnGradientOptions& options);

  /// @param takes_residual the collective updates the residual in this step
  /// @param read_on_host others read the gradient before it is sent
  void begin(StepId step, bool takes_residual, bool read_on_host = false);
  /// Does the encoder encode this step's gradient? The host's has its plain values alone then. Not
  /// in steps that measure or adapt something, for which the host needs all.
  bool on_device() const noexcept { return on_device_; }
  /// The bucket's gradient is complete on the device. @pre on_device()
  void encode(const pipeline::FusionBucket& bucket) { options_.encoder->start(bucket.index); }
  /// Has what encode() began arrived?
  bool is_encoded(const pipeline::FusionBucket& bucket) const {
    return !on_device_ || options_.encoder->is_done(bucket.index);
  }
  /// Before the bucket's mean: prepares the gradient, or the context, for sending.
  void before(const pipeline::FusionBucket& bucket, collective::MeanContext& context);
  /// After the bucket's mean.
  void after(const pipeline::FusionBucket& bucket, const collective::Contribution& contribution);
  /// After after() of all ranks that this process plays, for one of them: turns the mean into what
  /// the step applies.
  void complete(const pipeline::FusionBucket& bucket);
  std::optional<double> variance() const { return probe_.result(); }
  /// After the means of all buckets of these values; empty if nothing is measured.
  std::optional<MeanSketch> sketch(std::span<const pipeline::Range> values) const;
  /// Returns the sketch of the whole gradient.
  std::optional<MeanSketch> sketch() const;
  /// Adds this rank's part of the sketch.
  void add_sketch_to(MeanSketch& all) const;
  bool adapting() const noexcept { return adapting_; }

  /// @param what "the gradient"
  void require_finite(const pipeline::FusionBucket& bucket, std::string_view what) const;

 private:
  /// Values that the compressor would refuse: a run that recovers goes back instead.
  void require_in_range(const pipeline::FusionBucket& bucket) const;
  /// True if the collective updates the memory while it encodes.
  bool fused() const;
  /// before() of values that the device has encoded, residual included.
  void take_payloads(const pipeline::FusionBucket& bucket, collective::MeanContext& context);
  /// Adds what the applied mean should be without compression, by this rank's values.
  void add_exact_to_sketch(const pipeline::FusionBucket& bucket);

  const Layout& layout_;
  const std::span<float> gradient_;
  const OwnGradientOptions options_;
  VarianceProbe probe_;
  MeanSketch sketch_;
  StepId step_ = 0;
  bool takes_residual_ = false;
  bool adapting_ = false;  // this step's gradients change the compressor
  bool on_device_ = false;
};

/// Adds the findings and the decision of an adaptation's last adapt() to `result`.
void report_adaptation(adaptation::Adaptation& adaptation, StepId step, const Layout& layout,
                       SyncResult& result);

}  // namespace eqt::sync
