// SPDX-License-Identifier: Apache-2.0
// The classes of labelled texts: from the labels of train.csv, or named by classes.txt.

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

/// Labels as they occur in a file, numbered as they are met.
class LabelNumbers {
 public:
  /// The number of a label, without space around it.
  /// @throws Error{data} naming `file`: more than 65,536 of them
  int number(std::string_view label, const std::string& file);
  const std::vector<std::string>& labels() const { return labels_; }  // by number

 private:
  std::map<std::string, int, std::less<>> numbers_;
  std::vector<std::string> labels_;
};

class TextClasses {
 public:
  /// Without `names`, the training labels are the classes: in the order of their values if all are
  /// whole numbers, else of their bytes. With names, labels are either names or numbers: from 0 if
  /// a label is 0, else from 1.
  /// @param file with the training labels, for messages
  /// @throws Error{data}: a label out of range, or a single class
  TextClasses(const std::vector<std::string>& labels,
              const std::optional<std::vector<std::string>>& names, const std::string& file);

  const std::vector<std::string>& names() const { return names_; }  // by class
  /// The class of a label without space around it; -1: none.
  int find(std::string_view label) const;

 private:
  void name_by_labels(const std::vector<std::string>& labels);
  void number_names(const std::vector<std::string>& labels);

  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> classes_;  // by label
};

/// Without space at its beginning and end.
std::string_view without_space(std::string_view text);

/// The lines of a file classes.txt, if there is one in the folder.
/// @throws Error{data} for one that is empty, or with a name twice
std::optional<std::vector<std::string>> read_class_names(const std::filesystem::path& folder);

}  // namespace eqt::data
