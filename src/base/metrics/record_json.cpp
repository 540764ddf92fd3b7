// SPDX-License-Identifier: Apache-2.0
#include "metrics/record_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "metrics/decisions.hpp"

namespace eqt::metrics {
namespace {

// Increased when a key of metrics.jsonl changes its meaning or is removed.
constexpr int kSchema = 1;

/// JSON has no NaN and no infinity.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

Json number(const std::optional<double>& x) { return x ? number(*x) : Json(nullptr); }

Json flag(const std::optional<bool>& x) { return x ? Json(*x) : Json(nullptr); }

/// Rounds to the microsecond.
double rounded_seconds(double seconds) { return std::round(1e6 * seconds) / 1e6; }

Json json_of(const PhaseSeconds& s) {
  Json seconds = Json::object();
  for (const PhaseRow& phase : kPhases) seconds[phase.name] = number(s.*phase.seconds);
  return seconds;
}

/// The config as an object, so that readers of the records need not parse a string.
Json config_of(const RunRecord& r) {
  Json config = Json::parse(r.config_json, nullptr, false);
  return config.is_discarded() ? Json(nullptr) : config;
}

Json json_of(const PartitionRecord& r) {
  if (r.kind.empty()) return nullptr;
  Json partition = {{"kind", r.kind}};
  if (r.skew) partition["skew"] = number(*r.skew);
  if (r.alpha) partition["alpha"] = number(*r.alpha);
  if (r.reshuffle) partition["reshuffle"] = *r.reshuffle;
  if (r.epoch) partition["epoch"] = *r.epoch;
  if (r.test) partition["test"] = *r.test;
  if (!r.classes.empty()) partition["classes"] = r.classes;
  if (!r.sizes.empty()) partition["sizes"] = r.sizes;
  if (!r.rank_skew.empty()) partition["skew"] = r.rank_skew;
  return partition;
}

Json numbers(const std::vector<double>& values) {
  Json all = Json::array();
  for (const double value : values) all.push_back(number(value));
  return all;
}

/// Null if the list is empty.
template <typename T>
Json list(const std::vector<T>& values) {
  return values.empty() ? Json(nullptr) : Json(values);
}

Json list(const std::vector<EdgeRecord>& edges) {
  if (edges.empty()) return nullptr;
  Json all = Json::array();
  for (const EdgeRecord& e : edges) {
    all.push_back({{"from", e.from}, {"to", e.to}, {"bytes", e.bytes}});
  }
  return all;
}

void add(const Figures& figures, Records record, Json& json) {
  for (const FigureRow& row : kFigures) {
    const Figures::Value& value = figures.*row.value;
    if (!is_in(row, record) || (row.only_if_known && !value)) continue;
    json[row.name] = row.form == Form::count && known(value)
                         ? Json(static_cast<std::uint64_t>(*value))
                         : number(value);
  }
}

/// The task's metrics that have no member of their own.
void add(const std::vector<MetricRecord>& metrics, Json& record) {
  for (const MetricRecord& metric : metrics) {
    const std::string key = "test_" + metric.name;
    if (!record.contains(key)) record[key] = number(metric.value);
  }
}

Json metrics_of(const RunRecord& r) {
  Json metrics = Json::array();
  for (const MetricRecord& m : r.metrics)
    metrics.push_back({{"name", m.name},
                       {"title", m.title},
                       {"higher_is_better", m.higher_is_better},
                       {"fraction", m.fraction}});
  return metrics;
}

/// Each node's main metric, where that is no accuracy.
void add_nodes(const std::vector<MetricRecord>& metrics, const ReplicasRecord& r, Json& record) {
  if (metrics.empty() || r.node_test_metric.empty()) return;
  const MetricRecord& main = metrics.front();
  const std::string key = "node_test_" + main.name;
  const auto [least, most] = std::ranges::minmax(r.node_test_metric);
  const double sum = std::reduce(r.node_test_metric.begin(), r.node_test_metric.end());
  record[key] = list(r.node_test_metric);
  record[key + "_mean"] = number(sum / static_cast<double>(r.node_test_metric.size()));
  record[key + "_worst"] = number(main.higher_is_better ? least : most);
}

void add(const ReplicasRecord& r, Json& record) {
  record["node_test_accuracy"] = list(r.node_test_accuracy);
}

Json plugins_of(const RunRecord& r) {
  Json plugins = Json::array();
  for (const PluginRecord& p : r.plugins)
    plugins.push_back(
        {{"name", p.name}, {"file", p.file}, {"hash", fmt::format("{:016x}", p.hash)}});
  return plugins;
}

}  // namespace

Json json_of(const RunRecord& r) {
  const PartitionRecord& p = r.partition;
  const bool has_data = !p.kind.empty();
  Json run = {{"type", "run"},
              {"schema", kSchema},
              {"name", r.name},
              {"version", r.version},
              {"torch", r.torch},
              {"mpi", r.mpi},
              {"host", r.host},
              {"simd", r.simd},
              {"ranks", r.ranks},
              {"threads_per_rank", r.threads_per_rank},
              {"model", r.model},
              {"dataset", r.dataset},
              {"compressor", r.compressor},
              {"collective", r.collective},
              {"algorithm", r.algorithm},
              {"plugins", plugins_of(r)},
              {"parameters", r.parameters},
              {"train_samples", r.train_samples},
              {"test_samples", r.test_samples},
              {"partition", json_of(p)},
              {"leftover_samples", has_data ? Json(p.leftover_samples) : Json(nullptr)},
              {"class_histogram", list(p.class_histogram)},
              {"task", r.task},
              {"metrics", metrics_of(r)},
              {"memory_estimate_bytes", r.memory_estimate_bytes},
              {"images_per_step", r.images_per_step},
              {"steps_per_epoch", r.steps_per_epoch},
              {"total_steps", r.total_steps},
              {"config", config_of(r)}};
  if (r.int8)
    run["int8"] = {{"kernels", r.int8->kernels},
                   {"arena_bytes", r.int8->arena_bytes},
                   {"saved_bytes", r.int8->saved_bytes}};
  if (r.grades)
    run["grades"] = {
        {"menu", r.grades->menu}, {"tensors", r.grades->tensors}, {"start", r.grades->start}};
  if (!r.emulated_link.empty()) run["emulated_link"] = r.emulated_link;
  if (!r.laboratory.empty()) run["laboratory"] = r.laboratory;
  return run;
}

Json json_of(const StepRecord& r) {
  return {{"type", "step"},
          {"step", r.step},
          {"epoch", r.epoch},
          {"loss", number(r.loss)},
          {"learning_rate", number(r.learning_rate)},
          {"seconds", json_of(r.seconds)},
          {"sent_bytes", r.sent_bytes},
          {"received_bytes", r.received_bytes}};
}

Json json_of(const NoteRecord& r) {
  Json note = {{"type", "note"}, {"step", r.step}, {"text", r.text}};
  if (r.back_to) note["back_to"] = *r.back_to;
  return note;
}

Json json_of(const DecisionRecord& r) {
  return {{"type", "decision"},
          {"step", r.step},
          {"kind", r.kind},
          {"values", r.values},
          {"why", r.why}};
}

Json json_of(const NoiseRecord& r) {
  Json noise = Json::object(), grades = Json::object();
  for (const NoiseRecord::Slice& slice : r.slices) {
    noise[slice.name] = number(slice.gradient_noise);
    grades[slice.name] = slice.grade;
  }
  return {{"type", "noise"},
          {"step", r.step},
          {"noise_share", number(r.noise_share)},
          {"noise_scale", number(r.noise_scale)},
          {"gradient_noise", std::move(noise)},
          {"grade", std::move(grades)}};
}

Json json_of(const ProfileRecord& r) {
  Json slices = Json::array();
  for (const ProfileRecord::Slice& slice : r.slices)
    slices.push_back({{"slice", slice.name}, {"ready_seconds", rounded_seconds(slice.ready)}});
  return {{"type", "profile"},
          {"step", r.step},
          {"steps", r.steps},
          {"forward_seconds", rounded_seconds(r.forward)},
          {"backward_seconds", rounded_seconds(r.backward)},
          {"slices", std::move(slices)}};
}

Json json_of(const TimelineRecord& r) {
  Json spans = Json::array();
  for (const TimelineSpan& span : r.spans)
    spans.push_back(
        Json::array({std::ranges::find(kActivities, span.activity, &ActivityRow::value)->name,
                     rounded_seconds(span.begin), rounded_seconds(span.end)}));
  return {{"type", "timeline"}, {"step", r.step}, {"rank", r.rank}, {"spans", spans}};
}

Json json_of(const EpochRecord& r) {
  Json epoch = {{"type", "epoch"}, {"epoch", r.epoch}, {"step", r.step}};
  add(r, Records::epoch, epoch);
  epoch["seconds"] = json_of(r.seconds);
  epoch["sent_bytes"] = r.sent_bytes;
  epoch["replicas_identical"] = flag(r.replicas_identical);
  if (!r.rank_seconds.empty()) {
    Json ranks = Json::array();
    for (const PhaseSeconds& seconds : r.rank_seconds) ranks.push_back(json_of(seconds));
    epoch["rank_seconds"] = ranks;
  }
  add(r.metrics, epoch);
  add(r.replicas, epoch);
  add_nodes(r.metrics, r.replicas, epoch);
  if (!r.batches.empty()) {
    epoch["batch_sizes"] = r.batches.batch_sizes;
    epoch["rank_samples_per_second"] = numbers(r.batches.samples_per_second);
    epoch["rank_idle_share"] = numbers(r.batches.idle_share);
  }
  return epoch;
}

Json json_of(const StartRecord& s) {
  return {{"step", s.step},
          {"from", s.from},
          {"ranks", s.ranks},
          {"hosts", s.hosts},
          {"time", number(s.time)}};
}

Json json_of(const Summary& s) {
  Json summary = {{"name", s.name},
                  {"version", s.version},
                  {"compressor", s.compressor},
                  {"collective", s.collective},
                  {"algorithm", s.algorithm},
                  {"ranks", s.ranks},
                  {"steps", s.steps},
                  {"epochs", s.epochs},
                  {"parameters", s.parameters}};
  add(s, Records::summary, summary);
  summary["epoch_seconds"] = json_of(s.epoch_seconds);
  summary["sent_bytes"] = s.sent_bytes;
  summary["received_bytes"] = s.received_bytes;
  summary["dense_bytes"] = s.dense_bytes;
  summary["other_sent_bytes"] = s.other_sent_bytes;
  summary["estimated_sent_bytes"] = s.estimated_sent_bytes;
  summary["replicas_identical"] = flag(s.replicas_identical);
  summary["parameter_hash"] = s.parameter_hash;
  add(s.metrics, summary);
  if (!s.metrics.empty() && !summary.contains("best_test_" + s.metrics.front().name))
    summary["best_test_" + s.metrics.front().name] = number(s.best_metric);
  add(s.replicas, summary);
  add_nodes(s.metrics, s.replicas, summary);
  summary["sent_bytes_by_edge"] = list(s.sent_bytes_by_edge);
  summary["sent_bytes_by_node"] = list(s.sent_bytes_by_node());
  return summary;
}

std::optional<double> back_to(const Json& line) {
  if (!line.is_object()) return {};
  if (const auto note = line.find("back_to"); note != line.end() && note->is_number_unsigned())
    return note->get<double>();
  if (line.value("kind", Json()) != kBackTo) return {};
  const auto values = line.find("values");
  if (values == line.end() || !values->is_array() || values->size() != 1 ||
      !(*values)[0].is_number())
    return {};
  return (*values)[0].get<double>();
}

}  // namespace eqt::metrics
