// SPDX-License-Identifier: Apache-2.0
#include "standby/request.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "standby/connection.hpp"

namespace eqt::standby {
namespace {

constexpr std::size_t kStreams = 3;                      // standard input, output and error
constexpr std::size_t kMaxBytes = std::size_t{1} << 22;  // Linux allows a command less
constexpr std::uint64_t kMagic = 0x3159424453545145;     // "EQTSDBY1", little-endian

/// The head comes first, as it is in memory: both ends are programs of one build on one machine.
struct Head {
  std::uint64_t magic = kMagic;
  FileIdentity program;
  std::uint64_t arguments = 0;
  std::uint64_t variables = 0;
  std::uint64_t bytes = 0;  // of all texts, each with its zero: folder, arguments, variables
  mode_t mask = 0;
  cpu_set_t processors = {};
  std::array<rlimit, RLIM_NLIMITS> limits = {};
};

/// Room for the three descriptors beside the first bytes.
union Control {
  cmsghdr aligned;
  std::array<char, CMSG_SPACE(kStreams * sizeof(int))> bytes;
};

msghdr message_of(iovec& part, Control& control) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  return message;
}

/// Receives the head; its descriptors take the places 0, 1 and 2.
bool receive_head(int connection, Head& head) {
  Control control{};
  iovec part{&head, sizeof(head)};
  msghdr message = message_of(part, control);
  ssize_t got = 0;
  do {
    got = ::recvmsg(connection, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got <= 0 || (message.msg_flags & MSG_CTRUNC) != 0) return false;
  const cmsghdr* const found = CMSG_FIRSTHDR(&message);
  if (found == nullptr || found->cmsg_level != SOL_SOCKET || found->cmsg_type != SCM_RIGHTS ||
      found->cmsg_len != CMSG_LEN(kStreams * sizeof(int)))
    return false;
  std::array<int, kStreams> streams{};
  std::memcpy(streams.data(), CMSG_DATA(found), sizeof(streams));
  for (std::size_t i = 0; i < kStreams; ++i) {
    if (::dup2(streams[i], static_cast<int>(i)) < 0) return false;
    if (streams[i] >= static_cast<int>(kStreams)) ::close(streams[i]);
  }
  const auto have = static_cast<std::size_t>(got);
  return receive_all(connection, reinterpret_cast<char*>(&head) + have, sizeof(head) - have) &&
         head.magic == kMagic && head.bytes <= kMaxBytes && head.arguments >= 1 &&
         head.arguments <= head.bytes && head.variables <= head.bytes;
}

void append(std::string& texts, const std::string& text) {
  texts.append(text.c_str(), text.size() + 1);
}

/// The texts up to their zeros; the last text has one, too.
std::vector<std::string> divided(std::string_view texts) {
  std::vector<std::string> found;
  while (!texts.empty()) {
    const std::size_t end = std::min(texts.find('\0'), texts.size());
    found.emplace_back(texts.substr(0, end));
    texts.remove_prefix(std::min(end + 1, texts.size()));
  }
  return found;
}

/// The variables that libraries read while they are loaded: OpenMP's, the linear algebra's, the
/// loader's, the allocator's, and those of LibTorch and of its kernels.
std::vector<std::string> read_by_libraries(std::vector<std::string> variables) {
  constexpr std::array kBeginnings = {
      "OMP_",   "GOMP_", "KMP_",   "OPENBLAS_", "GOTO_", "BLIS_",   "MKL_",  "LD_",     "MALLOC_",
      "GLIBC_", "ATEN_", "TORCH_", "PYTORCH_",  "DNNL_", "ONEDNN_", "CUDA_", "NVIDIA_", "GLOG_"};
  std::erase_if(variables, [&](const std::string& variable) {
    return std::none_of(kBeginnings.begin(), kBeginnings.end(),
                        [&](const char* beginning) { return variable.starts_with(beginning); });
  });
  std::sort(variables.begin(), variables.end());
  return variables;
}

}  // namespace

std::optional<FileIdentity> identity_of(const char* path) {
  struct stat found {};
  if (::stat(path, &found) != 0 || !S_ISREG(found.st_mode)) return std::nullopt;
  return FileIdentity{found.st_dev, found.st_ino,
                      found.st_mtim.tv_sec * 1'000'000'000 + found.st_mtim.tv_nsec};
}

std::optional<Request> own_request(std::vector<std::string> arguments) {
  Request request;
  const std::optional<FileIdentity> program = identity_of(arguments.front().c_str());
  char* const folder = ::get_current_dir_name();
  if (folder != nullptr) request.folder = folder;
  std::free(folder);
  if (!program || request.folder.empty()) return std::nullopt;
  request.program = *program;
  request.arguments = std::move(arguments);
  for (char** variable = environ; *variable != nullptr; ++variable)
    request.variables.emplace_back(*variable);
  request.mask = ::umask(0);
  ::umask(request.mask);
  if (::sched_getaffinity(0, sizeof(request.processors), &request.processors) != 0)
    return std::nullopt;
  for (int i = 0; i < RLIM_NLIMITS; ++i)
    if (::getrlimit(static_cast<__rlimit_resource>(i),
                    &request.limits[static_cast<std::size_t>(i)]) != 0)
      return std::nullopt;
  return request;
}

bool send(int connection, const Request& request) {
  std::string texts;
  append(texts, request.folder);
  for (const std::string& argument : request.arguments) append(texts, argument);
  for (const std::string& variable : request.variables) append(texts, variable);
  Head head;
  head.program = request.program;
  head.arguments = request.arguments.size();
  head.variables = request.variables.size();
  head.bytes = texts.size();
  head.mask = request.mask;
  head.processors = request.processors;
  head.limits = request.limits;

  Control control{};
  iovec part{&head, sizeof(head)};
  msghdr message = message_of(part, control);
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(kStreams * sizeof(int));
  constexpr std::array<int, kStreams> streams = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
  std::memcpy(CMSG_DATA(rights), streams.data(), sizeof(streams));
  const ssize_t sent = ::sendmsg(connection, &message, MSG_NOSIGNAL);
  if (sent <= 0) return false;
  const auto done = static_cast<std::size_t>(sent);
  return send_all(connection, reinterpret_cast<const char*>(&head) + done, sizeof(head) - done) &&
         send_all(connection, texts.data(), texts.size());
}

std::optional<Request> receive(int connection) {
  Head head;
  if (!receive_head(connection, head)) return std::nullopt;
  std::string texts(head.bytes, '\0');
  if (!receive_all(connection, texts.data(), texts.size()) || texts.empty() || texts.back() != '\0')
    return std::nullopt;
  const std::vector<std::string> all = divided(texts);
  if (all.size() != 1 + head.arguments + head.variables) return std::nullopt;
  const auto first = all.begin() + 1;
  const auto middle = first + static_cast<std::ptrdiff_t>(head.arguments);
  return Request{.program = head.program,
                 .folder = all.front(),
                 .arguments = {first, middle},
                 .variables = {middle, all.end()},
                 .mask = head.mask,
                 .processors = head.processors,
                 .limits = head.limits};
}

bool load_alike(const std::vector<std::string>& before, const std::vector<std::string>& now) {
  return read_by_libraries(before) == read_by_libraries(now);
}

}  // namespace eqt::standby
