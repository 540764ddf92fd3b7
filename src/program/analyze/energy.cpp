// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "analyze/analyze.hpp"
#include "analyze/measured.hpp"
#include "figures/draw.hpp"
#include "figures/drawing.hpp"
#include "figures/rows.hpp"
#include "theory/energy.hpp"
#include "theory/memory.hpp"

namespace eqt::analyze {
using figures::Bars;
using figures::bars_drawing;
using figures::draw_if_asked;
using figures::print_rows;
using figures::Row;
using figures::RowColumn;

namespace {

using theory::Phase;
using theory::Precision;
using theory::RangeNorm;

constexpr double kMillijoule = 1e3;  // of a joule

Row named(const theory::PublishedCost& cost) {
  return {{"phase", cost.phase == Phase::training ? "training" : "inference"},
          {"model", cost.model},
          {"norm", cost.norm == RangeNorm::batch ? "range-batchnorm" : "range-evonorm"}};
}

std::vector<RowColumn> name_columns() {
  return {{"phase", "phase"}, {"model", "model"}, {"norm", "norm"}};
}

/// Returns true if a computed figure is the printed one: within 0.1 %, or rounded to its two
/// decimals.
bool reproduces(double computed, double printed) {
  return std::abs(computed / printed - 1) <= 1e-3 || std::abs(computed - printed) <= 0.005 + 1e-9;
}

Row paper_energy_row(const theory::PublishedCost& cost, int batch) {
  Row row = named(cost);
  const theory::NetworkShape counted = theory::paper_energy_shape(cost.model),
                             real = theory::shape_of(cost.model);
  const auto energy = [&](const theory::NetworkShape& shape, Precision precision,
                          theory::Accounting accounting) {
    return kMillijoule *
           theory::paper_energy(shape, batch, cost.phase, cost.norm, precision, accounting);
  };
  constexpr auto kPaper = theory::Accounting::paper, kPhysical = theory::Accounting::physical;
  const double full = energy(counted, Precision::float32, kPaper);
  const double low = energy(counted, Precision::int8, kPaper);
  row["float32"] = full;
  row["int8"] = low;
  row["ratio"] = full / low;
  row["published_float32"] = nullptr;
  row["published_int8"] = nullptr;
  row["reproduced"] = nullptr;
  if (batch == theory::kPublishedEnergyBatch) {
    row["published_float32"] = cost.energy;
    row["published_int8"] = cost.energy_int8;
    row["deviation_float32"] = full / cost.energy - 1;
    row["deviation_int8"] = low / cost.energy_int8 - 1;
    row["reproduced"] = reproduces(full, cost.energy) && reproduces(low, cost.energy_int8);
  }
  row["physical_float32"] = energy(real, Precision::float32, kPhysical);
  row["physical_int8"] = energy(real, Precision::int8, kPhysical);
  return row;
}

Row step_energy_row(const theory::PublishedCost& cost, int batch) {
  Row row = named(cost);
  const theory::NetworkShape shape = theory::shape_of(cost.model);
  const auto described = [&](Precision precision) -> Row {
    const theory::StepEnergy e =
        theory::step_energy(shape, batch, cost.phase, cost.norm, precision);
    return {{"total", kMillijoule * e.total()},
            {"memory", kMillijoule * e.memory},
            {"arithmetic", kMillijoule * e.arithmetic()},
            {"forward", kMillijoule * e.forward},
            {"backward", kMillijoule * e.backward},
            {"normalisation", kMillijoule * e.normalisation},
            {"quantisation", kMillijoule * e.quantisation},
            {"skip_and_pool", kMillijoule * e.other},
            {"update", kMillijoule * e.update}};
  };
  row["float32"] = described(Precision::float32);
  row["int8"] = described(Precision::int8);
  row["ratio"] = row["float32"]["total"].get<double>() / row["int8"]["total"].get<double>();
  row["arithmetic_ratio"] =
      row["float32"]["arithmetic"].get<double>() / row["int8"]["arithmetic"].get<double>();
  return row;
}

double paper_memory_of(const theory::PublishedCost& cost, int batch, Precision precision) {
  return theory::paper_memory(theory::shape_of(cost.model), batch, cost.phase, cost.norm,
                              precision);
}

/// Returns true if rounding to two decimals gives what is printed; its last digit may be off by
/// one.
bool is_printed(double computed, double printed) { return std::abs(computed - printed) < 0.0151; }

Row paper_memory_row(const theory::PublishedCost& cost, int batch) {
  Row row = named(cost);
  const double full = paper_memory_of(cost, batch, Precision::float32);
  const double low = paper_memory_of(cost, batch, Precision::int8);
  row["float32"] = full;
  row["int8"] = low;
  row["ratio"] = full / low;
  if (batch != theory::kPublishedEnergyBatch) return row;
  row["published_float32"] = cost.memory;
  row["published_int8"] = cost.memory_int8;
  row["reproduced_float32"] = is_printed(full, cost.memory);
  row["reproduced_int8"] = is_printed(low, cost.memory_int8);
  return row;
}

Row peak_memory_row(const theory::PublishedCost& cost, const AnalyzeMemoryCommand& command) {
  Row row = named(cost);
  const auto described = [&](Precision precision) -> Row {
    const theory::PeakMemory m = theory::peak_memory(
        theory::shape_of(cost.model), command.batch_size, cost.phase, precision, command.copies);
    return {{"total", m.total()},       {"parameters", m.parameters},
            {"gradient", m.gradient},   {"optimizer", m.optimizer},
            {"algorithm", m.algorithm}, {"activations", m.activations},
            {"workspace", m.workspace}};
  };
  row["float32"] = described(Precision::float32);
  row["int8"] = described(Precision::int8);
  row["ratio"] = row["float32"]["total"].get<double>() / row["int8"]["total"].get<double>();
  return row;
}

figures::Drawing plot_of(const std::vector<Row>& rows, bool paper, const char* title,
                         const char* unit) {
  Bars bars{.title = title,
            .unit = unit,
            .logarithmic = true,
            .series = {"float32", "int8"},
            .groups = {}};
  const bool published = paper && rows.front().contains("published_float32") &&
                         rows.front()["published_float32"].is_number();
  if (published) bars.series.insert(bars.series.end(), {"published float32", "published int8"});
  for (const Row& row : rows) {
    const auto value = [&](const char* key) {
      return row[key].is_object() ? row[key]["total"].get<double>() : row[key].get<double>();
    };
    std::vector<double> values = {value("float32"), value("int8")};
    if (published)
      values.insert(values.end(), {value("published_float32"), value("published_int8")});
    bars.groups.push_back(
        {fmt::format("{} {} {}", row["model"].get<std::string>(),
                     row["norm"].get<std::string>().substr(6), row["phase"].get<std::string>()),
         values});
  }
  return bars_drawing(bars);
}

template <typename RowOf>
std::vector<Row> rows_of(const RowOf& row_of) {
  std::vector<Row> rows;
  for (const theory::PublishedCost& cost : theory::published_costs()) rows.push_back(row_of(cost));
  return rows;
}

void print_paper_energy(const std::vector<Row>& rows, int batch) {
  fmt::print(
      "mJ of a batch of {}, every operation at the cost of its precision (Horowitz 2014, 45 nm).\n"
      "By a fit without physical meaning: the output side O is replaced by L + (L - 3) / S + 1, "
      "linear\n"
      "layers, skips and pools are left out, and resnet54 is taken to have 110 layers. physical: "
      "the same\n"
      "costs with O = (L + 2P - K) / S + 1, all layers, and 50 of them in resnet54.\n"
      "\n",
      batch);
  std::vector<RowColumn> columns = name_columns();
  columns.insert(columns.end(), {{"float32", "float32", 5},
                                 {"published_float32", "printed", 5},
                                 {"int8", "int8", 5},
                                 {"published_int8", "printed", 5},
                                 {"ratio", "ratio"},
                                 {"reproduced", "reproduced"},
                                 {"physical_float32", "physical", 5},
                                 {"physical_int8", "and int8", 5}});
  print_rows(rows, columns, false);
}

void print_step_energy(const std::vector<Row>& rows, int batch) {
  fmt::print(
      "mJ of a batch of {} (Horowitz 2014, 45 nm). int8: products of int8 added up in int32; "
      "weight\n"
      "gradients, normalisation and update in float32. memory: each layer moves its input, weights "
      "and\n"
      "output through DRAM once a pass; caches lower that. Sending is not counted.\n"
      "\n",
      batch);
  std::vector<RowColumn> columns = name_columns();
  columns.insert(columns.end(), {{"float32/total", "float32", 5},
                                 {"float32/arithmetic", "arithmetic"},
                                 {"float32/memory", "memory"},
                                 {"int8/total", "int8", 5},
                                 {"int8/arithmetic", "arithmetic"},
                                 {"int8/memory", "memory"},
                                 {"arithmetic_ratio", "of arithmetic", 3},
                                 {"ratio", "ratio", 3}});
  print_rows(rows, columns, false);
}

void print_paper_memory(const std::vector<Row>& rows, int batch) {
  fmt::print(
      "MiB for a batch of {}: twice the outputs of all layers, the input and five copies of "
      "the\nparameters; int8: a quarter of all but the copies; inference: the parameters. Where "
      "\"same\" says\nno, the table has a misprint: its own formula gives the other figure.\n\n",
      batch);
  std::vector<RowColumn> columns = name_columns();
  columns.insert(columns.end(), {{"float32", "float32", 5},
                                 {"published_float32", "printed", 5},
                                 {"reproduced_float32", "same"},
                                 {"int8", "int8", 5},
                                 {"published_int8", "printed", 5},
                                 {"reproduced_int8", "same"},
                                 {"ratio", "ratio", 3}});
  print_rows(rows, columns, false);
}

void print_peak_memory(const std::vector<Row>& rows, const AnalyzeMemoryCommand& command) {
  fmt::print(
      "MiB at the peak for a batch of {}: what backward needs is kept once, in float32 or int8;\n"
      "parameters, gradient, momentum and the algorithm's {} copies in float32, with int8 also "
      "the\n"
      "parameters in int8.\n"
      "\n",
      command.batch_size, command.copies);
  std::vector<RowColumn> columns = name_columns();
  columns.insert(columns.end(), {{"float32/total", "float32", 5},
                                 {"float32/activations", "activations"},
                                 {"int8/total", "int8", 5},
                                 {"int8/activations", "activations"},
                                 {"int8/parameters", "parameters"},
                                 {"int8/algorithm", "algorithm"},
                                 {"ratio", "ratio", 3}});
  print_rows(rows, columns, false);
}

}  // namespace

void run_analyze_energy(const AnalyzeEnergyCommand& command) {
  if (command.measured) return run_measured_energy(command);
  const std::vector<Row> rows = rows_of([&](const theory::PublishedCost& cost) {
    return command.paper ? paper_energy_row(cost, command.batch_size)
                         : step_energy_row(cost, command.batch_size);
  });
  if (command.output.json) {
    print_rows(rows, {}, true);
  } else if (command.paper) {
    print_paper_energy(rows, command.batch_size);
  } else {
    print_step_energy(rows, command.batch_size);
  }
  draw_if_asked(command.output.plot,
                [&] { return plot_of(rows, command.paper, "Energy of a batch", "mJ"); });
}

void run_analyze_memory(const AnalyzeMemoryCommand& command) {
  if (!command.runs.empty()) return run_memory_of_runs(command);
  if (command.measured) return run_measured_memory(command);
  const std::vector<Row> rows = rows_of([&](const theory::PublishedCost& cost) {
    return command.paper ? paper_memory_row(cost, command.batch_size)
                         : peak_memory_row(cost, command);
  });
  if (command.output.json) {
    print_rows(rows, {}, true);
  } else if (command.paper) {
    print_paper_memory(rows, command.batch_size);
  } else {
    print_peak_memory(rows, command);
  }
  draw_if_asked(command.output.plot, [&] { return plot_of(rows, command.paper, "Memory", "MiB"); });
}

}  // namespace eqt::analyze
