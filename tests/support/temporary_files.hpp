// SPDX-License-Identifier: Apache-2.0
// Small files in a folder that is removed with its object.

#pragma once

#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace eqt::test {

class TemporaryFiles {
 public:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  /// Returns the file's path.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace eqt::test
