# SPDX-License-Identifier: Apache-2.0
# The whole program, as users run it. Each script is one test; e2e/lib.sh has their functions.

# These train networks of their own, compare with LibTorch or look for it. What a program without it does in their
# place is in without_torch.sh, which runs where both are built.
set(need_torch after_training arrays ddp_hook debian_packages divergence doctor emulated export_model fine_tuning
    gossip_failures int8 local_data memory mixed_torch own_network progress signals simulate tasks text weights chaos
    batches)

function(eqt_e2e_test script timeout)  # further arguments are the script's
  if(NOT EQT_TORCH AND script IN_LIST need_torch)
    return()
  endif()
  string(JOIN "." name ${script} ${ARGN})
  add_test(NAME e2e.${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/e2e/${script}.sh ${ARGN})
  set_tests_properties(e2e.${name} PROPERTIES LABELS e2e TIMEOUT ${timeout} PROCESSORS 1
    SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]"
    ENVIRONMENT "EQT_PROGRAM=$<TARGET_FILE:equant-train>;EQT_BUILD_DIR=${PROJECT_BINARY_DIR};${EQT_MPI_ENVIRONMENT}")
endfunction()

eqt_e2e_test(learns 120)
eqt_e2e_test(resume 300)
foreach(what IN ITEMS compressors algorithms)
  eqt_e2e_test(resume_matrix 900 ${what})
  set_tests_properties(e2e.resume_matrix.${what} PROPERTIES LABELS long)  # minutes: not for every change
  eqt_e2e_test(resume_matrix 400 ${what} quarter)
endforeach()
eqt_e2e_test(reproducible 120)
eqt_e2e_test(ranks 90)
eqt_e2e_test(collectives 120)
eqt_e2e_test(emulated 120)
eqt_e2e_test(plan 240)
eqt_e2e_test(profile 180)
eqt_e2e_test(batches 240)
eqt_e2e_test(simulate 120)
eqt_e2e_test(partition 120)
eqt_e2e_test(decentralised_records 120)
eqt_e2e_test(asynchronous 240)
eqt_e2e_test(quorum 300)
eqt_e2e_test(same_everywhere 120)
eqt_e2e_test(bad_input 120)
eqt_e2e_test(resources 120)
eqt_e2e_test(memory 120)
eqt_e2e_test(gossip_refusals 180)
eqt_e2e_test(fails_fast 90)
eqt_e2e_test(collective_failures 180)
eqt_e2e_test(gossip_failures 180)
eqt_e2e_test(signals 180)
eqt_e2e_test(divergence 180)
eqt_e2e_test(chaos 120)
eqt_e2e_test(elastic 180)
eqt_e2e_test(rack 400)
eqt_e2e_test(gradients 120)
eqt_e2e_test(tensorboard 120)
eqt_e2e_test(progress 120)
eqt_e2e_test(verbs 240)
eqt_e2e_test(topologies 120)
eqt_e2e_test(analyze 120)
eqt_e2e_test(analyze_dump 120)
eqt_e2e_test(analyze_volume 60)
eqt_e2e_test(report 120)
eqt_e2e_test(bench 240)
eqt_e2e_test(bench_collectives 240)
eqt_e2e_test(auto_collective 240)
eqt_e2e_test(auto_compressor 240)
eqt_e2e_test(open_bits 240)
eqt_e2e_test(doctor 120)
eqt_e2e_test(int8 120)
eqt_e2e_test(int8_gossip 240)
eqt_e2e_test(int8_mixed 120)
eqt_e2e_test(mixed_torch 180)
eqt_e2e_test(weights 120)
eqt_e2e_test(own_network 180)
eqt_e2e_test(tasks 120)
eqt_e2e_test(pictures 120)
eqt_e2e_test(after_training 120)
eqt_e2e_test(fine_tuning 120)
eqt_e2e_test(export_model 60)
eqt_e2e_test(text 120)
eqt_e2e_test(arrays 180)
eqt_e2e_test(local_data 180)
eqt_e2e_test(plugin 120)
eqt_e2e_test(install 60)
eqt_e2e_test(codec_package 120)
eqt_e2e_test(debian_packages 120)
eqt_e2e_test(ddp_hook 240)
eqt_e2e_test(scripts 120)
eqt_e2e_test(sweep 300)
eqt_e2e_test(get_imagenet 30)
eqt_e2e_test(netlab 120)
eqt_e2e_test(netlab_change 60)
eqt_e2e_test(link_delay 180)
eqt_e2e_test(timeline 180)
eqt_e2e_test(without_threads 120)
if(EQT_TORCH)
  eqt_e2e_test(without_torch 120)
  set_property(TEST e2e.without_torch APPEND PROPERTY
    ENVIRONMENT "EQT_WITHOUT_TORCH=$<TARGET_FILE:equant-train-without-torch>")
endif()

if(TARGET equant_codec AND TEST e2e.ddp_hook)
  set_property(TEST e2e.ddp_hook APPEND PROPERTY ENVIRONMENT "EQUANT_CODEC_LIBRARY=$<TARGET_FILE:equant_codec>")
endif()

# Two tests run at the same time, because most of them mainly wait for programs to start. Not those
# that measure, have deadlines of seconds, or use a name outside their folder.
foreach(name IN ITEMS learns emulated asynchronous bench bench_collectives auto_collective doctor
        elastic rack netlab netlab_change chaos signals divergence fails_fast collective_failures gossip_failures)
  if(TEST e2e.${name})
    set_tests_properties(e2e.${name} PROPERTIES PROCESSORS 2)
  endif()
endforeach()

# These take most of a minute each, alone on the machine; shorter tests cover the same.
foreach(name IN ITEMS asynchronous bench_collectives elastic)
  set_tests_properties(e2e.${name} PROPERTIES LABELS "e2e;long")
endforeach()

if(NOT EQT_SANITIZE)  # a sanitizer must be loaded first
  add_library(mpi_without_threads MODULE support/mpi_without_threads.cpp)
  target_link_libraries(mpi_without_threads PRIVATE MPI::MPI_CXX)
  set_property(TEST e2e.without_threads APPEND PROPERTY
    ENVIRONMENT "EQT_MPI_WITHOUT_THREADS=$<TARGET_FILE:mpi_without_threads>")
endif()
