# SPDX-License-Identifier: Apache-2.0
eqt_test(codec_low_rank_unit LABEL unit LINK eqt_codec eqt_hwy nlohmann_json::nlohmann_json
  SOURCES unit/codec/atoms_test.cpp unit/codec/low_rank_test.cpp)
eqt_test(codec_low_rank_property LABEL property LINK eqt_codec eqt_hwy
  nlohmann_json::nlohmann_json SOURCES property/codec/low_rank_laws_test.cpp)
eqt_test(codec_low_rank_golden LABEL golden LINK eqt_codec eqt_hwy
  nlohmann_json::nlohmann_json SOURCES golden/low_rank_test.cpp)
# Not a test: run by hand.
add_executable(low_rank_speed bench/low_rank_speed.cpp)
target_include_directories(low_rank_speed PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(low_rank_speed PRIVATE eqt_codec eqt_options)
