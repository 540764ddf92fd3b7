// SPDX-License-Identifier: Apache-2.0
// The note on ranks that round their gradients otherwise: whom it names, and when there is none.

#include "setup/same_everywhere.hpp"
#include "support/catch.hpp"

using eqt::setup::Arithmetic;
using eqt::setup::note_on_mixed_ranks;

namespace {

const Arithmetic kPc{"LibTorch 1.13.1", "x86-64"};
const Arithmetic kBoard{"LibTorch 1.13.1", "arm64"};
const Arithmetic kNewPc{"LibTorch 2.1.0", "x86-64"};

}  // namespace

TEST_CASE("equal ranks need no note", "[setup]") {
  CHECK(note_on_mixed_ranks({kPc}).empty());
  CHECK(note_on_mixed_ranks({kBoard, kBoard, kBoard}).empty());
}

TEST_CASE("the first rank on another processor is named, with both processors", "[setup]") {
  CHECK(note_on_mixed_ranks({kPc, kPc, kBoard, kNewPc}) ==
        "rank 2 computes with LibTorch 1.13.1 on arm64, rank 0 with LibTorch 1.13.1 on x86-64: "
        "their gradients are rounded otherwise, and nothing else depends on it");
}

TEST_CASE("processors are left out where all that is compared is LibTorch", "[setup]") {
  CHECK(note_on_mixed_ranks({kPc, kNewPc, kBoard}) ==
        "rank 1 computes with LibTorch 2.1.0, rank 0 with LibTorch 1.13.1: their gradients are "
        "rounded otherwise, and nothing else depends on it");
}

TEST_CASE("a program without LibTorch computes with kernels of its own", "[setup]") {
  CHECK(note_on_mixed_ranks({{"none", "arm64"}, {"none", "x86-64"}}) ==
        "rank 1 computes with kernels of its own on x86-64, rank 0 with kernels of its own on "
        "arm64: their gradients are rounded otherwise, and nothing else depends on it");
}
