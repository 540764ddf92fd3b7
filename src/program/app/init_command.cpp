// SPDX-License-Identifier: Apache-2.0
// The verb `init`: a config for the data or the network that is there.

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "app/check_findings.hpp"
#include "app/run_records.hpp"
#include "app/starting_config.hpp"
#include "app/trained_run.hpp"
#include "app/verbs.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "core/shipped.hpp"
#include "core/visible.hpp"
#include "data/catalogue.hpp"
#include "data/find_own.hpp"
#include "data/text/unicode.hpp"
#include "model/catalogue.hpp"
#include "model/replica.hpp"
#include "model/task.hpp"
#include "setup/build_model.hpp"
#include "setup/look_at_data.hpp"

namespace eqt::app {
namespace {

namespace fs = std::filesystem;

constexpr int kCheckedRanks = 2;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// Returns a path that means the same in any folder.
/// @throws Error{usage} if it is not UTF-8, which a config is
std::string whole_path(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  std::string text = (whole.has_filename() ? whole : whole.parent_path()).string();
  if (!data::is_utf8(text))
    fail(Kind::usage, "init: expected a path in UTF-8, as a config is, found {}; rename it",
         visible(text));
  return text;
}

bool is_network_file(const fs::path& path) {
  return path.extension() == ".pt" || path.extension() == ".pth" || path.extension() == ".ts";
}

/// A folder of Hugging Face's.
bool is_encoder_folder(const fs::path& path) {
  std::error_code error;
  return is_folder(path) && fs::is_regular_file(path / "config.json", error);
}

/// The words of the command line name these.
struct NamedPaths {
  std::optional<fs::path> data;
  std::optional<fs::path> network;  // a TorchScript module
  std::optional<fs::path> encoder;  // a folder with a BERT
};

NamedPaths sort_paths(const std::vector<std::string>& paths) {
  NamedPaths named;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::exists(path, error))
      fail(Kind::usage, "init: expected data or a network at {}, found nothing; {}", path,
           nearest_or(path, "check the path"));
    std::optional<fs::path>& place = is_network_file(path)     ? named.network
                                     : is_encoder_folder(path) ? named.encoder
                                                               : named.data;
    if (place)
      fail(Kind::usage,
           "init: expected one folder or table of data and at most one network, found {} and {}; "
           "leave one out",
           place->string(), path);
    place = path;
  }
  return named;
}

/// A network alone is for data beside it, if there are any.
std::optional<data::FoundSet> find_set(const NamedPaths& named) {
  if (named.data) return data::find_own(*named.data);
  if (!named.network) return std::nullopt;
  try {
    return data::find_own(named.network->has_parent_path() ? named.network->parent_path()
                                                           : fs::path("."));
  } catch (const Error& error) {
    if (error.kind() != Kind::data) throw;
    return std::nullopt;
  }
}

/// Builds the config, key by key.
class Starter {
 public:
  Starter(NamedPaths named, std::optional<data::FoundSet> set, std::string name,
          std::string vocabulary)
      : named_(std::move(named)),
        set_(std::move(set)),
        name_(std::move(name)),
        vocabulary_path_(std::move(vocabulary)) {}

  void choose() {
    keys_.set("name", name_, "its results go to runs/" + name_);
    if (!set_) return choose_without_data();
    look();
    choose_model();
    for (const auto& [key, value, why] : data_) keys_.set(key, value, why);
    if (task_ != &model::tasks::classification) keys_.set("task.kind", task_->name, task_why_);
    choose_training();
  }

  const CommentedConfig& keys() const { return keys_; }
  /// Of a vocab.txt that the config names and that is not there yet; "" for none.
  const std::string& vocabulary() const { return vocabulary_; }
  bool has_data() const { return has_data_; }
  bool has_texts() const { return set_ && set_->set == data::sets::text; }
  bool has_arrays() const { return !has_data_ || (set_ && set_->set == data::sets::arrays); }

