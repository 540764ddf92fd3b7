// SPDX-License-Identifier: Apache-2.0
#include "app/starting_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.hpp"

namespace eqt::app {
namespace {

/// Fewer samples want more passes.
std::size_t epochs_for(std::size_t samples) {
  if (samples < 1'000) return 60;
  if (samples < 10'000) return 30;
  if (samples < 100'000) return 10;
  return 3;
}

/// The rule for as many samples as one could wish.
TrainingRule usual_rule(StartNetwork network) {
  switch (network) {
    case StartNetwork::small_pictures:
      return {.batch_size = 64, .learning_rate = 0.1, .weight_decay = 1e-4};
    case StartNetwork::pictures:
      return {.batch_size = 32, .learning_rate = 0.05, .weight_decay = 1e-4};
    case StartNetwork::numbers:
    case StartNetwork::own:
      return {.batch_size = 32, .learning_rate = 1e-3, .adamw = true, .weight_decay = 0.01};
    case StartNetwork::texts:
      return {.batch_size = 32,
              .learning_rate = 5e-4,
              .adamw = true,
              .weight_decay = 0.01,
              .clip_norm = 1};
    case StartNetwork::pretrained_texts:
      return {.batch_size = 8,
              .learning_rate = 5e-5,
              .adamw = true,
              .weight_decay = 0.01,
              .clip_norm = 1};
  }
  fail(Kind::bug, "a network without a rule");
}

}  // namespace

void CommentedConfig::set(std::string_view key, nlohmann::json value, std::string why) {
  const std::size_t dot = key.find('.');
  const bool nested = dot != std::string_view::npos;
  entries_.push_back({.section = std::string(nested ? key.substr(0, dot) : ""),
                      .key = std::string(nested ? key.substr(dot + 1) : key),
                      .why = std::move(why),
                      .value = std::move(value)});
}

std::string CommentedConfig::text(std::string_view about) const {
  std::string text = fmt::format("// {}\n{{\n", about);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const std::string& section = entry.section;
    const bool begins = !section.empty() && (i == 0 || entries_[i - 1].section != section);
    const bool is_last = i + 1 == entries_.size();
    const bool ends = is_last || entries_[i + 1].section != section;
    if (begins) text += fmt::format("  \"{}\": {{\n", section);
    const bool has_next = section.empty() ? !is_last : !ends;
    text += fmt::format("{}\"{}\": {}{}{}{}\n", section.empty() ? "  " : "    ", entry.key,
                        entry.value.dump(), has_next ? "," : "", entry.why.empty() ? "" : "  // ",
                        entry.why);
    if (!section.empty() && ends) text += is_last ? "  }\n" : "  },\n";
  }
  return text + "}\n";
}

TrainingRule training_rule(StartNetwork network, std::size_t samples) {
  constexpr std::size_t kRanks = 2, kWantedSteps = 4, kSmallBatch = 8, kFineTuning = 3;
  TrainingRule rule = usual_rule(network);
  const auto usual = static_cast<double>(rule.batch_size);
  const auto exceeds = [&](std::size_t steps) {
    return kRanks * steps * rule.batch_size > samples;
  };
  while (rule.batch_size > kSmallBatch && exceeds(kWantedSteps)) rule.batch_size /= 2;
  while (rule.batch_size > 1 && exceeds(1)) rule.batch_size /= 2;
  // AdamW's steps do not depend on the size of the gradient.
  if (!rule.adamw) rule.learning_rate *= static_cast<double>(rule.batch_size) / usual;
  rule.epochs = network == StartNetwork::pretrained_texts ? kFineTuning : epochs_for(samples);
  rule.warmup_epochs = static_cast<double>(rule.epochs) / 10;
  return rule;
}

int picture_side(int middle_side) {
  constexpr int kLeast = 16, kSmall = 64, kStep = 8, kUsual = 160;  // [pixels]
  if (middle_side >= kUsual) return kUsual;
  if (middle_side <= kSmall) return std::max(kLeast, middle_side);
  return middle_side / kStep * kStep;
}

std::size_t text_length(std::vector<std::size_t> lengths) {
  constexpr std::size_t kLeast = 16, kMost = 128;  // [tokens]
  std::ranges::sort(lengths);
  const std::size_t words = lengths[(lengths.size() - 1) * 19 / 20];
  // A word has 4/3 tokens, about; each text has two of its own.
  return std::clamp(std::bit_ceil(words * 4 / 3 + 2), kLeast, kMost);
}

std::string run_name(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr std::size_t kMostBytes = 64;
  std::error_code error;
  fs::path whole = fs::canonical(path, error);
  if (error) whole = path;
  const std::string stem =
      fs::is_directory(whole, error) ? whole.filename().string() : whole.stem().string();
  std::string name;
  for (const char c : stem) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
    name += is_plain ? c : '_';
  }
  name = name.substr(0, kMostBytes);
  if (name.empty() || name.starts_with('.')) name.insert(0, "run");
  return name;
}

}  // namespace eqt::app
