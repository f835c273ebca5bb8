//! The cases, and the macro that turns them into tests.

mod batches;
mod cells;
mod children;
mod claims;
mod discarding;
mod ending;
mod figures;
mod finding;
mod forgetting;
mod holding;
mod inbox;
mod key_rates;
mod keys;
mod nodes;
mod queued_tasks;
mod queues;
mod spread;
mod starting;
mod versions;

/// Makes the list of cases: what [`conformance_tests!`](crate::conformance_tests) expands to. A case that is
/// not listed here is dead code, which the compiler reports.
macro_rules! cases {
    ($d:tt $($module:ident { $($name:ident,)* })*) => {
        /// The cases as functions: what the tests of [`conformance_tests!`](crate::conformance_tests) call.
        pub mod case {
            $($(
                #[allow(missing_docs, reason = "the name is the sentence that it proves")]
                pub async fn $name(fixture: impl super::super::Fixture) {
                    super::$module::$name(fixture).await;
                }
            )*)*
        }

        /// One `#[tokio::test]` for each case of the conformance suite.
        ///
        /// The argument is a function without arguments that makes a fresh
        /// [`Fixture`](crate::conformance::Fixture), `async`. Expand it in a module of its own.
        #[macro_export]
        macro_rules! conformance_tests {
            ($d factory:expr) => {
                $($(
                    #[::tokio::test]
                    async fn $name() {
                        $d crate::conformance::case::$name($d factory().await).await;
                    }
                )*)*
            };
        }
    };
}

