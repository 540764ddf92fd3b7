// SPDX-License-Identifier: Apache-2.0
// The classes of labelled texts: from the labels of train.csv, or named by classes.txt.

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace eqt::data {

/// A label as it is compared: without space around it, and "1" in place of "1.0", as programs write
/// whole numbers among others that are missing.
std::string plain_label(std::string_view label);

/// Labels as they occur in a file, plain, numbered as they are met.
class LabelNumbers {
 public:
  /// The number of a label.
  /// @throws Error{data} naming `file` and `line`: more than 65,536 of them, or one that
  /// require_class_name() refuses
  int number(std::string_view label, const std::string& file, std::size_t line);
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
  /// @param least classes that there must be
  /// @throws Error{data}: a label out of range, fewer classes, or as require_readable_names()
  TextClasses(const std::vector<std::string>& labels,
              const std::optional<std::vector<std::string>>& names, const std::string& file,
              std::size_t least = 2);

  const std::vector<std::string>& names() const { return names_; }  // by class
  /// The class of a plain label; -1: none.
  int find(std::string_view label) const;

 private:
  void name_by_labels(const std::vector<std::string>& labels);
  void number_names(const std::vector<std::string>& labels);

  std::vector<std::string> names_;
  std::map<std::string, int, std::less<>> classes_;  // by label
};

}  // namespace eqt::data
