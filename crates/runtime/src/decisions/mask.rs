//! Hides users and segments of paths that not everyone who reads the log may see.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::mem;
use std::path::Path;

use aws_lc_rs::{hmac, rand};
use percent_encoding::percent_decode_str;
use policy::canonical::{self, Buffers};

use super::path_mask::PathMask;
use super::settings::{DecisionLogSettings, MaskUsers};
use crate::record::DecisionRecord;

/// The replacement of a hidden value.
const HIDDEN: &str = "*";
/// The minimum length of a key, in bytes. Also how many bytes of a user's hash are logged.
const MIN_KEY: usize = 16;

/// The masks of the settings.
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

    /// Masks a record. If a part of the path is masked, its raw form and the query are left out.
    pub(crate) fn mask(&self, record: &mut DecisionRecord<'_>) {
        #[cfg(test)]
        self.used.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = self.path(&record.method, &record.path);
        // A path that does not come from the verdict is invalid, or was not read. It cannot be
        // split into segments: all of it is masked.
        let is_unknown = !record.is_canonical && !self.paths.is_empty() && !record.path.is_empty();
        let path = if is_unknown { Some(HIDDEN.to_owned()) } else { path };
        if path.is_some() || self.path(&record.method, &record.raw_path).is_some() {
            (record.raw_path, record.query) = Default::default();
            record.masked = true;
        }
        if let Some(path) = path {
            record.path = path.into();
        }
        let masks_users = !matches!(self.users, Users::Shown);
        for user in [&mut record.user, &mut record.actor, &mut record.attempted_user] {
            record.masked |= masks_users && !user.is_empty();
            *user = self.user(mem::take(user));
        }
        if masks_users && !record.certificate.is_empty() {
            // The certificate names a user, and so may the detail.
            (record.certificate, record.detail) = Default::default();
            record.masked = true;
        }
        if record.masked || masks_users {
            // The headers and claims that conditions read may repeat the masked value.
            record.condition_inputs = None;
        }
        record.inexact |= record.masked;
    }

    /// The path with `*` in place of its masked segments; `None` if nothing is masked.
    ///
    /// The whole path becomes `*` if it is invalid or has dot segments. It also does if a backend
    /// may interpret it otherwise, and a masked segment would then still be visible.
    pub(crate) fn path(&self, method: &str, path: &str) -> Option<String> {
        if self.paths.is_empty() || path.is_empty() {
            return None;
        }
        if has_dot_segments(method, path) {
            return Some(HIDDEN.to_owned());
        }
        let mut segments: Vec<&str> = path.split('/').collect();
        let hidden = self.hidden(path);
        for index in &hidden {
            if let Some(segment) = segments.get_mut(*index) {
                *segment = HIDDEN;
            }
        }
        let masked = segments.join("/");
        if self.shows_masked(method, &masked) {
            return Some(HIDDEN.to_owned());
        }
        (!hidden.is_empty()).then_some(masked)
    }

    /// Whether this path, in some interpretation, still shows a segment that a mask hides.
    fn shows_masked(&self, method: &str, path: &str) -> bool {
        let mut buffers = Buffers::default();
        let Ok(interpretations) = canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers)
        else {
            return true;
        };
        interpretations.all().any(|interpretation| {
            let interpretation = String::from_utf8_lossy(interpretation);
            let segments: Vec<&str> = interpretation.split('/').collect();
            self.hidden(&interpretation).iter().any(|index| segments.get(*index) != Some(&HIDDEN))
        })
    }

    /// The indices of the masked segments of this path.
    fn hidden(&self, path: &str) -> Vec<usize> {
        // The masks see decoded segments: a search cluster decodes segments, and a canonical path
        // may still have triplets, such as `%20`.
        let (indices, decoded): (Vec<usize>, Vec<Cow<'_, str>>) = path
            .split('/')
            .enumerate()
            .filter(|(_, segment)| !segment.is_empty())
            .map(|(index, segment)| (index, percent_decode_str(segment).decode_utf8_lossy()))
            .unzip();
        let hidden = self.paths.iter().flat_map(|mask| mask.hidden(&decoded));
        hidden.filter_map(|number| indices.get(number).copied()).collect()
    }

    /// The text that is logged for a user; empty if users are left out.
    pub(crate) fn user<'a>(&self, user: Cow<'a, str>) -> Cow<'a, str> {
        match &self.users {
            _ if user.is_empty() => user,
            Users::Shown => user,
            Users::Dropped => Cow::default(),
            Users::Hashed(key) => {
                let tag = hmac::sign(key, user.as_bytes());
                let bytes = tag.as_ref().iter().take(MIN_KEY);
                bytes.fold("hmac:".to_owned(), |text, byte| format!("{text}{byte:02x}")).into()
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
    let key = crate::files::contents(file).map_err(|error| error.to_string()).and_then(|bytes| {
        let bytes = bytes.trim_ascii();
        if bytes.len() < MIN_KEY {
            return Err(format!("a key has at least {MIN_KEY} bytes"));
        }
        Ok(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    });
    key.map_err(|error| {
        io::Error::other(format!("`decision-log-mask-key` {}: {error}", file.display()))
    })
}

/// Whether a path is invalid or has dot segments, which change the places of other segments.
fn has_dot_segments(method: &str, path: &str) -> bool {
    let mut buffers = Buffers::default();
    canonical::path(method.as_bytes(), path.as_bytes(), &mut buffers)
        .map_or(true, |interpretations| interpretations.deny_only().next().is_some())
}
