# SPDX-License-Identifier: Apache-2.0
eqt_test(codec_levels_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES
  unit/codec/bit_stream_test.cpp
  unit/codec/elias_test.cpp
  unit/codec/huffman_test.cpp
  unit/codec/level_kernels_test.cpp
  unit/codec/level_usage_test.cpp
  unit/codec/levels_test.cpp)
eqt_test(codec_levels_property LABEL property TIMEOUT 300 LINK eqt_codec eqt_hwy SOURCES
  property/codec/level_laws_test.cpp
  ALONE property/codec/level_malformed_test.cpp)
eqt_test_library(eqt_level_vectors SOURCES support/level_vectors.cpp
  LINK eqt_codec nlohmann_json::nlohmann_json)
eqt_test(codec_levels_golden LABEL golden LINK eqt_level_vectors eqt_hwy
  SOURCES
  golden/levels_test.cpp
  golden/level_vectors_test.cpp)
eqt_test(codec_levels_reference LABEL golden LINK eqt_level_vectors SOURCES
  golden/level_reference_test.cpp)
