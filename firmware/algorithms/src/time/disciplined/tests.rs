//! Seeded networks and crystals, and what the clock must show on them.

use super::{counter::Counter32, sources::agreed, *};

#[path = "blur_tests.rs"]
mod blur;
#[path = "ensemble_tests.rs"]
mod ensemble;

/// A generator of random numbers: splitmix64.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between 0 and 1.
    pub(super) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub(super) fn exponential(&mut self, mean: f64) -> f64 {
        -self.unit().ln() * mean
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// Delays in µs, rates in ppm.
#[derive(Clone, Copy)]
struct Family {
    shortest: [f64; 2],
    jitter: [f64; 2],
    walk_ppb: f64,
    sine_ppm: f64,
    spikes: f64,
    loss: f64,
    /// Minutes of congestion, on alternating ways, begin every five.
    is_congested: bool,
    /// The crystal's rate leaps by so much after 1500 s.
    leap_ppm: f64,
    /// The ways take so much longer from 1500 s on,
    detour: [f64; 2],
    /// until then.
    detour_ends: usize,
}

const LAN: Family = Family {
    shortest: [150.0; 2],
    jitter: [50.0; 2],
    walk_ppb: 1.0,
    sine_ppm: 0.0,
    spikes: 0.0,
    loss: 0.0,
    is_congested: false,
    leap_ppm: 0.0,
    detour: [0.0; 2],
    detour_ends: usize::MAX,
};
const ASYM: Family = Family { shortest: [200.0; 2], jitter: [100.0, 500.0], ..LAN };
const WIFI: Family = Family { shortest: [800.0; 2], jitter: [500.0, 800.0], spikes: 0.05, loss: 0.02, ..LAN };
const TEMP: Family = Family { sine_ppm: 2.0, walk_ppb: 3.0, ..ASYM };
const BURST: Family = Family { shortest: [200.0; 2], jitter: [100.0; 2], is_congested: true, ..LAN };
/// One way takes no time at all: what is shown is wrong by half a millisecond, and the interval must know.
const SKEWED: Family = Family { shortest: [0.0, 1000.0], ..TEMP };

/// A crystal in true time: its readings at every quarter of a second.
struct Crystal(Vec<f64>);

impl Crystal {
    fn new(family: &Family, seed: u64, seconds: usize) -> Crystal {
        let (mut random, mut walk, mut at) = (Random(seed), 0.0, 7e6);
        let tick = |i: usize| {
            let (t, shown) = (i as f64 / 4.0, at);
            let sine = family.sine_ppm * (t * std::f64::consts::TAU / 1800.0).sin();
            let leap = if t >= 1500.0 { family.leap_ppm } else { 0.0 };
            at += 250_000.0 * (1.0 + (40.0 + walk + sine + leap) * 1e-6);
            walk += family.walk_ppb * 1e-3 * random.normal() / 2.0;
            shown
        };
        Crystal((0..seconds * 4).map(tick).collect())
    }

    fn at(&self, true_us: f64) -> f64 {
        let quarter = true_us / 250_000.0;
        let (i, part) = (quarter as usize, quarter.fract());
        self.0[i] + (self.0[i + 1] - self.0[i]) * part
    }
}

/// The reference shows true time and this much more.
const BASE_US: f64 = 1e9;

fn exchanges(family: &Family, crystal: &Crystal, seed: u64, seconds: usize) -> Vec<Exchange> {
    let mut random = Random(seed ^ 0x5555);
    let exchange = |second: usize| {
        let asked = second as f64 * 1e6 + 300_000.0 + random.unit() * 2000.0;
        let mut way = |i: usize| {
            let congested = family.is_congested && second % 300 < 90 && (second / 300) % 2 == i;
            let detour = if (1500..family.detour_ends).contains(&second) { family.detour[i] } else { 0.0 };
            let spike = if random.unit() < family.spikes { random.exponential(5000.0) } else { 0.0 };
            let busy = if congested { random.exponential(2000.0) } else { 0.0 };
            family.shortest[i] + random.exponential(family.jitter[i]) + spike + busy + detour
        };
        let received = asked + way(0);
        let arrived = received + 40.0 + way(1);
        (random.unit() >= family.loss).then(|| Exchange {
            asked: Instant(crystal.at(asked) as u64),
            received: ClusterTime((received + BASE_US) as i64),
            answered: ClusterTime((received + 40.0 + BASE_US) as i64),
            arrived: Instant(crystal.at(arrived) as u64),
            error_us: 0,
            certain_us: 0,
            leaves_us: 0,
        })
    };
    (0..seconds).filter_map(exchange).collect()
}

#[derive(Default)]
struct Seen {
    /// Distances from the reference after ten minutes, sorted.
    errors: Vec<f64>,
    halves: Vec<i64>,
    rtt_min: u64,
    /// How far off 600 s after the last exchange.
    holdover_us: f64,
}

impl Seen {
    fn p99(&self) -> f64 {
        self.errors[self.errors.len() * 99 / 100]
    }
}

/// Performs a trace; every reading is held to the promises.
fn perform(family: &Family, seed: u64, seconds: usize) -> Seen {
    let crystal = Crystal::new(family, seed, seconds + 602);
    let mut trace = exchanges(family, &crystal, seed, seconds).into_iter().peekable();
    let asymmetry = (family.shortest[0] - family.shortest[1]) / 2.0;
    let mut clock = Disciplined::default();
    let mut seen = Seen { rtt_min: u64::MAX, ..Seen::default() };
    let mut last: Option<(Instant, i128)> = None;
    for quarter in 0..(seconds + 601) * 4 {
        let exact = crystal.0[quarter];
        let now = Instant(exact as u64);
        while let Some(exchange) = trace.next_if(|exchange| exchange.arrived < now) {
            seen.rtt_min = seen.rtt_min.min(clock.exchange(&exchange).rtt.0);
        }
        let (Some(fine), Some(interval)) = (clock.read_fine(now), clock.interval(now)) else { continue };
        let reference = quarter as f64 * 250_000.0 + BASE_US;
        let is_held = interval.earliest.0 as f64 <= reference && reference <= interval.latest.0 as f64;
        assert!(is_held, "seed {seed}, {} s: {interval:?} without {reference}", quarter / 4);
        if let Some((before, shown)) = last.replace((now, fine)) {
            let hardware = i128::from(now.0 - before.0) << 16;
            let slewed_ppm = ((fine - shown - hardware) * 1_000_000) as f64 / hardware as f64;
            assert!(fine > shown, "seed {seed}, {} s: backwards", quarter / 4);
            assert!(!clock.is_locked() || slewed_ppm.abs() < 500.1 || quarter < 600, "{slewed_ppm} ppm");
        }
        let error = (fine as f64 / 65536.0 + exact.fract() - reference - asymmetry).abs();
        if (600 * 4..seconds * 4).contains(&quarter) {
            seen.errors.push(error);
            seen.halves.push(interval.half_us());
        }
        seen.holdover_us = error;
    }
    seen.errors.sort_by(f64::total_cmp);
    seen.halves.sort_unstable();
    seen
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn p99_of(family: &Family, seconds: usize) -> f64 {
    median((1..=5).map(|seed| perform(family, seed, seconds).p99()).collect())
}

#[test]
fn on_every_family_it_is_nearly_as_good_as_who_knows_the_noise() {
    for (name, family, most_us) in
        [("lan", LAN, 2.5), ("asym", ASYM, 5.0), ("wifi", WIFI, 15.0), ("temp", TEMP, 18.0), ("burst", BURST, 6.0)]
    {
        let p99 = p99_of(&family, 3600);
        assert!(p99 <= most_us, "{name}: {p99} µs");
    }
}

#[test]
fn the_interval_holds_whatever_the_asymmetry_and_though_the_crystal_leaps() {
    for seed in 20..24 {
        perform(&SKEWED, seed, 2400);
        perform(&Family { shortest: [1000.0, 0.0], ..SKEWED }, seed, 2400);
        perform(&Family { leap_ppm: 10.0, ..LAN }, seed, 2400);
        perform(&Family { leap_ppm: -30.0, ..WIFI }, seed, 2400);
    }
}

#[test]
fn the_interval_is_hardly_wider_than_the_shortest_round_trip() {
    for family in [LAN, ASYM, WIFI, BURST] {
        let seen = perform(&family, 3, 3600);
        let half = seen.halves[seen.halves.len() / 2];
        assert!(half as f64 <= 1.1 * seen.rtt_min as f64 / 2.0, "{half} µs, shortest trip {}", seen.rtt_min);
    }
}

#[test]
fn without_its_reference_it_goes_on_at_the_rate_it_learnt() {
    let off = median((1..=15).map(|seed| perform(&LAN, seed, 3600).holdover_us).collect());
    assert!(off <= 10.0, "{off} µs after 600 s");
    let steady = Family { walk_ppb: 0.0, ..LAN };
    let off = median((1..=5).map(|seed| perform(&steady, seed, 3600).holdover_us).collect());
    assert!(off <= 4.0, "{off} µs after 600 s with a crystal that does not wander");
}

#[test]
fn a_path_that_changes_moves_no_clock() {
    let jittery = Family { jitter: [100.0, 300.0], shortest: [200.0; 2], ..LAN };
    for (detour, detour_ends) in [
        ([300.0, 300.0], usize::MAX), // Longer.
        ([300.0, 300.0], 2700),       // And shorter again.
        ([300.0, 0.0], usize::MAX),   // One way only: the ways are not alike any more, and the rate knows.
        ([0.0, 200.0], 3000),
    ] {
        for seed in 5..9 {
            let seen = perform(&Family { detour, detour_ends, ..jittery }, seed, 3600);
            let p99 = seen.p99();
            assert!(p99 <= 8.0, "{detour:?} µs until {detour_ends} s, seed {seed}: {p99} µs");
        }
    }
}

/// The same stamps with a hardware counter that began elsewhere.
fn moved(exchange: &Exchange, by: u64) -> Exchange {
    Exchange {
        asked: Instant(exchange.asked.0.wrapping_add(by)),
        arrived: Instant(exchange.arrived.0.wrapping_add(by)),
        ..*exchange
    }
}

#[test]
fn nothing_is_different_where_the_64_bit_counter_begins_again() {
    let crystal = Crystal::new(&LAN, 1, 302);
    let (mut usual, mut wrapping) = (Disciplined::default(), Disciplined::default());
    let by = u64::MAX - 150_000_000;
    for exchange in exchanges(&LAN, &crystal, 1, 300) {
        let taken = wrapping.exchange(&moved(&exchange, by));
        assert_eq!(Some(taken.refused), (usual.exchange(&exchange).refused.is_none()).then_some(None));
        for later in [0, 9_999, 10_001, 500_000] {
            let now = Instant(exchange.arrived.0 + later);
            assert_eq!(usual.read_fine(now), wrapping.read_fine(Instant(now.0.wrapping_add(by))));
            assert_eq!(usual.interval(now), wrapping.interval(Instant(now.0.wrapping_add(by))));
        }
    }
    assert!(wrapping.is_locked() && wrapping.last.0 < by, "it did wrap around");
}

#[test]
fn a_32_bit_counter_serves_as_well() {
    let crystal = Crystal::new(&LAN, 1, 602);
    let (mut usual, mut narrow, mut counter) = (Disciplined::default(), Disciplined::default(), Counter32::default());
    let by = u64::from(u32::MAX) - 300_000_000;
    counter.extend(1 << 30);
    counter.extend(1 << 31);
    for exchange in exchanges(&LAN, &crystal, 1, 600) {
        let stamps = moved(&exchange, by);
        let (asked, arrived) = (counter.extend(stamps.asked.0 as u32), counter.extend(stamps.arrived.0 as u32));
        narrow.exchange(&Exchange { asked, arrived, ..exchange });
        usual.exchange(&exchange);
        let later = |at: Instant| at + Duration(1000);
        assert_eq!(usual.read_fine(later(exchange.arrived)), narrow.read_fine(later(arrived)));
    }
    assert!(narrow.last.0 > u64::from(u32::MAX), "it did wrap around");
}

#[test]
fn stamps_that_cannot_be_are_refused_and_wild_ones_never_panic() {
    let good = Exchange {
        asked: Instant(1000),
        received: ClusterTime(50),
        answered: ClusterTime(60),
        arrived: Instant(1400),
        error_us: 0,
        certain_us: 0,
        leaves_us: 0,
    };
    let mut clock = Disciplined::default();
    assert_eq!(clock.exchange(&good).refused, None);
    assert_eq!(clock.exchange(&good).refused, Some(Refusal::Late));
    let again = |exchange: Exchange| clock.clone().exchange(&exchange).refused;
    assert_eq!(again(Exchange { arrived: Instant(900), ..good }), Some(Refusal::Impossible));
    assert_eq!(again(Exchange { answered: ClusterTime(40), ..good }), Some(Refusal::Impossible));
    assert_eq!(again(Exchange { answered: ClusterTime(900), ..good }), Some(Refusal::Impossible));
    assert_eq!(again(Exchange { arrived: Instant(9_000_000), ..good }), Some(Refusal::Slow));
    let mut random = Random(9);
    for _ in 0..200_000 {
        let r = random.next();
        let asked = clock.last.0.wrapping_add(random.next() >> (r % 64));
        let received = (random.next() >> (r / 64 % 64)) as i64;
        let handling = (random.next() >> 50) as i64 >> (r % 13);
        let wild = Exchange {
            asked: Instant(asked),
            received: ClusterTime(received),
            answered: ClusterTime(received.wrapping_add(handling)),
            arrived: Instant(asked.wrapping_add(handling as u64 + (random.next() >> (43 + r % 20)))),
            error_us: random.next() as u32 >> (r % 32),
            certain_us: random.next() as u32 >> (r % 32),
            leaves_us: random.next() as u32 >> (r % 31),
        };
        clock.exchange(&wild);
        let now = Instant(clock.last.0.wrapping_add(random.next() >> (r % 64)));
        assert!(clock.interval(now).is_some() && clock.read_fine(now).is_some());
        if r.is_multiple_of(97) {
            clock.hand_over(now);
        }
        if r.is_multiple_of(101) {
            clock.lead(now, ClusterTime(now.0 as i64));
        }
    }
}

#[test]
fn one_liar_among_three_neither_moves_the_time_nor_breaks_the_bound() {
    let families = [LAN, ASYM, WIFI];
    let crystal = Crystal::new(&LAN, 4, 902);
    let mut clocks = [(); 3].map(|()| Disciplined::default());
    let mut traces = [0, 1, 2].map(|i: usize| exchanges(&families[i], &crystal, i as u64, 900).into_iter().peekable());
    for quarter in 100..3600 {
        let now = Instant(crystal.0[quarter] as u64);
        for (i, (clock, trace)) in clocks.iter_mut().zip(&mut traces).enumerate() {
            while let Some(mut exchange) = trace.next_if(|exchange| exchange.arrived < now) {
                // The second source walks away, slowly enough to be followed.
                let lie = if i == 1 { (exchange.arrived.0 / 50_000) as i64 } else { 0 };
                exchange.received.0 += lie;
                exchange.answered.0 += lie;
                clock.exchange(&exchange);
            }
        }
        let intervals = clocks.each_ref().map(|clock| clock.interval(now).unwrap());
        let agreed = agreed(&intervals).unwrap();
        let reference = (quarter as f64 * 250_000.0 + BASE_US) as i64;
        assert!(agreed.earliest.0 <= reference && reference <= agreed.latest.0 + 1, "{quarter}: {agreed:?}");
    }
    let lie = clocks[1].read(Instant(crystal.0[3600] as u64)).unwrap().0 - 900_000_000 - BASE_US as i64;
    assert!(lie > 15_000, "who followed the liar is {lie} µs off");
}

#[test]
fn across_ten_hand_overs_time_never_jumps_and_keeps_the_first_masters_rate() {
    const TERM_S: usize = 200;
    let skews = [0.0, 35.0, -60.0, 20.0];
    let drifting = |skew: f64| {
        Crystal((0..(11 * TERM_S + 2) * 4).map(|i| 9e6 + i as f64 * 250_000.0 * (1.0 + skew * 1e-6)).collect())
    };
    let crystals = skews.map(drifting);
    let mut clocks = [(); 4].map(|()| Disciplined::default());
    let mut random = Random(77);
    let mut last = [None::<(u64, i128)>; 4];
    for second in 0..11 * TERM_S {
        let master = second / TERM_S % 4;
        let at = |node: usize, us: f64| Instant(crystals[node].at(second as f64 * 1e6 + us) as u64);
        if second % TERM_S == 0 {
            for (node, clock) in clocks.iter_mut().enumerate() {
                if node == master {
                    clock.lead(at(node, 0.0), ClusterTime(at(node, 0.0).0 as i64))
                } else {
                    clock.hand_over(at(node, 0.0))
                }
            }
        }
        for node in (0..4).filter(|node| *node != master) {
            let asked = 1000.0 + node as f64 * 100_000.0;
            let received = asked + 150.0 + random.exponential(50.0);
            let arrived = received + 40.0 + 150.0 + random.exponential(50.0);
            let shown = |us: f64| clocks[master].read(at(master, us)).unwrap();
            let (received, answered) = (shown(received), shown(received + 40.0));
            let error_us = 0;
            clocks[node].exchange(&Exchange {
                asked: at(node, asked),
                received,
                answered,
                arrived: at(node, arrived),
                error_us,
                certain_us: error_us,
                leaves_us: 0,
            });
        }
        for (node, clock) in clocks.iter().enumerate() {
            let now = at(node, 900_000.0);
            let Some(fine) = clock.read_fine(now) else { continue };
            if let Some((before, shown)) = last[node].replace((now.0, fine)) {
                let hardware = i128::from(now.0 - before) << 16;
                let slewed = fine - shown - hardware;
                assert!(
                    slewed.abs() * 2000 <= hardware || second < TERM_S,
                    "{node} jumps at {second} s by {slewed}/65536 µs"
                );
            }
        }
    }
    let end = last.map(|shown| shown.unwrap().1 as f64 / 65536.0);
    let spread = end.iter().fold(0f64, |most, shown| most.max((shown - end[0]).abs()));
    assert!(spread < 20.0, "they are {spread} µs apart");
    // The first master's crystal is true: time since is exact at its rate.
    let off_ppm = (end[3] - (9e6 + (11 * TERM_S) as f64 * 1e6 - 100_000.0)) / (11 * TERM_S) as f64;
    assert!(off_ppm.abs() < 1.0, "{off_ppm} ppm");
}

/// On a network whose delays are all alike likely, asked at the clock's own pace: how far the clock is off
/// after so many seconds, and its rate.
fn from_the_start(seed: u64, (least, most): (f64, f64), seconds: u64) -> (f64, f64) {
    let mut random = Random(seed);
    let ppm = (random.unit() - 0.5) * 300.0;
    let hardware = |t: f64| 7e6 + t * (1.0 + ppm * 1e-6);
    let mut clock = Disciplined::new(210);
    let mut t = 0.0;
    while t < seconds as f64 * 1e6 {
        let mut way = || least + random.unit() * (most - least);
        let (there, back) = (way(), way());
        let exchange = Exchange {
            asked: Instant(hardware(t) as u64),
            received: ClusterTime((t + there) as i64),
            answered: ClusterTime((t + there + 30.0) as i64),
            arrived: Instant(hardware(t + there + 30.0 + back) as u64),
            error_us: 0,
            certain_us: 0,
            leaves_us: 0,
        };
        if random.unit() > 0.02 {
            clock.exchange(&exchange);
        }
        t += clock.next_in().0 as f64;
    }
    let shown = clock.read_fine(Instant(hardware(t) as u64)).unwrap() as f64 / 65536.0;
    (shown - t, clock.rate_ppb().unwrap() as f64 / 1000.0 + ppm)
}

#[test]
fn also_where_all_delays_are_alike_likely_it_finds_the_time() {
    for ((least, most), seconds, error_us, rate_ppm) in
        [((200.0, 2000.0), 120, 90.0, 3.0), ((200.0, 2000.0), 600, 40.0, 1.0), ((200.0, 400.0), 120, 10.0, 0.2)]
    {
        let runs: Vec<_> = (1..=200).map(|seed| from_the_start(seed, (least, most), seconds)).collect();
        let most_of = |part: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(|run| part(run).abs()).collect();
            values.sort_by(f64::total_cmp);
            values[190]
        };
        let (error, rate) = (most_of(|run| run.0), most_of(|run| run.1));
        assert!(error <= error_us && rate <= rate_ppm, "{least}..{most} µs, {seconds} s: {error} µs, {rate} ppm");
    }
}

/// Whoever begins to lead runs at the rate that it says it has, or as its crystal does if it hardly knows one.
#[test]
fn whoever_leads_runs_at_the_rate_that_it_tells() {
    for (family, seed) in [(&LAN, 1), (&WIFI, 2), (&WIFI, 3), (&TEMP, 4)] {
        let crystal = Crystal::new(family, seed, 202);
        let trace = exchanges(family, &crystal, seed, 200);
        let mut clock = Disciplined::default();
        for exchange in &trace {
            clock.exchange(exchange);
            let (mut leading, now) = (clock.clone(), exchange.arrived + Duration(20_000));
            leading.lead(now, ClusterTime(0));
            // A correction under way is finished first.
            let reads =
                |seconds: u64| leading.read_fine(now + Duration(seconds * 1_000_000)).unwrap() as f64 / 65_536.0;
            let ppm = (reads(120) - reads(60)) / 60.0 - 1e6;
            let told_ppm = leading.rate_ppb().unwrap() as f64 / 1e3;
            assert!((ppm - told_ppm).abs() < 0.01, "it runs at {ppm} ppm and tells {told_ppm}");
            assert!(ppm.abs() < 100.0, "{ppm} ppm, of a crystal that is 40 off");
        }
    }
}

/// Whoever begins to lead, or loses its reference, in the moments around an exchange: what is shown goes on.
#[test]
fn nothing_jumps_when_roles_change_while_a_correction_is_about_to_begin() {
    let crystal = Crystal::new(&ASYM, 4, 122);
    for made in [3, 20, 100] {
        let mut clock = Disciplined::default();
        let trace = exchanges(&ASYM, &crystal, 4, 120);
        for exchange in &trace[..made] {
            clock.exchange(exchange);
        }
        let arrived = trace[made - 1].arrived;
        for later in (0..25_000).step_by(500) {
            let now = arrived + Duration(later);
            for leads in [true, false] {
                let (before, mut after) = (clock.clone(), clock.clone());
                if leads {
                    after.lead(now, ClusterTime(0))
                } else {
                    after.hand_over(now)
                }
                let mut last = before.read(now).unwrap().0;
                for us in (0..30_000).step_by(500) {
                    let shown = after.read(now + Duration(us)).unwrap().0;
                    let gained = shown - last - if us == 0 { 0 } else { 500 };
                    assert!(gained.abs() <= 2, "{made} exchanges, {later} us later, {us} us after that: {gained}");
                    last = shown;
                }
            }
        }
    }
}

/// Whoever serves the time was paused: all its answers come at once, and are far off.
#[test]
fn answers_that_come_all_at_once_move_nothing_before_its_time() {
    for apart_us in [1, 300, 900, 4_000, 9_999, 10_000, 10_001] {
        let mut clock = Disciplined::default();
        let crystal = Crystal::new(&LAN, 1, 14);
        let mut at = Instant(0);
        for exchange in exchanges(&LAN, &crystal, 1, 12) {
            clock.exchange(&exchange);
            at = exchange.arrived;
        }
        at += Duration(700_000);
        for answer in 0..40 {
            let (asked, answered) = (Instant(at.0 - 400_000), clock.read(at).unwrap());
            let before = answered;
            let stamps = Exchange {
                asked,
                received: ClusterTime(answered.0 - 5_000),
                answered: ClusterTime(answered.0 - 5_000),
                arrived: at,
                error_us: 0,
                certain_us: 0,
                leaves_us: 0,
            };
            assert_eq!(clock.exchange(&stamps).refused, None);
            assert_eq!(clock.read(at), Some(before), "{apart_us} µs apart, answer {answer}");
            at += Duration(apart_us);
            let gained_us = clock.read(at).unwrap().ahead_of_us(before);
            let most = apart_us as i64 / 2_000 + 1; // 500 ppm
            assert!(
                (gained_us - apart_us as i64).abs() <= most,
                "{apart_us} µs apart, answer {answer}: {gained_us} µs"
            );
        }
    }
}
