# SPDX-License-Identifier: Apache-2.0
eqt_test(codec_parallel LABEL property LINK eqt_decoders SOURCES
  property/codec/parallel_laws_test.cpp
  property/codec/parallel_malformed_test.cpp)
