//! Command lines for reports, with secrets hidden.

/// Options whose value is a secret.
const OPTIONS: [&str; 2] = ["--basic", "--bearer"];

/// Header fields whose value is a secret, or may be one.
const FIELDS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "x-api-key", "x-auth-token", "x-csrf-token"];

/// The replacement of a secret.
const HIDDEN: &str = "***";

/// A command line for reports: quoted for a shell, without passwords and tokens.
#[must_use]
pub fn shown<S: AsRef<str>>(arguments: &[S]) -> String {
    let mut words = Vec::new();
    let mut before = "";
    for argument in arguments.iter().map(AsRef::as_ref) {
        words.push(quoted(&without_secret(before, argument)));
        before = argument;
    }
    words.join(" ")
}

fn without_secret(before: &str, argument: &str) -> String {
    if OPTIONS.contains(&before) {
        return HIDDEN.to_owned();
    }
    if matches!(before, "--header" | "-H") {
        return header(argument);
    }
    if let Some(line) = argument.strip_prefix("-H").filter(|it| !it.is_empty()) {
        return format!("-H{}", header(line));
    }
    match argument.split_once('=') {
        Some((option, _)) if OPTIONS.contains(&option) => format!("{option}={HIDDEN}"),
        Some(("--header", line)) => format!("--header={}", header(line)),
        Some(_) | None => argument.to_owned(),
    }
}

fn header(line: &str) -> String {
    let name = line.split(':').next().unwrap_or_default().trim();
    let is_secret = FIELDS.iter().any(|it| it.eq_ignore_ascii_case(name)) || !line.contains(':');
    if is_secret { format!("{name}: {HIDDEN}") } else { line.to_owned() }
}

fn quoted(word: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "-_./:=,@%+*".contains(it);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_command_line_shows_no_secret() {
        let arguments = [
            "rolegate-load",
            "http",
            "http://a/b?c=d e",
            "--basic",
            "alice:wonderland",
            "--bearer=wonderland",
            "-H",
            "Authorization: wonderland",
            "--header=cookie: wonderland",
            "-Hauthorization:wonderland",
            "-H",
            "accept: x",
            "--basic=wonderland",
        ];
        let shown = shown(&arguments);
        assert!(!shown.contains("wonderland"), "{shown}");
        assert!(
            shown.starts_with("rolegate-load http 'http://a/b?c=d e' --basic *** --bearer=***"),
            "{shown}"
        );
        assert!(shown.contains("'accept: x'"), "{shown}");
    }
}
