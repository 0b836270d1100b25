# whole programs in hostile places: place.h. The engine is C++, so that std::locale can be set as engines do.
include(CheckLanguage)
check_language(CXX)
if(BUILD_SHARED_LIBS AND CMAKE_CXX_COMPILER)
  enable_language(CXX)
  add_executable(proof_engine engine.cpp)
  set_target_properties(proof_engine PROPERTIES CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON)
  target_compile_options(proof_engine PRIVATE -Wall -Wextra -Wshadow $<$<BOOL:${ATTUNE_WERROR}>:-Werror>)
  foreach(header runtime/attune.h base/attune_status.h) # as installed; base/ itself would hide <locale.h>
    get_filename_component(name ${header} NAME)
    configure_file(${CMAKE_SOURCE_DIR}/${header} ${CMAKE_CURRENT_BINARY_DIR}/include/${name} COPYONLY)
  endforeach()
  target_include_directories(proof_engine PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/include)
  target_link_libraries(proof_engine PRIVATE libattune libattune_jit Threads::Threads)
  if(ATTUNE_SANITIZE)
    target_link_options(proof_engine PRIVATE -fsanitize=${ATTUNE_SANITIZE})
  endif()
  function(attune_place_test name)
    attune_test(${name} ${ARGN} place.c LABELS templates TIMEOUT 300)
    add_dependencies(test_${name} attune_program attune_helper proof_engine)
    target_compile_definitions(test_${name} PRIVATE ATTUNE_PROGRAM="$<TARGET_FILE:attune_program>"
      PLACE_ENGINE="$<TARGET_FILE:proof_engine>")
  endfunction()
  attune_place_test(proof_shared shared.c)
  attune_place_test(proof_mounts mounts.c)
  attune_place_test(proof_store store_places.c store_contents.c store_main.c)
endif()

# a helper that does not keep to the protocol
add_executable(proof_bad_helper bad_helper.c ${CMAKE_SOURCE_DIR}/generator/compiler_protocol.c)
target_link_libraries(proof_bad_helper PRIVATE attune_flags libattune)
attune_test(proof_helper helper.c ${CMAKE_SOURCE_DIR}/tests/compiler/fakes.c
  ${CMAKE_SOURCE_DIR}/generator/compiler_protocol.c)
add_dependencies(test_proof_helper attune_helper proof_bad_helper)
target_compile_definitions(test_proof_helper PRIVATE BAD_HELPER="$<TARGET_FILE:proof_bad_helper>")

attune_test(proof_targets targets.c ${CMAKE_SOURCE_DIR}/tests/runtime/fake.c)
target_include_directories(test_proof_targets PRIVATE ${CMAKE_SOURCE_DIR}/tests/runtime)
