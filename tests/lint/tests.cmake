# SPDX-License-Identifier: Apache-2.0
# Checks of the sources: formatting, includes between rooms, headers that compile on their own, comments, Markdown,
# answers of other hosts in scripts.

add_test(NAME lint.includes COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_includes.sh)
add_test(NAME lint.include_rules COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/include_rules.sh)
add_test(NAME lint.format COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_format.sh)
add_test(NAME lint.markdown COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_markdown.sh)
add_test(NAME lint.markdown_rules COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/markdown_rules.sh)
add_test(NAME lint.comments COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/comments.py)
add_test(NAME lint.licence COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_licence.sh)
add_test(NAME lint.licence_rules COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/licence_rules.sh)
add_test(NAME lint.answers COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_answers.sh)
add_test(NAME lint.answers_rules COMMAND ${PROJECT_SOURCE_DIR}/tests/lint/answers_rules.sh)
set_tests_properties(lint.includes lint.include_rules lint.format lint.markdown lint.markdown_rules lint.comments
  lint.licence lint.licence_rules lint.answers lint.answers_rules
  PROPERTIES LABELS lint TIMEOUT 60 SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]")

# Compiles each header of src/ alone, except headers that a source of the same name includes first,
# which is the same check, and headers that include LibTorch, which take many seconds.
function(eqt_lone_headers)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.hpp)
  set(headers "")
  foreach(file IN LISTS files)
    string(REGEX REPLACE "^.*/src/[^/]*/" "" header ${file})
    set(path_of_${header} ${file})
    list(APPEND headers ${header})
  endforeach()
  set(torch_headers "")
  foreach(pass RANGE 3)  # a header that includes a torch header is one itself
    foreach(header IN LISTS headers)
      file(STRINGS ${path_of_${header}} includes REGEX "^ *# *include")
      foreach(found "<torch/" "<ATen/" "<c10/" ${torch_headers})
        string(FIND "${includes}" "${found}" position)
        if(position GREATER -1)
          list(APPEND torch_headers "\"${header}\"")
        endif()
      endforeach()
    endforeach()
    list(REMOVE_DUPLICATES torch_headers)
  endforeach()

  set(sources "")
  foreach(header IN LISTS headers)
    string(REGEX REPLACE "hpp$" "cpp" own ${path_of_${header}})
    set(first "")
    if(EXISTS ${own})
      file(STRINGS ${own} first REGEX "^ *# *include" LIMIT_COUNT 1)
    endif()
    if(NOT "\"${header}\"" IN_LIST torch_headers AND NOT first STREQUAL "#include \"${header}\"")
      string(MAKE_C_IDENTIFIER ${header} identifier)
      set(source ${CMAKE_CURRENT_BINARY_DIR}/lone_headers/${identifier}.cpp)
      file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"\n")
      list(APPEND sources ${source})
    endif()
  endforeach()
  add_library(eqt_lone_headers OBJECT EXCLUDE_FROM_ALL ${sources})
  target_include_directories(eqt_lone_headers PRIVATE $<TARGET_PROPERTY:eqt_core,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(eqt_lone_headers PRIVATE eqt_options fmt::fmt nlohmann_json::nlohmann_json
    CLI11::CLI11 ZLIB::ZLIB eqt_hwy MPI::MPI_CXX eqt_xxhash)
  target_compile_options(eqt_lone_headers PRIVATE -O0 -g0 -Wno-unused-function)
endfunction()

eqt_lone_headers()
add_test(NAME lint.lone_headers
  COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target eqt_lone_headers)
set_tests_properties(lint.lone_headers PROPERTIES LABELS lint TIMEOUT 300 RUN_SERIAL ON)
