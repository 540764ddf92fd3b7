// SPDX-License-Identifier: Apache-2.0
// Builds archives of TorchScript, for tests of their reader.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "support/torch_bytes.hpp"

namespace eqt::support {

/// A network (n, 3) to (n, 2) with the parameter w, as torch.jit.save writes it.
struct ScriptParts {
  std::string data = pickle(pickled_object(
      "__torch__", "Net", {pickled("training"), "\x88", pickled("w"), pickled(PickledTensor{})}));
  std::string constants = pickle(")");
  std::string code =
      "class Net(Module):\n"
      "  __parameters__ = [\"w\", ]\n"
      "  __buffers__ = []\n"
      "  training : bool\n"
      "  w : Tensor\n"
      "  def forward(self: __torch__.Net,\n"
      "    x: Tensor) -> Tensor:\n"
      "    w = self.w\n"
      "    return torch.linear(x, w)\n";
  std::vector<std::pair<std::string, std::string>> more = {};  // records, from code/ on
  std::string storage = std::string(24, '\0');                 // data/0
  std::string version = "3\n";

  static std::string pickled_object(std::string_view module, std::string_view name,
                                    const std::vector<std::string>& attributes) {
    return pickled_global(module, name) + ")\x81" + pickled_dict(attributes) + "b";
  }
  std::string archive() const {
    std::vector<std::pair<std::string, std::string>> records = {{"net/data.pkl", data},
                                                                {"net/constants.pkl", constants},
                                                                {"net/code/__torch__.py", code},
                                                                {"net/data/0", storage},
                                                                {"net/version", version}};
    for (const auto& [name, bytes] : more) records.emplace_back("net/" + name, bytes);
    return zip_bytes(records);
  }
};

}  // namespace eqt::support
