//! Files of users: `htpasswd` as it comes.

use std::path::Path;

use policy::htpasswd::parse;

#[test]
fn users_are_read_with_their_places() {
    let text = "# made by hand\r\nalice:$2y$05$abc\r\n\r\n  \nb\u{f6}b:$6$x$y:z  \n";
    let (users, problems) = parse(Path::new("users"), text.as_bytes());
    assert!(problems.is_empty());
    let read: Vec<_> = users
        .iter()
        .map(|user| (&*user.name, &*user.password.as_ref().unwrap().0, user.at.to_string()))
        .collect();
    let expected = [
        ("alice", "$2y$05$abc", "users:2:7".to_owned()),
        ("b\u{f6}b", "$6$x$y:z", "users:5:5".to_owned()),
    ];
    assert_eq!(read, expected);
}

#[test]
fn an_empty_file_has_no_users() {
    for text in ["", "\n", "\u{feff}", "# nobody"] {
        let (users, problems) = parse(Path::new("users"), text.as_bytes());
        assert!(users.is_empty() && problems.is_empty(), "{text:?}");
    }
}

#[test]
fn a_broken_line_is_shown_without_what_is_on_it() {
    let text = b"alice\n:$6$x$y\nbob:hunter2\ncarol:\n\xff\xfe\nd\x01ve:$6$x$y\neve: $6$x$y\n";
    let (users, problems) = parse(Path::new("users"), text);
    assert!(users.is_empty());
    let said: Vec<_> = problems
        .iter()
        .map(|problem| format!("{}:{} {}", problem.at.line, problem.at.column, problem.message))
        .collect();
    let expected = [
        "1:1 the line is not `user:hash`",
        "2:1 a user name is empty",
        "3:5 the password is not a hash",
        "4:7 the password is not a hash",
        "5:1 the line is not UTF-8",
        "6:1 a user name has a control character in it",
        "7:5 a space comes before the hash of the password",
    ];
    assert_eq!(said, expected);
}

/// One message, and not one for each line of it.
#[test]
fn a_file_that_is_not_text_is_one_problem() {
    let cases: [&[u8]; 5] = [
        b"\x1f\x8b\x08\0\n\xff\n\xff\n",
        b"\xfd7zXZ\0\n",
        b"SQLite format 3\0\n\xff\n",
        b"\xff\xfea\0:\0\n\0",
        b"\x7fELF\x02\n\0\n\xff\n",
    ];
    for bytes in cases {
        let (users, problems) = parse(Path::new("users"), bytes);
        assert!(users.is_empty());
        let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let help = "name a text file of `user:hash` lines, as `htpasswd -B` writes it";
        assert_eq!(said, [format!("users:1:1: error: the file is not text\n    help: {help}")]);
    }
}
