# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` and `cpack -G DEB` put where. Three parts, a Debian package each:
#
#   program   equant-train with its scripts, configs, documents, manual page and completion
#   library   libequant_codec.so.1, the compressors for C, and the Python package equant
#   develop   to compile with them: its header, for CMake and pkg-config; eqt::codec, headers and static
#             library for C++; the header for plugins; examples
#
# Scripts, configs and documents keep their places below share/equant-train, so that the links between
# them and the commands in them hold there, too.
# Without MPI and LibTorch (EQT_ONLY_PORTABLE) there is no program, and the other two are made.

include(CMakePackageConfigHelpers)

set(eqt_share ${CMAKE_INSTALL_DATADIR}/equant-train)
set(eqt_package ${CMAKE_INSTALL_LIBDIR}/cmake/eqt)
set(eqt_headers ${CMAKE_INSTALL_INCLUDEDIR}/eqt)

# The codecs as CMake targets eqt::codec and eqt::core.
install(TARGETS eqt_core eqt_codec eqt_hwy eqt_xxhash EXPORT eqt
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT develop)
install(EXPORT eqt NAMESPACE eqt:: DESTINATION ${eqt_package} COMPONENT develop)
foreach(room IN ITEMS base/core codecs/codec)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/${room} DESTINATION ${eqt_headers} COMPONENT develop
    FILES_MATCHING PATTERN "*.hpp" PATTERN "*.def" PATTERN "*-inl.hpp" EXCLUDE)
endforeach()
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/eqt-config.cmake.in
  ${PROJECT_BINARY_DIR}/eqt-config.cmake INSTALL_DESTINATION ${eqt_package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/eqt-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/eqt-config.cmake ${PROJECT_BINARY_DIR}/eqt-config-version.cmake
  DESTINATION ${eqt_package} COMPONENT develop)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/equant DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT develop)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/examples
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libequant-codec-dev COMPONENT develop
  PATTERN "__pycache__" EXCLUDE)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libequant-codec-dev COMPONENT develop)

# The shared library as CMake target equant::codec and as equant_codec for pkg-config.
if(TARGET equant_codec)
  set(eqt_interface ${CMAKE_INSTALL_LIBDIR}/cmake/equant_codec)
  install(TARGETS equant_codec EXPORT equant_codec
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT develop)
  install(EXPORT equant_codec NAMESPACE equant:: FILE equant_codec-config.cmake
    DESTINATION ${eqt_interface} COMPONENT develop)
  get_target_property(eqt_interface_version equant_codec VERSION)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/equant_codec-config-version.cmake
    VERSION ${eqt_interface_version} COMPATIBILITY SameMajorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/equant_codec-config-version.cmake
    DESTINATION ${eqt_interface} COMPONENT develop)
  file(RELATIVE_PATH eqt_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/equant_codec.pc.in ${PROJECT_BINARY_DIR}/equant_codec.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/equant_codec.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT develop)
  # Where Debian's Python looks for packages under /usr; it loads the library by its soname.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/equant DESTINATION lib/python3/dist-packages COMPONENT library
    PATTERN "__pycache__" EXCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libequant-codec1 COMPONENT library)
endif()

if(NOT EQT_ONLY_PORTABLE)
  install(TARGETS equant-train equant-standby RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs ${PROJECT_SOURCE_DIR}/docs
    DESTINATION ${eqt_share} COMPONENT program PATTERN "__pycache__" EXCLUDE PATTERN "slurm.sbatch" EXCLUDE)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/docs/examples/slurm.sbatch DESTINATION ${eqt_share}/docs/examples
    COMPONENT program)
  file(GLOB_RECURSE documents RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src/*.md)
  list(APPEND documents CHANGELOG.md python/README.md CITATION.cff CONTRIBUTING.md LICENSE README.md tests/README.md third_party/README.md)
  foreach(document IN LISTS documents)
    cmake_path(GET document PARENT_PATH folder)
    install(FILES ${PROJECT_SOURCE_DIR}/${document} DESTINATION ${eqt_share}/${folder} COMPONENT program)
  endforeach()

  # Not those that build or check the sources.
  set(eqt_scripts archive_runs bench_codecs bench_collectives bench_scaling export_runs get_data netlab plot_partition
    rack run_hosts run_local sweep)
  list(TRANSFORM eqt_scripts REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/scripts/\\1.sh")
  list(APPEND eqt_scripts ${PROJECT_SOURCE_DIR}/scripts/export_model.py
    ${PROJECT_SOURCE_DIR}/scripts/debian_texts.py)
  install(PROGRAMS ${eqt_scripts} DESTINATION ${eqt_share}/scripts COMPONENT program)
  install(FILES ${PROJECT_SOURCE_DIR}/scripts/README.md DESTINATION ${eqt_share}/scripts COMPONENT program)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts/lib DESTINATION ${eqt_share}/scripts COMPONENT program
    PATTERN "__pycache__" EXCLUDE PATTERN "packages.sh" EXCLUDE PATTERN "training_table.py" EXCLUDE)

  # The program knows its own options and config keys.
  add_custom_command(OUTPUT equant-train.1 equant-train.bash
    COMMAND equant-train manual > equant-train.1
    COMMAND equant-train completion > equant-train.bash
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} DEPENDS equant-train VERBATIM)
  add_custom_target(manual ALL
    DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/equant-train.1 ${CMAKE_CURRENT_BINARY_DIR}/equant-train.bash)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/equant-train.1
    DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/equant-train.bash
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME equant-train
    COMPONENT program)
endif()
