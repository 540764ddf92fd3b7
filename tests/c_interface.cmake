# SPDX-License-Identifier: Apache-2.0
# libequant_codec.so from outside: by C, beside the program's own codecs, and as a file. A test builds
# it, because it takes minutes and nothing else needs it.
if(NOT TARGET equant_codec)
  return()
endif()

add_executable(c_interface_test EXCLUDE_FROM_ALL unit/c_interface/codec_test.c)
set_target_properties(c_interface_test PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_compile_options(c_interface_test PRIVATE -Wall -Wextra -pedantic -Werror)
target_link_libraries(c_interface_test PRIVATE equant_codec m)

add_executable(same_bytes_test EXCLUDE_FROM_ALL unit/c_interface/same_bytes_test.cpp)
target_include_directories(same_bytes_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(same_bytes_test PRIVATE EQT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_link_libraries(same_bytes_test PRIVATE equant_codec eqt_codec eqt_decoders eqt_hwy eqt_test_main
  eqt_options nlohmann_json::nlohmann_json)

add_test(NAME c_interface.build COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR}
  --target equant_codec c_interface_test same_bytes_test)
set_tests_properties(c_interface.build PROPERTIES FIXTURES_SETUP c_interface TIMEOUT 900 RUN_SERIAL ON)
add_test(NAME c_interface.c COMMAND c_interface_test)
add_test(NAME c_interface.same_bytes COMMAND same_bytes_test)
add_test(NAME c_interface.file COMMAND ${CMAKE_CURRENT_LIST_DIR}/unit/c_interface/library.sh
  $<TARGET_FILE:equant_codec> ${PROJECT_SOURCE_DIR}/include/equant/codec.h ${CMAKE_NM} ${CMAKE_READELF})
set_tests_properties(c_interface.c c_interface.same_bytes c_interface.file PROPERTIES
  FIXTURES_REQUIRED c_interface TIMEOUT 120)
set_property(TEST c_interface.build c_interface.c c_interface.same_bytes c_interface.file
  PROPERTY LABELS e2e)
