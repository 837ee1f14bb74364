use super::*;

fn trace(name: &str, seed: u64) -> Trace {
    Trace::new(by_name(name).expect("there is this family"), seed)
}

/// The unrounded delay of each way, from the stamps and the crystal; off by at most a microsecond.
fn delays(trace: &Trace) -> Vec<[f64; 2]> {
    let delay = |exchange: &Exchange| {
        [
            exchange.t2 as f64 - trace.crystal.reference_at(exchange.h1),
            trace.crystal.reference_at(exchange.h4) - exchange.t3 as f64,
        ]
    };
    trace.exchanges.iter().map(delay).collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    for family in &FAMILIES {
        assert_eq!(Trace::new(family, 3), Trace::new(family, 3), "{}", family.name);
        assert_ne!(Trace::new(family, 3).exchanges, Trace::new(family, 4).exchanges, "{}", family.name);
    }
    assert_ne!(trace("lan", 1).crystal, trace("asym", 1).crystal);
}

#[test]
fn delays_have_the_minimum_and_the_mean_of_their_law() {
    for (name, minimal, means) in
        [("lan", 150.0, [50.0, 50.0]), ("asym", 200.0, [100.0, 500.0]), ("wifi", 800.0, [750.0, 1_050.0])]
    {
        let delays: Vec<[f64; 2]> = (1..=5).flat_map(|seed| delays(&trace(name, seed))).collect();
        for (way, law) in means.iter().enumerate() {
            let jitter = mean(delays.iter().map(|delay| delay[way])) - minimal;
            assert!((jitter / law - 1.0).abs() < 0.05, "{name}, way {way}: {jitter} instead of {law}");
            let smallest = delays.iter().map(|delay| delay[way]).fold(f64::INFINITY, f64::min);
            assert!((minimal - 1.0..minimal + 2.0).contains(&smallest), "{name}, way {way}: {smallest}");
        }
    }
}

#[test]
fn densities_are_those_of_what_is_drawn() {
    let laws = FAMILIES.iter().flat_map(|family| weather(family, &mut Rng::with_seed(1))[LENGTH_S - 1]);
    for way in laws.chain(trace("burst", 1).exchanges.iter().flat_map(|exchange| exchange.ways).take(600)) {
        let mut rng = Rng::with_seed(9);
        let limit = 80.0;
        let drawn = (0..20_000).filter(|_| way.jitter.draw(&mut rng) < limit).count() as f64 / 20_000.0;
        let integral: f64 = (0..8_000).map(|at| way.jitter.density((f64::from(at) + 0.5) * 0.01) * 0.01).sum();
        assert!((drawn - integral).abs() < 0.02, "{way:?}: {drawn} drawn, {integral} by the density");
    }
}

#[test]
fn the_crystal_walks_by_its_law_and_swings_by_its_sine() {
    for family in &FAMILIES {
        let steps = |seed: u64| {
            let crystal = Trace::new(family, seed).crystal;
            (1..LENGTH_S)
                .map(move |second| {
                    let step = |at: usize| crystal.rate(at) - crystal.told(at);
                    (step(second) - step(second - 1)) * 1e9
                })
                .collect::<Vec<f64>>()
        };
        let deviation = mean((1..=3).flat_map(steps).map(|step| step * step)).sqrt();
        assert!((deviation / family.walk_ppb - 1.0).abs() < 0.03, "{}: {deviation}", family.name);
        assert!((Trace::new(family, 1).crystal.rate(0) - RATE - sine(family, 0)).abs() < 1e-12);
    }
    let shock = Trace::new(by_name("shock").expect("there is this family"), 1).crystal;
    let leaps = (1..LENGTH_S).filter(|second| (shock.told(*second) - shock.told(second - 1)).abs() > 1e-6);
    assert!((6..24).contains(&leaps.count()), "about one in ten minutes");
    assert!((0..LENGTH_S).all(|second| shock.rate(second).abs() < 100e-6), "within what is declared");
    let hot = by_name("hot").expect("there is this family");
    assert!((sine(hot, 150) - 4e-6).abs() < 1e-9 && (sine(hot, 450) + 4e-6).abs() < 1e-9);
}

#[test]
fn counter_and_reference_are_each_others_inverse() {
    let trace = trace("temp", 2);
    for tick in trace.samples.iter().step_by(97) {
        let true_us = trace.crystal.reference_at(*tick) - REFERENCE_START_US as f64;
        assert!((trace.crystal.counter_at(true_us) - *tick as f64).abs() < 1e-3);
    }
    assert!(trace.samples.is_sorted());
    let two = &trace.exchanges[..2];
    let rate = (two[1].h1 - two[0].h1) as f64 / 1e6 - 1.0;
    assert!((rate - RATE).abs() < 3e-6, "a crystal that runs fast counts more: {rate}");
}

#[test]
fn loss_congestion_and_detour_have_their_share() {
    let share = |name: &str, of: &dyn Fn(&Exchange) -> bool| {
        let all: Vec<Exchange> = (1..=20).flat_map(|seed| trace(name, seed).exchanges).collect();
        all.iter().filter(|exchange| of(exchange)).count() as f64 / (20 * LENGTH_S) as f64
    };
    assert!((share("wifi", &|_| true) - 0.98).abs() < 0.002);
    assert!((share("lossy", &|_| true) - 0.6).abs() < 0.005);
    let congested = |way: Way| matches!(way.jitter, Jitter::Exponential { spike_chance: 1.0, .. });
    for name in ["burst", "busy"] {
        let either = share(name, &|exchange| exchange.ways.into_iter().any(congested));
        assert!((either - 0.3).abs() < 0.03, "{name}: {either}");
        assert_eq!(share(name, &|exchange| exchange.ways.into_iter().all(congested)), 0.0, "one way at a time");
        for way in 0..2 {
            let this = share(name, &|exchange| congested(exchange.ways[way]));
            assert!((0.08..0.22).contains(&this), "{name}, way {way}: {this}");
        }
    }
    let queue = |exchange: &Exchange| exchange.ways.iter().any(|way| way.minimal_us == 1_200.0);
    assert_eq!(share("burst", &queue), share("burst", &|exchange| exchange.ways.into_iter().any(congested)));
    let longer = |exchange: &Exchange| exchange.ways.iter().all(|way| way.minimal_us == 500.0);
    assert_eq!(share("step", &longer), 2_400.0 / LENGTH_S as f64);
}
