# SPDX-License-Identifier: Apache-2.0
# The whole program, as users run it. Each script is one test; lib.sh has their functions.

# These train networks of their own, compare with LibTorch or look for it. What a program without it does in their
# place is in without_torch.sh, which runs where both are built.
set(need_torch after_training arrays debian_packages divergence doctor emulated export_model fine_tuning
    gossip_failures init int8 local_data memory mixed_processors mixed_torch onnx own_network progress signals simulate
    tasks text tokens weights chaos batches mirror device_codec returns)

# What these check is the same whatever computes gradients, and they start many processes: LibTorch takes half a second
# of each. They run the program that is built without it, where there is one; each says which other tests cover the same
# with LibTorch. EQT_USUAL_PROGRAM names the usual program to all tests.
set(without_torch resume_matrix collectives partition decentralised_records quorum same_everywhere gossip_refusals
    collective_failures service topologies analyze report results analyze_volume auto_compressor link_delay timeline
    int8_gossip)

# eqt_e2e_test(SCRIPT TIMEOUT ARGUMENT...): a timeout only ends what hangs: twice to four times what a slow host takes.
function(eqt_e2e_test script timeout)
  if(NOT EQT_TORCH AND script IN_LIST need_torch)
    return()
  endif()
  string(JOIN "." name ${script} ${ARGN})
  set(program equant-train)
  if(EQT_TORCH AND script IN_LIST without_torch)
    set(program equant-train-without-torch)
  endif()
  add_test(NAME e2e.${name} COMMAND ${CMAKE_CURRENT_LIST_DIR}/${script}.sh ${ARGN})
  set_tests_properties(e2e.${name} PROPERTIES LABELS e2e TIMEOUT ${timeout} PROCESSORS 1
    SKIP_REGULAR_EXPRESSION "\\[eqt-skip\\]"
    ENVIRONMENT "EQT_PROGRAM=$<TARGET_FILE:${program}>;EQT_USUAL_PROGRAM=$<TARGET_FILE:equant-train>;EQT_BUILD_DIR=${PROJECT_BINARY_DIR};${EQT_MPI_ENVIRONMENT}")
endfunction()

eqt_e2e_test(learns 240)
eqt_e2e_test(resume 600)
eqt_e2e_test(memory_states 400)
eqt_e2e_test(returns 600)
foreach(what IN ITEMS compressors algorithms)
  eqt_e2e_test(resume_matrix 1800 ${what})
  set_tests_properties(e2e.resume_matrix.${what} PROPERTIES LABELS long)  # minutes: not for every change
  eqt_e2e_test(resume_matrix 800 ${what} quarter)
endforeach()
eqt_e2e_test(reproducible 240)
eqt_e2e_test(ranks 180)
eqt_e2e_test(collectives 240)
eqt_e2e_test(emulated 240)
eqt_e2e_test(plan 480)
eqt_e2e_test(profile 360)
eqt_e2e_test(batches 480)
eqt_e2e_test(simulate 240)
eqt_e2e_test(partition 240)
eqt_e2e_test(decentralised_records 240)
eqt_e2e_test(asynchronous 480)
eqt_e2e_test(quorum 600)
eqt_e2e_test(same_everywhere 240)
eqt_e2e_test(bad_input 240)
eqt_e2e_test(resources 240)
eqt_e2e_test(memory 240)
eqt_e2e_test(gossip_refusals 360)
eqt_e2e_test(fails_fast 180)
eqt_e2e_test(collective_failures 360)
eqt_e2e_test(gossip_failures 360)
eqt_e2e_test(signals 360)
eqt_e2e_test(divergence 360)
eqt_e2e_test(chaos 240)
eqt_e2e_test(elastic 360)
eqt_e2e_test(other_hosts 120)
eqt_e2e_test(rack 800)
eqt_e2e_test(service 360)
eqt_e2e_test(gradients 240)
eqt_e2e_test(tensorboard 240)
eqt_e2e_test(progress 240)
eqt_e2e_test(verbs 480)
eqt_e2e_test(topologies 240)
eqt_e2e_test(analyze 240)
eqt_e2e_test(analyze_dump 240)
eqt_e2e_test(analyze_volume 120)
eqt_e2e_test(report 240)
eqt_e2e_test(results 360)
eqt_e2e_test(bench 480)
eqt_e2e_test(bench_collectives 480)
eqt_e2e_test(auto_collective 480)
eqt_e2e_test(auto_compressor 720)
eqt_e2e_test(open_bits 480)
eqt_e2e_test(doctor 240)
eqt_e2e_test(int8 240)
eqt_e2e_test(int8_gossip 480)
eqt_e2e_test(int8_mixed 240)
eqt_e2e_test(mixed_processors 360)
eqt_e2e_test(mixed_torch 360)
eqt_e2e_test(mirror 480)
eqt_e2e_test(device_codec 800)
eqt_e2e_test(weights 240)
eqt_e2e_test(own_network 360)
eqt_e2e_test(tasks 240)
eqt_e2e_test(pictures 240)
eqt_e2e_test(after_training 240)
eqt_e2e_test(fine_tuning 240)
eqt_e2e_test(onnx 600)
eqt_e2e_test(export_model 120)
eqt_e2e_test(text 240)
eqt_e2e_test(arrays 360)
eqt_e2e_test(tokens 180)
eqt_e2e_test(init 360)
eqt_e2e_test(local_data 360)
eqt_e2e_test(plugin 240)
eqt_e2e_test(install 120)
eqt_e2e_test(codec_package 240)
eqt_e2e_test(debian_packages 240)
eqt_e2e_test(scripts 240)
eqt_e2e_test(sweep 1200)
eqt_e2e_test(tune 240)
eqt_e2e_test(get_imagenet 60)
eqt_e2e_test(netlab 240)
eqt_e2e_test(netlab_change 120)
eqt_e2e_test(link_delay 360)
eqt_e2e_test(timeline 360)
eqt_e2e_test(without_threads 240)
if(EQT_TORCH)
  eqt_e2e_test(without_torch 240)
  set_property(TEST e2e.without_torch APPEND PROPERTY
    ENVIRONMENT "EQT_WITHOUT_TORCH=$<TARGET_FILE:equant-train-without-torch>")
endif()

# Two tests run at the same time, because most of them mainly wait for programs to start. Not those
# that measure, have deadlines of seconds, or use a name outside their folder.
foreach(name IN ITEMS learns emulated asynchronous bench bench_collectives auto_collective doctor
        elastic netlab netlab_change returns chaos signals divergence fails_fast collective_failures gossip_failures)
  if(TEST e2e.${name})
    set_tests_properties(e2e.${name} PROPERTIES PROCESSORS 2)
  endif()
endforeach()

# These take most of a minute each, alone on the machine; shorter tests cover the same.
foreach(name IN ITEMS asynchronous bench_collectives elastic)
  set_tests_properties(e2e.${name} PROPERTIES LABELS "e2e;long")
endforeach()

if(NOT EQT_SANITIZE)  # a sanitizer must be loaded first
  add_library(mpi_without_threads MODULE ${PROJECT_SOURCE_DIR}/tests/support/mpi_without_threads.cpp)
  target_link_libraries(mpi_without_threads PRIVATE MPI::MPI_CXX)
  set_property(TEST e2e.without_threads APPEND PROPERTY
    ENVIRONMENT "EQT_MPI_WITHOUT_THREADS=$<TARGET_FILE:mpi_without_threads>")
endif()
