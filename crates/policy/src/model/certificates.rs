//! The section `identity.certificates`: which users the names in client certificates stand for.

use std::sync::Arc;

use condition::Network;
use document::Place;

/// Authentication by client certificate. The names of a certificate are the URI and DNS names in
/// its `subjectAltName` (RFC 5280, 4.2.1.6). They determine the user and the groups.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// Where certificates are read.
    pub from: CertificateSource,
    /// The users. No name of a certificate matches two of them.
    pub users: Vec<CertificateUser>,
    /// The groups of users. If a name of the user's certificate matches an entry, the user has the
    /// groups of this entry.
    pub groups: Vec<CertificateGroups>,
    /// Prepended to user names.
    pub user_prefix: Arc<str>,
    /// Prepended to group names.
    pub group_prefix: Arc<str>,
    /// Where they are configured.
    pub at: Place,
}

/// Where certificates are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// The certificate with which the client has connected to Envoy.
    Peer,
    /// The last element of `x-forwarded-client-cert`, written by a proxy in front of Envoy.
    Xfcc {
        /// The addresses of these proxies. Never empty. The header is ignored if it comes from any
        /// other address.
        trusted_proxies: Vec<Network>,
    },
}

/// The header of [`CertificateSource::Xfcc`].
pub const XFCC: &str = "x-forwarded-client-cert";

/// A user of [`Certificates`].
#[derive(Clone, Debug)]
pub struct CertificateUser {
    /// The pattern that a name of the user's certificate matches.
    pub name: NamePattern,
    /// The name of the user, without a prefix.
    pub user: NameTemplate,
    /// The place of the pattern.
    pub at: Place,
}

/// The groups of the users whose certificates have a matching name.
#[derive(Clone, Debug)]
pub struct CertificateGroups {
    /// The pattern that a name of the certificate matches.
    pub name: NamePattern,
    /// The groups, without a prefix.
    pub groups: Vec<NameTemplate>,
    /// The place of the pattern.
    pub at: Place,
}

/// A pattern of names: `spiffe://TRUST-DOMAIN/PATH`, or `dns:NAME`, whose segments or labels may be
/// placeholders. Names compare byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// The pattern as written.
    pub text: Arc<str>,
    /// The kind of the names.
    pub kind: NameKind,
    /// Its segments.
    pub segments: Vec<NameSegment>,
}

/// The kind of a certificate's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A SPIFFE ID (SPIFFE-ID, 2), which is a URI name. Its segments are between `/`.
    Spiffe,
    /// A DNS name. Its segments are labels.
    Dns,
}

/// A segment of a [`NamePattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameSegment {
    /// This text.
    Literal(Box<str>),
    /// A placeholder with this name: any segment.
    Any(Box<str>),
}

/// A name of a user or a group, with placeholders of a [`NamePattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTemplate(pub Vec<NamePiece>);

/// A part of a [`NameTemplate`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePiece {
    /// Literal text.
    Text(Box<str>),
    /// The value of the placeholder with this index among those of the pattern.
    Placeholder(usize),
}

impl NameKind {
    /// The prefix of such a name.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Spiffe => "spiffe://",
            Self::Dns => "dns:",
        }
    }

    /// The character between its segments.
    #[must_use]
    pub fn separator(self) -> char {
        match self {
            Self::Spiffe => '/',
            Self::Dns => '.',
        }
    }

    /// Whether a segment may have this character (SPIFFE-ID, 2.2; RFC 1123, 2.1, and `_`).
    #[must_use]
    pub fn may_have(self, character: char) -> bool {
        let is_dot = character == '.' && self == Self::Spiffe;
        character.is_ascii_alphanumeric() || matches!(character, '-' | '_') || is_dot
    }

    /// Whether this text is a valid segment. Only a valid segment may be the value of a
    /// placeholder, because the value becomes a part of a user or group name.
    #[must_use]
    pub fn is_segment(self, text: &str) -> bool {
        !matches!(text, "" | "." | "..") && text.chars().all(|character| self.may_have(character))
    }
}

