// SPDX-License-Identifier: Apache-2.0
#include "setup/look_at_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "comm/host_facts.hpp"
#include "config/facts.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "core/whole_file.hpp"
#include "data/images.hpp"
#include "data/test_split.hpp"

namespace eqt::setup {
namespace {

data::DatasetFacts look(const config::RunConfig& config, Rank rank) {
  return config.data.name->look(dataset_options(config, rank));
}

/// Classes by name where the set names them, else by number.
config::Facts classes_of(const data::DatasetFacts& facts) {
  config::Facts classes;
  for (int c = 0; c < facts.classes; ++c) {
    const auto place = static_cast<std::size_t>(c);
    classes.push_back(
        {place < facts.class_names.size() ? facts.class_names[place] : fmt::format("{}", c), ""});
  }
  return classes;
}

/// The facts of a rank become those of all, as agree_on_local_data() will find them.
void join_classes(const std::vector<config::Facts>& all, data::DatasetFacts& facts) {
  if (facts.classes == 0) return;
  std::set<std::string> names;
  for (const config::Facts& classes : all)
    for (const config::Fact& one : classes) names.insert(one.name);
  facts.class_names.assign(names.begin(), names.end());
  facts.classes = static_cast<int>(names.size());
  facts.target = data::class_spec(facts.classes);
}

/// All that the sets of ranks hold, or what the largest of them holds.
/// @param together one process has them all
data::DatasetFacts look_at_own(const config::RunConfig& config, int ranks, bool together) {
  data::DatasetFacts facts = look(config, 0);
  std::vector<config::Facts> classes = {classes_of(facts)};
  for (Rank rank = 1; rank < ranks; ++rank) {
    const data::DatasetFacts other = look(config, rank);
    const auto join = [together](auto& all, auto one) {
      all = together ? all + one : std::max(all, one);
    };
    join(facts.train, other.train);
    join(facts.test, other.test);
    join(facts.memory_bytes, other.memory_bytes);
    classes.push_back(classes_of(other));
  }
  join_classes(classes, facts);
  return facts;
}

namespace fs = std::filesystem;

/// A small text file of a model's folder.
constexpr FileLimits kModelFile{
    .what = "a file of the folder of a BERT or DistilBERT, which model.path names,",
    .max_bytes = std::uint64_t{1} << 20,
    .remedy = "take the folder that save_pretrained() of Hugging Face's transformers writes"};

bool is_present(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Weights that were trained with capitals are of little use without them, and vice versa.
void require_same_capitals(const config::RunConfig& config, const fs::path& folder) {
  const fs::path path = folder / "tokenizer_config.json";
  if (!is_present(path)) return;
  const model::Capitals found = model::parse_tokenizer_config(read_whole_file(path, kModelFile));
  if (found == model::Capitals::unknown) return;
  const bool lowercase = found == model::Capitals::do_not;
  if (lowercase != config.data.lowercase)
    fail(Kind::usage,
         "data.lowercase: expected {}, as do_lower_case of {} says, found {}; set data.lowercase "
         "to {}",
         lowercase, path.string(), config.data.lowercase, lowercase);
}

}  // namespace

std::string place_of(const std::string& path, Rank rank) {
  std::string place = path;
  const auto fill_in = [&place](std::string_view name, const std::string& value) {
    for (std::size_t at = 0; (at = place.find(name, at)) != std::string::npos; at += value.size())
      place.replace(at, name.size(), value);
  };
  fill_in("{rank}", fmt::format("{}", rank));
  fill_in("{host}", comm::host_name());
  return place;
}

data::TestViews test_views(const config::RunConfig& config, const data::Dataset& set) {
  const data::TestViews views = config.evaluate.augment;
  if (views == data::TestViews::plain) return views;
  const std::vector<data::ArraySpec> inputs = set.inputs();
  const bool can = data::image_shape(inputs) &&
                   config.task.kind->target != data::TargetKind::tokens &&
                   !config.task.kind->own_loss;
  if (can) return views;
  fail(Kind::usage,
       "evaluate.augment: expected \"none\" unless pictures are the only input and the network's "
       "outputs can be averaged, found \"{}\" with {} and task.kind \"{}\"",
       name_of(views), data::text_of(inputs), config.task.kind->name);
}

data::DatasetOptions dataset_options(const config::RunConfig& config, Rank rank) {
  const bool local = has_local_data(config);
  const bool sent = local && config.data.partition.test == data::LocalTest::first;
  return {.set = config.data.name,
          .path = place_of(config.data.path, rank),
          .limit_train = config.data.limit_train,
          .limit_test = config.data.limit_test,
          .seed = config.seed,
          .resize = config.data.resize,
          .augmentation = {config.data.shift, config.data.border, config.data.flips},
          .target = config.task.kind->target,
          .pictures = {.size = config.data.image_size,
                       .channels = config.data.channels,
                       .crop = config.data.crop,
                       .mean = config.data.mean,
                       .deviation = config.data.deviation,
                       .skip_limit = config.data.skip_limit,
                       .memory_bytes = config.data.memory_budget_mib * kMib},
          .test_fraction = config.data.test_fraction,
          .text = text_options(config, rank),
          .columns = config.data.target,
          .integers = config.data.integers,
          .standardize = config.data.standardize,
          .is_part = local,
          .needs_test = !sent || rank == 0};
}

bool has_local_data(const config::RunConfig& config) {
  return config.data.partition.kind->plan == nullptr;
}

std::optional<data::DatasetFacts> look_at_data_here(const config::RunConfig& config, int ranks) {
  if (!has_local_data(config)) return look(config, 0);
  const std::string& path = config.data.path;
  for (Rank rank = 0; rank < ranks; ++rank) {
    std::error_code error;
    const bool by_host = path.find("{host}") != std::string::npos ||
                         (path.find("{rank}") == std::string::npos && !path.empty());
    const bool elsewhere = by_host && ranks > 1;
    if (elsewhere || (!path.empty() && !std::filesystem::exists(place_of(path, rank), error)))
      return {};
  }
  return look_at_own(config, ranks, false);
}

data::DatasetFacts look_at_data(const config::RunConfig& config, int simulate,
                                comm::Communicator& comm) {
  data::DatasetFacts facts;
  const bool local = has_local_data(config);
  comm.agree_after([&] {
    if (local && simulate > 0)
      facts = look_at_own(config, simulate, true);
    else if (local || comm.rank() == 0)
      facts = look(config, comm.rank());
  });
  if (!local || simulate > 0) return facts;
  std::vector<config::Facts> classes;
  for (const std::string& text : comm.allgather(config::packed(classes_of(facts))))
    classes.push_back(config::unpacked(text, "the classes of another rank"));
  join_classes(classes, facts);
  return facts;
}

data::TextOptions text_options(const config::RunConfig& config, Rank rank) {
  const fs::path model = place_of(config.model.path, rank);
  fs::path data = place_of(config.data.path, rank);
  if (data::is_table_file(data)) data = data.parent_path();
  data::TextOptions options{.vocabulary = place_of(config.data.vocabulary, rank),
                            .max_length = config.data.max_length,
                            .lower_case = config.data.lowercase};
  const bool has_folder = config.model.name->from_folder && !config.model.path.empty();
  if (has_folder) require_same_capitals(config, model);
  if (!options.vocabulary.empty()) return options;
  const fs::path of_model = model / "vocab.txt";
  const fs::path of_data = data / "vocab.txt";
  if (has_folder)
    options.vocabulary = of_model.string();
  else if (!config.data.path.empty() && is_present(of_data))
    options.vocabulary = of_data.string();
  return options;
}

std::optional<model::EncoderShape> encoder_shape(const config::RunConfig& config, Rank rank) {
  if (!config.model.name->from_folder) return std::nullopt;
  const config::RunConfig::Model& model = config.model;
  if (!model.path.empty()) {
    const fs::path path = fs::path(place_of(model.path, rank)) / "config.json";
    return model::parse_encoder_config(read_whole_file(path, kModelFile), path.string());
  }
  return model::EncoderShape{.layers = static_cast<std::int64_t>(model.layers),
                             .hidden = static_cast<std::int64_t>(model.hidden),
                             .heads = static_cast<std::int64_t>(model.heads),
                             .intermediate = static_cast<std::int64_t>(model.intermediate),
                             .dropout = model.dropout,
                             .attention_dropout = model.dropout,
                             .head_dropout = model.dropout};
}

std::string pretrained_weights(const config::RunConfig& config, Rank rank) {
  if (!config.model.name->from_folder || config.model.path.empty()) return "";
  for (const char* const name : {"model.safetensors", "pytorch_model.bin"})
    if (const fs::path path = fs::path(place_of(config.model.path, rank)) / name; is_present(path))
      return path.string();
  return "";
}

}  // namespace eqt::setup
