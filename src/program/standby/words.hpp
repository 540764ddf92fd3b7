// SPDX-License-Identifier: Apache-2.0
// The short words of both ends after a request: the copy says its process number, equant-standby
// says go, and the server says how the copy has ended, which may be before it was a rank.

#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace eqt::standby {

constexpr int kGo = 1;

/// How a copy has ended, as waitpid() says it, in a word that is no process number; and back.
constexpr int word_of_end(int status) { return -1 - status; }
constexpr int end_of_word(int word) { return -1 - word; }

/// @return false if the other end is gone, or took too long
inline bool write_word(int connection, int word) {
  ssize_t sent = 0;
  do {
    sent = ::send(connection, &word, sizeof(word), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == sizeof(word);
}

/// @return false if the other end is gone, or took too long
inline bool read_word(int connection, int& word) {
  ssize_t got = 0;
  do {
    got = ::recv(connection, &word, sizeof(word), MSG_WAITALL);
  } while (got < 0 && errno == EINTR);
  return got == sizeof(word);
}

/// @return false if the path is too long for a socket's address
inline bool set_path(sockaddr_un& address, const std::string& path) {
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return true;
}

/// Whether the process at the other end runs as the same user.
inline bool is_of_this_user(int connection) {
  ucred other{};
  socklen_t size = sizeof(other);
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         other.uid == ::geteuid();
}

}  // namespace eqt::standby
