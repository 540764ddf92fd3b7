// SPDX-License-Identifier: Apache-2.0
#include "adaptation/grade_adaptation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "adaptation/grade_choice.hpp"
#include "adaptation/grade_observations.hpp"
#include "collective/messages.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"

namespace eqt::adaptation {
namespace {

using codec::GradeIndex;
using grade_numbers::mean_at;
using grade_numbers::Means;
using grade_numbers::Row;

constexpr double kTie = 0.02;  // seconds that are as good
constexpr double kMeansKept = 0.9;
// A compressed segment has these bytes besides the member's payload: its length and its grade.
constexpr double kSegmentBytes = 5;

/// Grades that another run decided, checked before they are used.
struct ReplayedGrades {
  std::vector<codec::GradeIndex> grades;  // by slice
  std::string why;
};

/// A decision must fit these numbers.
struct ReplayedModel {
  std::uint32_t fingerprint = 0;  // of model and menu
  std::size_t slices = 0, grades = 0;
};

/// The other run's decision after `done` completed steps.
/// @throws Error{data} if there is none, or it is of another model or menu
ReplayedGrades replayed_grades(const std::function<std::optional<Decision>(StepId done)>& replay,
                               StepId done, const ReplayedModel& model) {
  const auto found = replay(done);
  if (!found)
    fail(Kind::data,
         "compressor.replay: expected a decision after step {}, found none; replay a run of at "
         "least as many steps with the same compressor.observe_every and decide_every",
         done);
  const auto fits = [&](double value) {
    return value >= 0 && value < static_cast<double>(model.grades) && value == std::floor(value);
  };
  const std::vector<double>& values = found->values;
  const bool same_model = values.size() == model.slices + 1 &&
                          values.front() == static_cast<double>(model.fingerprint) &&
                          std::all_of(values.begin() + 1, values.end(), fits);
  if (!same_model)
    fail(Kind::data,
         "compressor.replay, step {}: expected grades of {} tensors of this model and menu, "
         "found those of others; replay a run with the same model and compressor.menu",
         done, model.slices);
  ReplayedGrades result = {.grades = {}, .why = found->why};
  for (std::size_t s = 0; s < model.slices; ++s)
    result.grades.push_back(static_cast<codec::GradeIndex>(values[s + 1]));
  return result;
}

class GradeAdaptation final : public Adaptation {
 public:
  GradeAdaptation(comm::Communicator& comm, codec::MixedGrades& codec,
                  std::span<const pipeline::FusionBucket> plan, GradeAdaptationOptions options)
      : comm_(comm),
        codec_(codec),
        options_(std::move(options)),
        schedule_(options_.observe_every, options_.decide_every, options_.pairs),
        slices_(compressed_slices(plan)),
        row_{codec.grades(), slices_.size(), plan.size()},
        at_{codec.grades(), slices_.size()},
        rows_(comm, codec, slices_, row_, options_),
        means_(at_.size(), kMeansKept),
        speeds_(row_, options_.threads),
        table_(slices_.size(), codec.start()) {
    for (const SliceParts& slice : slices_) numbers_.push_back(slice.slice);
    if (options_.ranks < 2) table_.assign(slices_.size(), finest());
    codec_.set_table(numbers_, table_);
    if (!options_.replay) return;
    for (StepId step = 0; step < options_.total_steps; ++step)
      if (observes(step)) static_cast<void>(replayed(step));
  }

  bool observes(StepId step) const noexcept override {
    if (options_.ranks < 2 || slices_.empty() || !schedule_.observes(step)) return false;
    if (!options_.replay) return true;
    return schedule_.completes(step) &&
           (schedule_.decides(step) || options_.replay(step + 1).has_value());
  }

  void observe(const pipeline::FusionBucket& bucket, std::span<const float> flat) override {
    if (options_.replay) return;
    rows_.take(bucket, flat);
  }

  void end_worker() override { rows_.end_worker(); }

  void observe_mean(std::span<const float> mean, const StepSeconds& seconds) override {
    if (options_.replay) return;
    rows_.take_mean(mean, seconds);
  }

