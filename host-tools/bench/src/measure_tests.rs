use super::*;
use crate::families::{Exchange, by_name};

type Bound = fn(&Puppet, f64) -> (f64, f64);

/// A clock that knows the truth and does to it what a test wants.
struct Puppet {
    trace: Trace,
    fed: u64,
    act: fn(&Puppet, f64) -> f64,
    bound: Option<Bound>,
}

impl Peer for Puppet {
    fn exchange(&mut self, _: &Exchange) {
        self.fed += 1;
    }

    fn read(&mut self, tick: u64) -> Option<Fine> {
        Some(Fine::from_us((self.act)(self, self.trace.crystal.reference_at(tick))))
    }

    fn interval(&mut self, tick: u64) -> Option<(Fine, Fine)> {
        let (earliest, latest) = self.bound?(self, self.trace.crystal.reference_at(tick));
        Some((Fine::from_us(earliest), Fine::from_us(latest)))
    }
}

fn judged(act: fn(&Puppet, f64) -> f64, bound: Option<Bound>) -> Measured {
    let trace = Trace::new(by_name("lan").expect("there is this family"), 1);
    measure(&trace, &move |trace| Box::new(Puppet { trace: trace.clone(), fed: 0, act, bound }))
}

#[test]
fn a_clock_that_is_right_has_nothing_against_it() {
    let measured = judged(|_, truth| truth, Some(|_, truth| (truth - 150.0, truth + 150.0)));
    assert!(measured.max_us < 0.001, "{}", measured.max_us);
    assert_eq!((measured.backward_steps, measured.bound_violations), (0, Some(0)));
    assert!(measured.converged_s.is_some_and(|s| s < 1.0));
    assert!(measured.holdover_us.iter().all(|held| *held < 0.001));
    assert!(measured.half_width_ratio.is_some_and(|ratio| (0.95..1.0).contains(&ratio)), "150 µs of a little more");
}

#[test]
fn the_error_is_ranked_from_the_settled_time_on() {
    let measured = judged(|puppet, truth| truth + if puppet.fed <= 600 { 1e6 } else { 7.0 }, None);
    assert!((measured.median_us - 7.0).abs() < 0.01 && (measured.p99_us - 7.0).abs() < 0.01);
    assert_eq!(measured.bound_violations, None);
    let rare = judged(|puppet, truth| truth + if puppet.fed % 64 == 0 { 90.0 } else { 1.0 }, None);
    assert!(
        (rare.median_us - 1.0).abs() < 0.01 && (rare.p99_us - 90.0).abs() < 0.01,
        "one second of 64 is more than 1 %"
    );
    let rarer = judged(|puppet, truth| truth + if puppet.fed % 128 == 0 { 90.0 } else { 1.0 }, None);
    assert!((rarer.p99_us - 1.0).abs() < 0.01 && (rarer.max_us - 90.0).abs() < 0.01);
}

#[test]
fn a_clock_that_steps_back_at_an_exchange_is_counted_each_time() {
    let measured = judged(|puppet, truth| truth - (puppet.fed / 1_000) as f64 * 0.01, None);
    assert_eq!(measured.backward_steps, 7, "a hundredth of a microsecond, at each thousandth exchange");
}

#[test]
fn what_goes_wrong_in_holdover_is_counted() {
    let stepping: fn(&Puppet, f64) -> f64 = |_, truth| truth - if truth > AFTER_US { 5e6 } else { 0.0 };
    let lying: Bound = |_, truth| if truth > AFTER_US { (0.0, 1.0) } else { (0.0, 2e10) };
    let measured = judged(stepping, Some(lying));
    assert_eq!(measured.backward_steps, 3, "the runs that last beyond the end: from 6,000, 6,600 and 7,200 s on");
    assert!(measured.bound_violations.is_some_and(|count| count > 0));
}

/// Some time after the last exchange.
const AFTER_US: f64 = crate::families::REFERENCE_START_US as f64 + 7_700e6;

#[test]
fn a_bound_that_lies_is_counted() {
    let early = judged(
        |_, truth| truth,
        Some(|puppet, truth| {
            let off = if puppet.fed == 5_000 { 0.5 } else { -100.0 };
            (truth + off, truth + 100.0)
        }),
    );
    let late = judged(
        |_, truth| truth,
        Some(|puppet, truth| (truth - 100.0, truth + if puppet.fed == 5_000 { -1.5 } else { 100.0 })),
    );
    for measured in [early, late] {
        assert!(
            measured.bound_violations.is_some_and(|count| (2..=8).contains(&count)),
            "{:?}",
            measured.bound_violations
        );
    }
}

#[test]
fn convergence_takes_a_whole_minute_within_the_limit() {
    let measured =
        judged(|puppet, truth| truth + if puppet.fed < 30 || puppet.fed == 60 { 151.0 } else { 149.0 }, None);
    assert!(measured.converged_s.is_some_and(|s| (60.0..62.0).contains(&s)), "{:?}", measured.converged_s);
    assert_eq!(judged(|_, truth| truth + 151.0, None).converged_s, None);
}

#[test]
fn holdover_is_the_error_after_the_last_exchange_and_the_middle_one_of_ten() {
    let measured = judged(|puppet, truth| truth + puppet.fed as f64 / 100.0, None);
    assert!(measured.holdover_us.iter().all(|held| (held - 42.0).abs() < 0.01), "{:?}", measured.holdover_us);
}
