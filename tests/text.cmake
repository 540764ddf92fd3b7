# SPDX-License-Identifier: Apache-2.0
eqt_test(text_unit LABEL unit LINK eqt_data nlohmann_json::nlohmann_json
  SOURCES unit/data/text/rows_test.cpp unit/data/text/unicode_test.cpp unit/data/text/vocabulary_test.cpp
          unit/data/text/word_piece_test.cpp golden/word_piece_test.cpp)

# Not a test: compare_word_piece.py, run by hand, compares it with PyPI's tokenizers.
add_executable(word_piece_tool golden/word_piece_tool.cpp)
target_link_libraries(word_piece_tool PRIVATE eqt_data eqt_options)
