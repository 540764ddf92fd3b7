// SPDX-License-Identifier: Apache-2.0
// The figures of a run, each declared once: the seconds of a step by phase, and the scalars of
// records. JSON, TensorBoard's events, checkpoints, sums over ranks, the table at the end
// of a run, docs/records.md and reports read these rows.

#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>

namespace eqt::metrics {

/// The fields say how the time of a step was used [seconds]. They are in the order of kPhases.
struct PhaseSeconds {
  double data = 0;
  double compute = 0;
  double encode = 0;
  double transfer = 0;
  double decode = 0;
  double update = 0;
  double total = 0;

  PhaseSeconds& operator+=(const PhaseSeconds& other);
};

struct PhaseRow {
  const char* name;  // the key in records
  double PhaseSeconds::*seconds;
  const char* meaning;
};

/// The last one is no sum of the others, which leave gaps.
inline constexpr std::array kPhases = {
    PhaseRow{"data", &PhaseSeconds::data, "waiting for the loader"},
    PhaseRow{"compute", &PhaseSeconds::compute, "forward and backward pass"},
    PhaseRow{"encode", &PhaseSeconds::encode, "encoding of messages"},
    PhaseRow{"transfer", &PhaseSeconds::transfer,
             "waiting for the network, without what computing hides"},
    PhaseRow{"decode", &PhaseSeconds::decode, "decoding and adding of messages"},
    PhaseRow{"update", &PhaseSeconds::update, "the optimizer's step"},
    PhaseRow{"total", &PhaseSeconds::total, "the whole step"},
};
static_assert(sizeof(PhaseSeconds) == kPhases.size() * sizeof(double), "a phase without a row");

inline PhaseSeconds& PhaseSeconds::operator+=(const PhaseSeconds& other) {
  for (const PhaseRow& phase : kPhases) this->*phase.seconds += other.*phase.seconds;
  return *this;
}

/// The seconds in the order of kPhases, and back.
inline std::array<double, kPhases.size()> in_order(const PhaseSeconds& seconds) {
  std::array<double, kPhases.size()> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = seconds.*kPhases[i].seconds;
  return all;
}
inline PhaseSeconds from_order(const std::array<double, kPhases.size()>& all) {
  PhaseSeconds seconds;
  for (std::size_t i = 0; i < all.size(); ++i) seconds.*kPhases[i].seconds = all[i];
  return seconds;
}

/// A rank does one of these in a span of time. The last two happen beside its own work, on a
/// communication thread, or while it waits.
enum class Activity {
  data,      // waits for the loader
  compute,   // forward and backward
  wait,      // for messages, before it can go on
  update,    // optimizer
  messages,  // encodes, sends and decodes
  transfer   // waits for messages
};

struct ActivityRow {
  Activity value;
  std::string_view name;   // in timeline.jsonl
  std::string_view about;  // for people
};

/// Every activity, in an order that gives neighbours very different colours.
inline constexpr std::array kActivities = {
    ActivityRow{Activity::compute, "compute", "computing"},
    ActivityRow{Activity::wait, "wait", "waiting"},
    ActivityRow{Activity::messages, "messages", "encoding"},
    ActivityRow{Activity::transfer, "transfer", "in transit"},
    ActivityRow{Activity::update, "update", "update"},
    ActivityRow{Activity::data, "data", "loading"}};

inline std::optional<Activity> activity_named(std::string_view name) {
  for (const ActivityRow& row : kActivities)
    if (row.name == name) return row.value;
  return {};
}

/// The scalars of records. Those of an epoch or a summary are empty, or not finite, where they are
/// not known or not defined.
struct Figures {
  using Value = std::optional<double>;

  Value test_accuracy, best_test_accuracy;
  Value node_test_accuracy_mean, node_test_accuracy_min;
  Value train_loss, test_loss;
  Value images_per_second;
  Value compression_ratio, bits_per_value;
  Value quantization_variance, mean_quantization_variance;
  Value consensus_distance, consensus_distance_relative;
  Value wall_seconds, peak_rss_mib;
  Value skipped_pictures, clipped_values;
  Value evaluation_sent_bytes, paper_sent_bytes_per_node;
};

/// These records have a figure.
enum class Records { epoch, summary, both };

/// A number is written in one of these forms.
enum class Form { real, fraction, count };

/// A run that has epochs but no summary gets its figure by one of these rules.
enum class OverEpochs {
  none,        // nothing: only a summary has it
  last,        // that of the last epoch
  last_known,  // that of the last epoch that has one
  most,        // the largest of the figure `of`
  mean,        // over the epochs that have it
  by_seconds,  // likewise, weighted by their seconds
  by_bytes     // likewise, by the bytes that were sent
};

struct FigureRow {
  const char* name;  // the key in records, CSV and JSON
  Figures::Value Figures::*value;
  Records in;
  Form form;
  const char* unit;     // "" = none
  const char* meaning;  // a sentence without its full stop
  OverEpochs over_epochs = OverEpochs::none;
  Figures::Value Figures::*of = nullptr;  // the figure whose largest value this is
  bool only_if_known = false;             // the key is left out where the figure is empty, not null