cases! {
    $
    starting {
        a_start_keeps_everything_it_was_given,
        payloads_of_any_size_and_bytes_come_back_as_they_were,
        names_in_any_script_come_back_as_they_were,
        a_start_with_an_id_that_exists_changes_nothing,
        a_delayed_run_waits_as_pending_until_its_delay_is_over,
        a_delay_of_nothing_is_no_delay,
        a_node_may_hold_a_run_from_its_start,
        a_new_run_is_not_held_past_a_ready_one_of_its_kind,
        a_ready_run_of_the_same_batch_comes_before_a_held_one,
        neither_a_delayed_run_nor_a_clients_is_held_from_the_start,
        a_run_may_start_with_records,
    }
    keys {
        a_start_may_be_rejected_while_a_run_with_its_key_is_live,
        a_start_may_be_rejected_for_the_time_that_its_key_was_given,
        a_run_that_is_replaced_before_it_begins_has_ended,
        a_run_that_is_replaced_after_it_has_begun_is_told_to_stop,
        a_start_that_is_debounced_moves_the_run_that_has_not_begun,
        a_start_that_is_debounced_leaves_a_run_alone_that_was_told_to_stop,
        the_same_key_and_input_give_the_same_run,
        the_same_key_with_another_input_is_refused_unless_asked_otherwise,
        a_key_belongs_to_its_workflow_alone,
        a_key_stands_for_its_run_after_the_end,
        a_key_lapses_when_its_life_is_over,
        of_two_starts_with_one_key_in_one_batch_the_first_is_made,
        an_id_that_exists_is_found_before_its_key_is_looked_at,
    }
    holding {
        records_come_back_in_the_order_in_which_they_were_written,
        a_record_that_is_there_already_is_left_as_it_is,
        generations_and_attempts_tell_records_apart,
        a_saved_value_replaces_the_one_before,
        an_end_keeps_how_it_ended_and_clears_the_rest,
        an_end_sent_again_is_known_as_done,
        what_an_earlier_claim_says_after_the_end_is_not_taken_for_its_own,
        an_end_sent_again_does_not_end_the_next_generation,
        only_the_holder_under_its_claim_may_write,
        what_nobody_holds_nobody_may_write,
        a_release_makes_the_run_ready_and_counts_nothing,
        a_park_writes_its_records_and_waits,
        a_park_sent_twice_does_not_take_the_run_from_its_next_owner,
        a_park_until_a_time_that_has_come_is_ready_at_once,
        a_park_finds_the_row_that_came_before_it,
        every_state_of_waiting_is_kept_and_others_are_unfit,
        a_run_cannot_end_in_a_state_that_is_no_end,
    }
    inbox {
        a_message_lies_in_the_inbox_until_it_is_taken_in,
        taking_in_what_is_not_there_is_harmless,
        a_number_that_was_taken_in_never_names_another_message,
        a_message_wakes_the_run_that_waits_for_its_topic_alone,
        a_message_to_a_ready_or_held_run_leaves_it_where_it_is,
        a_message_to_an_ended_or_unknown_run_is_refused,
        messages_of_one_batch_come_in_order_and_each_key_once,
        a_keyed_message_is_delivered_once,
        a_keyed_message_that_was_taken_in_is_not_delivered_again,
        a_keyed_message_that_an_end_threw_away_may_be_sent_again,
        a_node_sees_the_inboxes_of_the_runs_it_holds,
        a_claim_brings_the_inbox_along,
    }
    ending {
        a_run_that_never_began_can_be_ended_by_anyone,
        a_run_that_began_is_ended_idle_only_when_that_is_meant,
        a_held_run_is_never_ended_over_its_holders_head,
        an_idle_end_needs_a_state_that_is_an_end,
        reopening_opens_the_next_generation_and_keeps_the_records,
        each_generation_has_its_own_end_and_the_last_one_shows,
        a_run_is_reopened_once,
        a_reopened_run_that_was_held_before_has_begun,
        ends_are_answered_for_ended_runs_alone_and_once_each,
    }
    cells {
        a_cell_is_written_by_whoever_knows_its_version,
        a_fenced_node_writes_no_cell,
    }
    discarding {
        a_discarded_run_leaves_nothing_behind,
        only_the_end_that_was_meant_is_discarded,
        a_discarded_run_gives_its_key_back,
        a_key_that_has_passed_on_is_left_alone,
        a_run_whose_key_has_time_left_is_kept_unless_a_person_says_otherwise,
        a_child_is_kept_until_its_parent_has_heard_of_its_end,
        discarding_takes_nothing_from_parents_forks_and_neighbours,
        what_is_said_to_a_discarded_run_is_refused,
        a_run_that_went_with_its_batch_is_held_by_nobody,
        ended_runs_are_listed_by_workflow_and_id,
        a_fenced_node_discards_nothing,
        a_run_with_many_records_goes_at_once_and_what_is_left_of_it_is_nobodys,
        what_is_not_discarded_in_time_is_left_for_another,
    }
    children {
        a_parent_is_told_of_each_end_however_it_comes,
        a_parent_that_waits_for_its_child_is_ready_when_that_ends,
        a_park_finds_the_child_that_ended_before_it,
        an_end_sent_again_tells_nobody_twice,
        an_end_sent_again_does_not_bring_back_what_the_parents_end_threw_away,
        a_parent_is_told_again_when_a_reopened_child_ends,
        a_parent_that_has_ended_or_is_not_there_is_passed_over,
        what_one_batch_says_of_parents_and_children_comes_in_its_order,
        many_children_of_many_parents_end_in_one_batch,
        a_parent_that_a_child_makes_ready_comes_before_a_new_run,
        a_parent_cannot_be_told_under_the_name_of_an_event,
    }
    forgetting {
        what_was_recorded_before_is_forgotten,
        forgetting_that_is_sent_again_takes_nothing_that_came_after_it,
        one_batch_may_record_forget_and_record_again,
        a_start_sent_again_brings_back_nothing_that_was_forgotten,
        every_generation_is_forgotten,
        only_the_holder_makes_a_run_forget_and_says_with_which_step,
    }
    batches {
        an_empty_batch_is_answered_with_nothing,
        units_are_written_in_order_and_see_each_other,
        all_that_a_batch_writes_carries_one_time,
        a_refused_unit_leaves_its_neighbours_alone,
        a_failed_record_fails_all_later_records_of_its_own_run,
        what_strangers_are_refused_takes_nothing_from_the_holder,
        what_a_holder_is_refused_takes_nothing_from_strangers,
        what_follows_a_start_that_was_not_made_is_refused,
        a_batch_with_its_answer_lost_may_be_sent_again,
        a_fenced_node_commits_nothing,
        starts_and_messages_of_a_fenced_node_are_sent_again_under_a_new_identity,
    }
    nodes {
        a_node_shows_what_it_said_of_itself,
        nodes_see_each_other,
        a_join_sent_again_is_harmless,
        a_new_boot_fences_its_predecessor_of_that_name,
        a_node_is_stale_only_after_its_own_limit,
        the_judged_nodes_own_limit_counts,
        a_node_whose_process_is_gone_can_be_declared_dead_at_once,
        an_unknown_node_is_as_good_as_dead,
        a_leaving_node_gives_its_runs_back_uncounted,
        runs_of_the_dead_become_ready_and_are_counted,
        recoveries_add_up_and_begin_anew_with_a_generation,
        a_sweep_takes_no_more_than_its_limit_and_the_node_goes_last,
        the_late_writes_of_a_swept_node_are_refused,
        the_fence_holds_for_every_method_that_changes_something,
    }
    claims {
        a_claim_takes_the_run_with_all_that_is_needed,
        the_most_urgent_run_comes_first_then_the_oldest,
        the_oldest_is_the_one_with_the_smallest_id,
        a_node_claims_only_what_it_has_room_for,
        a_full_queue_is_passed_over,
        a_node_claims_only_workflows_it_has_code_for,
        a_run_takes_the_version_of_the_node_that_first_claims_it,
        a_claim_sent_again_answers_with_the_same_runs,
        the_same_claim_id_of_another_node_is_another_claim,
        a_claim_stops_when_it_has_bytes_enough,
        due_runs_are_handed_out_and_the_next_one_is_named,
        due_runs_become_ready_even_for_a_node_that_cannot_take_them,
        a_blocked_run_is_freed_by_another_version,
        a_claim_may_free_the_blocked_runs_of_its_own_versions,
        a_look_finds_what_a_claim_would_and_takes_nothing,
        a_look_finds_the_blocked_runs_of_its_own_versions,
        a_version_keeps_its_number_and_its_first_body,
    }
    queues {
        a_queue_says_what_it_was_told_and_what_is_in_it,
        no_more_runs_are_held_than_a_queue_allows,
        a_node_has_no_more_of_a_queue_than_its_share,
        no_more_runs_of_a_key_are_held_than_a_queue_allows,
        each_key_has_its_turn,
        among_the_runs_of_a_key_the_most_urgent_comes_first,
        a_declared_queue_is_weighed_beside_others_by_what_comes_next,
        a_run_that_is_given_up_gives_its_slot_back,
        a_run_that_is_parked_keeps_its_slot_if_the_queue_says_so,
        slots_that_nobody_needs_go_when_a_queue_no_longer_holds,
        the_slots_of_the_dead_are_free_when_they_are_swept,
        the_slots_of_a_leaving_node_are_free,
        a_paused_queue_keeps_what_it_has,
        nothing_is_declared_by_resuming_what_was_never_paused,
        a_queue_that_is_removed_has_no_limits_and_is_not_shown,
        a_run_of_a_declared_queue_is_not_held_from_its_start,
        what_is_held_when_a_queue_is_declared_counts,
        limits_may_change_at_any_time,
        a_claim_sent_again_takes_no_second_slot,
        a_rate_lets_no_more_be_taken_in_any_span,
        a_limited_queue_is_passed_over_by_nobody_who_waits_for_a_time,
        what_is_told_to_stop_is_handed_out_of_a_queue_that_gives_nothing,
        what_is_over_its_time_is_handed_out_of_a_queue_that_gives_nothing,
        a_run_that_stops_takes_neither_a_slot_nor_a_turn_of_a_rate,
        a_run_whose_end_is_settled_stops_however_often_it_is_given_up,
        whoever_had_to_stop_first_comes_first_and_those_for_whom_there_is_room,
        a_reopened_run_waits_for_its_turn_again,
    }
    key_rates {
        a_rate_of_keys_lets_no_more_of_a_key_be_taken_in_any_span,
        what_has_no_key_has_no_rate_of_keys_beside_that_of_its_queue,
        a_key_that_rests_obeys_what_its_queue_is_told_then,
        keys_that_rest_do_not_wait_for_a_clock_that_is_put_back,
        what_was_begun_too_long_ago_for_a_rate_is_not_counted_by_a_longer_one,
        a_run_that_has_waited_comes_before_more_urgent_ones,
        a_run_that_has_waited_is_weighed_beside_other_queues_by_what_it_has_come_to,
    }
    queued_tasks {
        no_more_attempts_are_executed_than_a_queue_allows,
        a_dead_node_leaks_no_slot_of_an_attempt,
        a_run_shares_its_slot_with_one_of_its_attempts,
        a_run_does_not_wait_for_the_slot_that_its_own_attempt_has,
        a_second_attempt_takes_a_slot_of_its_own,
        attempts_count_by_the_key_of_their_run_and_keys_take_turns,
        a_node_executes_no_more_of_a_queue_than_its_share,
        a_rate_counts_attempts_that_take_a_slot,
        a_rate_of_keys_counts_attempts_by_the_key_of_their_run,
        attempts_without_a_key_have_no_rate_of_keys_beside_that_of_their_queue,
        a_paused_queue_gives_no_attempts,
        what_is_executed_when_a_queue_is_declared_counts,
        a_task_claim_sent_again_takes_no_second_slot,
    }
    spread {
        what_is_published_shows_everything_it_was_given,
        what_is_published_again_only_takes_the_version,
        only_the_holder_of_a_run_publishes_and_withdraws,
        an_outcome_commits_only_together_with_its_row,
        a_withdrawn_attempt_and_its_successor_cannot_both_have_an_outcome,
        nothing_is_delivered_to_a_run_that_has_ended,
        an_outcome_wakes_the_run_that_waits_for_it,
        an_attempt_that_has_an_outcome_is_not_published_again,
        what_nobody_has_begun_can_be_withdrawn_alone,
        the_most_urgent_attempts_are_taken_first,
        a_node_takes_only_attempts_it_has_room_and_code_for,
        attempts_of_the_dead_are_free_again_with_one_more_death,
        attempts_of_a_leaving_node_are_free_again_uncounted,
        suspects_are_taken_one_by_one,
        what_comes_too_late_leaves_its_neighbours_alone,
        whoever_executes_an_attempt_may_save_for_the_next,
    }
    finding {
        the_newest_runs_come_first_page_by_page,
        a_page_follows_a_run_that_is_not_there,
        a_limit_of_nothing_says_whether_there_is_something,
        a_summary_shows_what_the_run_shows,
        each_condition_narrows_the_listing,
        runs_are_found_by_the_state_that_people_see,
        an_unknown_run_is_not_there,
    }
    figures {
        runs_are_counted_by_the_state_that_people_see,
        each_condition_narrows_the_count,
        a_count_that_is_cut_short_says_so,
        a_search_may_be_given_up_for_now_and_goes_on_where_it_was,
        the_backlog_shows_queues_that_nobody_declared,
        outlines_are_steps_without_what_they_carry,
        what_is_counted_adds_up_by_the_minute_and_for_ever,
        what_was_logged_is_kept_with_its_run_and_goes_with_it,
        a_run_keeps_no_more_lines_than_it_may_and_says_how_many_went,
    }
    versions {
        the_newest_version_of_each_workflow_is_shown_by_name,
        the_versions_of_a_workflow_are_shown_newest_first,
        a_version_is_shown_with_the_body_that_came_with_it,
    }
}
