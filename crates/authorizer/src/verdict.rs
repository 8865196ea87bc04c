//! The outcome of a request: pending, or a verdict.

use std::sync::Arc;

use identity::{CredentialsError, Subject, Verification};
use search::Need;

use crate::answer::ResponseHeader;
use crate::metadata::{CallerMetadata, MetadataValue};
use crate::reason::Reason;
use crate::recorded::RecordedInputs;
use crate::sanitizer::Changes;

/// The outcome of [`Authorizer::check`](crate::Authorizer::check).
#[derive(Debug)]
pub enum Outcome<'a> {
    /// The request is allowed or denied.
    Decided(Verdict<'a>),
    /// The credentials must be verified first: run this, then call
    /// [`Authorizer::check`](crate::Authorizer::check) again with its result.
    Pending(Verification),
}

impl<'a> Outcome<'a> {
    /// The verdict of a check that waits for no other thread.
    pub(crate) fn verdict(self) -> Verdict<'a> {
        match self {
            Self::Decided(verdict) => verdict,
            // Cannot happen. Denies in case of a bug.
            Self::Pending(_) => {
                let reason = Reason::InvalidCredentials(CredentialsError::BadPassword);
                Verdict::Denied(Denied::new(reason, &[], ""))
            }
        }
    }
}

/// The decision about a request: how it changes if allowed, or how it is answered if denied.
#[derive(Debug)]
pub enum Verdict<'a> {
    /// The request is forwarded, with these changes.
    Allowed(Allowed<'a>),
    /// The request is answered in place of the upstream.
    Denied(Denied<'a>),
}

/// An allowed request, and how its headers change before it is forwarded.
#[derive(Debug)]
pub struct Allowed<'a> {
    /// The rule that allowed it, as `<role>: <rule>`; for a request to a search cluster, its
    /// operation.
    pub rule: &'a str,
    /// The caller; `None` if it is anonymous.
    pub subject: Option<&'a Subject>,
    /// The values that conditions read in its claims.
    pub read_claims: Option<&'a RecordedInputs>,
    /// The canonical path; for a request to a search cluster as received, without its query.
    pub path: &'a [u8],
    /// The operation and needs of a request to a search cluster.
    pub cluster: Option<Box<ClusterRequest<'a>>>,
    /// The path and query with which a request to a search cluster is forwarded, if it is reduced
    /// to the permitted indices, or has names in place of patterns.
    pub(crate) rewritten: Option<&'a str>,
    pub(crate) changes: Changes<'a>,
    pub(crate) metadata: &'a CallerMetadata,
}

/// A denied request, and how it is answered. A *denial* is any answer that does not allow, with a
/// status from 400 to 503. An *error* is the absence of a verdict. The engine's
/// [`Decision::Denied`](engine::Decision::Denied) is narrower: a `deny` rule matched.
#[derive(Debug)]
pub struct Denied<'a> {
    /// Why the request is denied.
    pub reason: Reason,
    /// Headers of the answer: `content-type`, unless the request is a gRPC call, and with 401 a
    /// `www-authenticate` for each configured scheme.
    pub headers: &'a [ResponseHeader],
    /// The body of the answer; for a gRPC call, its message.
    pub body: &'a str,
    /// The `deny` rule that matched, as `<role>: <rule>`.
    pub rule: Option<&'a str>,
    /// The caller; `None` if it is anonymous or not authenticated.
    pub subject: Option<&'a Subject>,
    /// The values that conditions read in its claims.
    pub read_claims: Option<&'a RecordedInputs>,
    /// The canonical path; empty if the request is invalid or was not parsed. For a request to a
    /// search cluster as received, without its query.
    pub path: &'a [u8],
    /// More about the reason, for the decision log; may be empty.
    pub detail: &'a str,
    /// The operation and needs of a request to a search cluster, if they are known.
    pub cluster: Option<Box<ClusterRequest<'a>>>,
}

impl<'a> Denied<'a> {
    /// An answer without rule, subject, claims, path, detail and cluster.
    pub(crate) fn new(reason: Reason, headers: &'a [ResponseHeader], body: &'a str) -> Self {
        let (rule, subject, path, detail, cluster) = (None, None, &b""[..], "", None);
        let read_claims = None;
        Self { reason, headers, body, rule, subject, read_claims, path, detail, cluster }
    }
}

/// The operation and needs of a request to a search cluster.
#[derive(Debug)]
pub struct ClusterRequest<'a> {
    /// The name of the operation, such as `indices.create`.
    pub operation: &'static str,
    /// The actions, and on which indices they are performed.
    pub needs: Vec<Need<'a>>,
    /// The first [`MAX_INDICES`] indices that the request is reduced to, if it is permitted in
    /// part.
    pub permitted: Vec<String>,
    /// If it is a bulk request that is forwarded in part. Only for an allowed request that
    /// [can change bodies](crate::Request::can_change_bodies).
    pub bulk: Option<PartialBulk>,
}

/// A bulk request that is forwarded without the items that are not permitted (`bulk: per-item`).
#[derive(Clone, Debug)]
pub struct PartialBulk {
    /// The body with the permitted items.
    pub body: Arc<Vec<u8>>,
    /// The errors of the other items.
    pub errors: Arc<BulkErrors>,
}

