// SPDX-License-Identifier: Apache-2.0
#include "core/shipped.hpp"

#include <filesystem>
#include <system_error>

namespace eqt {

std::string shipped(std::string_view path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  const fs::path installed = program.parent_path().parent_path() / "share" / "equant-train" / path;
  return !failed && fs::exists(installed, failed) ? installed.string() : std::string(path);
}

}  // namespace eqt
