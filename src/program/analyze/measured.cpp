// SPDX-License-Identifier: Apache-2.0
#include "analyze/measured.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "analyze/frames.hpp"
#include "config/run_config.hpp"
#include "data/images.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "model/arithmetic.hpp"
#include "model/own/plan.hpp"
#include "report/read_run.hpp"
#include "theory/energy.hpp"
#include "theory/memory.hpp"
#include "theory/network_shape.hpp"

namespace eqt::analyze {

using figures::Bars;
using figures::bars_drawing;
using figures::draw_if_asked;
using figures::print_rows;
using figures::Row;

namespace {

using model::Precision;

/// That rounds values to the type that the network computes with.
Entry<codec::CompressorRow> compressor_for(Precision precision) {
  if (precision == Precision::int8) return codec::kInt8;
  return precision == Precision::bf16 ? codec::kBf16 : codec::kNone;
}

double products_of(const model::precision::Dense& layer) {
  return static_cast<double>(layer.in) * static_cast<double>(layer.out);
}

using theory::MultiplyAdds;

constexpr double kMillijoule = 1e3;  // of a joule
constexpr double kBillion = 1e9;

/// A type of operands, for the network and for theory, and the bytes of a value.
struct Kind {
  model::Precision precision;
  theory::Precision theory;
  int bytes;
};
constexpr Kind kKinds[] = {{model::Precision::fp32, theory::Precision::float32, 4},
                           {model::Precision::bf16, theory::Precision::bfloat16, 2},
                           {model::Precision::int8, theory::Precision::int8, 1}};

// What theory counts does not depend on the normalization; what networks keep does.
constexpr std::string_view kModels[] = {"resnet20", "resnet54", "vgg11"};
constexpr std::string_view kNorms[] = {"batchnorm", "range-evonorm"};

bool computes(const Kind& kind) {
  return kind.precision != model::Precision::bf16 ||
         model::bf16_arithmetic() != model::Bf16Arithmetic::none;
}

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / theory::kMebibyte; }

theory::PeakMemory modelled_memory(std::string_view model, int batch, const Kind& kind) {
  return theory::peak_memory(theory::shape_of(model), batch, theory::Phase::training, kind.theory,
                             0);
}

/// Returns the modelled size of StepBytes::step [MiB].
double modelled_step(const theory::PeakMemory& m) {
  const double flat = m.gradient;  // parameters in float32
  return m.activations + m.workspace + m.parameters - flat;
}

Row memory_row(std::string_view model, std::string_view norm, const Kind& kind, int batch) {
  const theory::PeakMemory m = modelled_memory(model, batch, kind);
  const StepBytes found =
      measure_step(measured_network(model, norm, kind.precision), static_cast<std::size_t>(batch));
  Row row = {{"model", model}, {"norm", norm}, {"precision", name_of(kind.precision)}};
  row["modelled"] = {
      {"step", modelled_step(m)}, {"activations", m.activations},
      {"weights", m.gradient},    {"gradient", m.gradient},
      {"optimizer", m.optimizer}, {"message", m.gradient * kind.bytes / sizeof(float)}};
  const double parameters = mebibytes(found.parameters);
  row["measured"] = {{"step", mebibytes(found.step)},
                     {"weights", parameters},
                     {"gradient", parameters},
                     {"optimizer", parameters},
                     {"buffers", mebibytes(found.buffers)},
                     {"message", mebibytes(found.message)},
                     {"compressor", found.compressor}};
  if (kind.precision == model::Precision::int8) {
    row["measured"]["saved"] = mebibytes(found.saved);
    row["measured"]["arena"] = mebibytes(found.arena);
  }
  return row;
}

Row described(const MultiplyAdds& products) {
  return {{"float32", products.float32},
          {"bf16", products.bfloat16},
          {"int8", products.int8},
          {"billions", products.total() / kBillion},
          {"energy", kMillijoule * theory::energy_of(products)}};
}

Row energy_row(std::string_view model, const Kind& kind, int batch) {
  const MultiplyAdds modelled =
      theory::step_products(theory::shape_of(model), batch, theory::Phase::training, kind.theory);
  const MultiplyAdds counted = count_products(measured_network(model, kNorms[0], kind.precision),
                                              static_cast<std::size_t>(batch));
  return {{"model", model},
          {"precision", name_of(kind.precision)},
          {"modelled", described(modelled)},
          {"counted", described(counted)},
          {"float32_share", counted.float32 / counted.total()}};
}

/// Bars of modelled figures and of those under `found`.
figures::Drawing plot_of(const std::vector<Row>& rows, const char* title, const char* unit,
                         const char* found, const char* figure) {
  Bars bars{.title = title,
            .unit = unit,
            .logarithmic = true,
            .series = {"modelled", found},
            .groups = {}};
  for (const Row& row : rows) {
    const std::string norm = row.contains("norm") ? row["norm"].get<std::string>() + " " : "";
    bars.groups.push_back(
        {fmt::format("{} {}{}", row["model"].get<std::string>(), norm,
                     row["precision"].get<std::string>()),
         {row["modelled"][figure].get<double>(), row[found][figure].get<double>()}});
  }
  return bars_drawing(bars);
}

void print_memory(const std::vector<Row>& rows, int batch) {
  fmt::print(
      "MiB of a rank in a training step with a batch of {}; m: modelled. step: activations, "
      "errors\n"
      "and weights in low precision, measured by LibTorch's allocator on small batches, for int8 "
      "by\nthe sizes of all arrays. arena: of it all 8-bit values, and saved those kept for the\n"
      "backward pass. weights: in float32, as gradient and momentum are. message: the gradient of "
      "a\n"
      "step by the compressor none, bf16 or int8.\n\n",
      batch);
  print_rows(rows,
             {{"model", "model"},
              {"norm", "norm"},
              {"precision", "precision"},
              {"modelled/step", "step m"},
              {"measured/step", "step"},
              {"measured/arena", "arena"},
              {"modelled/activations", "saved m"},
              {"measured/saved", "saved"},
              {"modelled/weights", "weights m"},
              {"measured/weights", "weights"},
              {"measured/optimizer", "momentum"},
              {"modelled/message", "message m"},
              {"measured/message", "message"}},
             false);
}

void print_energy(const std::vector<Row>& rows, int batch) {
  fmt::print(
      "Multiply-adds of a training step with a batch of {}, in billions, and their mJ (Horowitz\n"
      "2014, 45 nm). modelled: three passes of every layer, with int8 the weight gradients in\n"
      "float32. counted: the layers of this program's networks. Pictures have no gradient, the\n"
      "classifier is float32, and with int8 weight gradients have 8-bit operands, too. Memory\n"
      "traffic is not counted.\n\n",
      batch);
  print_rows(rows,
             {{"model", "model"},
              {"precision", "precision"},
              {"modelled/billions", "modelled", 5},
              {"counted/billions", "counted", 5},
              {"float32_share", "of it float32"},
              {"modelled/energy", "mJ modelled"},
              {"counted/energy", "mJ counted"}},
             false);
}

/// theory's figures for a run [MiB], if its network and the size of its pictures are in the table.
Row modelled_row(const report::Run& run, int batch) {
  constexpr std::string_view kSmall[] = {"cifar10", "cifar100", "fashion-mnist", "synthetic"};
  const bool has_shape = std::ranges::find(kModels, run.model) != std::end(kModels);
  const std::string precision = run.setting("model.precision", "fp32");
  const auto* const kind = std::ranges::find_if(
      kKinds, [&](const Kind& k) { return name_of(k.precision) == precision; });
  if (!has_shape || std::ranges::find(kSmall, run.dataset) == std::end(kSmall) ||
      kind == std::end(kKinds))
    return nullptr;
  const theory::PeakMemory m = modelled_memory(run.model, batch, *kind);
  return {{"step", modelled_step(m)}, {"activations", m.activations}, {"weights", m.gradient}};
}

/// Returns a row: what a run wrote down, beside what is modelled.
Row run_row(const report::Run& run) {
  constexpr long kMost = 1'000'000;
  const long asked = std::strtol(run.setting("train.batch_size").c_str(), nullptr, 10);
  const int batch = static_cast<int>(std::clamp(asked, 0L, kMost));
  Row row = {{"run", run.folder},
             {"model", run.model},
             {"norm", run.setting("model.normalization")},
             {"precision", run.setting("model.precision", "fp32")},
             {"batch_size", batch},
             {"ranks", run.ranks},
             {"compressor", run.compressor},
             {"modelled", modelled_row(run, batch)}};
  Row& recorded = row["recorded"] = Row::object();
  recorded["weights"] = mebibytes(run.parameters * sizeof(float));
  if (run.int8) {
    recorded["arena"] = mebibytes(run.int8->arena_bytes);
    recorded["saved"] = mebibytes(run.int8->saved_bytes);
  }
  const double sends = static_cast<double>(run.outcome.steps) * run.ranks;
  if (sends > 0) recorded["sent_per_step"] = mebibytes(run.outcome.sent_bytes) / sends;
  recorded["estimate"] = mebibytes(run.memory_estimate_bytes);
  if (run.outcome.peak_rss_mib) recorded["peak_rss"] = *run.outcome.peak_rss_mib;
  return row;
}

void print_runs(const std::vector<Row>& rows) {
  fmt::print(
      "MiB of a rank; m: modelled, for pictures of 32 x 32 pixels. arena, saved: 8-bit values of a "
      "step,\nand those kept for the backward pass. sent: by a rank in a step. estimate: of all "
      "memory, before\nthe run. peak: the process's largest resident memory, LibTorch and MPI "
      "included.\n\n");
  print_rows(rows,
             {{"run", "run"},
              {"model", "model"},
              {"precision", "precision"},
              {"batch_size", "batch"},
              {"modelled/step", "step m"},
              {"recorded/arena", "arena"},
              {"modelled/activations", "saved m"},
              {"recorded/saved", "saved"},
              {"recorded/weights", "weights"},
              {"recorded/sent_per_step", "sent"},
              {"recorded/estimate", "estimate"},
              {"recorded/peak_rss", "peak"}},
             false);
}

}  // namespace

