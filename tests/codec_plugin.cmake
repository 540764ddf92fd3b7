# SPDX-License-Identifier: Apache-2.0
# Compressors in shared objects: the example, and one plugin for each violation of the interface.

function(eqt_plugin name source)
  add_library(${name} MODULE EXCLUDE_FROM_ALL ${source})
  set_target_properties(${name} PROPERTIES C_STANDARD 99 PREFIX "" LIBRARY_OUTPUT_DIRECTORY
    ${CMAKE_CURRENT_BINARY_DIR}/plugins)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include)
  target_compile_options(${name} PRIVATE -Wall -Wextra)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  list(APPEND EQT_PLUGINS ${name})
  set(EQT_PLUGINS ${EQT_PLUGINS} PARENT_SCOPE)
endfunction()

eqt_plugin(mean_sign ${PROJECT_SOURCE_DIR}/docs/examples/mean_sign.c)
foreach(way IN ITEMS NO_SYMBOL OTHER_VERSION CRASHES WRITES_PAST NOT_DETERMINISTIC REFUSES_OPTIONS
        BAD_NAME TAKEN_NAME FAILS_TO_ENCODE CRASHES_AT_SIZE USES_UP_THE_STACK ROUNDS_UPWARD)
  string(TOLOWER ${way} name)
  string(REPLACE "_" "-" compressor ${name})
  eqt_plugin(${name} support/plugins/bad_plugin.c BAD=${way} EQT_PLUGIN_NAME="${compressor}")
endforeach()
eqt_plugin(floats support/plugins/bad_plugin.c EQT_PLUGIN_NAME="floats")

eqt_test(codec_plugin LABEL unit LINK eqt_codec SOURCES unit/codec/plugin_test.cpp)
target_compile_definitions(codec_plugin PRIVATE EQT_PLUGIN_DIR="${CMAKE_CURRENT_BINARY_DIR}/plugins")
add_dependencies(codec_plugin ${EQT_PLUGINS})
