//! The chip at the other end of four wires, spoken to bit by bit.

use super::{program::AccessPoint, *};

const SELECT: u32 = 1 << PIN_SELECT;
const POWER: u32 = 1 << PIN_POWER;
const BUS: u32 = 0;
const BACKPLANE: u32 = 1;
const RADIO: u32 = 2;
const MAC: Mac = [0x28, 0xcd, 0xc1, 0, 0, 7];

/// The chip and the driver's side of the wires.
struct Wired {
    chip: Cyw43,
    levels: u32,
    now: u64,
    is_wide: bool,
}

impl Wired {
    fn switched_on() -> Wired {
        let mut wired = Wired { chip: Cyw43::new(MAC), levels: 0, now: 0, is_wide: false };
        wired.set(SELECT | POWER);
        wired.now += POWER_UP;
        wired
    }

    fn set(&mut self, levels: u32) {
        self.now += 1;
        self.chip.advance(self.now);
        self.chip.pins_moved(self.now, self.levels ^ levels, levels);
        self.levels = levels;
    }

    fn swapped(&self, word: u32) -> u32 {
        if self.is_wide { word } else { word.rotate_left(16) }
    }

    /// One access: words out, words in, and the status after them.
    fn access(&mut self, words: &[u32], answers: usize) -> Vec<u32> {
        self.set(POWER);
        for word in words.iter().map(|word| self.swapped(*word)).collect::<Vec<_>>() {
            for bit in (0..32).rev() {
                let data = (word >> bit & 1) << PIN_DATA;
                self.set(POWER | data);
                self.set(POWER | data | 1 << PIN_CLOCK);
            }
        }
        self.set(POWER);
        let mut answer = Vec::new();
        for _ in 0..answers {
            let mut word = 0;
            for _ in 0..32 {
                word = word << 1 | u32::from(self.chip.data_pin());
                self.set(POWER | 1 << PIN_CLOCK);
                self.set(POWER);
            }
            answer.push(self.swapped(word));
        }
        self.set(POWER | SELECT);
        answer
    }

    fn read(&mut self, function: u32, address: u32, length: u32) -> u32 {
        let answer = self.access(&[1 << 30 | function << 28 | address << 11 | length], 2);
        answer[usize::from(function == BACKPLANE)]
    }

    fn write(&mut self, function: u32, address: u32, bytes: &[u8]) {
        let command = 3 << 30 | function << 28 | address << 11 | bytes.len() as u32;
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let words: Vec<u32> = std::iter::once(command).chain(bytes.chunks(4).map(word)).collect();
        self.access(&words, 1);
    }

    /// As the driver has it before it downloads anything.
    fn configured() -> Wired {
        let mut wired = Wired::switched_on();
        wired.write(BUS, 0, &[0xb1, 4, 3, 0]);
        wired.is_wide = true;
        wired.write(BUS, DELAY_BACKPLANE as u32, &[4]);
        wired.write(BUS, INTERRUPT_ENABLE as u32, &[PACKET_WAITS as u8, 0]);
        wired
    }

    fn write_backplane(&mut self, place: u32, bytes: &[u8]) {
        let [_, low, middle, high] = (place & !0x7fff).to_le_bytes();
        self.write(BACKPLANE, FUNCTION + WINDOW as u32, &[low]);
        self.write(BACKPLANE, FUNCTION + WINDOW as u32 + 1, &[middle]);
        self.write(BACKPLANE, FUNCTION + WINDOW as u32 + 2, &[high]);
        self.write(BACKPLANE, place & 0x7fff, bytes);
    }

    /// The core is reset and let go.
    fn start(&mut self) {
        self.write_backplane(0x1810_3800, &[1]);
        self.write_backplane(0x1810_3800, &[0]);
        self.now += CLOCK_UP;
    }

    fn running() -> Wired {
        let mut wired = Wired::configured();
        wired.write_backplane(0, &[7; 64]);
        wired.write_backplane(RAM_LEN as u32 - 4, &[5, 0, !5, !0]);
        wired.start();
        wired
    }

    /// Sends a command to the radio's program, and reads its answer.
    fn command(&mut self, sequence: u8, number: u8, bytes: &[u8]) {
        let length = (12 + 16 + bytes.len()) as u16;
        let mut packet = [length.to_le_bytes(), (!length).to_le_bytes()].concat();
        packet.extend([sequence, 0, 0, 12, 0, 0, 0, 0, number, 0, 0, 0]);
        packet.extend((bytes.len() as u32).to_le_bytes());
        packet.extend([2, 0, 1, 0, 0, 0, 0, 0]);
        packet.extend(bytes);
        self.write(RADIO, 0, &packet);
    }
}

