//! The folder for a run's sockets, configurations and memories: short-lived, with a short path.
//!
//! Promise: it is removed with the value; what a killed tool left behind, the next run removes.

use crate::ram::RAM_LEN;
use std::{
    fs::{self, File},
    io,
    path::Path,
};

/// Short: a socket's path has at most 107 bytes.
const PREFIX: &str = "cmp-";
/// Locked as long as the folder is in use.
const LOCK: &str = "lock";
/// A board touches no more of its memory than this.
const TOUCHED_MAX: u64 = RAM_LEN / 16;

/// The folder of one run.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
    _lock: File,
}

impl Scratch {
    /// Makes a folder for so many boards: in memory if there is room, for it need not reach a disk.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(boards: usize) -> io::Result<Scratch> {
        let memory = Path::new("/dev/shm");
        let free = rustix::fs::statvfs(memory).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        if free > TOUCHED_MAX * boards as u64
            && let Ok(scratch) = Scratch::within(memory)
        {
            return Ok(scratch);
        }
        Scratch::within(Path::new("/tmp"))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn within(parent: &Path) -> io::Result<Scratch> {
        remove_leftovers(parent);
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // Locked before it has its name: a folder with an unlocked lock is nobody's.
        let unnamed = folder.path().join("new");
        let lock = File::create(&unnamed)?;
        lock.lock()?;
        fs::rename(&unnamed, folder.path().join(LOCK))?;
        Ok(Scratch { folder, _lock: lock })
    }
}

fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path()); // Somebody else may have been quicker.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_go_and_folders_in_use_stay() {
        let parent = tempfile::tempdir().unwrap();
        let used = Scratch::within(parent.path()).unwrap();
        let left = parent.path().join("cmp-left");
        let foreign = parent.path().join("other");
        for folder in [&left, &foreign] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(LOCK), "").unwrap();
        }
        let second = Scratch::within(parent.path()).unwrap();
        assert!(!left.exists() && foreign.exists() && used.path().exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_fits_into_the_folder() {
        let scratch = Scratch::new(5).unwrap();
        assert!(scratch.path().as_os_str().len() < 90);
    }
}