/// The errors of the items of a bulk request that are not permitted.
#[derive(Debug)]
pub struct BulkErrors {
    /// As JSON, with their positions among all items.
    pub(crate) denied: Vec<(usize, String)>,
    /// The bytes that they add to the response.
    pub(crate) size: usize,
    /// The number of forwarded items.
    pub(crate) forwarded: usize,
}

impl BulkErrors {
    /// The cluster's response with an error for each item that was not permitted. `None` if the
    /// number of its items is not that of the forwarded items.
    #[must_use]
    pub fn add_to(&self, response: &[u8]) -> Option<Vec<u8>> {
        let denied = self.denied.iter().map(|(position, error)| (*position, &**error));
        search::with_denied(response, self.forwarded, denied, self.size)
    }

    /// Maximum bytes of the cluster's response, without the errors: 1 MiB, and 1 KiB for each
    /// forwarded item (20,000 at most; a node writes some 200 bytes).
    #[must_use]
    pub fn response_limit(&self) -> u64 {
        u64::try_from(self.forwarded)
            .unwrap_or(u64::MAX)
            .saturating_add(1 << 10)
            .saturating_mul(1 << 10)
    }
}

/// Maximum number of indices in [`ClusterRequest::permitted`].
pub const MAX_INDICES: usize = 100;

impl<'a> ClusterRequest<'a> {
    /// `None` if the operation is not known: the needs are then incomplete.
    pub(crate) fn new(
        operation: &'static str,
        needs: Vec<Need<'a>>,
        permitted: Vec<String>,
        bulk: Option<PartialBulk>,
    ) -> Option<Box<Self>> {
        (!operation.is_empty()).then(|| Box::new(Self { operation, needs, permitted, bulk }))
    }
}

impl<'a> Allowed<'a> {
    /// Request headers to set, with their values; each replaces all headers of its name. Names are
    /// in lower case; values are not empty and have no control characters. `:path` is among them if
    /// the path of a request to a search cluster changes.
    pub fn set(&self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        self.changes.set().chain(self.rewritten.map(|target| (":path", target)))
    }

    /// The dynamic metadata that the policy sets on this request. No key occurs twice. The metadata
    /// of every verdict, such as the reason, is not among it.
    pub fn metadata(&self) -> impl Iterator<Item = (&'a str, MetadataValue<'a>)> + use<'a> {
        self.metadata.values(self.rule)
    }

    /// Names of headers that the policy sets on other requests, and not on this request. All of
    /// them are also in [`Allowed::remove`].
    pub fn without_value(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.changes.without_value()
    }

    /// Whether all changes can be made by a proxy that only sets headers, and that removes the same
    /// headers from each request. Such a proxy cannot change a path or a cookie. Nor can it remove
    /// a header of this request that the policy sets on other requests only, or one that an
    /// upstream may confuse with a header of the policy.
    pub(crate) fn only_sets_headers(&self) -> bool {
        self.rewritten.is_none() && self.changes.only_set_headers()
    }

    /// Names of request headers to remove: headers of `set_headers` without a value, headers of
    /// `remove_headers`, and headers of the request that an upstream may confuse with these, such
    /// as `x_user` with `x-user`. None is also in [`Allowed::set`]. A name may occur twice.
    pub fn remove(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a> {
        self.changes.remove()
    }

    /// Whether the request has a header of this name. The name is from [`Allowed::set`] or
    /// [`Allowed::remove`].
    #[must_use]
    pub fn is_in_request(&self, name: &str) -> bool {
        // Each request has a path.
        name == ":path" || self.changes.is_in_request(name)
    }

    /// Whether the changes are larger than [`MAX_CHANGES_BYTES`]. The request is then denied.
    pub(crate) fn is_too_large(&self) -> bool {
        let metadata = self.metadata.size(self.rule);
        let bound = self.changes.bound().filter(|_| self.rewritten.is_none());
        debug_assert!(bound.is_none_or(|bound| bound >= self.size()), "{bound:?}");
        bound.is_none_or(|bound| bound + metadata > MAX_CHANGES_BYTES)
            && self.size() + metadata > MAX_CHANGES_BYTES
    }

    /// The length of all names and values of the changes.
    fn size(&self) -> usize {
        let set = self.set().map(|(name, value)| name.len() + value.len());
        set.chain(self.remove().map(str::len)).sum()
    }
}

/// Maximum size of the changes to an allowed request and of its metadata, in bytes of names and
/// values. They stay in memory until Envoy reads them. Chosen, not measured: Envoy accepts 60 KiB
/// of headers from a client by default (`max_request_headers_kb`). A request with larger changes is
/// denied, as [`Limit::ResponseSize`](crate::Limit::ResponseSize): a client can cause it, with long
/// claims (S8 in `SECURITY.md`).
const MAX_CHANGES_BYTES: usize = 64 << 10;

impl Verdict<'_> {
    /// Whether the request is denied only because the decision needs its body, which was
    /// [`Pending`](crate::RequestBody::Pending) or not seen. Its caller is authenticated.
    #[must_use]
    pub fn needs_body(&self) -> bool {
        matches!(
            self,
            Self::Denied(Denied { reason: Reason::Cluster(search::Problem::BodyNeeded), .. })
        )
    }

    /// The HTTP status: 200 for an allowed request.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Allowed(_) => 200,
            Self::Denied(denied) => denied.reason.status(),
        }
    }
}
