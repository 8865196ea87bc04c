//! Hides users and segments of paths that not everyone who reads the log may see.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use aws_lc_rs::{hmac, rand};
use percent_encoding::percent_decode_str;
use policy::canonical::{self, Buffers};

use super::path_mask::PathMask;
use super::settings::{DecisionLogSettings, MaskUsers};
use crate::record::DecisionRecord;

/// What a hidden value is replaced by.
const HIDDEN: &str = "*";
/// The least bytes of a key: as many as the part of the hash that is logged.
const SHORTEST_KEY: usize = 16;

pub(crate) struct Masks {
    paths: Vec<PathMask>,
    users: Users,
    /// How many records were masked.
    #[cfg(test)]
    pub(crate) used: std::sync::atomic::AtomicUsize,
}

enum Users {
    Shown,
    Hashed(Box<hmac::Key>),
    Dropped,
}

/// The parts of a record that may be masked.
#[derive(Debug)]
pub(crate) struct Masked<'a> {
    pub(crate) path: Cow<'a, str>,
    pub(crate) raw_path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) user: Option<Cow<'a, str>>,
    pub(crate) attempted_user: Option<Cow<'a, str>>,
    pub(crate) any: bool,
}

impl Masks {
    pub(crate) fn new(settings: &DecisionLogSettings) -> io::Result<Self> {
        let users = match settings.mask_users {
            MaskUsers::Off => Users::Shown,
            MaskUsers::Drop => Users::Dropped,
            MaskUsers::Hash => Users::Hashed(Box::new(key(settings.mask_key.as_deref())?)),
        };
        Ok(Self {
            paths: settings.mask_paths.clone(),
            users,
            #[cfg(test)]
            used: std::sync::atomic::AtomicUsize::default(),
        })
    }

    /// The parts of a record as they are logged.
    pub(crate) fn mask<'a>(&self, record: &DecisionRecord<'a>) -> Masked<'a> {
        #[cfg(test)]
        self.used.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // The segments of a path that was not read are not known.
        let is_unknown = !record.canonical && !self.paths.is_empty() && !record.path.is_empty();
        let path = if is_unknown {
            HIDDEN.to_owned().into()
        } else {
            self.path(record.method, record.path)
        };
        let hides_path = matches!(path, Cow::Owned(_))
            || record.raw_path != record.path
                && matches!(self.path(record.method, record.raw_path), Cow::Owned(_));
        let user = record.subject.map(|subject| &*subject.user);
        let attempted = record.attempted.user.as_deref();
        let hides_user =
            !matches!(self.users, Users::Shown) && (user.is_some() || attempted.is_some());
        Masked {
            raw_path: if hides_path { "" } else { record.raw_path },
            query: if hides_path { "" } else { record.query },
            path,
            user: user.and_then(|user| self.user(user)),
            attempted_user: attempted.and_then(|user| self.user(user)),
            any: hides_path || hides_user,
        }
    }

    /// A path with `*` in place of its masked segments, or of all of it if only another
    /// interpretation has some.
    pub(crate) fn path<'a>(&self, method: &str, path: &'a str) -> Cow<'a, str> {
        if self.paths.is_empty() || path.is_empty() {
            return path.into();
        }
        if has_dot_segments(method, path) {
            return Cow::Owned(HIDDEN.to_owned());
        }
        let mut segments: Vec<&str> = path.split('/').collect();
        let hidden = self.hidden(path);
        for place in &hidden {
            if let Some(segment) = segments.get_mut(*place) {
                *segment = HIDDEN;
            }
        }
        let masked = segments.join("/");
        match (self.has_hidden(method, &masked), hidden.is_empty()) {
            (true, _) => Cow::Owned(HIDDEN.to_owned()),
            (false, true) => path.into(),
            (false, false) => Cow::Owned(masked),
        }
    }

    /// Whether an interpretation has a masked segment that is not replaced.
    fn has_hidden(&self, method: &str, path: &str) -> bool {
        let mut buffers = Buffers::default();
        let Ok(interpretations) = canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers)
        else {
            return true;
        };
        interpretations.all().any(|interpretation| {
            let interpretation = String::from_utf8_lossy(interpretation);
            let segments: Vec<&str> = interpretation.split('/').collect();
            self.hidden(&interpretation).iter().any(|place| segments.get(*place) != Some(&HIDDEN))
        })
    }

    /// The places of the masked segments of this path.
    fn hidden(&self, path: &str) -> Vec<usize> {
        // A search cluster decodes segments. A canonical path is the same decoded.
        let (places, decoded): (Vec<usize>, Vec<Cow<'_, str>>) = path
            .split('/')
            .enumerate()
            .filter(|(_, segment)| !segment.is_empty())
            .map(|(place, segment)| (place, percent_decode_str(segment).decode_utf8_lossy()))
            .unzip();
        let numbers = self.paths.iter().flat_map(|mask| mask.hidden(&decoded));
        numbers.filter_map(|number| places.get(number).copied()).collect()
    }

    /// A user as it is logged; `None` if it is left out.
    pub(crate) fn user<'a>(&self, user: &'a str) -> Option<Cow<'a, str>> {
        match &self.users {
            Users::Shown => Some(user.into()),
            Users::Dropped => None,
            Users::Hashed(key) => {
                let tag = hmac::sign(key, user.as_bytes());
                let shown = tag.as_ref().iter().take(SHORTEST_KEY);
                Some(Cow::Owned(
                    shown.fold("hmac:".to_owned(), |text, byte| format!("{text}{byte:02x}")),
                ))
            }
        }
    }
}

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masks").field("paths", &self.paths).finish_non_exhaustive()
    }
}

fn key(file: Option<&Path>) -> io::Result<hmac::Key> {
    let Some(file) = file else {
        let mut random = [0; 32];
        rand::fill(&mut random).map_err(io::Error::other)?;
        return Ok(hmac::Key::new(hmac::HMAC_SHA256, &random));
    };
    let named = |error: &dyn fmt::Display| {
        io::Error::other(format!("`decision-log-mask-key` {}: {error}", file.display()))
    };
    let bytes = crate::files::contents(file).map_err(|error| named(&error))?;
    let bytes = bytes.trim_ascii();
    if bytes.len() < SHORTEST_KEY {
        return Err(named(&format_args!("a key has at least {SHORTEST_KEY} bytes")));
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, bytes))
}

/// Whether a path cannot be read, or has dot segments: a segment before `..` changes its place.
fn has_dot_segments(method: &str, path: &str) -> bool {
    let mut buffers = Buffers::default();
    canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers)
        .map_or(true, |interpretations| interpretations.deny_only().next().is_some())
}
