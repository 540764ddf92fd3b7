#include "model/weights.hpp"

#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/unpickler.h>
#include <torch/serialize.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "core/error.hpp"
#include "model/archive.hpp"
#include "model/torch_errors.hpp"

namespace eqt::model {
namespace {

using TensorMap = std::map<std::string, at::Tensor>;

bool may_be_missing(std::string_view name) { return name.ends_with("num_batches_tracked"); }

/// The tensors of a file and, by address, how many bytes each of its records really has: a pickle
/// may claim storages and strides that its records do not cover, and LibTorch believes it.
struct Contents {
  c10::IValue value;
  std::unordered_map<const void*, std::size_t> record_bytes;
};

/// What torch::pickle_load does, but through a reader that stops at the end of a short file.
Contents unpickle_file(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader file(path);
  const auto [pickle, pickle_bytes] = file.getRecord("data.pkl");
  const auto* const bytes = static_cast<const char*>(pickle.get());
  std::size_t done = 0;
  const auto read = [&, size = pickle_bytes](char* out, std::size_t wanted) {
    const std::size_t count = std::min(wanted, size - done);
    std::copy_n(bytes + done, count, out);
    done += count;
    return count;
  };
  Contents contents;
  const auto read_record = [&](const std::string& name) {
    auto [data, size] = file.getRecord("data/" + name);
    contents.record_bytes[data.get()] = size;
    return std::move(data);
  };
  contents.value = torch::jit::Unpickler(read, nullptr, nullptr, read_record, {}).parse_ivalue();
  return contents;
}

/// Text from a file, fit for a terminal: ASCII and short.
std::string printable(std::string text) {
  constexpr std::size_t kLongest = 120;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

/// What LibTorch says about a file, unless it takes the file's fault for its own.
std::string reason(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error ? first_line(*torch_error) : error.what();
  return text.find("INTERNAL ASSERT") == std::string::npos ? printable(text) : "not plain tensors";
}

/// [bytes] Far above what a file of these tensors needs, even in float64.
std::uintmax_t largest_file(const NamedTensors& tensors) {
  constexpr std::uintmax_t kPerValue = 16, kPerTensor = 4096, kAside = 1 << 20;
  std::uintmax_t bytes = kAside;
  for (const auto& [name, tensor] : tensors)
    bytes += kPerTensor + kPerValue * static_cast<std::uintmax_t>(tensor.numel());
  return bytes;
}

Contents unpickle(const std::string& path, std::uintmax_t most_bytes) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) {
    fail(Kind::data, "expected a weights file at {}, but {}; check model.weights", path,
         error.message());
  }
  if (size > most_bytes) {
    fail(
        Kind::data,
        "expected a weights file of this network, of at most {} bytes, found {} bytes at {}; check "
        "model.name and model.weights",
        most_bytes, size, path);
  }
  require_stored_records(path);
  try {
    return unpickle_file(path);
  } catch (const std::exception& exception) {
    fail(Kind::data,
         "expected a dict of tensors written by torch.save in the weights file {}, found {} bytes "
         "that LibTorch cannot read ({}); in Python, write it with "
         "torch.save(dict(model.state_dict()), path)",
         path, size, reason(exception));
  }
}

/// Whether every element that the tensor's strides reach lies in its record.
bool lies_in_record(const at::Tensor& tensor, const Contents& contents) {
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu()) return false;
  if (tensor.numel() == 0) return true;
  const auto record = contents.record_bytes.find(tensor.storage().data_ptr().get());
  if (record == contents.record_bytes.end() || tensor.storage_offset() < 0) return false;
  double last = static_cast<double>(tensor.storage_offset());  // floating, so as not to overflow
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) < 0 || tensor.stride(i) < 0) return false;
    last += static_cast<double>(tensor.size(i) - 1) * static_cast<double>(tensor.stride(i));
  }
  return (last + 1) * static_cast<double>(tensor.itemsize()) <= static_cast<double>(record->second);
}

TensorMap read_tensors(const std::string& path, std::uintmax_t most_bytes) {
  const Contents contents = unpickle(path, most_bytes);
  const c10::IValue& value = contents.value;
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
    const at::Tensor tensor = entry.value().toTensor();
    if (!tensor.defined() || !lies_in_record(tensor, contents)) {
      fail(Kind::data, "expected the whole of tensor {} in the weights file {}, found a part",
           printable(entry.key().toStringRef()), path);
    }
    tensors.emplace(entry.key().toStringRef(), tensor);
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
           "have; check model.name, model.shortcut and model.normalization",
           path, printable(name));
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
    const TensorMap found = read_tensors(path, largest_file(tensors));
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
