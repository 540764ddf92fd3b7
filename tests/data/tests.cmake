# SPDX-License-Identifier: Apache-2.0
eqt_test(data_unit LABEL unit LINK eqt_data ZLIB::ZLIB
  SOURCES unit/formats_test.cpp unit/image_set_test.cpp unit/area_average_test.cpp unit/synthetic_test.cpp
    unit/partition_test.cpp unit/skew_partition_test.cpp unit/batch_test.cpp unit/dirichlet_partition_test.cpp
    unit/length_buckets_test.cpp unit/text_test.cpp unit/views_test.cpp
  ALONE unit/loader_test.cpp unit/dataset_test.cpp)
eqt_test(data_property LABEL property LINK eqt_data SOURCES property/partition_test.cpp)
eqt_test(arrays_unit LABEL unit LINK eqt_data
  SOURCES unit/npy_file_test.cpp unit/csv_table_test.cpp unit/arrays_test.cpp unit/find_own_test.cpp unit/wrapped_sets_test.cpp)
eqt_test(text_unit LABEL unit LINK eqt_data nlohmann_json::nlohmann_json
  SOURCES unit/text/rows_test.cpp unit/text/unicode_test.cpp unit/text/vocabulary_test.cpp
    unit/text/word_piece_test.cpp golden/word_piece_test.cpp)

eqt_test_library(eqt_picture_files LINK JPEG::JPEG PNG::PNG PkgConfig::libwebp SOURCES ../support/picture_files.cpp)
eqt_test(pictures_unit LABEL unit LINK eqt_data eqt_picture_files eqt_hwy
  SOURCES unit/pictures/decode_test.cpp unit/pictures/folder_test.cpp unit/pictures/framing_test.cpp
    unit/pictures/picture_reader_test.cpp unit/pictures/resize_test.cpp unit/pictures/shards_test.cpp)

# Reads pictures beside Pillow.
eqt_tool(picture_tool LINK eqt_data SOURCES ../support/picture_tool.cpp)
add_dependencies(test_programs picture_tool)
if(NOT CMAKE_CROSSCOMPILING AND NOT EQT_SANITIZE)
  add_test(NAME pictures_with_pillow
    COMMAND ${CMAKE_CURRENT_LIST_DIR}/unit/pictures_with_pillow.py $<TARGET_FILE:picture_tool>)
  set_tests_properties(pictures_with_pillow PROPERTIES LABELS unit TIMEOUT 60
    SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")
endif()

add_test(NAME data_script COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/unit/get_data_test.sh
         ${PROJECT_SOURCE_DIR}/scripts/get_data.sh)
set_tests_properties(data_script PROPERTIES LABELS unit TIMEOUT 60)

# Not a test: compare_word_piece.py, run by hand, compares it with PyPI's tokenizers.
eqt_tool(word_piece_tool LINK eqt_data SOURCES golden/word_piece_tool.cpp)
