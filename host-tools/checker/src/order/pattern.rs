//! Regular expressions as ShiViz's users write them, in JavaScript's dialect, for a crate that is
//! stricter: there a lone `{` and a `[` within brackets mean themselves.

use regex::{Regex, RegexBuilder};

/// Compiles a pattern; `^` and `$` match at lines, as in ShiViz.
///
/// # Errors
/// What is wrong with it, in one line.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern)).multi_line(true).build().map_err(|error| {
        let text = error.to_string();
        // The crate draws the pattern with a marker below the fault; its last line says what it is.
        let what = text.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned();
        format!("the regular expression {pattern:?} is wrong: {what}")
    })
}

/// The same pattern with every brace and bracket escaped that JavaScript takes literally.
fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut in_class = false;
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match next {
            '\\' => {
                out.push(next);
                out.extend(rest.next());
            }
            '[' if in_class => out.push_str("\\["),
            '[' => {
                in_class = true;
                out.push(next);
            }
            ']' if in_class => {
                in_class = false;
                out.push(next);
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(next);
            }
            '{' if !in_class && !is_quantifier(rest.as_str()) => out.push_str("\\{"),
            _ => out.push(next),
        }
    }
    out
}

/// Whether what follows a `{` makes it a repetition: `3}`, `3,}` or `3,5}`.
fn is_quantifier(rest: &str) -> bool {
    let Some((inner, _)) = rest.split_once('}') else { return false };
    let (from, to) = inner.split_once(',').unwrap_or((inner, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !from.is_empty() && digits(from) && digits(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shiviz_s_own_default_compiles_and_finds_its_groups() {
        let regex = compile(r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})").unwrap();
        let found = regex.captures("hello {world}\nalpha {\"alpha\":1}\n").unwrap();
        assert_eq!((&found["event"], &found["host"], &found["clock"]), ("hello {world}", "alpha", "{\"alpha\":1}"));
    }

    #[test]
    fn repetitions_stay_repetitions_and_lone_braces_mean_themselves() {
        assert_eq!(translate(r"a{2}b{2,}c{2,3}d{,3}{x}"), r"a{2}b{2,}c{2,3}d\{,3}\{x}");
        assert!(compile(r"^[^[\]{]{2}$").unwrap().is_match("x\nab\ny"));
        assert!(!compile(r"^[^[\]{]{2}$").unwrap().is_match("a["));
    }

    #[test]
    fn what_is_wrong_is_one_line() {
        for wrong in ["(", "(?<host>", "(?=x)", "[a", "*"] {
            let error = compile(wrong).unwrap_err();
            assert_eq!(error.lines().count(), 1, "{error}");
            assert!(error.starts_with("the regular expression") && !error.ends_with(": "), "{error}");
        }
    }
}
