# SPDX-License-Identifier: Apache-2.0
eqt_test(codec_integer_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES
  unit/codec/integer_kernels_test.cpp)
eqt_test(codec_integer_property LABEL property LINK eqt_decoders eqt_hwy SOURCES
  property/codec/integer_laws_test.cpp)
eqt_test(codec_integer_golden LABEL golden LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES golden/integer_test.cpp)
