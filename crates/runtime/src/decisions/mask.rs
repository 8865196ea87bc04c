//! Hides parts of decisions that not everyone who reads the log may see: segments of paths, and users.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;

use aws_lc_rs::{hmac, rand};
use percent_encoding::percent_decode_str;

use super::path_mask::PathMask;
use super::settings::{DecisionLogSettings, MaskUsers};
use crate::record::DecisionRecord;

/// What a hidden value is replaced by.
const HIDDEN: &str = "*";
/// The least bytes of a key: as many as the part of the hash that is logged.
const SHORTEST_KEY: usize = 16;

/// Masks records.
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
    /// Whether anything is masked.
    pub(crate) any: bool,
}

impl Masks {
    /// # Errors
    /// When the file with the key cannot be read, or is too short.
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
    pub(crate) fn of<'a>(&self, record: &DecisionRecord<'a>) -> Masked<'a> {
        #[cfg(test)]
        self.used.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = self.path(record);
        let has_other_path = matches!(path, Cow::Owned(_));
        let user = record.subject.map(|subject| &*subject.user);
        let attempted = record.attempted.user.as_deref();
        let hides_user = !matches!(self.users, Users::Shown) && (user.is_some() || attempted.is_some());
        Masked {
            // The path as received has the same segments.
            raw_path: if has_other_path { "" } else { record.raw_path },
            query: if has_other_path { "" } else { record.query },
            path,
            user: user.and_then(|user| self.user(user)),
            attempted_user: attempted.and_then(|user| self.user(user)),
            any: has_other_path || hides_user,
        }
    }

    fn path<'a>(&self, record: &DecisionRecord<'a>) -> Cow<'a, str> {
        if self.paths.is_empty() || record.path.is_empty() {
            return record.path.into();
        }
        if !record.canonical {
            // Its segments are not known.
            return Cow::Owned(HIDDEN.to_owned());
        }
        let mut segments: Vec<&str> = record.path.split('/').collect();
        // A search cluster reads its paths like this. A canonical path is the same with and without it.
        let (places, decoded): (Vec<usize>, Vec<Cow<'_, str>>) = segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| !segment.is_empty())
            .map(|(place, segment)| (place, percent_decode_str(segment).decode_utf8_lossy()))
            .unzip();
        let hidden: Vec<usize> = self.paths.iter().flat_map(|mask| mask.hidden(&decoded)).collect();
        if hidden.is_empty() {
            return record.path.into();
        }
        for place in hidden.iter().filter_map(|number| places.get(*number)) {
            if let Some(segment) = segments.get_mut(*place) {
                *segment = HIDDEN;
            }
        }
        Cow::Owned(segments.join("/"))
    }

    fn user<'a>(&self, user: &'a str) -> Option<Cow<'a, str>> {
        match &self.users {
            Users::Shown => Some(user.into()),
            Users::Dropped => None,
            Users::Hashed(key) => {
                let tag = hmac::sign(key, user.as_bytes());
                let shown = tag.as_ref().iter().take(SHORTEST_KEY);
                Some(Cow::Owned(shown.fold("hmac:".to_owned(), |text, byte| format!("{text}{byte:02x}"))))
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