  std::optional<std::string> adapt(StepId step) override {
    exchanged_ = false;
    if (options_.replay) return repeat(step);
    if (!schedule_.completes(step)) {
      rows_.keep();
      return {};
    }
    const std::vector<std::vector<double>> rows = rows_.of_all_ranks(step);
    if (rows.empty()) return {};
    exchanged_ = true;
    means_.add(observation_of(rows));
    samples_now_ = 0;
    for (const std::vector<double>& row : rows) samples_now_ += row[Row::kSamples];
    // The first step of a run takes longer than any other.
    if (options_.uses_clock && step > 0) {
      speeds_.add(rows);
      if (options_.predict) {
        const std::vector<SliceLoad> loads = loads_of(table_);
        speeds_.add_step(rows,
                         [&](const StepSpeeds& speeds) { return options_.predict(loads, speeds); });
      }
    }
    // The last number says whether rank 0 has decided anything.
    std::vector<GradeIndex> next(table_.size() + 1);
    std::string why;
    if (comm_.rank() == 0) {
      if (auto decided = decide(schedule_.decides(step))) {
        std::ranges::copy(decided->first, next.begin());
        next.back() = 1;
        why = std::move(decided->second);
      }
    }
    comm_.broadcast(std::as_writable_bytes(std::span(next)), 0);
    const bool decided = next.back() != 0;
    next.pop_back();
    std::optional<std::string> note;
    if (decided) note = take(next, why);
    find();
    return note;
  }

  std::optional<Findings> take_findings() override { return std::exchange(findings_, {}); }
  std::optional<Decision> take_decision() override { return std::exchange(decision_, {}); }

  Traffic traffic_among(int ranks) const override {
    if (!exchanged_) return {};
    const auto n = static_cast<std::uint64_t>(ranks);
    const std::uint64_t bytes = n * (n - 1) * (row_.size() * sizeof(double) + kChecksumBytes) +
                                (n - 1) * (table_.size() + 1 + kChecksumBytes);
    return {.sent_bytes = bytes, .received_bytes = bytes};
  }

  void visit_state(StateVisitor& visitor) override {
    std::vector<std::uint64_t> table(table_.begin(), table_.end());
    visit_in(visitor, "means", means_);
    speeds_.visit_state(visitor);
    visitor.number("decisions", decisions_, Across::same);
    visitor.number("since change", since_change_, Across::same);
    visitor.numbers("grades", table, Across::same);
    visit_in(visitor, "gradients", rows_);
    if (!visitor.restores()) return;
    for (std::size_t s = 0; s < table.size(); ++s) {
      if (table[s] >= codec_.grades())
        fail(Kind::data, "grades of auto: expected numbers below {}, found {}", codec_.grades(),
             table[s]);
      table_[s] = static_cast<GradeIndex>(table[s]);
    }
    if (options_.ranks < 2) table_.assign(slices_.size(), finest());
    codec_.set_table(numbers_, table_);
  }

 private:
  GradeIndex finest() const {
    for (std::size_t k = 0; k < codec_.grades(); ++k)
      if (codec_.grade(static_cast<GradeIndex>(k)).properties().lossless)
        return static_cast<GradeIndex>(k);
    return static_cast<GradeIndex>(codec_.grades() - 1);
  }

  std::vector<double> observation_of(const std::vector<std::vector<double>>& rows) {
    std::vector<double> all(at_.size());
    std::vector<RankBatch> batches;
    for (const std::vector<double>& row : rows)
      batches.push_back({.samples = row[Row::kSamples], .weight = row[Row::kWeight]});
    for (std::size_t s = 0; s < slices_.size(); ++s) {
      std::vector<SliceSums> sums;
      std::vector<double> squares;
      for (std::size_t r = 0; r < rows.size(); ++r) {
        sums.push_back({.square = rows[r][row_.square(s)],
                        .product = rows[r][row_.product(s)],
                        .change = rows[r][row_.change(s)]});
        squares.push_back(batches[r].weight * batches[r].weight * sums.back().square);
      }
      const NoiseEstimate noise =
          options_.pairs ? estimate_noise_of_pairs(sums, batches) : estimate_noise(sums, batches);
      all[at_.signal(s)] = noise.signal;
      all[at_.sample_noise(s)] = noise.sample_noise;
      all[at_.square(s)] = ordered_sum(std::move(squares)) / static_cast<double>(rows.size());
      for (std::size_t k = 0; k < row_.grades; ++k) {
        all[at_.error(s) + k] = mean_at(rows, row_.error(s) + k);
        all[at_.bytes(s) + k] = mean_at(rows, row_.bytes(s) + k);
      }
    }
    return all;
  }

