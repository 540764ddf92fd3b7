# SPDX-License-Identifier: Apache-2.0
eqt_test(codec_unit LABEL unit LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json SOURCES
  unit/codec/frame_test.cpp
  unit/codec/casts_test.cpp
  unit/codec/catalogue_test.cpp
  unit/codec/simd_test.cpp
  unit/codec/terngrad_test.cpp)
eqt_test(codec_property LABEL property LINK eqt_codec eqt_hwy SOURCES
  property/codec/basic_laws_test.cpp)
eqt_test(codec_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json SOURCES
  golden/codec_basic_test.cpp)
