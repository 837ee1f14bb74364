//! Three sources on three networks, and liars among them.

use super::*;

const SOURCES: usize = 3;

/// What a source adds to the truth, by its number and true time.
type Lie = fn(usize, f64) -> f64;

const HONEST: Lie = |_, _| 0.0;
const FAST: Lie = |source, us| if source == 1 && us > 200e6 { 80_000.0 } else { 0.0 };
const SLOW: Lie = |source, us| if source == 1 && us > 200e6 { (us - 200e6) * 200e-6 } else { 0.0 };
const EVER: Lie = |source, _| if source == 0 { -80_000.0 } else { 0.0 };
const SLIGHT: Lie = |source, us| if source == 2 && us > 200e6 { 150.0 } else { 0.0 };
const FOR_A_WHILE: Lie = |source, us| if source == 1 && (200e6..300e6).contains(&us) { 80_000.0 } else { 0.0 };

struct Kept {
    /// Distances from the truth after four minutes.
    errors: Vec<f64>,
    /// The same of a servo that follows one source alone.
    alone: [Vec<f64>; SOURCES],
    /// Quarters of a second in which each source was known to lie.
    known: [usize; SOURCES],
}

fn p99(errors: &[f64]) -> f64 {
    let mut errors = errors.to_vec();
    errors.sort_by(f64::total_cmp);
    errors[errors.len() * 99 / 100]
}

/// What the sources say, in the order in which it arrives.
fn said(crystal: &Crystal, seed: u64, seconds: usize, lie: Lie) -> Vec<(usize, Exchange)> {
    let mut all = Vec::new();
    for (source, family) in [LAN, ASYM, LAN].iter().enumerate() {
        for mut exchange in exchanges(family, crystal, seed * 3 + source as u64, seconds) {
            let by = lie(source, exchange.received.0 as f64 - BASE_US) as i64;
            exchange.received.0 += by;
            exchange.answered.0 += by;
            all.push((source, exchange));
        }
    }
    all.sort_by_key(|(_, exchange)| exchange.arrived);
    all
}

/// Performs what is said; every reading is held to the promises.
fn perform(seed: u64, seconds: usize, lie: Lie) -> Kept {
    let crystal = Crystal::new(&LAN, seed, seconds + 2);
    let mut said = said(&crystal, seed, seconds, lie).into_iter().peekable();
    let (mut clock, mut alone) = (Ensemble::default(), [(); SOURCES].map(|()| Disciplined::default()));
    clock.hand_over(Instant(crystal.0[0] as u64), SOURCES);
    let mut kept = Kept { errors: Vec::new(), alone: [const { Vec::new() }; SOURCES], known: [0; SOURCES] };
    let mut last: Option<(Instant, i64)> = None;
    for quarter in 0..seconds * 4 {
        let exact = crystal.0[quarter];
        let now = Instant(exact as u64);
        while let Some((source, exchange)) = said.next_if(|(_, exchange)| exchange.arrived < now) {
            clock.exchange(source, &exchange);
            alone[source].exchange(&exchange);
        }
        let (Some(shown), Some(within)) = (clock.read(now), clock.interval(now)) else { continue };
        let truth = quarter as f64 * 250_000.0 + BASE_US;
        let is_held = within.earliest.0 as f64 <= truth && truth <= within.latest.0 as f64;
        assert!(is_held, "seed {seed}, {} s: {within:?} without {truth}", quarter / 4);
        if let Some((before, then)) = last.replace((now, shown.0)) {
            let gained = shown.0 - then - (now.0 - before.0) as i64;
            assert!(shown.0 >= then, "seed {seed}, {} s: backwards", quarter / 4);
            let most = (now.0 - before.0) as i64 / 2000 + 2;
            assert!(!clock.is_locked() || gained.abs() <= most || quarter < 200, "{} s: {gained} µs", quarter / 4);
        }
        kept.known.iter_mut().zip(clock.falsetickers()).for_each(|(known, lies)| *known += usize::from(lies));
        if quarter >= 240 * 4 {
            let error = |shown: ClusterTime| (shown.0 as f64 + exact.fract() - truth).abs();
            kept.errors.push(error(shown));
            kept.alone.iter_mut().zip(&alone).for_each(|(errors, clock)| errors.push(error(clock.read(now).unwrap())));
        }
    }
    assert!(clock.is_locked(), "seed {seed}: it never found its rate");
    kept
}

