/* store.h - the parts of proof_store. */
#ifndef TESTS_PROOF_STORE_H
#define TESTS_PROOF_STORE_H

/* store_places.c: where a store may lie, and whose it is */
void an_unwritable_store_costs_only_persistence(void **state);
void every_odd_home_leaves_nothing_behind(void **state);
void a_store_that_others_made_is_not_used(void **state);
void planted_code_is_not_loaded(void **state);
void nothing_is_written_through_a_planted_link(void **state);
void nothing_of_ours_lies_in_shared_folders(void **state);
void more_rights_than_the_user_trust_no_variable(void **state);
void variables_are_read_in_one_place(void **state);
void a_thread_with_a_small_stack_may_call(void **state);

/* store_contents.c: what lies in it */
void every_damaged_object_is_rebuilt_once(void **state);
void every_damaged_record_is_made_again(void **state);
void every_other_file_may_be_anything(void **state);

#endif
