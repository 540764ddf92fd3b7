// SPDX-License-Identifier: Apache-2.0
// The verb `predict`: a trained network on the user's own inputs.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "app/predict_input.hpp"
#include "app/run_folder.hpp"
#include "app/trained_run.hpp"
#include "app/verbs.hpp"
#include "comm/session.hpp"
#include "core/error.hpp"
#include "data/text/text_input.hpp"
#include "metrics/output_file.hpp"
#include "metrics/run_files.hpp"

namespace eqt::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxLine = std::size_t{1} << 20;  // [bytes]
constexpr const char* kOut = "--out";
constexpr std::string_view kStandardOutput = "-";

bool has_file(const PredictCommand& command) {
  return !command.out.empty() && command.out != kStandardOutput;
}

std::string place_of(const std::string& source) {
  return source == kStandardInput ? "/dev/stdin" : source;
}

/// exp(z - max z) / sum
std::vector<double> softmax(std::span<const float> logits) {
  const double largest = static_cast<double>(std::ranges::max(logits));
  std::vector<double> shares;
  double sum = 0;
  for (const float z : logits)
    sum += shares.emplace_back(std::exp(static_cast<double>(z) - largest));
  for (double& share : shares) share /= sum;
  return shares;
}

Json by_class(const std::vector<std::string>& classes, const std::vector<double>& probabilities) {
  Json json = Json::object();
  for (std::size_t c = 0; c < classes.size(); ++c) json[classes[c]] = probabilities[c];
  return json;
}

/// The network has computed these outputs of a sample.
struct Computed {
  const std::string& name;
  std::span<const float> outputs;
  std::span<const std::int64_t> tokens;  // of a language model's input, without what fills it up
};

/// Answers say what a sample's outputs mean.
class Answers {
 public:
  Answers(const TrainedRun& run, std::size_t outputs)
      : task_(*run.config.task.kind), classes_(run.input.class_names) {
    if (&task_ == &model::tasks::language_model) {
      follows_ = run.input.target && run.input.target->name == data::kNext;
      words_ = vocabulary_of(run);
      return;
    }
    for (std::size_t c = classes_.size(); c < outputs; ++c) classes_.push_back(std::to_string(c));
    if (&task_ == &model::tasks::module)
      fail(Kind::usage,
           "predict: expected a network whose outputs have a known meaning, found the task \"{}\"; "
           "export it and use it in Python",
           task_.name);
  }

  bool read_tokens() const { return &task_ == &model::tasks::language_model; }

  Json of(const Computed& sample) const {
    Json json = {{"input", sample.name}};
    const std::span<const float> outputs = sample.outputs;
    if (&task_ == &model::tasks::language_model) {
      follows_ ? add_next(sample, json) : add_tokens(sample, json);
    } else if (&task_ == &model::tasks::regression) {
      json["values"] = std::vector<double>(outputs.begin(), outputs.end());
    } else if (&task_ == &model::tasks::multi_label) {
      std::vector<double> probabilities;
      json["classes"] = Json::array();
      for (std::size_t c = 0; c < outputs.size(); ++c) {
        probabilities.push_back(1 / (1 + std::exp(-static_cast<double>(outputs[c]))));
        if (outputs[c] > 0) json["classes"].push_back(classes_[c]);
      }
      json["probabilities"] = by_class(classes_, probabilities);
    } else {
      const std::vector<double> probabilities = softmax(outputs);
      const std::size_t best = likeliest(probabilities);
      json["class"] = classes_[best];
      json["probability"] = probabilities[best];
      json["probabilities"] = by_class(classes_, probabilities);
    }
    return json;
  }

 private:
  static constexpr std::size_t kShownTokens = 5;

  static std::vector<std::string> vocabulary_of(const TrainedRun& run) {
    const std::string path = run.folder + "/" + metrics::run_files::kVocabulary;
    if (!Json::parse(run.input.text).contains("text")) return {};
    return data::Vocabulary(data::read_vocabulary_file(path), path).tokens();
  }

  static std::size_t likeliest(const std::vector<double>& probabilities) {
    return static_cast<std::size_t>(std::ranges::max_element(probabilities) -
                                    probabilities.begin());
  }

  /// Returns a token of a text as its vocabulary has it, and one of arrays as its number.
  Json token(std::size_t number) const {
    return number < words_.size() ? Json(words_[number]) : Json(number);
  }

  /// Returns the logits of each place.
  static std::vector<std::span<const float>> by_place(const Computed& sample) {
    std::vector<std::span<const float>> places;
    const std::size_t each = sample.outputs.size() / sample.tokens.size();
    for (std::size_t i = 0; i < sample.tokens.size(); ++i)
      places.push_back(sample.outputs.subspan(i * each, each));
    return places;
  }

  /// Adds the token that follows, and how well the sample's own tokens were foreseen.
  void add_next(const Computed& sample, Json& json) const {
    const std::vector<std::span<const float>> places = by_place(sample);
    const std::vector<double> probabilities = softmax(places.back());
    std::vector<std::size_t> order(probabilities.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t shown = std::min(kShownTokens, order.size());
    std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(shown),
                              std::ranges::greater(),
                              [&](std::size_t number) { return probabilities[number]; });
    json["next"] = token(order.front());
    json["probability"] = probabilities[order.front()];
    json["likely"] = Json::array();
    for (const std::size_t number : std::span(order).first(shown))
      json["likely"].push_back({{"token", token(number)}, {"probability", probabilities[number]}});
    double sum = 0;  // of cross entropies
    for (std::size_t i = 0; i + 1 < places.size(); ++i)
      sum -= std::log(softmax(places[i]).at(static_cast<std::size_t>(sample.tokens[i + 1])));
    json["perplexity"] = places.size() > 1
                             ? Json(std::exp(sum / static_cast<double>(places.size() - 1)))
                             : Json(nullptr);
  }

