#include "model/weights.hpp"

#include <torch/serialize.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>

#include "core/error.hpp"
#include "model/torch_errors.hpp"

namespace eqt::model {
namespace {

using TensorMap = std::map<std::string, at::Tensor>;

bool may_be_missing(std::string_view name) { return name.ends_with("num_batches_tracked"); }

std::vector<char> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
  if (size < 0) {
    fail(Kind::data, "expected a weights file at {}, but it cannot be opened; check model.weights",
         path);
  }
  std::vector<char> bytes(static_cast<std::size_t>(size));
  file.seekg(0);
  if (!file.read(bytes.data(), size)) fail(Kind::data, "cannot read the weights file {}", path);
  return bytes;
}

/// What LibTorch says about a file, unless it takes the file's fault for its own.
std::string reason(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? first_line(*torch_error) : error.what();
  return text.find("INTERNAL ASSERT") == std::string::npos ? text : "not plain tensors";
}

c10::IValue unpickle(const std::string& path) {
  const std::vector<char> bytes = read_file(path);
  try {
    return torch::pickle_load(bytes);
  } catch (const std::exception& error) {
    fail(Kind::data,
         "expected a dict of tensors written by torch.save in the weights file {}, found {} bytes "
         "that LibTorch cannot read ({}); in Python, write it with "
         "torch.save(dict(model.state_dict()), path)",
         path, bytes.size(), reason(error));
  }
}

TensorMap read_tensors(const std::string& path) {
  const c10::IValue value = unpickle(path);
  if (!value.isGenericDict()) {
    fail(Kind::data, "expected a dict of tensors in the weights file {}, found a {}", path,
         value.tagKind());
  }
  TensorMap tensors;
  for (const auto& entry : value.toGenericDict()) {
    if (!entry.key().isString() || !entry.value().isTensor()) {
      fail(Kind::data,
           "expected names with tensors in the weights file {}, found a {} with a {}; write "
           "dict(model.state_dict()) alone",
           path, entry.key().tagKind(), entry.value().tagKind());
    }
    tensors.emplace(entry.key().toStringRef(), entry.value().toTensor());
  }
  return tensors;
}

void check_tensor(const std::string& path, const std::string& name, const at::Tensor& wanted,
                  const at::Tensor& found) {
  if (wanted.sizes() != found.sizes()) {
    fail(Kind::data, "expected {} of shape {} in the weights file {}, found shape {}", name,
         c10::str(wanted.sizes()), path, c10::str(found.sizes()));
  }
  const bool same_kind = at::isFloatingType(wanted.scalar_type())
                             ? at::isFloatingType(found.scalar_type())
                             : found.scalar_type() == wanted.scalar_type();
  if (!same_kind) {
    fail(Kind::data, "expected {} of type {} in the weights file {}, found {}", name,
         c10::toString(wanted.scalar_type()), path, c10::toString(found.scalar_type()));
  }
  if (!at::isfinite(found).all().item<bool>()) {
    fail(Kind::data, "expected finite values of {} in the weights file {}, found infinity or NaN",
         name, path);
  }
}

void check_names(const std::string& path, const NamedTensors& wanted, const TensorMap& found) {
  std::map<std::string_view, bool> known;
  for (const auto& [name, tensor] : wanted) {
    known[name] = true;
    if (found.contains(name)) {
      check_tensor(path, name, tensor, found.at(name));
    } else if (!may_be_missing(name)) {
      fail(Kind::data, "expected a tensor {} in the weights file {}, found none of that name", name,
           path);
    }
  }
  for (const auto& [name, tensor] : found) {
    if (!known.contains(name)) {
      fail(Kind::data,
           "expected weights of this network in the file {}, found a tensor {} that it does not "
           "have; check model.name and model.shortcut",
           path, name);
    }
  }
}

void write_file(const std::string& path, const std::vector<char>& bytes) {
  const std::string temporary = path + ".partial";
  std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(temporary, path, error);
  if (!file || error) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    fail(Kind::output,
         "expected to write {} bytes of weights to {}, but {}; check the folder and "
         "its free space",
         bytes.size(), path, error ? error.message() : "writing failed");
  }
}

}  // namespace

void write_weights(const std::string& path, const NamedTensors& tensors) {
  c10::Dict<std::string, at::Tensor> dict;
  for (const auto& [name, tensor] : tensors) {
    // A copy of its own storage: a view would take the whole flat buffer along.
    dict.insert(name, tensor.detach().clone(at::MemoryFormat::Contiguous));
  }
  write_file(path, guarded("packing the weights", [&] { return torch::pickle_save(dict); }));
}

void read_weights(const std::string& path, const NamedTensors& tensors) {
  guarded("reading the weights", [&] {
    const TensorMap found = read_tensors(path);
    check_names(path, tensors, found);
    const at::NoGradGuard no_grad;
    for (auto [name, tensor] : tensors) {
      if (const auto source = found.find(name); source != found.end()) {
        tensor.copy_(source->second);
      }
    }
  });
}

}  // namespace eqt::model
