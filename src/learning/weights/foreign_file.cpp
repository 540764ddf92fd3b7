// SPDX-License-Identifier: Apache-2.0
#include "weights/foreign_file.hpp"

#include "weights/script_archive.hpp"

#include <algorithm>

namespace eqt::weights {

void refuse_file(const ForeignFile& file, const std::string& reason) {
  if (file.holds == Holds::script) refuse_script(file.path, reason);
  fail(Kind::data,
       "expected a dict of tensors, as torch.save or safetensors write it, in the weights file {}, "
       "but {}; in Python, write it with torch.save(model.state_dict(), path)",
       file.path, reason);
}

void refuse_script(const std::string& path, const std::string& reason) {
  fail(Kind::data,
       "expected a TorchScript module in model.path {}, but {}; in Python, write it with "
       "torch.jit.script(net).save(path) or torch.jit.trace(net, example).save(path)",
       path, reason);
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  std::string shown(text.substr(0, kLongest));
  if (text.size() > kLongest) shown += "...";
  std::ranges::replace_if(
      shown, [](char c) { return c < ' ' || c > '~'; }, '?');
  return shown;
}

}  // namespace eqt::weights
