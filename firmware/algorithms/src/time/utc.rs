//! UTC from cluster time: TAI without the leap seconds.
//! Promise: as cluster time goes on, UTC never shows less than before, and no two seconds look alike.
//! Assumes that cluster time is TAI, counted from 1970, and that a leap second is known before it comes.
//!
//! UTC counts days of 86,400 seconds, save those that a leap second ends: after 23:59:59 comes
//! 23:59:60, or after 23:59:58 comes the next day. The difference TAI − UTC grows or shrinks by one there.

use compasso_wire::{ClusterTime, Leap};

/// Microseconds in a second.
pub const SECOND_US: i64 = 1_000_000;

/// TAI − UTC, in seconds, since the last leap second of the table.
pub const TAI_MINUS_UTC_S: i64 = FIRST_OFFSET_S + LEAP_SECONDS.len() as i64;

/// TAI − UTC when leap seconds began, on 1 January 1972.
const FIRST_OFFSET_S: i64 = 10;

/// The first UTC second after each leap second so far, counted from 1970 without leap seconds. All were
/// inserted.
const LEAP_SECONDS: [u32; 27] = [
    78_796_800,    // 1 July 1972
    94_694_400,    // 1 January 1973
    126_230_400,   // 1 January 1974
    157_766_400,   // 1 January 1975
    189_302_400,   // 1 January 1976
    220_924_800,   // 1 January 1977
    252_460_800,   // 1 January 1978
    283_996_800,   // 1 January 1979
    315_532_800,   // 1 January 1980
    362_793_600,   // 1 July 1981
    394_329_600,   // 1 July 1982
    425_865_600,   // 1 July 1983
    489_024_000,   // 1 July 1985
    567_993_600,   // 1 January 1988
    631_152_000,   // 1 January 1990
    662_688_000,   // 1 January 1991
    709_948_800,   // 1 July 1992
    741_484_800,   // 1 July 1993
    773_020_800,   // 1 July 1994
    820_454_400,   // 1 January 1996
    867_715_200,   // 1 July 1997
    915_148_800,   // 1 January 1999
    1_136_073_600, // 1 January 2006
    1_230_768_000, // 1 January 2009
    1_341_100_800, // 1 July 2012
    1_435_708_800, // 1 July 2015
    1_483_228_800, // 1 January 2017
];

/// One second of UTC. The order is that of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Utc {
    /// Seconds since 1970, leap seconds not counted; an inserted second has the number of the one before.
    pub seconds: i64,
    /// It is the inserted second, 23:59:60.
    pub is_leap: bool,
}

/// The leap seconds so far, and one more if it was announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeapTable {
    announced: Option<Leap>,
}

impl LeapTable {
    /// Another leap second will come. The first announcement counts: there is room for one.
    pub fn announce(&mut self, leap: Leap) {
        self.announced.get_or_insert(leap);
    }

    /// The leap second that was announced.
    #[must_use]
    pub fn announced(&self) -> Option<Leap> {
        self.announced
    }

    /// The UTC second at this time.
    #[must_use]
    pub fn utc(&self, tai: ClusterTime) -> Utc {
        let second = tai.0.div_euclid(SECOND_US);
        let mut offset = FIRST_OFFSET_S;
        let so_far = LEAP_SECONDS.iter().map(|after| (i64::from(*after), 1));
        let announced = self.announced.map(|leap| {
            let without_it = leap.at.0.div_euclid(SECOND_US) - TAI_MINUS_UTC_S;
            (without_it, i64::from(leap.by.signum()))
        });
        for (after, by) in so_far.chain(announced) {
            // `after` begins when the new difference holds.
            if second >= after + offset + by {
                offset += by;
            } else if second >= after + offset {
                return Utc { seconds: after - 1, is_leap: true };
            } else {
                break;
            }
        }
        Utc { seconds: second - offset, is_leap: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 January 2027, 00:00:00 UTC, if nothing is announced.
    const NEW_YEAR: i64 = 1_798_761_600;
    const NEW_YEAR_TAI: i64 = NEW_YEAR + 37;

    fn seconds_around(table: &LeapTable, tai: i64) -> Vec<(i64, bool)> {
        let read = |second: i64| table.utc(ClusterTime((tai + second) * SECOND_US + 999_999));
        let around: Vec<Utc> = (-3..3).map(read).collect();
        assert!(around.is_sorted_by(|a, b| a < b), "{around:?}");
        around.iter().map(|utc| (utc.seconds, utc.is_leap)).collect()
    }

    #[test]
    fn tai_is_37_seconds_ahead_of_utc() {
        assert_eq!(TAI_MINUS_UTC_S, 37);
        let utc = LeapTable::default().utc(ClusterTime(NEW_YEAR_TAI * SECOND_US));
        assert_eq!(utc, Utc { seconds: NEW_YEAR, is_leap: false });
    }

    #[test]
    fn the_last_leap_second_was_at_the_end_of_2016() {
        let new_year = 1_483_228_800;
        let around = seconds_around(&LeapTable::default(), new_year + 37);
        let expected = [
            (new_year - 2, false),
            (new_year - 1, false),
            (new_year - 1, true),
            (new_year, false),
            (new_year + 1, false),
        ];
        assert_eq!(around[..5], expected);
    }

    #[test]
    fn an_announced_second_is_inserted_and_nothing_runs_backwards() {
        let mut table = LeapTable::default();
        table.announce(Leap { at: ClusterTime(NEW_YEAR_TAI * SECOND_US), by: 1 });
        let around = seconds_around(&table, NEW_YEAR_TAI);
        let n = NEW_YEAR;
        let expected = [(n - 3, false), (n - 2, false), (n - 1, false), (n - 1, true), (n, false), (n + 1, false)];
        assert_eq!(around, expected);
    }

    #[test]
    fn an_announced_second_is_left_out_and_nothing_runs_backwards() {
        let mut table = LeapTable::default();
        table.announce(Leap { at: ClusterTime(NEW_YEAR_TAI * SECOND_US), by: -1 });
        let around = seconds_around(&table, NEW_YEAR_TAI);
        let n = NEW_YEAR;
        let expected = [(n - 3, false), (n - 2, false), (n, false), (n + 1, false), (n + 2, false), (n + 3, false)];
        assert_eq!(around, expected);
        table.announce(Leap { at: ClusterTime(0), by: 1 });
        assert_eq!(seconds_around(&table, NEW_YEAR_TAI), expected, "the first announcement counts");
    }

    #[test]
    fn utc_never_shows_less_than_before_over_all_leap_seconds_so_far() {
        let table = LeapTable::default();
        for after in LEAP_SECONDS {
            seconds_around(&table, i64::from(after) + 20);
            let all: Vec<Utc> = (0..50).map(|s| table.utc(ClusterTime((i64::from(after) + s) * SECOND_US))).collect();
            assert!(all.is_sorted_by(|a, b| a < b));
            assert_eq!(all.iter().filter(|utc| utc.is_leap).count(), 1);
        }
    }
}
