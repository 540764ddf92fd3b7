#include "app/early_stop.hpp"

#include "core/error.hpp"

namespace eqt::app {

void require_no_stop(comm::Communicator& comm) {
  comm.agree_after([&] {
    if (comm.stop_asked())
      fail(Kind::interrupted,
           "the run was told to stop by a signal before its first step; there is nothing to save");
  });
}

}  // namespace eqt::app
