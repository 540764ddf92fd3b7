// SPDX-License-Identifier: Apache-2.0
#include "setup/named_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>

#include "codec/plugin.hpp"
#include "core/checksum.hpp"
#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/units.hpp"
#include "data/catalogue.hpp"
#include "data/test_split.hpp"
#include "setup/look_at_data.hpp"
#include "setup/same_everywhere.hpp"

namespace eqt::setup {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMostHashed = 256 * kMib;  // of all files together
constexpr std::uint64_t kPieceBytes = 64 << 10;
constexpr const char* kPieces = " pieces";

/// Reads a file at any place.
class HashedFile {
 public:
  explicit HashedFile(const fs::path& path) : path_(path), opened_(path) {
    struct stat found = {};
    if (opened_.number() < 0 || fstat(opened_.number(), &found) != 0) refuse(std::strerror(errno));
    if (!S_ISREG(found.st_mode)) refuse("it is no regular file");
    bytes_ = static_cast<std::uint64_t>(found.st_size);
  }

  /// Its length, and the hash of at most `most` of its bytes.
  std::string fact(std::uint64_t most) {
    if (bytes_ <= most) {
      add(0, bytes_);
      return fmt::format("a file of {} bytes with the hash {:016x}", bytes_, hash_);
    }
    const std::uint64_t pieces = std::max<std::uint64_t>(2, most / kPieceBytes);
    for (std::uint64_t i = 0; i < pieces; ++i)
      add(i * (bytes_ - kPieceBytes) / (pieces - 1), kPieceBytes);
    return fmt::format("a file of {} bytes with the hash {:016x} of {}{} of {} bytes", bytes_,
                       hash_, pieces, kPieces, kPieceBytes);
  }

 private:
  void add(std::uint64_t offset, std::uint64_t count) {
    buffer_.resize(kMib);
    while (count > 0) {
      const ssize_t got =
          pread(opened_.number(), buffer_.data(), std::min<std::uint64_t>(count, buffer_.size()),
                static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse(std::strerror(errno));
      if (got == 0) refuse("its length changed while it was read");
      const auto read = static_cast<std::size_t>(got);
      hash_ = checksum(std::span(buffer_).first(read), hash_);
      offset += read;
      count -= read;
    }
  }
  [[noreturn]] void refuse(const char* reason) const {
    fail(Kind::data, "expected a readable file at {}, found: {}; check its permissions",
         path_.string(), reason);
  }

  const fs::path path_;
  Descriptor opened_;
  std::uint64_t bytes_ = 0, hash_ = 0;
  std::vector<std::byte> buffer_;
};

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// Returns the facts of the set of one rank, or of all that a process plays.
config::Facts own_data_facts(const config::RunConfig& config, int simulate, Rank rank) {
  const bool plays_all = simulate > 0 && has_local_data(config);
  if (!plays_all) return file_facts(data_files(config, simulate > 0 ? 0 : rank));
  config::Facts facts;
  for (Rank worker = 0; worker < simulate; ++worker)
    for (config::Fact& fact : file_facts(data_files(config, worker)))
      facts.push_back({fmt::format("rank {}: {}", worker, fact.name), std::move(fact.value)});
  return facts;
}

}  // namespace

std::vector<NamedFile> network_files(const config::RunConfig& config, Rank rank) {
  std::vector<NamedFile> files;
  const auto add = [&](const std::string& name, const fs::path& path) {
    if (is_there(path)) files.push_back({name, path});
  };
  const fs::path model = place_of(config.model.path, rank);
  if (config.model.name->users_own) add("model.path", model);
  if (config.model.name->from_folder && !config.model.path.empty())
    for (const char* const name :
         {"config.json", "tokenizer_config.json", "model.safetensors", "pytorch_model.bin"})
      add(fmt::format("model.path/{}", name), model / name);
  add("model.weights", config.model.weights);
  if (config.data.name == data::sets::text)
    add("data.vocabulary", text_options(config, rank).vocabulary);
  add("synchronization.topology.file", config.synchronization.topology.file);
  return files;
}

std::vector<NamedFile> data_files(const config::RunConfig& config, Rank rank) {
  std::vector<NamedFile> files;
  if (config.train.is_emulated() || config.data.name->files == nullptr) return files;
  const data::DatasetOptions options = dataset_options(config, rank);
  std::error_code error;
  const fs::path place = fs::canonical(options.path, error);
  const fs::path folder = data::is_table_file(place) ? place.parent_path() : place;
  for (const fs::path& path : config.data.name->files(options)) {
    const fs::path whole = fs::canonical(path.parent_path(), error) / path.filename();
    files.push_back({"data.path/" + whole.lexically_relative(folder).string(), path});
  }
  return files;
}

config::Facts file_facts(const std::vector<NamedFile>& files) {
  std::uint64_t bytes = 0;
  for (const NamedFile& file : files) {
    std::error_code error;
    const std::uintmax_t found = fs::file_size(file.path, error);
    if (!error) bytes += found;
  }
  const std::uint64_t most = bytes <= kMostHashed ? bytes : kMostHashed / files.size();
  config::Facts facts;
  for (const NamedFile& file : files)
    facts.push_back({file.name, HashedFile(file.path).fact(most)});
  return facts;
}

bool is_of_pieces(const config::Fact& fact) {
  return fact.value.find(kPieces) != std::string::npos;
}

config::Facts facts_of_named_files(const config::RunConfig& config, int simulate,
                                   comm::Communicator& comm) {
  comm.heartbeat("hashing of files");
  const bool every_rank = has_local_data(config) && simulate == 0;
  config::Facts network, data;
  comm.agree_after([&] {
    if (comm.rank() == 0) network = file_facts(network_files(config));
    if (comm.rank() == 0 || every_rank) data = own_data_facts(config, simulate, comm.rank());
  });
  for (const codec::LoadedPlugin& plugin : codec::loaded_plugins())
    network.push_back(
        {"--plugin " + plugin.name, fmt::format("a file with the hash {:016x}", plugin.hash)});
  if (every_rank) data = facts_of_all(data, comm);
  network.insert(network.end(), data.begin(), data.end());
  return config::unpacked(comm.broadcast(config::packed(network), 0));
}

}  // namespace eqt::setup
