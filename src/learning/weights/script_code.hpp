// SPDX-License-Identifier: Apache-2.0
// The code of TorchScript archives: how deep LibTorch's parser and compiler would have to go for
// it. Private to this room.

#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weights/pickle.hpp"
#include "weights/refuse.hpp"

namespace eqt::weights {

/// The classes and functions of an archive. LibTorch reads them by functions that call themselves:
/// for each bracket, operator and indentation, and for each class or function that another one
/// names. So deep code is the end of its stack, and of the process. What is refused:
///
///   depth: a class or function that together with all that it names in turn has more than
///     a thousand levels; what torch.jit.save writes has some dozen
///   __setstate__, which LibTorch would run while it reads the file, before anybody sees its code
///   names of other code, such as classes of libraries, and what torch.jit.save never writes
///
/// Time and memory are nearly linear in the code's bytes. Format: torch/csrc/jit/frontend/lexer.h
/// and torch/csrc/jit/serialization/import_source.cpp.
class ScriptCode {
 public:
  explicit ScriptCode(const ForeignFile& file) : file_(file) {}

  /// A file's text; `module` is "__torch__.torch.nn" of code/__torch__/torch/nn.py.
  /// @throws Error{data}
  void read(const std::string& module, std::string_view text);
  /// Called after the last file.
  /// @throws Error{data}
  void check_names() const;
  enum class ClassKind { none, with_objects, enumeration };
  /// Returns what the archive may have of this class: with_objects is without a base or with the
  /// base Module; none has another base or is no class of the code.
  ClassKind kind_of(const std::string& name) const;
  /// True if the enumeration has this number or text. LibTorch's reader would go on without a value
  /// if it had not.
  bool has_value(const std::string& name, const PickleValue& value) const;

 private:
  struct Definition {
    ClassKind kind = ClassKind::none;
    std::size_t nesting = 0;              // brackets, operators, indentation
    std::vector<std::string> names = {};  // of others, in full
    std::set<std::string> literals = {};  // of an enumeration, as they stand in the code
  };
  class Reader;

  std::vector<std::size_t> named_by(const Definition& definition) const;

  const ForeignFile& file_;
  std::vector<Definition> definitions_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

}  // namespace eqt::weights
