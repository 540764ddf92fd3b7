// SPDX-License-Identifier: Apache-2.0
// equant-standby SOCKET PROGRAM ARGUMENT...: starts a program from its process in standby. It links
// none of the libraries that the program has to load.

#include <cstdio>
#include <string>
#include <vector>

#include "standby/client.hpp"

int main(int argc, char** argv) {
  if (argc < 3) {
    (void)std::fprintf(stderr,
                       "equant-standby: expected SOCKET PROGRAM ARGUMENT..., found fewer words\n");
    return 2;
  }
  return eqt::standby::start(argv[1], {argv + 2, argv + argc});
}