#[test]
fn a_liar_among_three_moves_the_clock_no_farther_than_the_others_differ_and_is_found_out() {
    for (name, lie, liar) in [
        ("fast", FAST, 1),
        ("slow", SLOW, 1),
        ("ever", EVER, 0),
        ("slight", SLIGHT, 2),
        ("for a while", FOR_A_WHILE, 1),
    ] {
        let (mut worse, mut known) = (Vec::new(), 0);
        for seed in 1..=6 {
            let (honest, kept) = (perform(seed, 600, HONEST), perform(seed, 600, lie));
            let alone = kept.alone.each_ref().map(|errors| p99(errors));
            let truthful: Vec<usize> = (0..SOURCES).filter(|source| *source != liar).collect();
            let farthest = truthful.iter().map(|source| alone[*source]).fold(0.0, f64::max);
            let off = p99(&kept.errors);
            assert!(off <= farthest * 1.2 + 1.0, "{name}, seed {seed}: {off} µs off, they are {alone:?}");
            worse.push(off / p99(&honest.errors));
            known += kept.known[liar];
            assert!(truthful.iter().all(|source| kept.known[*source] == 0), "{name}, seed {seed}: {:?}", kept.known);
            if ["fast", "slow", "ever"].contains(&name) {
                assert!(alone[liar] > 1000.0 * off, "{name}: who follows the liar is {alone:?} off, and we are {off}");
            }
        }
        println!("{name}: {worse:.2?} times as far off as without it, known to lie for {known} quarters");
        // A lie that is smaller than a round trip can be told from the truth by nobody.
        let is_known = name != "slight";
        assert!(median(worse.clone()) <= if is_known { 1.6 } else { 3.0 }, "{name}: {worse:?} times as far off");
        assert_eq!(known > 0, is_known, "{name}");
    }
}

#[test]
fn of_one_source_the_clock_is_its_servos_to_the_last_bit() {
    let crystal = Crystal::new(&WIFI, 3, 602);
    let (mut servo, mut clock) = (Disciplined::new(210), Ensemble::new(210));
    for (at, exchange) in exchanges(&WIFI, &crystal, 3, 600).iter().enumerate() {
        match at {
            120 => (servo.hand_over(exchange.asked), clock.hand_over(exchange.asked, 1)),
            200 => (servo.lead(exchange.asked, ClusterTime(5)), clock.lead(exchange.asked, ClusterTime(5))),
            220 => (servo.hand_over(exchange.asked), clock.hand_over(exchange.asked, 1)),
            _ => ((), ()),
        };
        if !(200..220).contains(&at) {
            assert_eq!(servo.exchange(exchange), clock.exchange(0, exchange));
        }
        for later in [0, 9_999, 10_001, 400_000] {
            let now = exchange.arrived + Duration(later);
            assert_eq!(servo.read(now), clock.read(now));
            assert_eq!(servo.interval(now), clock.interval(now));
            assert_eq!(servo.pending_us(now), clock.pending_us(now));
            assert_eq!((servo.certain(now), servo.course(now)), (clock.certain(now), clock.course(now)));
        }
        assert_eq!((servo.rate_ppb(), servo.next_in()), (clock.rate_ppb(), clock.next_in(0)));
        let is = (servo.is_set(), servo.is_locked(), servo.is_fit());
        assert_eq!(is, (clock.is_set(), clock.is_locked(), clock.is_fit()));
        assert_eq!(servo.when(ClusterTime(2_000_000_000)), clock.when(ClusterTime(2_000_000_000)));
    }
    assert!(clock.is_fit());
}

/// An exchange that proves that the reference is between so much behind and so much ahead of the hardware clock.
fn proves(at: u64, least_us: i64, most_us: i64) -> Exchange {
    let took = (most_us - least_us) as u64;
    let time = ClusterTime(at as i64 + most_us);
    let (asked, arrived) = (Instant(at), Instant(at + took));
    Exchange { asked, received: time, answered: time, arrived, error_us: 0, certain_us: 0, leaves_us: 0 }
}

/// The same from one source, as often as it takes to set a clock.
fn says(clock: &mut Ensemble, source: usize, at: u64, least_us: i64, most_us: i64) {
    for time in 0..4 {
        clock.exchange(source, &proves(at + time * 1000, least_us, most_us));
    }
}

fn holds(clock: &Ensemble, now: u64, us: i64) -> bool {
    let within = clock.interval(Instant(now)).unwrap();
    within.earliest.0 <= now as i64 + us && now as i64 + us <= within.latest.0
}

