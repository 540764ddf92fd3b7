// SPDX-License-Identifier: Apache-2.0
#include "report/document.hpp"

#include <fstream>
#include <sstream>
#include <system_error>

#include "core/error.hpp"
#include "figures/text.hpp"

namespace eqt::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{16} << 20;

}  // namespace

std::string read_document(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  if (fs::file_size(path, error) > kMaxBytes)
    fail(Kind::data, "{}: expected at most {} MiB, found more; leave the run out",
         visible(path.string()), kMaxBytes >> 20);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    fail(Kind::data, "{}: expected a readable file, but reading failed; check its permissions",
         visible(path.string()));
  return text.str();
}

}  // namespace eqt::report
