# SPDX-License-Identifier: Apache-2.0
# libequant_codec.so from outside: by C, beside the program's own codecs, and as a file.
if(NOT TARGET equant_codec)
  return()
endif()

add_executable(c_interface_test ${CMAKE_CURRENT_LIST_DIR}/unit/codec_test.c)
set_target_properties(c_interface_test PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(c_interface_test PRIVATE -Wall -Wextra -pedantic -Werror)
target_link_libraries(c_interface_test PRIVATE equant_codec m)

eqt_tool(same_bytes_test LINK equant_codec eqt_codec eqt_decoders eqt_hwy eqt_test_main nlohmann_json::nlohmann_json
  SOURCES unit/same_bytes_test.cpp)
target_compile_definitions(same_bytes_test PRIVATE EQT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")

add_test(NAME c_interface.c COMMAND c_interface_test)
add_test(NAME c_interface.same_bytes COMMAND same_bytes_test)
add_test(NAME c_interface.file COMMAND ${CMAKE_CURRENT_LIST_DIR}/unit/library.sh
  $<TARGET_FILE:equant_codec> ${PROJECT_SOURCE_DIR}/include/equant/codec.h ${CMAKE_NM} ${CMAKE_READELF})
set_tests_properties(c_interface.c c_interface.same_bytes c_interface.file PROPERTIES LABELS e2e TIMEOUT 120)