#[test]
fn nobody_is_believed_alone_and_of_two_one_may_be_the_liar() {
    let mut clock = Ensemble::default();
    clock.hand_over(Instant(0), SOURCES);
    says(&mut clock, 1, 10_000, 5_400, 5_500);
    assert_eq!(clock.read(Instant(20_000)), None, "one of three proves nothing");
    says(&mut clock, 0, 30_000, 5_000, 5_100);
    assert_eq!(clock.read(Instant(40_000)), None, "these two contradict each other");
    let mut second = clock.clone();
    // The third agrees with both, a little: the truth may be in either of them, but not outside of both.
    says(&mut second, 2, 50_000, 5_090, 5_410);
    for us in [5_090, 5_100, 5_400, 5_410] {
        assert!(holds(&second, 60_000, us), "{us}");
    }
    assert_eq!(second.falsetickers(), [false; SOURCES]);
    says(&mut clock, 2, 50_000, 5_050, 5_150);
    assert!(holds(&clock, 60_000, 5_075) && !holds(&clock, 60_000, 5_450));
    assert_eq!(clock.falsetickers(), [false, true, false]);

    let mut clock = Ensemble::default();
    clock.hand_over(Instant(0), SOURCES);
    says(&mut clock, 0, 10_000, 5_000, 5_100);
    clock.exchange(1, &proves(20_000, 5_090, 5_190));
    assert!(!clock.is_set(), "one answer may be anything");
    says(&mut clock, 1, 30_000, 5_090, 5_190);
    for us in [5_000, 5_095, 5_190] {
        assert!(holds(&clock, 50_000, us), "{us}: either may tell the truth, as long as the third was not heard");
    }
}

#[test]
fn without_a_majority_it_holds_over_and_widens() {
    let crystal = Crystal::new(&LAN, 7, 602);
    // Two lie from 300 s on, and not alike.
    let lie: Lie = |source, us| if us > 300e6 { source as f64 * 40_000.0 } else { 0.0 };
    let mut clock = Ensemble::default();
    clock.hand_over(Instant(0), SOURCES);
    let (mut said, mut halves) = (said(&crystal, 7, 600, lie).into_iter().peekable(), Vec::new());
    for quarter in 100..2400 {
        let now = Instant(crystal.0[quarter] as u64);
        while let Some((source, exchange)) = said.next_if(|(_, exchange)| exchange.arrived < now) {
            clock.exchange(source, &exchange);
        }
        let truth = (quarter as f64 * 250_000.0 + BASE_US) as i64;
        let within = clock.interval(now).unwrap();
        assert!(within.earliest.0 <= truth && truth <= within.latest.0 + 1, "{quarter}: {within:?}");
        if quarter > 1240 {
            assert!((within.best.0 - truth).abs() < 200, "{quarter}: it goes on at its rate");
            halves.push(within.half_us());
        }
    }
    assert!(halves.windows(2).all(|pair| pair[0] <= pair[1]) && halves[0] * 4 < halves[halves.len() - 1], "{halves:?}");
}

#[test]
fn a_new_reference_goes_on_from_the_time_and_the_rate_of_the_truthful() {
    let crystal = Crystal::new(&LAN, 9, 902);
    let mut clock = Ensemble::default();
    clock.hand_over(Instant(crystal.0[0] as u64), SOURCES);
    let mut last: Option<(u64, i64)> = None;
    // Three sources, of which the first is slowly lying; then one, a node that goes by the truth; then three again.
    let lie: Lie = |source, us| if source == 0 && us > 100e6 { (us - 100e6) * 100e-6 } else { 0.0 };
    let mut said = said(&crystal, 9, 900, lie).into_iter().peekable();
    for quarter in 0..3600 {
        let now = Instant(crystal.0[quarter] as u64);
        let is_one = (1200..2400).contains(&quarter);
        if quarter == 1200 || quarter == 2400 {
            clock.hand_over(now, if is_one { 1 } else { SOURCES });
        }
        while let Some((source, exchange)) = said.next_if(|(_, exchange)| exchange.arrived < now) {
            match (is_one, source) {
                (false, source) => drop(clock.exchange(source, &exchange)),
                (true, 1) => drop(clock.exchange(0, &exchange)),
                (true, _) => {}
            }
        }
        let (Some(within), truth) = (clock.interval(now), (quarter as f64 * 250_000.0 + BASE_US) as i64) else {
            continue;
        };
        assert!(within.earliest.0 <= truth && truth <= within.latest.0 + 1, "{quarter}: {within:?} without {truth}");
        let gained = last.map_or(0, |(at, shown)| within.best.0 - shown - (now.0 - at) as i64);
        assert!(gained.abs() <= 127 || quarter < 240, "{quarter}: jumps by {gained} µs");
        assert!((within.best.0 - truth).abs() < 60 || quarter < 240, "{quarter}: {} off", within.best.0 - truth);
        last = Some((now.0, within.best.0));
    }
    let off_ppb = clock.rate_ppb().unwrap() + 40_000;
    assert!(off_ppb.abs() < 2_000, "the rate of the truthful, but for {off_ppb} ppb");
}

