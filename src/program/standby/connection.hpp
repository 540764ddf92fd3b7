// SPDX-License-Identifier: Apache-2.0
// The connection between equant-standby and the process in standby. After a request short words go
// over it: the copy says its process number, equant-standby says go, and the server says how the
// copy has ended, which may be before it was a rank.

#pragma once

#include <sys/time.h>
#include <sys/un.h>

#include <cstddef>
#include <string>

namespace eqt::standby {

/// @return false if the path is too long for a socket's address
bool set_path(sockaddr_un& address, const std::string& path);

/// Whether the process at the other end runs as the same user.
bool is_of_this_user(int connection);

/// Limits how long each of the functions below waits for the other end; 0 is forever.
void limit_waiting(int connection, timeval longest);

/// @return false if the other end is gone, or took too long
bool send_all(int connection, const void* data, std::size_t size);
bool receive_all(int connection, void* data, std::size_t size);

constexpr int kGo = 1;

/// How a copy has ended, as waitpid() says it, in a word that is no process number; and back.
constexpr int word_of_end(int status) { return -1 - status; }
constexpr int end_of_word(int word) { return -1 - word; }

inline bool write_word(int connection, int word) {
  return send_all(connection, &word, sizeof(word));
}
inline bool read_word(int connection, int& word) {
  return receive_all(connection, &word, sizeof(word));
}

}  // namespace eqt::standby