 private:
  struct DataKey {
    std::string key;
    nlohmann::json value;
    std::string why;
  };

  void set_data(std::string key, nlohmann::json value, std::string why = {}) {
    data_.push_back({std::move(key), std::move(value), std::move(why)});
  }

  /// A config of the data keys alone, with which files are looked at.
  config::RunConfig config_of_data() const {
    CommentedConfig keys;
    if (named_.encoder && has_texts()) {
      keys.set("model.name", model::models::bert.name);
      keys.set("model.path", whole_path(*named_.encoder));
    }
    for (const auto& [key, value, why] : data_) keys.set(key, value);
    keys.set("task.kind", task_->name);
    return config::parse_config(keys.text("init"), "init", {});
  }

  void look() {
    set_data("data.name", set_->set->name);
    set_data("data.path", whole_path(set_->path));
    if (set_->set == data::sets::folder || set_->set == data::sets::shards)
      look_at_pictures();
    else if (has_texts())
      look_at_texts();
    else if (has_arrays())
      look_at_numbers();
    if (!vocabulary_.empty()) return;  // that is not written yet
    const config::RunConfig config = config_of_data();
    const data::DatasetFacts facts = config.data.name->look(setup::dataset_options(config));
    samples_ = facts.train;
    if (const auto images = data::image_shape(facts.inputs))
      side_ = std::max(images->height, images->width);
  }

  void look_at_pictures() {
    const config::RunConfig config = config_of_data();
    const data::PictureSizes sizes = data::sizes_of_pictures(setup::dataset_options(config));
    set_data("data.image_size", picture_side(sizes.middle_side),
             fmt::format("the middle one of {} pictures has a shorter side of {} pixels",
                         sizes.looked_at, sizes.middle_side));
    if (!sizes.has_colour) set_data("data.channels", 1, "no picture has colours");
    set_data("data.loader_threads", 2, "pictures are decoded beside the training");
  }

  void look_at_texts() {
    if (set_->is_stream) {
      task_ = &model::tasks::language_model;
      task_why_ = "what follows in a text is learnt";
    }
    const std::vector<std::size_t> lengths = data::lengths_of_texts(*set_);
    if (lengths.empty()) fail(Kind::data, "{}: expected texts, found none", set_->path.string());
    const std::size_t length = set_->is_stream ? 64 : text_length(lengths);
    samples_ = set_->is_stream
                   ? std::accumulate(lengths.begin(), lengths.end(), lengths.size()) / length
               : is_folder(set_->path) ? lengths.size()
                                       : lengths.size() - lengths.size() / 10;  // the test set's
    set_data("data.max_length", length,
             set_->is_stream ? "tokens of a sample" : "tokens; 19 of 20 texts fit");
    if (has_vocabulary()) return;
    vocabulary_ = data::vocabulary_of_texts(*set_);
    set_data("data.vocabulary", whole_path(vocabulary_path_), "made of the training texts");
  }

  bool has_vocabulary() {
    try {
      return !setup::text_options(config_of_data()).vocabulary.empty();
    } catch (const Error& error) {
      if (error.kind() != Kind::usage || !named_.encoder) throw;
      set_data("data.lowercase", false, "as do_lower_case of the network's folder says");
      return !setup::text_options(config_of_data()).vocabulary.empty();
    }
  }

  void look_at_numbers() {
    const data::FoundTargets targets =
        data::look_at_targets(setup::dataset_options(config_of_data()));
    if (targets.kind == data::TargetKind::tokens) {
      task_ = &model::tasks::language_model;
      task_why_ = "there are no targets: which token follows is learnt";
      return;
    }
    if (targets.kind == data::TargetKind::values) {
      task_ = &model::tasks::regression;
      task_why_ = "the targets are numbers";
    } else if (targets.kind == data::TargetKind::flags) {
      task_ = &model::tasks::multi_label;
      task_why_ = "the targets of a sample are several, each 0 or 1";
    }
    set_data("data.standardize", "last-axis", "each feature gets mean 0 and deviation 1");
  }

