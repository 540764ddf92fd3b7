// SPDX-License-Identifier: Apache-2.0
#include "config/nearest.hpp"

#include <algorithm>
#include <limits>

namespace eqt::config {
namespace {

// Longer than every key; a mistyped key may be as long as the document.
constexpr std::size_t kCompared = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

struct KeyParts {
  std::string_view section;  // "" at top level
  std::string_view leaf;
};

KeyParts split(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  if (dot == std::string_view::npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

/// "learning_rate" -> "lr"
std::string initials(std::string_view words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (i == 0 || words[i - 1] == '_') out += words[i];
  return out;
}

/// "batch" for "batch_size" or the other way round, and "lr" for "learning_rate".
bool abbreviates(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) return abbreviates(b, a);
  if (a.empty()) return false;
  const bool whole_words = b.starts_with(a) && b.size() > a.size() && b[a.size()] == '_';
  return whole_words || (a.size() > 1 && initials(b) == a);
}

// Costs are ordered so that an abbreviation in another section ("data.batch" for
// "train.batch_size") wins over two typing errors ("data.path"), and one typing error wins over
// another section.
constexpr std::size_t kEdit = 2;
constexpr std::size_t kLostSection = 1;  // "learning_rate" for "optimizer.learning_rate"
constexpr std::size_t kOtherSection = 3;

std::size_t section_distance(std::string_view wrong, std::string_view right) {
  if (wrong.empty() && !right.empty()) return kLostSection;
  return std::min(kEdit * edit_distance(wrong, right), kOtherSection);
}

std::size_t key_distance(std::string_view wrong, std::string_view key) {
  const KeyParts a = split(wrong), b = split(key);
  const std::size_t leaves =
      abbreviates(a.leaf, b.leaf) ? 0 : kEdit * edit_distance(a.leaf, b.leaf);
  return leaves + section_distance(a.section, b.section);
}

/// Returns true if this many edits between two words are typing errors rather than another word.
/// Longer words may have more, as in compilers' suggestions.
bool few_edits(std::size_t edits, std::string_view a, std::string_view b) {
  return edits <= (std::max(a.size(), b.size()) + 2) / 3;
}

bool close_leaves(std::string_view wrong, std::string_view key) {
  const std::string_view a = split(wrong).leaf, b = split(key).leaf;
  return !a.empty() && (abbreviates(a, b) || few_edits(edit_distance(a, b), a, b));
}

template <typename Close, typename Distance>
const std::string* nearest(std::string_view wrong, const std::vector<std::string>& names,
                           Close close, Distance distance) {
  std::size_t best = std::numeric_limits<std::size_t>::max();
  const std::string* found = nullptr;
  for (const std::string& name : names) {
    const std::string_view compared = wrong.substr(0, kCompared);
    if (!close(compared, name)) continue;
    const std::size_t d = distance(compared, name);
    if (d < best) {
      best = d;
      found = &name;
    }
  }
  return found;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool equal = lower(a[i - 1]) == lower(b[j - 1]);
      current[j] =
          std::min({previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (equal ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

const std::string* close_name(std::string_view wrong, const std::vector<std::string>& names) {
  const auto close = [](std::string_view a, std::string_view b) {
    return !a.empty() && few_edits(edit_distance(a, b), a, b);
  };
  return nearest(wrong, names, close, edit_distance);
}

const std::string* close_key(std::string_view wrong, const std::vector<std::string>& keys) {
  return nearest(wrong, keys, close_leaves, key_distance);
}

}  // namespace eqt::config
