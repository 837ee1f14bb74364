//! How an event is named on the command line: `node:seq`, or `node:inc.seq` after a restart.

use crate::trace::Stamp;

/// The host's part and the number's part of a name. A host may hold colons itself.
pub(super) fn split(name: &str) -> Result<(&str, &str), String> {
    match name.rsplit_once(':') {
        Some((host, number)) if !host.is_empty() && !number.is_empty() => Ok((host, number)),
        _ => Err(format!("expected an event like 3:17, or 3:2.17 after a restart, found {name:?}")),
    }
}

/// The number's part: `17` or `2.17`.
pub(super) fn stamp(number: &str) -> Option<Stamp> {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    match number.split_once('.') {
        Some((inc, count)) if digits(inc) && digits(count) => {
            Some((inc.parse().ok().filter(|inc| *inc > 0)?, count.parse().ok()?))
        }
        None if digits(number) => Some((1, number.parse().ok()?)),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_from_the_right() {
        assert_eq!(split("3:17"), Ok(("3", "17")));
        assert_eq!(split("10.0.0.1:80:2"), Ok(("10.0.0.1:80", "2")));
        for wrong in ["", "3", "3:", ":17"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_have_an_incarnation_from_the_second_on() {
        assert_eq!(stamp("17"), Some((1, 17)));
        assert_eq!(stamp("2.17"), Some((2, 17)));
        for wrong in ["", "x", "0.3", "2.", ".2", "-1", "+1", "1.2.3", "99999999999999999999"] {
            assert_eq!(stamp(wrong), None, "{wrong}");
        }
    }
}
