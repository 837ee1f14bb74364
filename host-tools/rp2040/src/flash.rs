//! The board's flash: 2 MiB that survive power cuts, changed only by the ROM's functions.
//!
//! Erasing makes ones, programming can only make zeros, both take their time and go forward byte by
//! byte. A power cut in between leaves what was done up to then.

/// Size of the flash.
pub const FLASH_LEN: usize = 2 * 1024 * 1024;
/// Smallest unit that can be erased.
pub const SECTOR_LEN: u32 = 4096;
/// Smallest unit that can be programmed.
pub const PAGE_LEN: u32 = 256;
/// Erasing a sector takes 45 ms, typically (W25Q16JV).
const ERASE_CYCLES_PER_BYTE: u64 = 45 * 125_000 / SECTOR_LEN as u64;
/// Programming a page takes 0.4 ms, typically.
const PROGRAM_CYCLES_PER_BYTE: u64 = 400 * 125 / PAGE_LEN as u64;

/// What is being done to the flash.
#[derive(Clone, Debug)]
enum Work {
    Erase { at: u32, len: u32 },
    Program { at: u32, data: Vec<u8> },
}

#[derive(Clone, Debug)]
struct Job {
    work: Work,
    begun: u64,
    done: u64,
}

/// The flash chip.
#[derive(Clone, Debug)]
pub struct Flash {
    bytes: Box<[u8]>,
    job: Option<Job>,
    /// The power fails when so many more bytes were changed.
    cut_after: Option<u64>,
    /// Bytes changed so far, over all lives.
    worked: u64,
    /// What is programmed does not stay.
    is_worn: bool,
}

impl Default for Flash {
    fn default() -> Flash {
        Flash { bytes: vec![0xff; FLASH_LEN].into(), job: None, cut_after: None, worked: 0, is_worn: false }
    }
}

impl Flash {
    /// What is in the flash.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Puts bytes there from outside, as a probe would.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn load(&mut self, at: u32, bytes: &[u8]) {
        self.bytes[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    /// The power is to fail after so many more bytes of erasing and programming.
    pub fn cut_after(&mut self, bytes: u64) {
        self.cut_after = Some(bytes);
    }

    /// From now on the flash keeps nothing that is programmed.
    pub fn wear_out(&mut self) {
        self.is_worn = true;
    }

    /// How many bytes were erased and programmed so far.
    #[must_use]
    pub fn worked(&self) -> u64 {
        self.worked
    }

    /// Begins to erase; none if the range is not made of sectors. Returns when it will be done.
    pub fn erase(&mut self, now: u64, at: u32, len: u32) -> Option<u64> {
        let fits = u64::from(at) + u64::from(len) <= FLASH_LEN as u64;
        if !fits || !at.is_multiple_of(SECTOR_LEN) || !len.is_multiple_of(SECTOR_LEN) {
            return None;
        }
        self.job = Some(Job { work: Work::Erase { at, len }, begun: now, done: 0 });
        Some(now + u64::from(len) * ERASE_CYCLES_PER_BYTE)
    }

    /// Begins to program; none if the range is not made of pages. Returns when it will be done.
    pub fn program(&mut self, now: u64, at: u32, data: Vec<u8>) -> Option<u64> {
        let len = data.len() as u64;
        let fits = u64::from(at) + len <= FLASH_LEN as u64;
        if !fits || !at.is_multiple_of(PAGE_LEN) || !len.is_multiple_of(u64::from(PAGE_LEN)) {
            return None;
        }
        self.job = Some(Job { work: Work::Program { at, data }, begun: now, done: 0 });
        Some(now + len * PROGRAM_CYCLES_PER_BYTE)
    }

    /// Does what can be done until now. Returns false if the power failed on the way.
    pub fn advance(&mut self, now: u64) -> bool {
        let Some(mut job) = self.job.take() else { return true };
        let (len, pace) = match &job.work {
            Work::Erase { len, .. } => (u64::from(*len), ERASE_CYCLES_PER_BYTE),
            Work::Program { data, .. } => (data.len() as u64, PROGRAM_CYCLES_PER_BYTE),
        };
        let due = ((now - job.begun) / pace).min(len);
        let allowed = self.cut_after.map_or(due, |left| due.min(job.done + left));
        for index in job.done as usize..allowed as usize {
            match &job.work {
                Work::Erase { at, .. } => self.bytes[*at as usize + index] = 0xff,
                Work::Program { .. } if self.is_worn => {}
                Work::Program { at, data } => self.bytes[*at as usize + index] &= data[index],
            }
        }
        let done = allowed - job.done;
        self.worked += done;
        if let Some(left) = &mut self.cut_after {
            *left -= done;
            if *left == 0 {
                self.cut_after = None;
                return false;
            }
        }
        job.done = allowed;
        if allowed < len {
            self.job = Some(job);
        }
        true
    }

    /// The power is gone: what was not done stays undone.
    pub fn power_cut(&mut self) {
        self.job = None;
        self.cut_after = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erasing_makes_ones_and_programming_only_zeros() {
        let mut flash = Flash::default();
        flash.load(0, &[0; 8192]);
        let done = flash.erase(100, 4096, 4096).unwrap();
        assert!(flash.advance(done));
        assert_eq!((flash.bytes()[4095], flash.bytes()[4096], flash.bytes()[8191]), (0, 0xff, 0xff));
        for (data, expected) in [(0x0f, 0x0f), (0xf8, 0x08)] {
            let done = flash.program(0, 4096, vec![data; 256]).unwrap();
            assert!(flash.advance(done));
            assert_eq!(flash.bytes()[4096], expected);
        }
    }

    #[test]
    fn it_takes_its_time_and_a_power_cut_leaves_the_rest_undone() {
        let mut flash = Flash::default();
        let done = flash.program(0, 0, vec![0; 256]).unwrap();
        assert_eq!(done, 256 * 195, "about 0.4 ms");
        assert!(flash.advance(done / 2));
        flash.power_cut();
        assert!(flash.advance(done));
        assert_eq!((flash.bytes()[127], flash.bytes()[128]), (0, 0xff));
    }

    #[test]
    fn the_power_fails_after_as_many_bytes_as_asked() {
        let mut flash = Flash::default();
        flash.cut_after(300);
        let done = flash.program(0, 0, vec![0; 256]).unwrap();
        assert!(flash.advance(done));
        let done = flash.program(0, 256, vec![0; 256]).unwrap();
        assert!(!flash.advance(done));
        assert_eq!((flash.bytes()[299], flash.bytes()[300], flash.worked()), (0, 0xff, 300));
    }

    #[test]
    fn what_is_not_whole_sectors_or_pages_is_refused() {
        let mut flash = Flash::default();
        assert_eq!(flash.erase(0, 256, 4096), None);
        assert_eq!(flash.erase(0, 0, 0xffff_f000), None);
        assert_eq!(flash.program(0, 0, vec![0; 100]), None);
    }
}