  // A row of the console's table: its label and the form of its number. Null: it has none, or one
  // that is not made from these rows.
  const char* console = nullptr;
  const char* console_form = "{:.2f}";
  bool positive = false;  // 0 stands for none there

  // A report shows it under this head of a column; null: it does not.
  const char* head = nullptr;
  int decimals = -1;  // -1: `digits` significant ones
  int digits = 0;
  bool main = false;           // in the first table; the others are details
  const char* note = nullptr;  // below a table, where the head does not say enough
};

/// The rows stand in the order of a report's columns.
inline constexpr std::array kFigures = {
    FigureRow{.name = "test_accuracy",
              .value = &Figures::test_accuracy,
              .in = Records::both,
              .form = Form::fraction,
              .unit = "",
              .meaning = "the share of the test set that the model, or the mean of all ranks' "
                         "models, classifies correctly",
              .over_epochs = OverEpochs::last_known,
              .head = "test accuracy",
              .decimals = 2,
              .main = true},
    FigureRow{.name = "best_test_accuracy",
              .value = &Figures::best_test_accuracy,
              .in = Records::summary,
              .form = Form::fraction,
              .unit = "",
              .meaning = "the best test_accuracy of the run",
              .over_epochs = OverEpochs::most,
              .of = &Figures::test_accuracy,
              .head = "best",
              .decimals = 2,
              .note = "Best: of all tests during the run."},
    FigureRow{.name = "node_test_accuracy_mean",
              .value = &Figures::node_test_accuracy_mean,
              .in = Records::both,
              .form = Form::fraction,
              .unit = "",
              .meaning = "the mean of node_test_accuracy",
              .over_epochs = OverEpochs::last_known,
              .head = "nodes' mean",
              .decimals = 2,
              .note = "Nodes: each rank's own model, tested on the whole test set."},
    FigureRow{.name = "node_test_accuracy_min",
              .value = &Figures::node_test_accuracy_min,
              .in = Records::both,
              .form = Form::fraction,
              .unit = "",
              .meaning = "the smallest of node_test_accuracy",
              .over_epochs = OverEpochs::last_known,
              .head = "worst node",
              .decimals = 2},
    FigureRow{.name = "train_loss",
              .value = &Figures::train_loss,
              .in = Records::both,
              .form = Form::real,
              .unit = "",
              .meaning = "the mean loss of the training batches over the epoch and all ranks",
              .over_epochs = OverEpochs::last,
              .head = "train loss",
              .decimals = 4,
              .main = true},
    FigureRow{.name = "test_loss",
              .value = &Figures::test_loss,
              .in = Records::epoch,
              .form = Form::real,
              .unit = "",
              .meaning = "the mean loss over the test set",
              .over_epochs = OverEpochs::last_known,
              .head = "test loss",
              .decimals = 4},
    FigureRow{.name = "images_per_second",
              .value = &Figures::images_per_second,
              .in = Records::both,
              .form = Form::real,
              .unit = "1/s",
              .meaning = "the samples of all ranks a second of training, without evaluation",
              .over_epochs = OverEpochs::by_seconds,
              .head = "samples/s",
              .decimals = 1},
    FigureRow{.name = "compression_ratio",
              .value = &Figures::compression_ratio,
              .in = Records::both,
              .form = Form::real,
              .unit = "",
              .meaning = "the bytes that a ring allreduce of float32 would have sent in as many "
                         "rounds, divided by those sent",
              // Numerators of the ratio are summed, and so are its denominators.
              .over_epochs = OverEpochs::by_bytes,
              .console = "compression ratio",
              .positive = true,
              .head = "ratio",
              .decimals = 2,
              .main = true,
              .note = "Ratio: bytes that a ring allreduce of float32 would have sent in as many "
                      "rounds, divided by "
                      "those sent."},
    FigureRow{.name = "bits_per_value",
              .value = &Figures::bits_per_value,
              .in = Records::both,
              .form = Form::real,
              .unit = "bit",
              .meaning = "the bits of all that ranks encoded, divided by its values",
              .over_epochs = OverEpochs::by_bytes,
              .console = "bits per value",
              .positive = true,
              .head = "bits/value",
              .decimals = 3,
              .main = true,
              .note = "Bits/value: bits of all that ranks encoded, divided by its values."},
    FigureRow{.name = "quantization_variance",
              .value = &Figures::quantization_variance,
              .in = Records::both,
              .form = Form::real,
              .unit = "",
              .meaning = "|decoded - exact|^2 / |exact|^2 of what a rank encodes, error feedback "
                         "included: a mean over the "
                         "steps and ranks that measured it",
              .over_epochs = OverEpochs::mean,
              .console = "quantization error",
              .console_form = "{:.4g} (relative variance)",
              .head = "variance",
              .digits = 3,
              .main = true,
              .note = "Variance: |decoded - exact|^2 / |exact|^2 of what a rank encodes, error "
                      "feedback included."},
    FigureRow{
        .name = "mean_quantization_variance",
        .value = &Figures::mean_quantization_variance,
        .in = Records::both,
        .form = Form::real,
        .unit = "",
        .meaning = "the same of the mean that all ranks apply, with every quantization on its way",
        .over_epochs = OverEpochs::mean,
        .console = "error of the mean",
        .console_form = "{:.4g} (relative variance)",
        .head = "mean's variance",
        .digits = 3,
        .main = true,
        .note = "Mean's variance: the same of the mean that all ranks apply, with every "
                "quantization on its "
                "way."},
    FigureRow{.name = "consensus_distance",
              .value = &Figures::consensus_distance,
              .in = Records::both,
              .form = Form::real,
              .unit = "",
              .meaning = "the root of the mean over ranks of |model - mean model|^2, of parameters",
              .over_epochs = OverEpochs::last_known,
              .head = "consensus distance",
              .digits = 3,
              .main = true,
              .note = "Consensus distance: root of the mean over ranks of |model - mean model|^2."},
    FigureRow{.name = "consensus_distance_relative",
              .value = &Figures::consensus_distance_relative,
              .in = Records::both,
              .form = Form::real,
              .unit = "",
              .meaning = "consensus_distance, divided by |mean model|"},
    FigureRow{.name = "wall_seconds",
              .value = &Figures::wall_seconds,
              .in = Records::summary,
              .form = Form::real,
              .unit = "s",
              .meaning = "the time from the start of training to the last record, evaluations, "
                         "checkpoints and earlier starts included",
              .head = "wall [s]",
              .decimals = 1},
    FigureRow{
        .name = "peak_rss_mib",
        .value = &Figures::peak_rss_mib,
        .in = Records::summary,
        .form = Form::real,
        .unit = "MiB",
        .meaning = "the largest resident memory of the largest rank, until `model.pt` is written",
        .head = "peak [MiB]",
        .decimals = 0},
    FigureRow{.name = "skipped_pictures",
              .value = &Figures::skipped_pictures,
              .in = Records::summary,
              .form = Form::count,
              .unit = "",
              .meaning = "broken pictures in place of which others were read, a sum over ranks",
              .only_if_known = true},
    FigureRow{.name = "clipped_values",
              .value = &Figures::clipped_values,
              .in = Records::summary,
              .form = Form::count,
              .unit = "",
              .meaning = "8-bit values of training's forward passes that were cut to their range "
                         "since the start of the "
                         "program, a sum over ranks",
              .only_if_known = true,
              .head = "clipped values",
              .decimals = 0},
    FigureRow{.name = "evaluation_sent_bytes",
              .value = &Figures::evaluation_sent_bytes,
              .in = Records::both,
              .form = Form::count,
              .unit = "B",
              .meaning = "what all ranks sent to evaluate different models and to average them; "
                         "not part of sent_bytes"},
    FigureRow{.name = "paper_sent_bytes_per_node",
              .value = &Figures::paper_sent_bytes_per_node,
              .in = Records::summary,
              .form = Form::count,
              .unit = "B",
              .meaning = "a node's bytes as published tables count them: one out-edge, no headers"},
};
static_assert(sizeof(Figures) == kFigures.size() * sizeof(Figures::Value),
              "a figure without a row");

inline bool is_in(const FigureRow& row, Records record) {
  return row.in == Records::both || row.in == record;
}

/// False where the figure is empty, NaN or infinite.
inline bool known(const Figures::Value& value) { return value && std::isfinite(*value); }

}  // namespace eqt::metrics