  /// Adds the likeliest token of each place.
  void add_tokens(const Computed& sample, Json& json) const {
    json["tokens"] = json["probabilities"] = Json::array();
    for (const std::span<const float> place : by_place(sample)) {
      const std::vector<double> probabilities = softmax(place);
      const std::size_t best = likeliest(probabilities);
      json["tokens"].push_back(token(best));
      json["probabilities"].push_back(probabilities[best]);
    }
  }

  const model::TaskRow& task_;
  std::vector<std::string> classes_;
  bool follows_ = false;            // language models: targets are the tokens behind
  std::vector<std::string> words_;  // language models of texts: tokens by number
};

/// Computes what waits and writes its lines.
class Predictor {
 public:
  Predictor(const PredictCommand& command, const TrainedRun& run)
      : most_(command.batch),
        out_(command.out),
        network_(load_network(run, command.threads)),
        input_(make_predict_input(run)),
        answers_(run, static_cast<std::size_t>(network_options(run).outputs)) {
    if (has_file(command)) file_.emplace(command.out);
  }

  bool reads_standard_input() const { return input_->reads_standard_input(); }

  void add(const std::string& source) {
    ++inputs_;
    // Names that come from standard input are not known before.
    if (file_) require_free(kOut, out_, {place_of(source)});
    try {
      input_->add(source, most_, [&] { compute(); });
    } catch (const Error& error) {
      if (error.kind() != Kind::data) throw;
      refuse(error.what());
    }
  }

  void refuse(const std::string& sentence) {
    ++refused_;
    comm::print_error(Kind::data, sentence);
  }

  void finish() {
    compute();
    // Without any answer an older file is worth more.
    if (file_ && (answered_ > 0 || refused_ == 0)) file_->publish();
    if (refused_ == 0) return;
    std::fflush(stdout);
    fail(Kind::data,
         "predict: expected inputs that can be read, found {} of {} that cannot, named above; the "
         "others are predicted",
         refused_, std::max(inputs_, refused_));
  }

 private:
  /// @throws Error{data} unless the outputs are logits of all places and tokens
  void require_logits(const data::Array& tokens) const {
    const std::int64_t places = tokens.shape.at(1);
    const std::vector<std::int64_t>& found = outputs_.shape;
    if (found.size() == 3 && found[1] == places && found[2] >= tokens.spec.bound) return;
    fail(Kind::data,
         "predict: expected a network with outputs of the shape [samples, {}, at least {}], a "
         "logit for each place and token, found [{}]; put the run's own files back",
         places, tokens.spec.bound, fmt::join(found, ", "));
  }

  /// Gives sample `i` its tokens and the outputs of their places alone.
  void cut(const data::Array& tokens, std::size_t i, std::span<const std::size_t> lengths,
           Computed& sample) const {
    const auto places = static_cast<std::size_t>(tokens.shape.at(1));
    const std::size_t length = lengths.empty() ? places : lengths[i];
    sample.tokens = tokens.get<std::int64_t>().subspan(i * places, length);
    sample.outputs = sample.outputs.first(length * static_cast<std::size_t>(outputs_.shape[2]));
  }

  void compute() {
    const std::vector<std::string> names = input_->names();
    if (names.empty()) return;
    answered_ += names.size();
    const std::vector<std::size_t> lengths = input_->lengths();
    const data::Batch batch = input_->take();
    network_->predict(batch, outputs_);
    if (answers_.read_tokens()) require_logits(batch.inputs.front());
    const std::span<const float> all = outputs_.get<float>();
    const std::size_t each = all.size() / names.size();
    std::string lines;
    for (std::size_t i = 0; i < names.size(); ++i) {
      Computed sample{.name = names[i], .outputs = all.subspan(i * each, each), .tokens = {}};
      if (answers_.read_tokens()) cut(batch.inputs.front(), i, lengths, sample);
      lines += answers_.of(sample).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
    if (file_)
      file_->write(lines);
    else
      fmt::print("{}", lines);
  }

  const std::size_t most_;
  const std::string out_;
  std::unique_ptr<model::Replica> network_;
  std::unique_ptr<PredictInput> input_;
  Answers answers_;
  std::optional<metrics::AtomicFile> file_;  // none: standard output
  data::Array outputs_;
  std::size_t inputs_ = 0, answered_ = 0, refused_ = 0;
};

void add_lines(std::istream& lines, const std::string& name, Predictor& predictor) {
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (line.size() > kMaxLine) {
      predictor.refuse(fmt::format("{}: expected lines of at most {} bytes, found {}", name,
                                   kMaxLine, line.size()));
      continue;
    }
    predictor.add(line);
  }
}

}  // namespace

void run_predict(const PredictCommand& command) {
  const TrainedRun run = open_run(command.run, command.best);
  std::vector<std::string> files = command.files;
  if (files.empty()) files.emplace_back(kStandardInput);
  if (has_file(command)) {
    std::vector<std::string> inputs = files_of(run);
    for (const std::string& file : files) inputs.push_back(place_of(file));
    require_free(kOut, command.out, inputs);
  }
  Predictor predictor(command, run);
  for (const std::string& file : files) {
    if (file == kStandardInput && !predictor.reads_standard_input())
      add_lines(std::cin, "standard input", predictor);
    else
      predictor.add(file);
  }
  predictor.finish();
}

}  // namespace eqt::app