model::ModelOptions measured_network(std::string_view model, std::string_view normalization,
                                     Precision precision) {
  return {.model = model::ModelRow::all().at(model),
          .inputs = {data::image_spec(
              {theory::kImageChannels, theory::kImageSize, theory::kImageSize})},
          .normalization = model::NormalizationRow::all().at(normalization),
          .precision = precision};
}

StepBytes measure_step(const model::ModelOptions& options, std::size_t batch_size) {
  const model::NetworkMemory memory = model::measure_network_memory(options, batch_size, 1);
  config::RunConfig config;
  config.compressor.name = compressor_for(options.precision);
  StepBytes bytes{.step = memory.gradient_bytes,
                  .parameters = total_count(memory.layout) * sizeof(float),
                  .buffers = memory.buffer_values * sizeof(float),
                  .message = frames_of(memory.layout, config).bytes(),
                  .compressor = config.compressor.name->name};
  if (options.precision != Precision::int8) return bytes;
  const auto use = model::make_replica(options)->int8_use(batch_size);
  bytes.arena = use->arena_bytes;
  bytes.saved = use->saved_bytes;
  return bytes;
}

theory::MultiplyAdds count_products(const model::ModelOptions& options, std::size_t batch_size) {
  const model::precision::Plan plan = model::precision::make_plan(options);
  double low = 0, gradients = 0, classifier = 0;  // of a sample
  for (const model::precision::Branch& branch : plan.branches) {
    const double products = static_cast<double>(branch.shape.macs());
    constexpr int kPictures = 0;  // nobody needs their gradient
    low += branch.input == kPictures ? products : 2 * products;
    gradients += products;
  }
  constexpr int kPasses = 3;
  classifier = kPasses * products_of(plan.last);
  if (plan.hidden) classifier += kPasses * products_of(*plan.hidden);

  const auto batch = static_cast<double>(batch_size);
  theory::MultiplyAdds counted{.float32 = batch * classifier};
  switch (options.precision) {
    case Precision::fp32:
      counted.float32 += batch * (low + gradients);
      break;
    case Precision::bf16:
      counted.bfloat16 = batch * (low + gradients);
      break;
    case Precision::int8:
      // Errors of 14 bits are two digits of 8.
      const model::WeightGradient kind = options.int8.weight_gradient;
      counted.int8 = batch * low;
      (kind == model::WeightGradient::fp32 ? counted.float32 : counted.int8) +=
          batch * gradients * (kind == model::WeightGradient::int16 ? 2 : 1);
      break;
  }
  return counted;
}

