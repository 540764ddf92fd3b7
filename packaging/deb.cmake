# SPDX-License-Identifier: Apache-2.0
# `cpack -G DEB` in the build folder: equant-train and libequant-codec-dev.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The equant-train maintainers <maintainers@equant-train.invalid>")
set(CPACK_PACKAGE_VENDOR "The equant-train maintainers")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_COMPONENTS_ALL develop)
set(CPACK_DEBIAN_ARCHITECTURE ${CMAKE_LIBRARY_ARCHITECTURE})
if(CMAKE_CROSSCOMPILING AND CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
endif()

set(CPACK_DEBIAN_DEVELOP_PACKAGE_NAME libequant-codec-dev)
set(CPACK_DEBIAN_DEVELOP_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOP_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEVELOP_PACKAGE_DEPENDS
  "libfmt-dev, libhwy-dev, libxxhash-dev, pkg-config")
set(CPACK_DEBIAN_DEVELOP_DESCRIPTION "gradient compressors for distributed training, development files
 Quantizers and sparsifiers of equant-train (ElastiQuant, QSGD, TernGrad, top-k,
 signSGD, PowerSGD and others) as eqt::codec for C++ projects that use CMake.")

if(NOT EQT_ONLY_PORTABLE)
  list(APPEND CPACK_COMPONENTS_ALL program)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME equant-train)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
  # LibTorch runs with any BLAS, but the reference one is several times slower.
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS
    "openmpi-bin, libopenblas0-pthread | libblas3")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "dataset-fashion-mnist")
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "gnuplot-nox, iproute2, python3")
  set(CPACK_DEBIAN_PROGRAM_DESCRIPTION "train neural networks over slow networks with compressed gradients
 Trains networks on all ranks of an MPI job. Between the machines each gradient
 value takes a few bits instead of 32; compressors, collectives and gossip
 algorithms are chosen by config keys.")
endif()

# What Debian wants in every package.
foreach(part IN ITEMS develop=libequant-codec-dev program=equant-train)
  string(REGEX MATCH "^(.*)=(.*)$" part ${part})
  if(CMAKE_MATCH_1 IN_LIST CPACK_COMPONENTS_ALL)
    install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright
      DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${CMAKE_MATCH_2} COMPONENT ${CMAKE_MATCH_1})
  endif()
endforeach()

include(CPack)
