# Mutants live in a build of their own (GRADUS_MUTANTS, the preset `mutants`): each replaces one source of a library, so there
# every source is compiled by itself. Every other build only looks whether the text that a mutant replaces is still there.
#
# The program of every mutant, and `mutants.txt`: which source each mutates, what is to be built to catch it, and the tests
# that must. `./do test --mutants --changed` reads it.
add_custom_target(mutants)
set(mutant_table ${CMAKE_CURRENT_BINARY_DIR}/mutants.txt)
file(WRITE ${mutant_table} "")

# gradus_mutant(PROGRAM SOURCE TESTS REGEX): PROGRAM, made of a mutated SOURCE, is caught by the tests that REGEX names, of
# the program TESTS ("" if PROGRAM has them itself).
function(gradus_mutant program source tests regex)
    separate_arguments(tests)
    add_dependencies(mutants ${program} ${tests})
    string(JOIN " " programs ${program} ${tests})
    file(APPEND ${mutant_table} "${source}\t${programs}\t${regex}\n")
endfunction()

# gradus_mutate(NAME SOURCE RESULT old new [old new …]): a copy of SOURCE in which each `old` is replaced by its `new`;
# RESULT is the variable that gets its path. Production code has no switches for this: the copy is made here, and its
# object comes before the library, so that the linker never takes the original out of it. A text that is not there
# exactly once stops the configuration: a mutant that mutates nothing would prove nothing.
function(gradus_mutate name source result)
    set(original ${PROJECT_SOURCE_DIR}/${source})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${original})
    file(READ ${original} text)
    math(EXPR last "${ARGC} - 1")
    foreach(old RANGE 3 ${last} 2)
        math(EXPR new "${old} + 1")
        string(FIND "${text}" "${ARGV${old}}" first)
        string(FIND "${text}" "${ARGV${old}}" final REVERSE)
        if(first EQUAL -1 OR NOT first EQUAL final)
            message(FATAL_ERROR "mutant ${name}: ${source} does not contain exactly once: ${ARGV${old}}")
        endif()
        string(REPLACE "${ARGV${old}}" "${ARGV${new}}" text "${text}")
    endforeach()
    get_filename_component(file ${source} NAME)
    set(mutated ${CMAKE_CURRENT_BINARY_DIR}/${name}/${file})
    file(GENERATE OUTPUT ${mutated} CONTENT "${text}")
    # The original is linted; its copy is looked at by the one check that there must be.
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}/.clang-tidy "Checks: '-*,misc-definitions-in-headers'\n")
    set(${result} ${mutated} PARENT_SCOPE)
endfunction()

