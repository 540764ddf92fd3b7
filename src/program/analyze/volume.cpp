// SPDX-License-Identifier: Apache-2.0
#include "analyze/analyze.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "analyze/frames.hpp"
#include "core/error.hpp"
#include "model/replica.hpp"
#include "theory/paper_volume.hpp"

namespace eqt::analyze {
namespace {

constexpr std::string_view kTableNormalization = "evonorm-s0";

/// The row that an option names.
template <typename Row>
Entry<Row> row_called(std::string_view name, const char* option) {
  if (const Row* const row = Row::all().find(name)) return *row;
  fail(Kind::usage, "{} must be one of {}, found \"{}\"", option, Row::all().names(), name);
}

Layout layout_of(const std::string& model, const std::string& normalization) {
  const auto row = row_called<model::ModelRow>(model, "--model");
  if (!row->images_only)
    fail(
        Kind::usage,
        "--model: expected a network of the program, found \"{}\", whose parameters are in a file; "
        "name another",
        model);
  model::ModelOptions options = model::published_options(*row);
  options.normalization = row_called<model::NormalizationRow>(normalization, "--normalization");
  return model::make_idle_replica(options)->layout();
}

config::RunConfig config_for(std::optional<double> density) {
  config::RunConfig config;
  if (!density) return config;
  config.compressor.name = codec::kTopK;
  config.compressor.density = *density;
  return config;
}

/// One question and its answers.
struct Volume {
  std::string model, normalization;
  std::size_t ranks = 1, edges = 1;
  std::uint64_t steps_per_epoch = 0, epochs = 0;
  std::optional<double> density;
  std::string compressor;
  std::size_t parameters = 0, tensors = 0;
  std::uint64_t paper_bytes = 0;  // per step
  std::optional<Frames> frames;   // none: not asked for

