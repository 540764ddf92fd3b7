// SPDX-License-Identifier: Apache-2.0
// A flag that all ranks of a host share, in any state of their communicators.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "comm/communicator.hpp"

namespace eqt::test {

class SharedFlag {
 public:
  /// Collective. All ranks on one host.
  explicit SharedFlag(comm::Communicator& comm) {
    std::string path = "/tmp/eqt-flag-XXXXXX";
    int file = -1;
    if (comm.rank() == 0) file = mkstemp(path.data());
    path = comm.broadcast(path, 0);
    if (comm.rank() != 0) file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    const bool ready = file >= 0 && ftruncate(file, sizeof(Word)) == 0;
    EQT_CHECK(ready, "a file for a flag at {}", path);
    void* const memory = mmap(nullptr, sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    EQT_CHECK(memory != MAP_FAILED, "a flag at {}", path);
    word_ = static_cast<Word*>(memory);
    comm.allgather(std::uint64_t{0});  // all ranks have opened it
    if (comm.rank() == 0) unlink(path.c_str());
  }
  ~SharedFlag() { munmap(word_, sizeof(Word)); }
  SharedFlag(const SharedFlag&) = delete;
  SharedFlag& operator=(const SharedFlag&) = delete;

  bool is_up() const { return word_->load() != 0; }
  void raise() { word_->store(1); }
  void lower() { word_->store(0); }

 private:
  using Word = std::atomic<std::uint32_t>;
  static_assert(Word::is_always_lock_free);
  Word* word_ = nullptr;
};

}  // namespace eqt::test
