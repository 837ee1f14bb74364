use super::*;
use crate::{Key, Term, commit::Decision, commit::TransactionId, ids::NodeSet};
use std::{cell::RefCell, collections::BTreeSet, rc::Rc};

/// NOR flash that loses power: after so many steps, each a byte programmed or a tenth of an erasure,
/// nothing more happens.
struct Nor {
    bytes: Vec<u8>,
    steps_left: usize,
    dice: u32,
    erasures: Vec<u32>,
    worn: Vec<usize>,
}

#[derive(Clone)]
struct Chip(Rc<RefCell<Nor>>);

impl Chip {
    fn new() -> Chip {
        let bytes = vec![0xff; LOG_PAGES * PROGRAM_LEN];
        Chip(Rc::new(RefCell::new(Nor {
            bytes,
            steps_left: usize::MAX,
            dice: 1,
            erasures: vec![0; LOG_SECTORS],
            worn: Vec::new(),
        })))
    }

    fn cut_after(&self, steps: usize) {
        self.0.borrow_mut().steps_left = steps;
    }

    fn is_cut(&self) -> bool {
        self.0.borrow().steps_left == 0
    }
}

impl Nor {
    fn step(&mut self) -> bool {
        let goes_on = self.steps_left > 0;
        self.steps_left = self.steps_left.saturating_sub(1);
        goes_on
    }

    fn roll(&mut self) -> u32 {
        self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.dice >> 8
    }
}

impl Flash for Chip {
    fn read(&self, page: usize, into: &mut [u8; PROGRAM_LEN]) {
        into.copy_from_slice(&self.0.borrow().bytes[page * PROGRAM_LEN..][..PROGRAM_LEN]);
    }

    fn erase(&mut self, page: usize) {
        let mut nor = self.0.borrow_mut();
        assert!(page.is_multiple_of(SECTOR_PAGES));
        nor.erasures[page / SECTOR_PAGES] += 1;
        let at = page * PROGRAM_LEN;
        for tenth in 0..10 {
            if !nor.step() {
                return;
            }
            for offset in at..at + SECTOR_LEN {
                let ones = if tenth == 9 { 0xff } else { nor.roll() as u8 };
                nor.bytes[offset] |= ones;
            }
        }
    }

    fn program(&mut self, page: usize, bytes: &[u8; PROGRAM_LEN]) {
        let mut nor = self.0.borrow_mut();
        let is_worn = nor.worn.contains(&(page / SECTOR_PAGES));
        for (at, byte) in (page * PROGRAM_LEN..).zip(bytes) {
            if !nor.step() {
                // The last byte gets some of its zeros.
                let some = nor.roll() as u8;
                nor.bytes[at] &= byte | some;
                return;
            }
            nor.bytes[at] &= if is_worn { 0 } else { *byte };
        }
    }
}

fn config() -> NodeConfig {
    NodeConfig::new(9, Key([7; 16]), NodeId(3), [NodeId(3), NodeId(4)])
}

fn promise(epoch: u32) -> Stored {
    Stored { term: Term::new(u64::from(epoch), NodeId(3)), epoch, ..Stored::default() }
}

/// A life that stores so many promises, each above the last. Its incarnation, if it began.
fn live(chip: &Chip, promises: u32) -> Option<(u32, u32)> {
    let mut log = Log::open(chip.clone());
    let mut config = config();
    let begun = log.begin_life(&mut config);
    if chip.is_cut() {
        return None;
    }
    assert_eq!(begun, Ok(()));
    let mut kept = config.stored.epoch;
    for epoch in kept + 1..=kept + promises {
        let stored = log.store(&promise(epoch));
        if chip.is_cut() {
            break;
        }
        assert_eq!(stored, Ok(()));
        kept = epoch;
    }
    Some((config.incarnation, kept))
}

#[test]
fn lives_are_numbered_and_promises_kept() {
    let chip = Chip::new();
    assert_eq!(live(&chip, 5), Some((1, 5)));
    assert_eq!(live(&chip, 0), Some((2, 5)));
    assert_eq!(live(&chip, 600), Some((3, 605)));
    assert_eq!(live(&chip, 0), Some((4, 605)));
}