impl NamePattern {
    /// Whether it has no placeholder.
    #[must_use]
    pub fn is_literal(&self) -> bool {
        self.placeholders().next().is_none()
    }

    /// The names of its placeholders, in order.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.segments.iter().filter_map(|segment| match segment {
            NameSegment::Any(name) => Some(&**name),
            NameSegment::Literal(_) => None,
        })
    }

    /// The values of its placeholders, in order; `None` if it does not match this name. The name
    /// has the form of a pattern, such as `dns:api.example.com`.
    #[must_use]
    pub fn matches<'n>(&self, name: &'n str) -> Option<Vec<&'n str>> {
        let mut parts = name.strip_prefix(self.kind.prefix())?.split(self.kind.separator());
        let mut values = Vec::new();
        for segment in &self.segments {
            let part = parts.next()?;
            match segment {
                NameSegment::Literal(text) if **text == *part => {}
                NameSegment::Any(_) if self.kind.is_segment(part) => values.push(part),
                NameSegment::Literal(_) | NameSegment::Any(_) => return None,
            }
        }
        parts.next().is_none().then_some(values)
    }

    /// Whether there is a name that both patterns match.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(|pair| match pair {
                (NameSegment::Literal(one), NameSegment::Literal(other)) => one == other,
                (NameSegment::Literal(text), NameSegment::Any(_))
                | (NameSegment::Any(_), NameSegment::Literal(text)) => self.kind.is_segment(text),
                (NameSegment::Any(_), NameSegment::Any(_)) => true,
            })
    }
}

impl NameTemplate {
    /// The name, if it has no placeholder.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        match &*self.0 {
            [NamePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The name with these values of the placeholders.
    #[must_use]
    pub fn render(&self, values: &[&str]) -> String {
        let pieces = self.0.iter().map(|piece| match piece {
            NamePiece::Text(text) => text,
            NamePiece::Placeholder(index) => values.get(*index).copied().unwrap_or_default(),
        });
        pieces.collect()
    }

    /// Whether some values of the placeholders give this name. This is not exact: it may be true
    /// though no values give the name. Here, a placeholder that occurs twice may have two different
    /// values, and a value may have dots even if it is a label of a DNS name.
    #[must_use]
    pub fn may_be(&self, name: &str) -> bool {
        // The offsets in `name` at which the pieces so far may end.
        let mut ends = vec![0];
        for piece in &self.0 {
            let mut next = Vec::new();
            for start in ends {
                let Some(rest) = name.get(start..) else { continue };
                match piece {
                    NamePiece::Text(text) if rest.starts_with(&**text) => {
                        next.push(start + text.len());
                    }
                    NamePiece::Text(_) => {}
                    NamePiece::Placeholder(_) => {
                        let length = rest.find(|character| !NameKind::Spiffe.may_have(character));
                        let length = length.unwrap_or(rest.len());
                        next.extend((1..=length).map(|length| start + length));
                    }
                }
            }
            next.sort_unstable();
            next.dedup();
            ends = next;
        }
        ends.contains(&name.len())
    }
}

impl Certificates {
    /// Whether a user may have this name, prefix included.
    #[must_use]
    pub fn may_have_user(&self, name: &str) -> bool {
        let name = name.strip_prefix(&*self.user_prefix);
        name.is_some_and(|name| self.users.iter().any(|entry| entry.user.may_be(name)))
    }

    /// Whether a user may be in this group, prefix included.
    #[must_use]
    pub fn may_have_group(&self, name: &str) -> bool {
        let name = name.strip_prefix(&*self.group_prefix);
        let mut groups = self.groups.iter().flat_map(|entry| &entry.groups);
        name.is_some_and(|name| groups.any(|group| group.may_be(name)))
    }
}