  void choose_model() {
    if (named_.network) {
      network_ = StartNetwork::own;
      keys_.set("model.name", model::models::torchscript.name);
      keys_.set("model.path", whole_path(*named_.network));
    } else if (has_texts() || task_ == &model::tasks::language_model) {
      keys_.set("model.name", model::models::bert.name);
      if (named_.encoder && has_texts()) {
        network_ = StartNetwork::pretrained_texts;
        keys_.set("model.path", whole_path(*named_.encoder), "trained before, and fine-tuned here");
      } else {
        network_ = StartNetwork::texts;
        keys_.set("model.layers", 4, "a small one, that begins with random weights");
        keys_.set("model.hidden", 128);
        keys_.set("model.heads", 4);
      }
    } else if (has_arrays()) {
      network_ = StartNetwork::numbers;
      keys_.set("model.name", model::models::mlp.name,
                "or a network of your own: " + shipped("docs/own_network.md"));
      keys_.set("model.layers", 2);
      keys_.set("model.hidden", 128);
    } else if (side_ <= model::kSmallImages) {
      network_ = StartNetwork::small_pictures;
      keys_.set("model.name", model::models::resnet20.name, "pictures of at most 64 pixels");
    } else {
      network_ = StartNetwork::pictures;
      keys_.set("model.name", model::models::resnet18.name, "pictures of more than 64 pixels");
    }
    if (named_.encoder && !has_texts())
      fail(Kind::usage, "init: expected texts beside the network {}, found data of another kind",
           named_.encoder->string());
  }

  void choose_training() {
    constexpr std::size_t kUnknown = 1000;  // samples, as if there were so many
    const TrainingRule rule = training_rule(network_, has_data_ ? samples_ : kUnknown);
    keys_.set("train.epochs", rule.epochs,
              has_data_ ? fmt::format("{}{} training samples", vocabulary_.empty() ? "" : "about ",
                                      samples_)
                        : "");
    keys_.set("train.batch_size", rule.batch_size, "of each rank");
    if (rule.adamw) keys_.set("optimizer.name", "adamw");
    keys_.set("optimizer.learning_rate", rule.learning_rate, "try a third and three times as much");
    if (!rule.adamw) keys_.set("optimizer.momentum", 0.9);
    keys_.set("optimizer.weight_decay", rule.weight_decay);
    if (rule.clip_norm > 0) keys_.set("optimizer.clip_norm", rule.clip_norm);
    keys_.set("schedule.kind", rule.clip_norm > 0 ? "linear" : "cosine",
              "the rate rises, then falls to 0");
    keys_.set("schedule.warmup_epochs", rule.warmup_epochs);
    keys_.set("compressor.name", "e-elastiquant",
              "gradients in 4 bits; " + shipped("docs/choosing.md"));
    keys_.set("checkpoint.every_epochs", 1, "--resume continues from there");
  }

  /// Generated pictures if the network takes them, else arrays that are not there yet.
  void choose_without_data() {
    network_ = StartNetwork::own;
    keys_.set("model.name", model::models::torchscript.name);
    keys_.set("model.path", whole_path(*named_.network));
    CommentedConfig trial = keys_;
    trial.set("data.name", data::sets::synthetic.name);
    const config::RunConfig config = config::parse_config(trial.text("init"), "init", {});
    const OwnNetworkDeadline deadline(config);
    const data::DatasetFacts facts = config.data.name->look(setup::dataset_options(config));
    const model::ModelOptions options =
        setup::network_for(config, {facts.inputs, facts.target, facts.classes});
    model::require_loadable(options);
    try {
      (void)model::make_idle_replica(options);
      keys_.set("data.name", data::sets::synthetic.name, "generated pictures, to try it");
      samples_ = facts.train;
    } catch (const Error& error) {
      if (error.kind() != Kind::data && error.kind() != Kind::usage) throw;
      has_data_ = false;
      keys_.set("data.name", data::sets::arrays.name,
                "or another kind: " + shipped("docs/own_data.md"));
      keys_.set("data.path", "data/arrays", "put your data there, or name their folder here");
    }
    choose_training();
  }

