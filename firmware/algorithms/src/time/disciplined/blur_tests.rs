//! Stamps that are not as good as they look, and what is known of that.

use super::*;
use compasso_wire::Interval;

/// Stamps that are off by 40 µs, this way or that: one that believes each of them to the microsecond is led astray.
#[test]
fn a_clock_that_knows_how_blurred_stamps_are_is_nearer() {
    const FAMILY: Family = Family { shortest: [400.0; 2], jitter: [1000.0; 2], loss: 0.02, ..LAN };
    let mut p99 = [0.0, 0.0];
    for seed in 1..=5 {
        let crystal = Crystal::new(&FAMILY, seed, 902);
        let mut random = Random(seed ^ 0x7777);
        let mut clocks = [Disciplined::default(), Disciplined::default()];
        clocks[1].blur(40);
        let mut errors: [Vec<f64>; 2] = Default::default();
        for exchange in exchanges(&FAMILY, &crystal, seed, 900) {
            let (late, arrives_late) = ((40.0 * random.normal()) as i64, (40.0 * random.normal()) as i64);
            let blurred = Exchange {
                received: ClusterTime(exchange.received.0 + late),
                answered: ClusterTime(exchange.answered.0 + late),
                arrived: Instant(exchange.arrived.0.saturating_add_signed(arrives_late)),
                ..exchange
            };
            let read_at = ((exchange.answered.0 as f64 - BASE_US) / 1e6).floor() * 1e6 + 900_000.0;
            for (clock, errors) in clocks.iter_mut().zip(&mut errors) {
                clock.exchange(&blurred);
                if read_at > 120e6 {
                    let shown = clock.read(Instant(crystal.at(read_at) as u64)).unwrap();
                    errors.push((shown.0 as f64 - read_at - BASE_US).abs());
                }
            }
        }
        for (p99, errors) in p99.iter_mut().zip(&mut errors) {
            errors.sort_by(f64::total_cmp);
            *p99 += errors[errors.len() * 99 / 100] / 5.0;
        }
    }
    println!("p99 of the error, mean of five seeds: {:.1} µs, and {:.1} for one that knows", p99[0], p99[1]);
    assert!(p99[1] * 1.5 < p99[0], "{p99:?}");
}

/// What is usual decides what is shown; what is certain rests on the stamps alone.
#[test]
fn neither_blur_nor_what_answers_take_to_leave_moves_the_certain_interval() {
    for (family, seed) in [(&ASYM, 1), (&WIFI, 2), (&TEMP, 3), (&BURST, 4)] {
        let crystal = Crystal::new(family, seed, 602);
        let mut random = Random(seed ^ 0x3333);
        let (mut plain, mut told) = (Disciplined::default(), Disciplined::default());
        told.blur(60);
        let (mut moved, mut compared) = (0, 0);
        for exchange in exchanges(family, &crystal, seed, 600) {
            plain.exchange(&exchange);
            told.exchange(&Exchange { leaves_us: (random.next() % 900) as u32, ..exchange });
            let now = exchange.arrived + Duration(300_000);
            let (ours, theirs) = (told.certain(now).unwrap(), plain.certain(now).unwrap());
            let apart = |a: ClusterTime, b: ClusterTime| a.ahead_of_us(b).abs();
            // An end that what is shown lies beyond is moved there: then it says nothing of the stamps.
            let is_shown = |end: fn(&Interval) -> ClusterTime| end(&ours) == ours.best || end(&theirs) == theirs.best;
            let ends: [fn(&Interval) -> ClusterTime; 2] = [|within| within.earliest, |within| within.latest];
            for end in ends.into_iter().filter(|end| !is_shown(*end)) {
                assert!(apart(end(&ours), end(&theirs)) <= 2, "{ours:?} {theirs:?}");
                compared += 1;
            }
            moved += u32::from(apart(told.read(now).unwrap(), plain.read(now).unwrap()) > 10);
        }
        assert!(moved > 100 && compared > 800, "what is shown differs: {moved}; {compared} ends were compared");
    }
}