  double bytes_of_slice(std::size_t s, std::size_t grade) const {
    return means_[at_.bytes(s) + grade] * static_cast<double>(slices_[s].count) +
           kSegmentBytes * static_cast<double>(slices_[s].parts.size());
  }

  template <typename Grades>
  std::vector<SliceLoad> loads_of(const Grades& grades) const {
    std::vector<SliceLoad> loads;
    for (std::size_t s = 0; s < slices_.size(); ++s)
      loads.push_back({.values = static_cast<double>(slices_[s].count),
                       .bytes = bytes_of_slice(s, grades[s]),
                       .grade = static_cast<GradeIndex>(grades[s])});
    return loads;
  }

  /// V of a slice: tau / B.
  double batch_noise(std::size_t s) const { return means_[at_.sample_noise(s)] / samples_now_; }

  /// Returns the variance that a slice adds to the mean with a grade, or with a memory the mean
  /// square of what ranks do not send.
  double noise_of_grade(std::size_t s, std::size_t grade) const {
    if (options_.error_share) return means_[at_.error(s) + grade];
    return added_noise({.square = means_[at_.square(s)], .error = means_[at_.error(s) + grade]},
                       means_[at_.signal(s)], batch_noise(s), options_.ranks,
                       options_.quantisations);
  }

  GradeCosts costs_now() const {
    GradeCosts costs(slices_.size());
    for (std::size_t s = 0; s < slices_.size(); ++s)
      for (std::size_t k = 0; k < row_.grades; ++k)
        costs[s].push_back({.bytes = bytes_of_slice(s, k), .noise = noise_of_grade(s, k)});
    return costs;
  }

  /// Returns what a slice's limits are relative to: its noise, or with a memory the mean square of
  /// what ranks have to send.
  double scale_of(std::size_t s) const {
    return options_.error_share ? means_[at_.square(s)] : batch_noise(s);
  }

  double total_scale() const {
    double sum = 0;
    for (std::size_t s = 0; s < slices_.size(); ++s) sum += scale_of(s);
    return sum;
  }

  NoiseLimits limits_now() const {
    if (options_.error_share)
      return {
          .total = *options_.error_share * total_scale(),
          .by_slice = std::vector<double>(slices_.size(), std::numeric_limits<double>::infinity())};
    NoiseLimits limits{.total = options_.noise_share * std::max(total_scale(), 0.0),
                       .by_slice = {}};
    for (std::size_t s = 0; s < slices_.size(); ++s)
      limits.by_slice.push_back(options_.noise_cap * std::max(batch_noise(s), 0.0));
    return limits;
  }

  /// Returns, on rank 0, the next table and why; nothing between regular decisions, unless one is
  /// urgent.
  std::optional<std::pair<std::vector<GradeIndex>, std::string>> decide(bool regular) {
    if (!regular && decisions_ == 0) return {};
    const GradeCosts costs = costs_now();
    const NoiseLimits limits = limits_now();
    const StepSpeeds speeds = speeds_.now();
    const auto seconds = [&](const Assignment& grades) {
      return options_.predict ? options_.predict(loads_of(grades), speeds)
                              : bytes_of(costs, grades);
    };
    const double tie = options_.predict ? kTie : 0;
    const PresentGrades present = {
        .grades = {table_.begin(), table_.end()}, .decisions = decisions_, .since = since_change_};
    const GradeChoice choice = choose_grades(costs, limits, seconds, tie);
    const bool too_slow =
        options_.predict && is_much_faster(choice.seconds, seconds(present.grades));
    const bool urgent = too_slow || breaks_limit(costs, limits, choice, present.grades);
    if (!regular && !urgent) return {};
    const Assignment taken =
        urgent ? choice.assignment : settle_grades(costs, limits, choice, present, seconds, tie);
    const double scale = total_scale();
    const double share = scale > 0 ? noise_of(costs, taken) / scale : 0;
    std::string why =
        options_.error_share
            ? fmt::format("{:.3g} of the squares stay in the memory, at most {:.3g}", share,
                          *options_.error_share)
            : fmt::format("noise added {:.3g} times the gradients' own, of at most {:.3g}", share,
                          options_.noise_share);
    why += fmt::format("; {:.4g} bytes a message", bytes_of(costs, taken));
    if (options_.predict)
      why += fmt::format("; {:.4g} s until the means are there", seconds(taken));
    if (options_.uses_clock)
      why += fmt::format(", links {:.3g} times as slow as at first", speeds.slowdown);
    return {{{taken.begin(), taken.end()}, std::move(why)}};
  }

