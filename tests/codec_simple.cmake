# SPDX-License-Identifier: Apache-2.0
eqt_test(codec_simple_unit LABEL unit LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES
  unit/codec/int8_test.cpp
  unit/codec/natural_test.cpp
  ALONE unit/codec/sign_test.cpp)
eqt_test(codec_simple_property LABEL property LINK eqt_codec eqt_hwy SOURCES
  property/codec/simple_laws_test.cpp)
eqt_test(codec_simple_golden LABEL golden LINK eqt_codec eqt_hwy
  nlohmann_json::nlohmann_json SOURCES golden/codec_simple_test.cpp)
