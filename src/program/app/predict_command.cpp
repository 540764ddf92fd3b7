// SPDX-License-Identifier: Apache-2.0
// The verb `predict`: a trained network on the user's own inputs.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/predict_input.hpp"
#include "app/run_folder.hpp"
#include "app/trained_run.hpp"
#include "app/verbs.hpp"
#include "comm/session.hpp"
#include "core/error.hpp"
#include "metrics/output_file.hpp"

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

/// Answers say what a sample's outputs mean.
class Answers {
 public:
  Answers(const model::TaskRow& task, std::vector<std::string> classes, std::size_t outputs)
      : task_(task), classes_(std::move(classes)) {
    for (std::size_t c = classes_.size(); c < outputs; ++c) classes_.push_back(std::to_string(c));
    const bool known = &task == &model::tasks::classification ||
                       &task == &model::tasks::multi_label || &task == &model::tasks::regression;
    if (!known)
      fail(Kind::usage,
           "predict: expected a network that was trained for classification, multi-label or "
           "regression, found the task \"{}\"; export it and use it in Python",
           task.name);
  }

  Json of(const std::string& name, std::span<const float> outputs) const {
    Json json = {{"input", name}};
    if (&task_ == &model::tasks::regression) {
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
      const auto best =
          static_cast<std::size_t>(std::ranges::max_element(probabilities) - probabilities.begin());
      json["class"] = classes_[best];
      json["probability"] = probabilities[best];
      json["probabilities"] = by_class(classes_, probabilities);
    }
    return json;
  }

 private:
  const model::TaskRow& task_;
  std::vector<std::string> classes_;
};

/// Computes what waits and writes its lines.
class Predictor {
 public:
  Predictor(const PredictCommand& command, const TrainedRun& run)
      : most_(command.batch),
        out_(command.out),
        network_(load_network(run, command.threads)),
        input_(make_predict_input(run)),
        answers_(*run.config.task.kind, run.input.class_names,
                 static_cast<std::size_t>(network_options(run).outputs)) {
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
  void compute() {
    const std::vector<std::string> names = input_->names();
    if (names.empty()) return;
    answered_ += names.size();
    network_->predict(input_->take(), outputs_);
    const std::span<const float> all = outputs_.get<float>();
    const std::size_t each = all.size() / names.size();
    std::string lines;
    for (std::size_t i = 0; i < names.size(); ++i)
      lines += answers_.of(names[i], all.subspan(i * each, each))
                   .dump(-1, ' ', false, Json::error_handler_t::replace) +
               "\n";
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
