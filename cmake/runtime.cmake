# libtoroid_runtime: what runs packages, by the C interface of include/toroid_runtime.h. It is made of the members of libtoroid_core.a that this
# interface needs, and of nothing that compiles or imports; fmt is compiled in, so that only the C++ compiler's own libraries are needed.

file(STRINGS include/toroid_runtime.h abi REGEX "define TOROID_RUNTIME_ABI [0-9]+")
string(REGEX MATCH "[0-9]+" TOROID_RUNTIME_ABI "${abi}")
add_library(toroid_runtime_objects OBJECT src/package/interface/c_api.cpp src/package/interface/fmt_library.cpp)
target_include_directories(toroid_runtime_objects PRIVATE include src)
target_include_directories(toroid_runtime_objects SYSTEM PRIVATE "${TOROID_XXHASH_INCLUDE}" $<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>)

add_library(toroid_runtime SHARED $<TARGET_OBJECTS:toroid_runtime_objects>)
target_link_libraries(toroid_runtime PRIVATE "$<TARGET_FILE:toroid_core>" Threads::Threads ${CMAKE_DL_LIBS})
add_dependencies(toroid_runtime toroid_core)
target_link_options(toroid_runtime PRIVATE -Wl,-Bsymbolic -Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-z,defs)
set_target_properties(toroid_runtime PROPERTIES VERSION ${TOROID_RUNTIME_ABI}.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} SOVERSION ${TOROID_RUNTIME_ABI})

# One object, in which all but the interface is local: it meets no names of the program that it is linked into.
set(archive "${CMAKE_BINARY_DIR}/libtoroid_runtime.a")
add_custom_command(
  OUTPUT "${archive}"
  COMMAND "${CMAKE_CXX_COMPILER}" -r -nostdlib -fuse-ld=bfd -o toroid_runtime.o $<TARGET_OBJECTS:toroid_runtime_objects> $<TARGET_FILE:toroid_core>
  COMMAND "${CMAKE_OBJCOPY}" --localize-hidden toroid_runtime.o
  COMMAND "${CMAKE_COMMAND}" -E rm -f "${archive}"
  COMMAND "${CMAKE_AR}" rcs "${archive}" toroid_runtime.o
  DEPENDS toroid_runtime_objects toroid_core
  COMMAND_EXPAND_LISTS)
add_custom_target(toroid_runtime_archive ALL DEPENDS "${archive}")

add_executable(example_package_classify examples/package/classify.c)
set_target_properties(example_package_classify PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_include_directories(example_package_classify PRIVATE include)
target_link_libraries(example_package_classify PRIVATE toroid_runtime)

if(TOROID_TESTS)
  add_executable(test_own_memory tests/package/runtime/own_memory.c)
  set_target_properties(test_own_memory PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
  target_compile_options(test_own_memory PRIVATE -Wall -Wextra -Werror -pedantic)
  target_include_directories(test_own_memory PRIVATE include)
  target_link_libraries(test_own_memory PRIVATE toroid_runtime)
endif()

# The folder may be another one when it is installed, and may be moved.
file(RELATIVE_PATH TOROID_UP_TO_PREFIX "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" /)
configure_file(cmake/toroid_runtime.pc.in "${CMAKE_BINARY_DIR}/toroid_runtime.pc" @ONLY)