# gradus_writer_mutant(NAME SOURCE old new [old new …]): the program store_writer_NAME, built with the mutated SOURCE.
function(gradus_writer_mutant name source)
    gradus_mutate(${name} ${source} mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    add_executable(store_writer_${name} ${PROJECT_SOURCE_DIR}/tests/store/store_writer.cpp ${mutated})
    target_link_libraries(store_writer_${name} PRIVATE gradus::store SQLiteCpp SQLite::SQLite3 gradus::warnings)
    gradus_mutant(store_writer_${name} ${source} writer_mutants "(KillNine|PowerCut)[.]Catches")
endfunction()

# gradus_harvest_mutant(NAME TEST SOURCE old new [old new …]): the tests of a moving base and of the bounds with the mutated SOURCE. TEST,
# one of them, must fail by an assertion of its own.
function(gradus_harvest_mutant name test source)
    gradus_mutate(${name} ${source} mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    set(program harvest_mutant_${name})
    add_executable(${program} ${PROJECT_SOURCE_DIR}/tests/stages/changes/base_moved_test.cpp
        ${PROJECT_SOURCE_DIR}/tests/stages/changes/harvest_bounds_test.cpp ${mutated})
    target_link_libraries(${program} PRIVATE gradus::changes GTest::gtest GTest::gtest_main gradus::warnings)
    add_test(NAME ${program} COMMAND ${program} --gtest_filter=${test})
    set_tests_properties(${program} PROPERTIES LABELS mutant TIMEOUT 300
        PASS_REGULAR_EXPRESSION "FAILED  . ${test}" SKIP_REGULAR_EXPRESSION "SKIPPED")
    gradus_mutant(${program} ${source} "" ^${program}$)
endfunction()

# gradus_clone_mutant(NAME FILTER SOURCE old new [old new …]): the tests of what a home shows, of which those that FILTER
# names must fail; each of them alone.
function(gradus_clone_mutant name filter source)
    gradus_mutate(${name} ${source} mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    set(sandbox ${PROJECT_SOURCE_DIR}/tests/stages/sandbox)
    add_executable(clone_${name} ${sandbox}/clone_home_test.cpp ${sandbox}/clone_fixture.cpp
        ${PROJECT_SOURCE_DIR}/tests/plugins/host_counts.cpp ${PROJECT_SOURCE_DIR}/tests/plugins/sandbox_fixture.cpp
        ${mutated})
    target_link_libraries(clone_${name} PRIVATE gradus::clone gradus::namespaces gradus::jail_parts gradus::toolchains
        gradus::policies GTest::gtest GTest::gtest_main gradus::warnings)
    target_compile_definitions(clone_${name} PRIVATE GRADUS_BINARY_DIR="${PROJECT_BINARY_DIR}"
        GRADUS_JAIL="$<TARGET_FILE:gradus-jail>" GRADUS_GUEST="$<TARGET_FILE:isolation_guest>")
    add_dependencies(clone_${name} gradus-jail isolation_guest)
    foreach(test IN LISTS filter)
        add_test(NAME mutant_${name}_is_caught_by_${test} COMMAND clone_${name} --gtest_filter=${test})
        set_tests_properties(mutant_${name}_is_caught_by_${test} PROPERTIES LABELS mutant
            ENVIRONMENT GRADUS_TEST_MUTANT=yes
            PASS_REGULAR_EXPRESSION "1 FAILED TEST" SKIP_REGULAR_EXPRESSION "1 test, listed below:\n\\[  SKIPPED" TIMEOUT 120)
    endforeach()
    gradus_mutant(clone_${name} ${source} "" ^mutant_${name}_is_caught_by_)
endfunction()

# gradus_jail_mutant(NAME SOURCE old new [old new …]): the program jail_NAME, gradus-jail built with the mutated SOURCE.
function(gradus_jail_mutant name source)
    gradus_mutate(${name} ${source} mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    add_executable(jail_${name} ${mutated} $<TARGET_OBJECTS:gradus_jail_main>)
    target_compile_options(jail_${name} PRIVATE -fno-exceptions -fno-rtti -fno-sanitize=all)
    target_link_options(jail_${name} PRIVATE -static -fno-sanitize=all)
    target_link_libraries(jail_${name} PRIVATE gradus::jail_parts gradus::warnings)
    gradus_mutant(jail_${name} ${source} "jail_mutants isolation_tests" "^Mutants[.]|isolation_tests_mutants")
endfunction()

# gradus_gate_mutant(NAME TEST SOURCE old new [old new …]): the promises of the decision with the mutated SOURCE. TEST, one
# of GateInvariant, must fail.
function(gradus_gate_mutant name test source)
    gradus_mutate(gate_${name} ${source} mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    set(program gate_mutant_${name})
    add_executable(${program} $<TARGET_OBJECTS:gate_invariants> ${mutated})
    target_link_libraries(${program} PRIVATE gradus::stages GTest::gtest GTest::gtest_main gradus::warnings)
    add_test(NAME ${program} COMMAND ${program} --gtest_filter=GateInvariant.${test})
    set_tests_properties(${program} PROPERTIES LABELS mutant TIMEOUT 120 ENVIRONMENT GRADUS_TEST_MUTANT=yes
        PASS_REGULAR_EXPRESSION "FAILED  . GateInvariant.${test}")
    gradus_mutant(${program} ${source} "" ^${program}$)
endfunction()

# gradus_engine_mutant(NAME TEST SOURCE old new [old new …]): the engine's tests with the mutated SOURCE, of which TEST must
# fail.
function(gradus_engine_mutant name test source)
    gradus_mutate(engine_${name} ${source} mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    set(program engine_mutant_${name})
    add_executable(${program} $<TARGET_OBJECTS:engine_cases> ${mutated})
    target_link_libraries(${program} PRIVATE gradus::pipeline GTest::gtest GTest::gtest_main gradus::warnings)
    add_test(NAME ${program} COMMAND ${program} --gtest_filter=${test})
    set_tests_properties(${program} PROPERTIES LABELS mutant TIMEOUT 300 ENVIRONMENT GRADUS_TEST_MUTANT=yes
        PASS_REGULAR_EXPRESSION "FAILED  . ${test}")
    gradus_mutant(${program} ${source} "" ^${program}$)
endfunction()

# gradus_store_mutant(NAME TEST SOURCE old new [old new …]): the store's promises with the mutated SOURCE, of which TEST must
# fail.
function(gradus_store_mutant name test source)
    gradus_mutate(store_${name} ${source} mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    set(program store_mutant_${name})
    add_executable(${program} $<TARGET_OBJECTS:store_promises> ${mutated})
    target_link_libraries(${program} PRIVATE gradus::store SQLiteCpp SQLite::SQLite3 GTest::gtest GTest::gtest_main
        gradus::warnings)
    add_test(NAME ${program} COMMAND ${program} --gtest_filter=${test})
    set_tests_properties(${program} PROPERTIES LABELS mutant TIMEOUT 120 ENVIRONMENT GRADUS_TEST_MUTANT=yes
        PASS_REGULAR_EXPRESSION "FAILED  . ${test}")
    gradus_mutant(${program} ${source} "" ^${program}$)
endfunction()

# gradus_caught_by(NAME PROGRAM TESTS TEST): TEST of the program TESTS must fail where it runs the gradus of PROGRAM.
function(gradus_caught_by name program tests test)
    add_test(NAME ${name} COMMAND ${tests} --gtest_filter=${test})
    set_tests_properties(${name} PROPERTIES LABELS mutant TIMEOUT 300
        ENVIRONMENT "GRADUS_TEST_MUTANT=yes;GRADUS_TEST_PROGRAM=${program}"
        PASS_REGULAR_EXPRESSION "FAILED  . ${test}" SKIP_REGULAR_EXPRESSION "SKIPPED")
endfunction()

# gradus_program_mutant(NAME TESTS TEST SOURCE old new [old new …]): gradus itself with the mutated SOURCE.
function(gradus_program_mutant name tests test source)
    gradus_mutate(program_${name} ${source} mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    set(place ${CMAKE_CURRENT_BINARY_DIR}/program_${name})
    add_executable(program_mutant_${name} ${PROJECT_SOURCE_DIR}/pipeline/main.cpp ${mutated})
    target_link_libraries(program_mutant_${name} PRIVATE gradus::pipeline gradus::isolation gradus::namespaces gradus::host
        gradus::warnings)
    set_target_properties(program_mutant_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${place}/bin OUTPUT_NAME gradus)
    file(CREATE_LINK ${PROJECT_BINARY_DIR}/libexec ${place}/libexec SYMBOLIC)
    gradus_caught_by(program_mutant_${name} ${place}/bin/gradus ${tests} ${test})
    gradus_mutant(program_mutant_${name} ${source} ${tests} ^program_mutant_${name}$)
endfunction()

# gradus_keeper_mutant(NAME TESTS TEST old new [old new …]): the program that keeps services, mutated, beside a gradus that
# takes it for its own.
function(gradus_keeper_mutant name tests test)
    gradus_mutate(keeper_${name} stages/sandbox/service_keeper.cpp mutated ${ARGN})
    if(NOT GRADUS_MUTANTS)
        return()
    endif()
    set(place ${CMAKE_CURRENT_BINARY_DIR}/keeper_${name})
    add_executable(keeper_mutant_${name} ${mutated})
    target_compile_options(keeper_mutant_${name} PRIVATE -fno-sanitize=all)
    target_link_options(keeper_mutant_${name} PRIVATE -static -fno-sanitize=all)
    target_link_libraries(keeper_mutant_${name} PRIVATE gradus::warnings)
    set_target_properties(keeper_mutant_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${place}/bin OUTPUT_NAME gradus-services)
    # Not a link: the program looks beside its own file.
    add_custom_command(TARGET keeper_mutant_${name} POST_BUILD
        COMMAND ${CMAKE_COMMAND} -E copy_if_different $<TARGET_FILE:gradus> ${place}/bin/gradus)
    add_dependencies(keeper_mutant_${name} gradus)
    file(CREATE_LINK ${PROJECT_BINARY_DIR}/libexec ${place}/libexec SYMBOLIC)
    gradus_caught_by(keeper_mutant_${name} ${place}/bin/gradus ${tests} ${test})
    gradus_mutant(keeper_mutant_${name} stages/sandbox/service_keeper.cpp ${tests} ^keeper_mutant_${name}$)
endfunction()