void run_measured_memory(const AnalyzeMemoryCommand& command) {
  std::vector<Row> rows;
  for (const std::string_view model : kModels)
    for (const std::string_view norm : kNorms)
      for (const Kind& kind : kKinds)
        if (computes(kind)) rows.push_back(memory_row(model, norm, kind, command.batch_size));
  if (command.output.json) {
    print_rows(rows, {}, true);
  } else {
    print_memory(rows, command.batch_size);
  }
  draw_if_asked(command.output.plot,
                [&] { return plot_of(rows, "Memory of a step", "MiB", "measured", "step"); });
}

void run_memory_of_runs(const AnalyzeMemoryCommand& command) {
  std::vector<Row> rows;
  for (const std::string& folder : report::run_folders(command.runs))
    rows.push_back(run_row(report::read_run(folder)));
  if (command.output.json) return print_rows(rows, {}, true);
  print_runs(rows);
}

void run_measured_energy(const AnalyzeEnergyCommand& command) {
  std::vector<Row> rows;
  for (const std::string_view model : kModels)
    for (const Kind& kind : kKinds) rows.push_back(energy_row(model, kind, command.batch_size));
  if (command.output.json) {
    print_rows(rows, {}, true);
  } else {
    print_energy(rows, command.batch_size);
  }
  draw_if_asked(command.output.plot, [&] {
    return plot_of(rows, "Energy of multiply-adds", "mJ", "counted", "energy");
  });
}

}  // namespace eqt::analyze