#[test]
fn a_board_that_becomes_somebody_else_forgets_its_promises_but_not_its_lives() {
    let chip = Chip::new();
    live(&chip, 5);
    let mut other = NodeConfig { me: NodeId(4), ..config() };
    assert_eq!(Log::open(chip.clone()).begin_life(&mut other), Ok(()));
    assert_eq!((other.incarnation, other.stored), (2, Stored::default()));
    let mut provisioned_ahead = NodeConfig { incarnation: 70, ..config() };
    assert_eq!(Log::open(chip).begin_life(&mut provisioned_ahead), Ok(()));
    assert_eq!(provisioned_ahead.incarnation, 70);
}

/// Power goes at every step of two lives that fill several sectors; then comes a life with power.
#[test]
fn a_power_cut_anywhere_leaves_the_old_record_or_the_new() {
    let full = Chip::new();
    assert_eq!(live(&full, 15 * SECTOR_PAGES as u32), Some((1, 240))); // All sectors but one are full.
    for cut in 0.. {
        let chip = Chip::new();
        chip.0.borrow_mut().bytes.clone_from(&full.0.borrow().bytes);
        chip.cut_after(cut);
        let cut_life = live(&chip, 20);
        let finished = !chip.is_cut();
        chip.cut_after(usize::MAX);
        let (incarnation, kept) = live(&chip, 0).unwrap();
        match cut_life {
            Some((used, acknowledged)) => {
                assert!(incarnation > used, "cut {cut}: incarnation {used} is used again");
                assert!((acknowledged..=acknowledged + 1).contains(&kept), "cut {cut}: {acknowledged}, then {kept}");
            }
            None => {
                assert!((2..=3).contains(&incarnation), "cut {cut}");
                assert_eq!(kept, 240, "cut {cut}");
            }
        }
        if finished {
            assert!(cut > 5000, "the life was cut at {cut} places");
            return;
        }
    }
}

/// Power goes again and again, also while the damage of the last time is being mended.
#[test]
fn no_incarnation_is_ever_used_twice() {
    let chip = Chip::new();
    let mut used = BTreeSet::new();
    let mut promised = 0;
    for round in 0..4000 {
        let steps = chip.0.borrow_mut().roll() as usize % if round % 7 == 0 { 20_000 } else { 600 };
        chip.cut_after(steps);
        if let Some((incarnation, kept)) = live(&chip, 1 + round % 40) {
            assert!(used.last().is_none_or(|last| *last < incarnation), "round {round}");
            assert!(kept >= promised, "round {round}: forgot {promised}, knows {kept}");
            used.insert(incarnation);
            promised = kept;
        }
    }
    assert!(used.len() > 1000 && promised > 1000, "{} lives, {promised} promises", used.len());
    let erasures = chip.0.borrow().erasures.clone();
    assert!(erasures.iter().min() > Some(&5), "all sectors take their turn: {erasures:?}");
}

#[test]
fn the_longest_record_has_room_and_is_found_again() {
    let chip = Chip::new();
    let mut stored = Stored { epoch: u32::MAX, term: Term(core::num::NonZeroU64::MAX.get()), ..Stored::default() };
    stored.cache.version = u64::MAX;
    stored.cache.value = u64::MAX;
    stored.commit.doubt = Some(TransactionId(u64::MAX >> 1));
    let everybody = NodeSet::first(MEMBERS_MAX);
    stored.commit.outcomes.note(everybody, TransactionId(u64::MAX >> 1), Decision::Commit);
    let mut log = Log::open(chip.clone());
    log.begin_life(&mut config()).unwrap();
    for _ in 0..100 {
        assert_eq!(log.store(&stored), Ok(()));
        assert_eq!(Log::open(chip.clone()).memory().unwrap().stored, stored);
    }
}

#[test]
fn a_worn_sector_is_skipped_and_a_worn_chip_refuses() {
    let chip = Chip::new();
    chip.0.borrow_mut().worn = vec![0, 3, 4];
    assert_eq!(live(&chip, 300), Some((1, 300)));
    assert_eq!(live(&chip, 0), Some((2, 300)));
    chip.0.borrow_mut().worn = (0..LOG_SECTORS).collect();
    assert_eq!(Log::open(chip).begin_life(&mut config()), Err(WornOut));
}