  /// All ranks have the next table. @return on rank 0 a line if it is new
  std::optional<std::string> take(const std::vector<GradeIndex>& next, const std::string& why) {
    for (const GradeIndex grade : next)
      if (grade >= codec_.grades())
        fail(Kind::wire, "adaptation: expected grades below {}, found {}", codec_.grades(), grade);
    std::size_t changed = 0;
    for (std::size_t s = 0; s < next.size(); ++s)
      if (next[s] != table_[s]) ++changed;
    ++decisions_;
    since_change_ = changed > 0 ? 0 : since_change_ + 1;
    table_ = next;
    codec_.set_table(numbers_, table_);
    if (comm_.rank() != 0) return {};
    decision_ = Decision{.values = {static_cast<double>(options_.fingerprint)}, .why = why};
    decision_->values.insert(decision_->values.end(), table_.begin(), table_.end());
    if (changed == 0) return {};
    return fmt::format("grades of {} of {} tensors changed, now {}: {}", changed, table_.size(),
                       grades_text(), why);
  }

  /// "3 with none, 17 with e-elastiquant:4@1".
  std::string grades_text() const {
    std::string text;
    for (std::size_t k = 0; k < codec_.grades(); ++k) {
      const auto count = std::ranges::count(table_, static_cast<GradeIndex>(k));
      if (count == 0) continue;
      text += fmt::format("{}{} with {}", text.empty() ? "" : ", ", count,
                          codec_.name_of(static_cast<GradeIndex>(k)));
    }
    return text;
  }

  /// Returns what the other run decided in this step.
  ReplayedGrades replayed(StepId step) const {
    return replayed_grades(
        options_.replay, step + 1,
        {.fingerprint = options_.fingerprint, .slices = table_.size(), .grades = codec_.grades()});
  }

  std::optional<std::string> repeat(StepId step) {
    const ReplayedGrades found = replayed(step);
    return take(found.grades, found.why);
  }

  /// Collects what rank 0 reports of this step.
  void find() {
    if (comm_.rank() != 0) return;
    Findings found;
    double signal = 0, sample_noise = 0;
    for (std::size_t s = 0; s < slices_.size(); ++s) {
      signal += means_[at_.signal(s)];
      sample_noise += means_[at_.sample_noise(s)];
      found.added_noise += noise_of_grade(s, table_[s]);
      found.slices.push_back(
          {.slice = slices_[s].slice, .gradient_noise = scale_of(s), .grade = table_[s]});
    }
    found.gradient_noise = total_scale();
    // Gradients with residuals do not tell how noisy a batch is.
    found.noise_scale = options_.error_share ? std::numeric_limits<double>::quiet_NaN()
                        : signal > 0         ? sample_noise / signal
                                             : 0;
    findings_ = std::move(found);
  }

  comm::Communicator& comm_;
  codec::MixedGrades& codec_;
  const GradeAdaptationOptions options_;
  const ObservationSchedule schedule_;
  const std::vector<SliceParts> slices_;
  const Row row_;
  const Means at_;
  std::vector<std::uint32_t> numbers_;  // by slice
  GradeRows rows_;

  RunningMeans means_;
  GradeSpeeds speeds_;
  double samples_now_ = 1;  // B
  std::vector<GradeIndex> table_;
  std::uint64_t decisions_ = 0, since_change_ = 0;

  bool exchanged_ = false;  // in the last adapt()
  std::optional<Findings> findings_;
  std::optional<Decision> decision_;
};

}  // namespace

std::unique_ptr<Adaptation> make_grade_adaptation(comm::Communicator& comm,
                                                  codec::MixedGrades& codec,
                                                  std::span<const pipeline::FusionBucket> plan,
                                                  GradeAdaptationOptions options) {
  return std::make_unique<GradeAdaptation>(comm, codec, plan, std::move(options));
}

}  // namespace eqt::adaptation