#[test]
fn it_speaks_short_words_until_it_is_told_otherwise() {
    let mut wired = Wired::switched_on();
    assert_eq!(wired.read(BUS, TEST_READ as u32, 4), TEST_PATTERN);
    wired.write(BUS, 0x18, &0x1234_5678u32.to_le_bytes());
    wired.write(BUS, 0, &[0xb1, 4, 3, 0]);
    wired.is_wide = true;
    assert_eq!((wired.read(BUS, TEST_READ as u32, 4), wired.read(BUS, 0x18, 4)), (TEST_PATTERN, 0x1234_5678));
    assert_eq!(wired.chip.unmodelled(), None);
    wired.is_wide = false;
    assert_ne!(wired.read(BUS, TEST_READ as u32, 4), TEST_PATTERN, "the old words");
}

#[test]
fn without_power_or_too_early_it_says_nothing() {
    let mut wired = Wired::switched_on();
    wired.now = 0;
    assert_eq!(wired.read(BUS, TEST_READ as u32, 4), 0, "too early");
    let mut wired = Wired::switched_on();
    wired.set(SELECT);
    wired.set(SELECT | POWER);
    assert_eq!(wired.read(BUS, TEST_READ as u32, 4), 0, "switched off and on again");
}

#[test]
fn a_download_is_seen_through_the_window_and_the_core_starts_with_it() {
    let mut wired = Wired::running();
    assert_eq!((wired.chip.ram()[63], wired.chip.ram()[64]), (7, 0));
    assert_eq!(wired.read(BACKPLANE, FUNCTION + CLOCK as u32, 1) as u8 & (ALP | HT), ALP | HT);
    assert_eq!(wired.read(BUS, STATUS as u32, 4) & READY, READY);
    assert_eq!(wired.chip.unmodelled(), None);
    let mut empty = Wired::configured();
    empty.start();
    assert!(empty.chip.unmodelled().unwrap().contains("without a program"), "{:?}", empty.chip.unmodelled());
}

#[test]
fn the_data_line_is_its_interrupt_while_a_packet_waits() {
    let mut wired = Wired::running();
    assert!(!wired.chip.data_pin());
    wired.command(0, 2, &[]);
    wired.now += 1_000_000;
    wired.chip.advance(wired.now);
    assert!(wired.chip.data_pin(), "the answer waits");
    let length = wired.chip.program().waiting().unwrap();
    let status = wired.read(BUS, STATUS as u32, 4);
    assert_eq!((status & PACKET, status >> 9 & 0x7ff), (PACKET, length as u32));
    let words = wired.access(&[1 << 30 | RADIO << 28 | length as u32], length.div_ceil(4) + 1);
    assert_eq!(words[0], length as u32 | (!length as u32) << 16);
    assert_eq!(words[2] >> 8 & 0xff, 1 + 8, "credit for eight packets behind the first");
    assert!(!wired.chip.data_pin() && wired.chip.unmodelled().is_none(), "{:?}", wired.chip.unmodelled());
}

#[test]
fn what_nobody_has_seen_a_radio_do_is_refused() {
    for (sequence, number, bytes, told) in [
        (1, 2, &[][..], "packet 1 instead of 0"),
        (0, 86, &2u32.to_le_bytes()[..], "command 86"), // Power saving.
        (0, 99, &[0; 4], "command 99"),
    ] {
        let mut wired = Wired::running();
        wired.command(sequence, number, bytes);
        let refused = wired.chip.unmodelled().unwrap_or_default();
        assert!(refused.contains(told), "no {told:?} in {refused:?}");
    }
}

#[test]
fn outside_a_network_no_frame_comes_or_goes_and_strangers_frames_never_come() {
    let mut program = Program::new(MAC);
    program.start(0);
    program.receive(&[0xff; 60]);
    assert_eq!(program.waiting(), None);
    program.joined_for_tests();
    program.receive(&[2, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(program.waiting(), None, "for somebody else");
    for _ in 0..20 {
        program.receive(&[0xff; 60]);
    }
    assert_eq!((program.waiting(), program.dropped()), (Some(12 + 4 + 60), 4));
    program.set_access_point(None::<AccessPoint>);
    assert!(!program.is_joined());
}
