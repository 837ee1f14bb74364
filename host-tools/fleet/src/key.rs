//! Secrets in files: nobody but their owner reads them, and nothing is ever overwritten.

use compasso_wire::Key;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

const KEY_LEN: usize = 16;

/// Makes a key of the system's randomness and writes it to a file that only its owner may read.
///
/// # Errors
/// If the file exists already, or cannot be written.
pub fn create_key(path: &Path) -> io::Result<()> {
    let mut key = [0; KEY_LEN];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut file = private().create_new(true).open(path)?;
    writeln!(file, "{digits}")?;
    file.sync_all()
}

/// Reads a key.
///
/// # Errors
/// One line, without the path: what was expected of the file.
pub fn read_key(path: &Path) -> Result<Key, String> {
    let text = read_secret(path, &format!("compasso keys new --out {}", path.display()))?;
    let digits = text.trim_end();
    let byte = |at: usize| digits.get(2 * at..2 * at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let is_hex = digits.len() == 2 * KEY_LEN && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let key: Option<Vec<u8>> = if is_hex { (0..KEY_LEN).map(byte).collect() } else { None };
    match key.and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => Ok(Key(bytes)),
        None => Err(format!("expected a key of {} hexadecimal digits", 2 * KEY_LEN)),
    }
}

/// Reads a file that nobody else may read; `make` is the command that makes one.
pub(crate) fn read_secret(path: &Path, make: &str) -> Result<String, String> {
    let mode = match fs::metadata(path) {
        Ok(metadata) => metadata.permissions().mode() & 0o777,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!("expected a file, there is none; to make it: {make}"));
        }
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    if mode & 0o077 != 0 {
        return Err(format!(
            "expected a file that only its owner may read, found mode {mode:04o}; to mend it: chmod 600 {}",
            path.display()
        ));
    }
    fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))
}

/// How files with secrets are made.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Numbers that are never given out twice for one key, each above all earlier ones: the lives of the host and
/// the generations of pages. The last one is stored beside the key before it is used. It follows the calendar
/// where that is ahead, so that a copy of the key on another machine gives out others.
#[derive(Clone, Debug)]
pub struct Counter {
    path: PathBuf,
}

impl Counter {
    /// The counter of the key in this file.
    #[must_use]
    pub fn of_key(key: &Path) -> Counter {
        let mut path = key.as_os_str().to_owned();
        path.push(".counter");
        Counter { path: path.into() }
    }

    /// The next number; it is stored when this returns.
    ///
    /// # Errors
    /// If it cannot be stored, or the last one cannot be read.
    pub fn next(&self) -> io::Result<u32> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.next_at(u32::try_from(now).unwrap_or(0))
    }

    fn next_at(&self, seconds: u32) -> io::Result<u32> {
        let _turn = self.take_turn()?;
        let last: u32 = match fs::read_to_string(&self.path) {
            Ok(text) => text.trim().parse().map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidData, "is no number; make a new key rather than guess it")
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        let exhausted = || io::Error::other("has no number left; make a new key");
        let next = last.checked_add(1).filter(|next| *next < u32::MAX).ok_or_else(exhausted)?.max(seconds);
        let fresh = self.path.with_extension("counter.new");
        let mut file = private().create(true).truncate(true).open(&fresh)?;
        writeln!(file, "{next}")?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        if let Some(folder) = self.path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        Ok(next)
    }

    /// One process at a time: two must not store the same number.
    fn take_turn(&self) -> io::Result<File> {
        let file = private().create(true).truncate(false).open(self.path.with_extension("counter.lock"))?;
        file.lock()?;
        Ok(file)
    }

    /// Where it is stored.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_and_no_two_are_alike() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one.key"), folder.path().join("other.key"));
        create_key(&one).unwrap();
        create_key(&other).unwrap();
        assert_eq!(fs::metadata(&one).unwrap().permissions().mode() & 0o777, 0o600);
        assert_ne!(read_key(&one).unwrap(), read_key(&other).unwrap());
        assert_eq!(read_key(&one), read_key(&one));
    }

    #[test]
    fn a_key_that_exists_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.key");
        create_key(&path).unwrap();
        let key = read_key(&path).unwrap();
        assert_eq!(create_key(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(read_key(&path).unwrap(), key);
    }

    #[test]
    fn what_others_may_read_is_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.key");
        assert!(read_key(&path).unwrap_err().contains("compasso keys new --out"));
        create_key(&path).unwrap();
        for mode in [0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = read_key(&path).unwrap_err();
            assert!(error.contains(&format!("{mode:04o}")) && error.contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("short", "00ff"), ("letters", &"x".repeat(32)), ("sign", &"+1".repeat(16)), ("empty", "")]
        {
            let path = folder.path().join(name);
            private().create_new(true).open(&path).unwrap().write_all(text.as_bytes()).unwrap();
            assert!(read_key(&path).unwrap_err().contains("32 hexadecimal digits"), "{name}");
        }
    }

    #[test]
    fn numbers_only_grow_also_when_the_calendar_goes_back() {
        let folder = tempfile::tempdir().unwrap();
        let counter = Counter::of_key(&folder.path().join("cluster.key"));
        let numbers: Vec<u32> = [100, 100, 50, 200].map(|seconds| counter.next_at(seconds).unwrap()).into();
        assert_eq!(numbers, [100, 101, 102, 200]);
        let again = Counter::of_key(&folder.path().join("cluster.key"));
        assert_eq!(again.next_at(0).unwrap(), 201, "it is stored");
        fs::write(counter.path(), "?").unwrap();
        assert!(counter.next_at(0).is_err(), "rather none than one that was used");
    }
}