  std::uint64_t steps() const { return steps_per_epoch * epochs; }
  double gigabytes(std::uint64_t bytes_per_step) const {
    return static_cast<double>(bytes_per_step) * static_cast<double>(steps()) / theory::kGigabyte;
  }
  std::uint64_t sent_bytes() const { return frames->bytes() * edges; }  // per step
};

/// Fills in what follows from the layout.
Volume answer(Volume volume, const Layout& layout, bool paper_only) {
  const config::RunConfig config = config_for(volume.density);
  volume.compressor = config.compressor.name->name;
  volume.parameters = total_count(layout);
  volume.tensors = layout.size();
  volume.paper_bytes = theory::paper_bytes_per_step(layout, volume.density);
  if (!paper_only) volume.frames = frames_of(layout, config);
  return volume;
}

nlohmann::ordered_json to_json(const Volume& volume) {
  nlohmann::ordered_json line = {{"model", volume.model},
                                 {"normalization", volume.normalization},
                                 {"parameters", volume.parameters},
                                 {"tensors", volume.tensors},
                                 {"ranks", volume.ranks},
                                 {"density", nullptr},
                                 {"steps_per_epoch", volume.steps_per_epoch},
                                 {"steps", volume.steps()}};
  if (volume.density) line["density"] = *volume.density;
  line["paper"] = {{"edges", 1},
                   {"bytes_per_step", volume.paper_bytes},
                   {"gigabytes", volume.gigabytes(volume.paper_bytes)}};
  if (!volume.frames) return line;
  line["sent"] = {{"compressor", volume.compressor},
                  {"edges", volume.edges},
                  {"frames_per_step", volume.frames->count * volume.edges},
                  {"payload_bytes_per_step", volume.frames->payload_bytes * volume.edges},
                  {"header_bytes_per_step", volume.frames->header_bytes * volume.edges},
                  {"bytes_per_step", volume.sent_bytes()},
                  {"gigabytes", volume.gigabytes(volume.sent_bytes())}};
  return line;
}

void print_volume(const Volume& volume) {
  fmt::print(
      "{} with {}: {} values in {} tensors; {} ranks, {} steps an epoch, {} in all\n"
      "\nOne node sends                     bytes a step        GB in all\n",
      volume.model, volume.normalization, volume.parameters, volume.tensors, volume.ranks,
      volume.steps_per_epoch, volume.steps());
  fmt::print("{:<30} {:>16} {:>16.4f}\n", "as papers count, one edge", volume.paper_bytes,
             volume.gigabytes(volume.paper_bytes));
  if (!volume.frames) return;
  fmt::print("{:<30} {:>16} {:>16.4f}\n",
             fmt::format("{} on the wire, {} edge{}", volume.compressor, volume.edges,
                         volume.edges == 1 ? "" : "s"),
             volume.sent_bytes(), volume.gigabytes(volume.sent_bytes()));
  const std::uint64_t headers = volume.frames->header_bytes * volume.edges;
  fmt::print("{:<30} {:>16} {:>16.4f}\n", "  of it headers", headers, volume.gigabytes(headers));
}

void check(const AnalyzeVolumeCommand& command) {
  if (command.ranks > command.samples)
    fail(Kind::usage,
         "analyze volume: expected at least one sample a rank, found {} samples for {} ranks; "
         "lower --ranks or raise --samples",
         command.samples, command.ranks);
  if (command.edges >= command.ranks)
    fail(Kind::usage,
         "analyze volume: expected fewer out-edges than --ranks {}, for each leads to another "
         "rank, found --edges {}",
         command.ranks, command.edges);
  if (command.density && *command.density <= 0)
    fail(Kind::usage,
         "analyze volume: expected --density above 0, found {}; leave it out for all values",
         *command.density);
}

void analyze_one(const AnalyzeVolumeCommand& command) {
  check(command);
  const Volume volume = answer({.model = command.model,
                                .normalization = command.normalization,
                                .ranks = command.ranks,
                                .edges = command.edges,
                                .steps_per_epoch = theory::paper_steps_per_epoch(
                                    command.samples, command.ranks, command.batch_size),
                                .epochs = command.epochs,
                                .density = command.density,
                                .compressor = {},
                                .frames = {}},
                               layout_of(command.model, command.normalization), command.paper);
  if (command.output.json) {
    fmt::print("{}\n", to_json(volume).dump());
  } else {
    print_volume(volume);
  }
}

void print_table_head(bool paper_only) {
  fmt::print(
      "GB that one node sends in {} epochs of CIFAR-10, batches of {}, networks with {}.\n"
      "Paper: 4 (P + 1) bytes a step, with a density 6 K + 3, over one out-edge; printed: in the\n"
      "table; its column of 8 bits is a quarter of it, for float32 travels there too.{}\n\n"
      "{:<9} {:>5} {:<13} {:>7} {:>6} {:>9} {:>9}{}\n",
      theory::kPublishedEpochs, theory::kPublishedBatch, kTableNormalization,
      paper_only ? ""
                 : "\nSent: this program's frames over all edges, none or topk with\ndefault "
                   "settings, under which small tensors are sent as float32.",
      "model", "ranks", "graph", "density", "steps", "paper", "printed",
      paper_only ? "" : fmt::format(" {:>6} {:>9}", "edges", "sent"));
}

void print_table_row(const theory::PublishedVolume& row, const Volume& volume) {
  fmt::print("{:<9} {:>5} {:<13} {:>7} {:>6} {:>9.4g} {:>9.4g}", row.model, row.ranks, row.graph,
             row.density.value_or(1), volume.steps(), volume.gigabytes(volume.paper_bytes),
             row.gigabytes);
  if (volume.frames)
    fmt::print(" {:>6} {:>9.4g}", volume.edges, volume.gigabytes(volume.sent_bytes()));
  fmt::print("{}{}\n", row.note.empty() ? "" : "  ", row.note);
}

void analyze_table(bool paper_only, bool json) {
  if (!json) print_table_head(paper_only);
  for (const theory::PublishedVolume& row : theory::published_volumes()) {
    const std::string model(row.model), normalization(kTableNormalization);
    const Volume volume = answer({.model = model,
                                  .normalization = normalization,
                                  .ranks = row.ranks,
                                  .edges = row.edges,
                                  .steps_per_epoch = row.steps_per_epoch,
                                  .epochs = theory::kPublishedEpochs,
                                  .density = row.density,
                                  .compressor = {},
                                  .frames = {}},
                                 layout_of(model, normalization), paper_only);
    if (!json) {
      print_table_row(row, volume);
      continue;
    }
    nlohmann::ordered_json line = to_json(volume);
    line["graph"] = row.graph;
    line["published"] = {{"gigabytes", row.gigabytes}, {"gigabytes_int8", row.gigabytes_int8}};
    line["note"] = row.note;
    fmt::print("{}\n", line.dump());
  }
}

}  // namespace

void run_analyze_volume(const AnalyzeVolumeCommand& command) {
  if (command.model.empty()) {
    analyze_table(command.paper, command.output.json);
  } else {
    analyze_one(command);
  }
}

}  // namespace eqt::analyze
