//! What a board shows to the eye and to an oscilloscope.
//!
//! The lamp lights up with every second of cluster time, so that all boards blink in unison; on the
//! leader it does so twice; inside the critical section it stays on. One pin rises with every
//! second, another is high inside: drift and mutual exclusion can be seen without trusting the
//! software that reports them.

use compasso_wire::ClusterTime;

/// Levels of lamp and pins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Signals {
    /// The lamp is on.
    pub lamp: bool,
    /// A second of cluster time has just begun.
    pub second: bool,
    /// The node is inside the critical section.
    pub inside: bool,
}

const SECOND_US: i64 = 1_000_000;
/// The second's pin is high for so long.
pub const PULSE_US: i64 = 10_000;
/// The lamp is on for so long.
pub const BLINK_US: i64 = 100_000;
/// On the leader it is on again from here on.
pub const SECOND_BLINK_US: i64 = 250_000;

/// What to show, and when cluster time alone changes it. Without cluster time the lamp is dark.
#[must_use]
pub fn signals(cluster: Option<ClusterTime>, leads: bool, inside: bool) -> (Signals, Option<ClusterTime>) {
    let Some(ClusterTime(shown)) = cluster else {
        return (Signals { lamp: inside, second: false, inside }, None);
    };
    let phase = shown.rem_euclid(SECOND_US);
    let is_second_blink = leads && (SECOND_BLINK_US..SECOND_BLINK_US + BLINK_US).contains(&phase);
    let lamp = inside || phase < BLINK_US || is_second_blink;
    let changes = [PULSE_US, BLINK_US, SECOND_BLINK_US, SECOND_BLINK_US + BLINK_US, SECOND_US];
    let next = changes.into_iter().find(|change| phase < *change).unwrap_or(SECOND_US);
    (Signals { lamp, second: phase < PULSE_US, inside }, Some(ClusterTime(shown - phase + next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often and how long the lamp is on in one second that begins at `from`.
    fn blinks(from: i64, leads: bool, inside: bool) -> (u32, i64) {
        let (mut count, mut on_us, mut at, mut was_on) = (0, 0, from, false);
        while at < from + SECOND_US {
            let (shown, next) = signals(Some(ClusterTime(at)), leads, inside);
            let next = next.unwrap().0.min(from + SECOND_US);
            assert!(next > at, "time goes on");
            count += u32::from(shown.lamp && !was_on);
            on_us += if shown.lamp { next - at } else { 0 };
            (at, was_on) = (next, shown.lamp);
        }
        (count, on_us)
    }

    #[test]
    fn followers_blink_once_the_leader_twice_and_whoever_is_inside_not_at_all() {
        for from in [0, 7 * SECOND_US, -3 * SECOND_US] {
            assert_eq!(blinks(from, false, false), (1, BLINK_US));
            assert_eq!(blinks(from, true, false), (2, 2 * BLINK_US));
            assert_eq!(blinks(from, true, true), (1, SECOND_US));
        }
    }

    #[test]
    fn nothing_changes_before_the_announced_time() {
        for leads in [false, true] {
            for at in (-SECOND_US..SECOND_US).step_by(997) {
                let (shown, next) = signals(Some(ClusterTime(at)), leads, false);
                let next = next.unwrap().0;
                assert!(next > at && next <= at + SECOND_US);
                for between in [at + 1, at + (next - at) / 2, next - 1] {
                    assert_eq!(signals(Some(ClusterTime(between)), leads, false).0, shown, "{at} to {between}");
                }
            }
        }
    }

    #[test]
    fn boards_with_the_same_time_rise_at_the_same_time() {
        assert!(signals(Some(ClusterTime(5 * SECOND_US)), false, false).0.second);
        assert!(!signals(Some(ClusterTime(5 * SECOND_US - 1)), false, false).0.second);
        assert_eq!(signals(Some(ClusterTime(5 * SECOND_US - 1)), true, false).1, Some(ClusterTime(5 * SECOND_US)));
    }

    #[test]
    fn without_cluster_time_only_the_critical_section_shows() {
        assert_eq!(signals(None, true, false), (Signals::default(), None));
        assert_eq!(signals(None, false, true).0, Signals { lamp: true, second: false, inside: true });
    }
}
