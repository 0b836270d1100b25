# What is installed: programs, both libraries, two headers, pkg-config files and a CMake package.
#
# The CMake package is written by hand rather than exported: libattune's own dependencies (jansson, libsodium, Lua) are of
# no concern to who links the shared library, and an exported target would ask for their development packages.
include(CMakePackageConfigHelpers)

install(TARGETS libattune libattune_jit
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS attune_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# libexec/: the helper and the runner programs are installed by the folders that build them
install(FILES runtime/attune.h base/attune_status.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# a static library's dependencies, for who links it
set(ATTUNE_STATIC_LIBRARIES "-ljansson -lsodium -lm -ldl -lpthread")
set(ATTUNE_JIT_STATIC_LIBRARIES "-llua5.4")
if(BUILD_SHARED_LIBS)
  set(ATTUNE_PC_LIBS "")
  set(ATTUNE_JIT_PC_LIBS "")
  set(ATTUNE_INTERFACE "")
  set(ATTUNE_JIT_INTERFACE "")
  set(ATTUNE_LIBRARY_SUFFIX ${CMAKE_SHARED_LIBRARY_SUFFIX})
else()
  set(ATTUNE_PC_LIBS " ${ATTUNE_STATIC_LIBRARIES}")
  set(ATTUNE_JIT_PC_LIBS " ${ATTUNE_JIT_STATIC_LIBRARIES}")
  string(REPLACE " " ";" ATTUNE_INTERFACE "${ATTUNE_STATIC_LIBRARIES}")
  string(REPLACE " " ";" ATTUNE_JIT_INTERFACE "${ATTUNE_JIT_STATIC_LIBRARIES}")
  set(ATTUNE_LIBRARY_SUFFIX ${CMAKE_STATIC_LIBRARY_SUFFIX})
endif()
# lib/pkgconfig -> prefix, so that an installation may be moved
file(RELATIVE_PATH ATTUNE_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" ATTUNE_PC_PREFIX "${ATTUNE_PC_PREFIX}")
foreach(name attune attune-jit)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/${name}.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

set(ATTUNE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/attune)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/attuneConfig.cmake.in ${CMAKE_BINARY_DIR}/attuneConfig.cmake
  INSTALL_DESTINATION ${ATTUNE_CMAKE_DIR} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/attuneConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/attuneConfig.cmake ${CMAKE_BINARY_DIR}/attuneConfigVersion.cmake
  DESTINATION ${ATTUNE_CMAKE_DIR})
