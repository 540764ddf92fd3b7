// SPDX-License-Identifier: Apache-2.0
#include "report/paper_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "codec/catalogue.hpp"
#include "data/catalogue.hpp"
#include "model/catalogue.hpp"
#include "report/values.hpp"

namespace eqt::report {
namespace {

/// The title of the row of this name; the name itself if there is none.
template <typename Row>
std::string title_of(std::string_view name) {
  const Row* const row = Row::all().find(name);
  return std::string(row == nullptr ? name : row->title);
}

bool is_sparse(const Run& run) {
  constexpr std::array<std::string_view, 3> kSparse = {"topk", "randomk", "dgc"};
  return std::ranges::find(kSparse, run.compressor) != kSparse.end();
}

double number_setting(const Run& run, const char* key) {
  return std::strtod(run.setting(key, "0").c_str(), nullptr);
}

}  // namespace

std::string paper_network(std::string_view model) { return title_of<model::ModelRow>(model); }

std::string paper_data(std::string_view dataset) { return title_of<data::DatasetRow>(dataset); }

std::string paper_data_of(const Run& run) {
  if (!has_own_data(run)) return paper_data(run.dataset);
  const std::string folder = last_name(run.setting("data.path"));
  if (folder.starts_with("imagenette")) return "Imagenette";
  if (folder == "ag-news") return "AG News";
  if (folder == "sentlen") return "Sentlen";
  return folder.empty() ? run.dataset : folder;
}

std::string paper_network_of(const Run& run) {
  const bool distilled =
      run.model == "bert" && last_name(run.setting("model.path")).starts_with("distilbert");
  return distilled ? "DistilBERT" : paper_network(run.model);
}

std::string paper_scheme(const Run& run, std::string_view baseline) {
  if (run.compressor == "none") return std::string(baseline);
  if (run.compressor == "elastiquant")
    return run.setting("compressor.bits", "4") + "-bit-ElastiQuant";
  const codec::CompressorRow* const row = codec::CompressorRow::all().find(run.compressor);
  return row == nullptr || row->title.empty() ? run.compressor : std::string(row->title);
}

std::string paper_tuning(const Run& run) {
  if (run.compressor == "dgc") return run.setting("compressor.density") + " CR";
  if (is_sparse(run)) return "density " + run.setting("compressor.density");
  if (run.compressor == "qsgd" || run.compressor == "qsgd-v" || run.compressor == "nuqsgd")
    return run.setting("compressor.bits") + " bits";
  return "default";
}

std::string paper_graph(const Run& run) {
  if (run.algorithm == "allreduce" || run.algorithm == "local-sgd" || run.algorithm == "laq")
    return "all to all";
  const std::string kind = run.setting("synchronization.topology.kind");
  const bool directed = run.setting("synchronization.topology.directed") == "true";
  if (kind == "ring") return directed ? "directed ring" : "undirected ring";
  if (kind == "torus" && run.ranks == 16) return "undirected torus 4x4";
  return kind.empty() ? "-" : kind;
}

double paper_left_out(const Run& run) {
  if (run.compressor == "none") return 0;
  if (is_sparse(run)) return 100 * (1 - number_setting(run, "compressor.density"));
  constexpr double kFullBits = 32;
  return std::max(0.0, 100 * (1 - run.outcome.bits_per_value.value_or(kFullBits) / kFullBits));
}

}  // namespace eqt::report
