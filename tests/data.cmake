# SPDX-License-Identifier: Apache-2.0
eqt_test(data_unit LABEL unit LINK eqt_data ZLIB::ZLIB
  SOURCES unit/data/formats_test.cpp unit/data/image_set_test.cpp unit/data/area_average_test.cpp unit/data/synthetic_test.cpp
          unit/data/partition_test.cpp unit/data/skew_partition_test.cpp
          unit/data/batch_test.cpp unit/data/dirichlet_partition_test.cpp
          unit/data/length_buckets_test.cpp unit/data/text_test.cpp
  ALONE unit/data/loader_test.cpp unit/data/dataset_test.cpp)

eqt_test_library(eqt_picture_files SOURCES support/picture_files.cpp
  LINK JPEG::JPEG PNG::PNG PkgConfig::libwebp)
eqt_test(pictures_unit LABEL unit LINK eqt_data eqt_picture_files eqt_hwy
  SOURCES unit/data/pictures/decode_test.cpp unit/data/pictures/folder_test.cpp unit/data/pictures/framing_test.cpp
          unit/data/pictures/picture_reader_test.cpp unit/data/pictures/resize_test.cpp
          unit/data/pictures/shards_test.cpp)

# Reads pictures beside Pillow.
add_executable(picture_tool support/picture_tool.cpp)
target_link_libraries(picture_tool PRIVATE eqt_data eqt_options)
add_dependencies(test_programs picture_tool)
if(NOT CMAKE_CROSSCOMPILING AND NOT EQT_SANITIZE)
  add_test(NAME pictures_with_pillow
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/unit/data/pictures_with_pillow.py $<TARGET_FILE:picture_tool>)
  set_tests_properties(pictures_with_pillow PROPERTIES LABELS unit TIMEOUT 60
    SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
endif()

eqt_test(arrays_unit LABEL unit LINK eqt_data
  SOURCES unit/data/npy_file_test.cpp unit/data/csv_table_test.cpp unit/data/arrays_test.cpp
          unit/data/wrapped_sets_test.cpp)

eqt_test(data_property LABEL property LINK eqt_data SOURCES property/data/partition_test.cpp)

add_test(NAME data_script COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/unit/data/get_data_test.sh
         ${PROJECT_SOURCE_DIR}/scripts/get_data.sh)
set_tests_properties(data_script PROPERTIES LABELS unit TIMEOUT 60)
