# SPDX-License-Identifier: Apache-2.0
add_executable(entropy_speed bench/entropy_speed.cpp)
target_include_directories(entropy_speed PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(entropy_speed PRIVATE eqt_codec eqt_options)
eqt_test(codec_entropy_unit LABEL unit LINK eqt_codec eqt_hwy SOURCES
  unit/codec/code_kernels_test.cpp
  unit/codec/gap_code_test.cpp
  unit/codec/rans_test.cpp)
eqt_test(codec_entropy_property LABEL property TIMEOUT 300 LINK eqt_codec eqt_hwy SOURCES
  property/codec/entropy_laws_test.cpp)
