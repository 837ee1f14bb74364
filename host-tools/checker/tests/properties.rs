//! A checker that cannot fail is worthless: each property has a trace that violates exactly it,
//! and there are good traces that violate nothing.

use compasso_checker::{
    CheckReport, check,
    trace::{read_file, read_trace},
};
use std::collections::BTreeSet;

fn report(name: &str) -> CheckReport {
    let path = format!("{}/tests/traces/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    check(&read_file(path).unwrap_or_else(|error| panic!("{error}")))
}

#[track_caller]
fn violates_exactly(name: &str, property: &str, detail: &str) {
    let report = report(name);
    let violated: BTreeSet<&str> = report.violations.iter().map(|violation| violation.property.as_str()).collect();
    assert_eq!(violated, BTreeSet::from([property]), "{name}: {:#?}", report.violations);
    assert!(
        report.violations.iter().any(|violation| violation.detail.contains(detail)),
        "{name}: {:#?}",
        report.violations
    );
    assert!(
        report.violations.iter().all(|violation| !violation.nodes.is_empty() && !violation.events.is_empty()),
        "{:#?}",
        report.violations
    );
    assert_eq!(report.exit_code(), 1);
}

#[track_caller]
fn holds(name: &str) -> CheckReport {
    let report = report(name);
    assert_eq!(report.violations, [], "{name}");
    assert_eq!(report.exit_code(), 0);
    report
}

#[test]
fn a_good_trace_violates_nothing_and_is_not_vacuous() {
    let report = holds("good");
    for property in ["ME1", "ME2", "E1", "E2", "token", "fence", "clock-monotonic", "causality"] {
        assert!(report.checked.iter().any(|name| name == property), "{property}");
    }
    for property in ["ME3", "cut", "deadlock"] {
        assert!(report.not_checked.iter().any(|item| item.property == property), "{property}");
    }
}

#[test]
fn two_inside_violate_me1() {
    violates_exactly("me1", "ME1", "while 2 was inside");
    violates_exactly("me1-foreign", "ME1", "no message tells that it had left");
}

#[test]
fn a_grant_before_the_lease_has_ended_violates_me1() {
    violates_exactly("me1-lease", "ME1", "longer by true time");
}

#[test]
fn a_request_that_starves_violates_me2() {
    violates_exactly("me2", "ME2", "never granted");
    violates_exactly("me2-overtaking", "ME2", "times while the request of 0 waited");
    violates_exactly("me2-central", "ME2", "1 entered \"cs\" 3 times while the request of 0 waited");
    assert!(holds("good-central").checked.contains(&"ME2".to_owned()));
}

/// A circle of voters is no turn for anybody, and it is a deadlock.
#[track_caller]
fn is_a_deadlock_of_voters(name: &str, details: &[&str]) {
    let report = report(name);
    let violated: BTreeSet<&str> = report.violations.iter().map(|violation| violation.property.as_str()).collect();
    assert_eq!(violated, BTreeSet::from(["ME2", "deadlock"]), "{name}");
    for detail in details {
        let told = report.violations.iter().any(|violation| violation.detail.contains(detail));
        assert!(told, "{name}: {detail} is missing in {:#?}", report.violations);
    }
}

#[test]
fn a_deadlock_of_voters_violates_me2_and_deadlock_and_says_who_waits_for_whom() {
    let circle = "0 waits for 1, 1 waits for 2, 2 waits for 0";
    is_a_deadlock_of_voters("me2-circle", &[&format!("{circle}, a circle"), &format!("a deadlock: {circle}")]);
}

#[test]
fn a_deadlock_that_is_left_standing_violates_deadlock() {
    violates_exactly("deadlock-missed", "deadlock", "0 waits for 1, 1 waits for 0; nobody reported it");
    violates_exactly("deadlock-reported", "deadlock", "it was reported, but nobody gave back");
    violates_exactly("deadlock-ignored", "deadlock", "it stands to the end");
    violates_exactly("deadlock-wait-die", "deadlock", "wait-die lets no circle stand");
    violates_exactly("deadlock-order", "deadlock", "prevent-order lets no circle close");
}

#[test]
fn a_reported_deadlock_that_never_was_violates_deadlock() {
    violates_exactly("deadlock-phantom", "deadlock", "no moment at which they waited for each other in a circle");
    violates_exactly("deadlock-stale", "deadlock", "no moment at which they waited for each other in a circle");
    violates_exactly("deadlock-stranger", "deadlock", "its victim is not one of them");
}

#[test]
fn a_deadlock_that_is_found_and_broken_is_no_violation() {
    let report = holds("good-deadlock");
    assert!(report.checked.contains(&"deadlock".to_owned()) && report.checked.contains(&"ME1".to_owned()));
    assert!(report.not_checked.iter().any(|item| item.property == "ME2"), "locks are not turns");
}

#[test]
fn a_circle_is_found_where_another_one_branches_off() {
    let circle = "0 waits for 1, 1 waits for 2, 2 waits for 3, 3 waits for 0";
    is_a_deadlock_of_voters("me2-circles", &[&format!("{circle}, a circle"), "a deadlock: "]);
}

/// What is said of one property that was not checked, or not all of it.
#[track_caller]
fn open(report: &CheckReport, property: &str) -> String {
    let item = report.not_checked.iter().find(|item| item.property == property);
    item.unwrap_or_else(|| panic!("{property}: {:#?}", report.not_checked)).reason.clone()
}

#[test]
fn a_request_that_still_waits_violates_me2_only_once_it_has_waited_too_long() {
    violates_exactly("me2-patience", "ME2", "the request of 0 was never granted: no answer from 2");
    for name in ["good-young", "good-delay"] {
        assert_eq!(open(&holds(name), "ME2"), "the run ended before a request had waited as long as it may", "{name}");
    }
    assert!(open(&holds("good-loss"), "ME2").contains("time-outs fire by chance"));
}

#[test]
fn a_request_that_is_granted_too_late_in_quiet_times_violates_me2() {
    violates_exactly("me2-late", "ME2", "waited 7.7 s in quiet times while nobody was inside");
    holds("good-late");
}

#[test]
fn whoever_is_rightly_inside_at_the_end_breaks_nothing_and_whoever_is_stuck_there_does() {
    assert_eq!(open(&holds("good-inside"), "ME2"), "somebody was still inside when the run ended");
    violates_exactly("me2-inside", "ME2", "1 is inside for 11.0 s, and nobody asked for more than 5.00 ms");
}

#[test]
fn voting_promises_a_turn_only_with_probability_one() {
    assert!(open(&holds("good-voting"), "ME2").contains("only with probability one"));
}

#[test]
fn elections_one_after_another_violate_e2() {
    violates_exactly("e2-endless", "E2", "35 calls in the last 17.6 s, though nothing disturbed for 24.0 s");
    let report = holds("good-rest");
    assert!(report.checked.contains(&"E2".to_owned()));
    assert!(!report.not_checked.iter().any(|item| item.property == "E2"), "{:#?}", report.not_checked);
    assert!(open(&holds("good-restless"), "E2").contains("time-outs fire by chance"));
}

#[test]
fn what_is_checked_in_part_says_so_and_nothing_is_both() {
    for name in ["good", "good-restless", "good-gap", "good-one", "good-inside", "e2", "me1"] {
        let report = report(name);
        for item in &report.not_checked {
            assert_eq!(item.partly, report.checked.contains(&item.property), "{name}: {item:?}");
        }
    }
    let alone = holds("good-one");
    assert_eq!(alone.checked, [""; 0], "one event proves nothing");
    for property in compasso_checker::properties::PROPERTIES {
        assert!(!open(&alone, property).is_empty(), "{property}");
    }
}

#[test]
fn violations_beyond_the_told_ones_are_counted_and_are_no_violations_of_their_own() {
    let line = |seq: u64| format!("{{\"node\":0,\"seq\":{seq},\"cluster_us\":{},\"event\":\"boot\"}}\n", 1000 - seq);
    let text: String = (1..=61).map(line).collect();
    let report = check(&read_trace(text.as_bytes(), "backwards").unwrap_or_else(|error| panic!("{error}")));
    assert_eq!((report.violations.len(), report.broken()), (50, 60));
    assert_eq!(report.untold.get("clock-monotonic"), Some(&10));
    assert!(report.violations.iter().all(|violation| !violation.events.is_empty()));
}

#[test]
fn a_later_request_that_is_granted_first_violates_me3() {
    violates_exactly("me3", "ME3", "1 entered \"cs\" before 0, whose request had happened before its own");
}

#[test]
fn nothing_is_promised_of_the_order_of_requests_that_outlive_their_view() {
    let report = holds("good-view");
    let outlived = report.not_checked.iter().find(|item| item.property == "ME3");
    assert_eq!(outlived.map(|item| item.count), Some(2), "{:#?}", report.not_checked);
}

#[test]
fn two_leaders_of_one_term_violate_e1() {
    violates_exactly("e1", "E1", "has two leaders: 0 and 1");
    violates_exactly("e1-reborn", "E1", "has two leaders: 2 in its life 1, and 2 in its life 2");
}

#[test]
fn going_back_to_a_lower_term_violates_e1() {
    violates_exactly("e1-lower-term", "E1", "after a leader of term");
}

#[test]
fn a_leader_that_is_not_the_highest_violates_e1() {
    violates_exactly("e1-highest", "E1", "1 named 1, but 2 was alive");
}

#[test]
fn an_entry_on_the_minoritys_side_violates_e1() {
    violates_exactly("e1-minority", "E1", "its side has no authority");
}

#[test]
fn an_election_without_end_violates_e2() {
    violates_exactly("e2", "E2", "never named a leader");
}

#[test]
fn two_tokens_of_one_epoch_violate_token() {
    violates_exactly("token", "token", "two tokens of one epoch");
    violates_exactly("token-epoch", "token", "was begun 2 times");
}

#[test]
fn a_fence_that_shrinks_violates_fence() {
    violates_exactly("fence", "fence", "happened before");
}

#[test]
fn a_transaction_that_does_not_end_alike_everywhere_violates_commit() {
    violates_exactly("commit-split", "commit", "is split: 0 committed it, 1 aborted it");
    violates_exactly("commit-twice", "commit", "is decided twice: 1 committed it, 1 aborted it");
    violates_exactly("commit-vote", "commit", "0 committed transaction 4294967297, but 1 had not voted yes");
    violates_exactly("commit-fickle", "commit", "1 voted yes and no");
    assert!(holds("good-commit").checked.contains(&"commit".to_owned()));
}

#[test]
fn a_participant_that_never_learns_the_decision_violates_commit() {
    violates_exactly("commit-blocked", "commit", "0 voted yes on transaction 4294967297 and never learned");
}

#[test]
fn a_read_of_a_version_that_was_replaced_violates_cache() {
    violates_exactly(
        "cache-stale",
        "cache",
        "stale: 0 read version 4294967297, but 2 had acknowledged version 4294967298",
    );
    violates_exactly("cache-cause", "cache", "had acknowledged version 4294967298");
    violates_exactly("cache-back", "cache", "stale: 0 read version 4294967297, but 1 had read version 4294967298");
    assert!(holds("good-cache").checked.contains(&"cache".to_owned()));
}

#[test]
fn a_clock_that_runs_backwards_violates_clock_monotonic() {
    violates_exactly("clock-monotonic", "clock-monotonic", "and then 400000 us");
}

#[test]
fn an_interval_without_its_references_time_violates_clock_bound() {
    violates_exactly("clock-bound", "clock-bound", "outside the interval of 1, which claimed 10");
    assert!(holds("good").checked.contains(&"clock-bound".to_owned()));
}

#[test]
fn stamps_that_contradict_the_order_violate_causality() {
    violates_exactly("causality", "causality", "received what 0 never sent");
    violates_exactly("causality-vector", "causality", "does not know what its send knew");
    violates_exactly("causality-time", "causality", "300 us before 0 sent");
    violates_exactly("causality-hole", "causality", "no gap declares them");
    violates_exactly("causality-circle", "causality", "sent only afterwards");
}

#[test]
fn a_counted_gap_is_not_checked_and_counted() {
    let report = holds("good-gap");
    let gap = report.not_checked.iter().find(|item| item.reason == "the send of a receive lies in a counted gap");
    assert_eq!(gap.map(|item| item.count), Some(1));
}

#[test]
fn a_lost_token_regenerated_after_the_lease_is_no_violation() {
    holds("good-crash");
}

#[test]
fn a_refused_fence_is_the_defence_working() {
    holds("good-fenced");
}

#[test]
fn a_trace_without_stamps_is_judged_by_its_sends_and_receives() {
    let report = holds("good-foreign");
    assert!(report.checked.iter().any(|name| name == "ME1"));
    assert!(report.not_checked.iter().any(|item| item.property == "E1"));
}

#[test]
fn a_snapshot_that_knows_what_came_after_one_of_its_parts_violates_cut() {
    violates_exactly("cut", "cut", "is of no moment: 1 had heard from 0");
}

#[test]
fn tokens_are_conserved_over_a_snapshot() {
    violates_exactly("cut-two-tokens", "cut", "holds 2 tokens");
    violates_exactly("cut-no-token", "cut", "holds no token");
    let report = holds("good-cut");
    assert!(report.checked.iter().any(|name| name == "cut"));
}

#[test]
fn a_missed_rebuild_violates_make() {
    violates_exactly("make", "make", "by its raw stamp 1 found its object up to date");
    violates_exactly("make-synchronized", "make", "by its synchronized stamp");
    violates_exactly("make-logical", "make", "by its logical stamp");
}

#[test]
fn what_raw_clocks_miss_is_no_violation_where_others_decide_nor_is_a_needless_rebuild() {
    assert!(holds("good-make").checked.contains(&"make".to_owned()));
}

#[test]
fn who_enters_without_having_asked_violates_me1() {
    violates_exactly("me1-unasked", "ME1", "1 entered \"cs\" without having asked for it");
}

#[test]
fn a_leader_that_did_not_claim_its_term_violates_e1() {
    violates_exactly("e1-claimant", "E1", "0 named 2 of term 65537, which is one of 1");
    violates_exactly("e1-unclaimed", "E1", "0 named 2 of term 131074, which nobody it had heard from knew of");
    violates_exactly("e1-leap", "E1", "number 9, but had heard of none above number 1");
    violates_exactly("e1-view", "E1", "0 is in a view of term 131074, which 2 had not claimed");
}

#[test]
fn a_leader_that_heard_from_a_majority_may_grant_for_one_lease_and_its_grant_lasts_for_one_more() {
    assert!(holds("good-authority").checked.contains(&"E1".to_owned()));
}

#[test]
fn a_snapshot_with_two_holders_violates_cut_unless_a_lease_had_ended() {
    violates_exactly("cut-two-holders", "cut", "in snapshot 1 both 0 and 1 hold \"cs\"");
    assert!(holds("good-cut-lease").checked.contains(&"cut".to_owned()));
}

#[test]
fn an_abort_of_what_all_voted_for_violates_commit_unless_votes_may_have_been_late() {
    violates_exactly("commit-needless", "commit", "2 aborted transaction 4294967297, though everybody had voted yes");
    assert!(holds("good-commit-late").checked.contains(&"commit".to_owned()));
}

#[test]
fn a_receive_that_knows_more_than_its_send_violates_causality() {
    violates_exactly("causality-ahead", "causality", "a receive of 2 knows what neither it nor its send knew");
}

#[test]
fn a_datagram_that_is_taken_in_twice_violates_causality() {
    violates_exactly("causality-twice", "causality", "1 took in one datagram twice");
}

#[test]
fn a_narrow_interval_may_break_only_where_a_crystal_was_bent_and_a_certain_one_never() {
    violates_exactly("clock-bound-narrow", "clock-bound", "us outside the interval of 1");
    violates_exactly("clock-bound-certain", "clock-bound", "us outside the certain interval of 1");
    let report = holds("good-bent");
    let bent = report.not_checked.iter().find(|item| item.reason.contains("bent")).expect("it is told");
    assert_eq!((bent.property.as_str(), bent.count), ("clock-bound", 5));
}

#[test]
fn a_clock_that_leaps_ahead_for_one_event_violates_clock_bound() {
    violates_exactly("clock-bound-leap", "clock-bound", "outside the interval of 1");
}

#[test]
fn a_utc_that_is_not_that_of_the_cluster_time_violates_clock_bound() {
    violates_exactly("clock-bound-utc", "clock-bound", "UTC of 1 is 30 s behind its cluster time");
}

#[test]
fn a_victim_that_nobody_named_violates_deadlock() {
    violates_exactly(
        "deadlock-unreported",
        "deadlock",
        "1 gave back as the victim of a deadlock that nobody had reported",
    );
}
