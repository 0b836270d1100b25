/* store_main.c - proof_store: B01, B02, B10, B35 and what else makes a store trustworthy, through whole programs. */
#include "tests/proof/place.h"
#include "tests/proof/store.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unwritable_store_costs_only_persistence),
        cmocka_unit_test(every_odd_home_leaves_nothing_behind),
        cmocka_unit_test(a_store_that_others_made_is_not_used),
        cmocka_unit_test(planted_code_is_not_loaded),
        cmocka_unit_test(nothing_is_written_through_a_planted_link),
        cmocka_unit_test(nothing_of_ours_lies_in_shared_folders),
        cmocka_unit_test(more_rights_than_the_user_trust_no_variable),
        cmocka_unit_test(variables_are_read_in_one_place),
        cmocka_unit_test(a_thread_with_a_small_stack_may_call),
        cmocka_unit_test(every_damaged_object_is_rebuilt_once),
        cmocka_unit_test(every_damaged_record_is_made_again),
        cmocka_unit_test(every_other_file_may_be_anything),
    };
    return cmocka_run_group_tests_name("proof_store", tests, place_open, place_close);
}