#[test]
fn nothing_is_different_where_the_64_bit_counter_begins_again() {
    let crystal = Crystal::new(&LAN, 1, 302);
    let (mut usual, mut wrapping) = (Ensemble::default(), Ensemble::default());
    let by = u64::MAX - 150_000_000;
    usual.hand_over(Instant(0), SOURCES);
    wrapping.hand_over(Instant(by), SOURCES);
    for (source, exchange) in said(&crystal, 1, 300, FAST) {
        assert_eq!(usual.exchange(source, &exchange).refused, wrapping.exchange(source, &moved(&exchange, by)).refused);
        for later in [0, 9_999, 10_001, 500_000] {
            let now = Instant(exchange.arrived.0 + later);
            assert_eq!(usual.read(now), wrapping.read(Instant(now.0.wrapping_add(by))));
            assert_eq!(usual.interval(now), wrapping.interval(Instant(now.0.wrapping_add(by))));
        }
    }
    assert_eq!(usual.falsetickers(), [false, true, false]);
    assert_eq!(wrapping.falsetickers(), [false, true, false]);
}

#[test]
fn a_32_bit_counter_serves_as_well() {
    let crystal = Crystal::new(&LAN, 1, 302);
    let (mut usual, mut narrow, mut counter) = (Ensemble::default(), Ensemble::default(), Counter32::default());
    let by = u64::from(u32::MAX) - 150_000_000;
    counter.extend(1 << 30);
    counter.extend(1 << 31);
    usual.hand_over(Instant(0), SOURCES);
    narrow.hand_over(Instant(0), SOURCES);
    let mut last = Instant(0);
    for (source, exchange) in said(&crystal, 1, 300, FAST) {
        // As a driver does: what was asked is as old as the exchange took.
        let arrived = counter.extend(moved(&exchange, by).arrived.0 as u32);
        let asked = Instant(arrived.0 - (exchange.arrived.0 - exchange.asked.0));
        narrow.exchange(source, &Exchange { asked, arrived, ..exchange });
        usual.exchange(source, &exchange);
        let later = |at: Instant| at + Duration(11_000);
        assert_eq!(usual.interval(later(exchange.arrived)), narrow.interval(later(arrived)));
        last = arrived;
    }
    assert!(last.0 > u64::from(u32::MAX), "it did wrap around");
}

#[test]
fn wild_exchanges_with_wild_sources_never_panic() {
    let (mut clock, mut random) = (Ensemble::default(), Random(21));
    let mut last = 0_u64;
    for _ in 0..100_000 {
        let r = random.next();
        if r.is_multiple_of(61) {
            clock.hand_over(Instant(last), (r / 61 % 4) as usize);
        }
        let asked = last.wrapping_add(random.next() >> (r % 64));
        let received = (random.next() >> (r / 64 % 64)) as i64;
        let handling = (random.next() >> 50) as i64 >> (r % 13);
        let wild = Exchange {
            asked: Instant(asked),
            received: ClusterTime(received),
            answered: ClusterTime(received.wrapping_add(handling)),
            arrived: Instant(asked.wrapping_add(handling as u64 + (random.next() >> (43 + r % 20)))),
            error_us: random.next() as u32 >> (r % 32),
            certain_us: random.next() as u32 >> (r / 7 % 32),
            leaves_us: random.next() as u32 >> (r / 11 % 32),
        };
        let sources = clock.sources();
        if clock.exchange((r % sources as u64) as usize, &wild).refused.is_none() {
            last = wild.arrived.0;
        }
        let now = Instant(last.wrapping_add(random.next() >> (r % 64)));
        assert_eq!(clock.interval(now).is_some(), clock.is_set());
        assert_eq!(clock.certain(now).is_some(), clock.is_set());
        assert!(clock.course(now).is_none_or(|course| course.slow_ppb <= course.fast_ppb));
        assert!(!clock.is_set() || clock.rate_ppb().is_some());
    }
}
