# Neighbouring sources of a folder are compiled as one, so that what they share is parsed, instantiated and optimized once.
#
# A file whose own names (those of its anonymous namespace) are also those of another one of its folder is listed in unity-apart.txt, and
# compiled by itself. scripts/unity_apart.py finds these files.

file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/unity-apart.txt" TOROID_APART REGEX "^[^#]")
set(TOROID_UNITY_SIZE 8)

# Groups the sources of a target: those of a folder by their order, in eights.
function(toroid_unity target)
  if(NOT TOROID_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_SOURCE_DIR}")
    file(RELATIVE_PATH name "${CMAKE_SOURCE_DIR}" "${source}")
    get_source_file_property(options "${source}" COMPILE_OPTIONS)  # its own, which its neighbours must not have
    # Where a library is missing, and where it is not; and the functions of toroid/ops.h, which bring all of eager with them when linked.
    # What test_planted compiles again, without its neighbours. What libtoroid_runtime takes of folders that it has nothing else of.
    if(name MATCHES "/extern/(no_|onednn/)|^src/import/(json|zip|safetensors|tensor_record)\\.|^src/package/(write|package_file)\\.|^src/ops/(functions|derivative\\.|scalar_program|slopes|rows/attention_gradients)")
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
      continue()
    endif()
    # What libtoroid_runtime takes a part of: packing without the texts of templates, recipes without those who write them.
    if(name MATCHES "^src/(graph/recipe|codegen/(packing|rearrange)|codegen/cpu/packings|codegen/cpu/templates/(conv_pack|conv_plan|gemm_pack)|package/recipes)\\.")
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON COMPILE_OPTIONS "-ffunction-sections;-fdata-sections")
      continue()
    endif()
    cmake_path(GET name PARENT_PATH folder)
    if(NOT DEFINED "count_${folder}")
      set("count_${folder}" 0)
    endif()
    math(EXPR number "${count_${folder}} / ${TOROID_UNITY_SIZE}")
    math(EXPR "count_${folder}" "${count_${folder}} + 1")
    if(name IN_LIST TOROID_APART OR options)
      set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    else()
      string(REPLACE "/" "_" group "${folder}_${number}")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