  const NamedPaths named_;
  const std::optional<data::FoundSet> set_;
  const std::string name_, vocabulary_path_;
  CommentedConfig keys_;
  std::vector<DataKey> data_;
  std::string vocabulary_, task_why_;
  const model::TaskRow* task_ = &model::tasks::classification;
  StartNetwork network_ = StartNetwork::own;
  std::size_t samples_ = 0;
  int side_ = 0;  // [pixels] of pictures
  bool has_data_ = true;
};

[[noreturn]] void refuse_existing(const std::string& path) {
  fail(Kind::usage,
       "init: expected no file at {}, which would be overwritten, found one; name another with "
       "--out FILE",
       path);
}

void require_absent(const std::string& path) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(path, error))) refuse_existing(path);
}

/// Never replaces a file, even one that has just been made. @throws Error{usage}, Error{output}
void write_new(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "wxb");
  if (file == nullptr && errno == EEXIST) refuse_existing(path);
  bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int reason = errno;
  if (file != nullptr && std::fclose(file) != 0) written = false;
  if (written) return;
  if (file != nullptr) std::remove(path.c_str());
  fail(Kind::output, "init: expected to write {}, found: {}; name another file with --out", path,
       std::strerror(reason));
}

/// "next:" and what to do with the config.
std::string next_words(const Starter& starter, const std::string& out, const std::string& name) {
  const std::string run = "runs/" + name, config = shell_word(out);
  std::string text = "next:\n";
  if (!starter.has_data())
    text += fmt::format("  put data into the config {}: data.name and data.path\n", config);
  const auto add = [&](const std::string& words) { text += "  " + words + "\n"; };
  add("equant-train check --config " + config);
  add(fmt::format("{} --ranks 2 {}", shipped("scripts/run_local.sh"), config));
  add(fmt::format("equant-train predict {} {}", run,
                  starter.has_texts()    ? "texts.txt"
                  : starter.has_arrays() ? "x_new.npy"
                                         : "picture.png"));
  add(fmt::format("equant-train export {} --to torchscript", run));
  return text;
}

}  // namespace

void run_init(const InitCommand& command) {
  NamedPaths named = sort_paths(command.paths);
  if (!named.data && !named.network)
    fail(Kind::usage, "init: expected data for the network {}, found none; name them as well",
         command.paths.front());
  const fs::path first = named.data.value_or(named.network.value_or(""));
  const std::string name = run_name(first.string());
  const std::string out = command.out.empty() ? name + ".json" : command.out;
  const std::string vocabulary = fs::path(out).replace_extension(".vocab.txt").string();
  require_absent(out);
  Starter starter(named, find_set(named), name, vocabulary);
  starter.choose();
  const std::string text =
      starter.keys().text(fmt::format("equant-train init wrote this for {}; {} has every key.",
                                      whole_path(first), shipped("docs/keys.md")));
  const config::RunConfig config = config::parse_config(text, out, {});
  if (!starter.vocabulary().empty()) write_new(vocabulary, starter.vocabulary());
  if (starter.has_data()) {
    const OwnNetworkDeadline deadline(config);
    try {
      for (const std::string& line : look_at_run(config, kCheckedRanks).lines)
        fmt::print("{}\n", line);
    } catch (...) {
      if (!starter.vocabulary().empty()) std::remove(vocabulary.c_str());
      throw;
    }
  }
  write_new(out, text);
  if (!starter.vocabulary().empty()) fmt::print("wrote {}\n", vocabulary);
  fmt::print("wrote {}: {}, task {}, {} epochs, batches of {} on each rank, rate {}\n", out,
             config.model.name->name, config.task.kind->name, config.train.epochs,
             config.train.batch_size, config.optimizer.learning_rate);
  fmt::print("{}", next_words(starter, out, name));
}

}  // namespace eqt::app
