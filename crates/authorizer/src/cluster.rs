//! The second backend: requests to a search cluster, decided by the cluster's own role files
//! instead of the rules.
//!
//! The users of `internal_users.yml` exist on the hosts of the cluster only, so these hosts have an
//! authenticator of their own. Tokens are those of the policy's issuers.
//!
//! The *needs* of a request are what its caller must be permitted to do: each need has actions and
//! their target, such as indices. The *inventory* has the cluster's indices, aliases and data
//! streams.

mod answer;
mod bulk;
mod caller;
mod compile;
mod filters;
mod request;

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::{Authenticator, CachedSubject, NotAuthenticated, Subject, UnixTime};
use policy::canonical;
use policy::model::Identity;
use policy::pattern::Scope;
use search::config::SecurityConfig;
use search::{Caller, Filter, MAX_FILTERS, Need, Privileges, Verdict as ClusterVerdict};

use crate::Scratch;
use crate::authentication::{Authentication, Trust};
use crate::reason::Reason;
use crate::request::{self as any_request, Request};
use crate::responder::{Permitted, Responder};
use crate::scratch::{AnswerScratch, ForwardScratch};
use crate::verdict::{Allowed, ClusterRequest, Denied, MAX_INDICES, Outcome, PartialBulk, Verdict};
use answer::Denials;
pub use caller::ClusterCaller;
use compile::Compiled;
pub use compile::cluster_config;
use request::path_of;
pub use request::reads_header;

/// A search cluster, ready to decide about requests.
#[derive(Debug)]
pub struct Cluster {
    /// Its hosts; empty means any.
    hosts: Box<[Scope]>,
    pub(crate) authenticator: Authenticator<ClusterCaller>,
    pub(crate) denials: Denials,
    compiled: Arc<Compiled>,
}

/// A permitted request as it is forwarded.
struct Forwarded {
    /// Its path and query, if they are changed; otherwise empty.
    target: String,
    /// If it is reduced to the permitted indices, their names: at most [`MAX_INDICES`].
    names: Vec<String>,
    filters: BTreeSet<Filter>,
    /// If it is a bulk request that is forwarded without some of its items.
    bulk: Option<PartialBulk>,
}

/// The reason for a denial, and the answer of the roles, which has the missing privileges.
type Denial = (Reason, search::Answer);

/// The number of needs that are decided together. The missing privileges are listed for the first
/// chunk that is not permitted. A request with more needs is never reduced.
pub const NEEDS_PER_CHUNK: usize = 500;

impl Cluster {
    /// Whether it decides about requests to this host.
    pub(crate) fn serves(&self, host: &[u8], buffer: &mut Vec<u8>) -> bool {
        // An invalid host belongs to the cluster only if all hosts do. Both backends deny it.
        self.hosts.is_empty()
            || canonical::host(host, buffer)
                .is_ok_and(|host| self.hosts.iter().any(|scope| scope.matches(host)))
    }

    /// Authorizes a request: authenticates its caller, reads its needs, and decides by the caller's
    /// roles.
    pub(crate) fn check<'a>(
        &'a self,
        responder: &'a Responder,
        request: &Request<'a>,
        authentication: Authentication<'_>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Outcome<'a> {
        let Scratch { answer, cluster_callers, .. } = scratch;
        let credentials = match any_request::parse_without_path(request, self.identity()) {
            Ok(credentials) => credentials,
            Err(reason) => return Outcome::Decided(responder.deny_early(request, reason, answer)),
        };
        let caller = authentication.caller(
            &self.authenticator,
            // No caller has an actor here: see the parser of policies.
            (credentials, None),
            now,
            cluster_callers,
            |subject, trust| self.caller(responder, subject, trust),
        );
        Outcome::Decided(match caller {
            Ok(Some(caller)) => self.evaluate(responder, request, caller, now, answer),
            Ok(None) => self.denials.unauthorized(request, Reason::MissingCredentials),
            Err(NotAuthenticated::Invalid(error)) => {
                self.denials.unauthorized(request, Reason::InvalidCredentials(error))
            }
            Err(NotAuthenticated::Pending(verification)) => return Outcome::Pending(verification),
        })
    }

    /// Decides by the roles of the cluster, and builds the verdict. Only this function and
    /// `Rules::evaluate` allow a request.
    fn evaluate<'a>(
        &'a self,
        responder: &'a Responder,
        request: &Request<'a>,
        caller: &'a CachedSubject<ClusterCaller>,
        now: UnixTime,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        let mut needs = Vec::new();
        let read = self.search_request(request, now).and_then(|search_request| {
            self.read(&search_request, &mut needs).map(|operation| (search_request, operation))
        });
        let (operation, forwarded) = match &read {
            Ok((search_request, operation)) => (
                *operation,
                self.forwarded(request, (search_request, operation), &caller.attached, &needs),
            ),
            Err(problem) => ("", Err((Reason::Cluster(*problem), search::Answer::default()))),
        };
        let ((reason, answer), logged) = match forwarded {
            Ok(Forwarded { target, names, filters, bulk }) => {
                let logged = ClusterRequest::new(operation, needs, names, bulk);
                let ForwardScratch { target: forwarded_target, document_security } =
                    &mut scratch.forward;
                *forwarded_target = target;
                let fits = filters::write(&filters, document_security);
                let permitted = Permitted {
                    rule: operation,
                    subject: Some(&caller.subject),
                    headers: &caller.attached.headers,
                    path: path_of(request),
                    target: forwarded_target,
                    document_security,
                };
                let allowed = if fits {
                    let roles = || self.role_names(&caller.attached.subject);
                    responder.changes(request, permitted, roles, now, &mut scratch.changes)
                } else {
                    Err(Reason::DocumentSecurityTooLong)
                };
                match allowed {
                    Ok(allowed) => return Verdict::Allowed(Allowed { cluster: logged, ..allowed }),
                    Err(reason) => ((reason, search::Answer::default()), logged),
                }
            }
            Err(denial) => (denial, ClusterRequest::new(operation, needs, Vec::new(), None)),
        };
        let denied = self.denials.forbidden(request, reason, caller, &answer, &mut scratch.denial);
        Verdict::Denied(Denied { cluster: logged, ..denied })
    }

    /// Decides how a request is forwarded: unchanged, reduced to the permitted indices, or without
    /// the items that are not permitted.
    fn forwarded(
        &self,
        request: &Request<'_>,
        (search_request, operation): (&search::Request<'_>, &str),
        caller: &ClusterCaller,
        needs: &[Need<'_>],
    ) -> Result<Forwarded, Denial> {
        let with_address = self.caller_at(request, caller);
        let prepared = with_address.as_ref().unwrap_or(&caller.prepared);
        let denial = match self.decide(prepared, needs) {
            Ok(filters) => {
                let target =
                    self.privileges().with_names_for_patterns(prepared, search_request, needs);
                // A pattern that stays in the request may match an index that is not in the
                // inventory yet. A role may hide a part of this index from the caller.
                let missing = match &target {
                    Some(_) => None,
                    None => self.privileges().missing_if_patterns_stay(prepared, needs),
                };
                let Some(missing) = missing else {
                    let target = target.unwrap_or_default();
                    return Ok(Forwarded { target, names: Vec::new(), filters, bulk: None });
                };
                (Reason::NotPermitted, denial_answer(missing))
            }
            Err(denial) => match self.reduced(search_request, operation, prepared, &denial.1) {
                Some(reduced) => return Ok(reduced),
                None => denial,
            },
        };
        if request.can_change_bodies
            && let Some(items) =
                self.permitted_items(search_request, prepared, &caller.subject, needs)
        {
            return Ok(items);
        }
        Err(denial)
    }

    /// Decides whether a caller's roles permit these needs. Returns the filters for the answer.
    fn decide(&self, caller: &Caller, needs: &[Need<'_>]) -> Result<BTreeSet<Filter>, Denial> {
        let mut filters = BTreeSet::new();
        // In chunks, because a bulk request may have thousands of needs.
        for chunk in needs.chunks(NEEDS_PER_CHUNK) {
            // More filters do not fit into the header, and each has a copy of the role's query.
            if filters.len() > MAX_FILTERS {
                return Err((Reason::DocumentSecurityTooLong, search::Answer::default()));
            }
            let mut answer = self.privileges().decide(caller, chunk);
            match &answer.verdict {
                ClusterVerdict::Permitted => filters.append(&mut answer.filters),
                ClusterVerdict::PermittedInPart(_) if needs.len() <= NEEDS_PER_CHUNK => {
                    return Err((Reason::PartlyPermitted, answer));
                }
                // The places of the parts count within their chunk, so they cannot be narrowed.
                ClusterVerdict::PermittedInPart(_) | ClusterVerdict::Denied => {
                    answer.verdict = ClusterVerdict::Denied;
                    return Err((Reason::NotPermitted, answer));
                }
            }
        }
        Ok(filters)
    }

    /// Reduces a request that is permitted in part to the permitted indices. The reduced request is
    /// read and decided like any other.
    fn reduced(
        &self,
        request: &search::Request<'_>,
        operation: &str,
        caller: &Caller,
        answer: &search::Answer,
    ) -> Option<Forwarded> {
        let ClusterVerdict::PermittedInPart(parts) = &answer.verdict else { return None };
        let target = search::narrowed(request, parts)?;
        let mut needs = Vec::new();
        let reduced = search::Request { target: &target, ..*request };
        if self.read(&reduced, &mut needs) != Ok(operation) {
            return None;
        }
        let filters = self.decide(caller, &needs).ok()?;
        let names = parts.iter().flat_map(|part| &part.names).take(MAX_INDICES).cloned().collect();
        Some(Forwarded { target, names, filters, bulk: None })
    }

    /// What the cluster keeps of a subject: its headers, and its roles prepared for decisions.
    pub(crate) fn caller(
        &self,
        responder: &Responder,
        subject: &Subject,
        trust: Trust,
    ) -> ClusterCaller {
        let cluster_subject = self.subject(subject);
        let roles = self.role_names(&cluster_subject);
        let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
        ClusterCaller {
            prepared: match trust {
                Trust::Verified | Trust::Assumed => self.privileges().caller(&cluster_subject),
                Trust::AssumedUncached => self.privileges().uncached_caller(&cluster_subject),
            },
            headers: responder.caller_headers(Some((subject, trust)), &roles),
            subject: cluster_subject,
        }
    }

    /// The caller with the address of a request, if roles are mapped to addresses. Otherwise the
    /// prepared caller is the same for every address.
    fn caller_at(&self, request: &Request<'_>, caller: &ClusterCaller) -> Option<Caller> {
        if !self.reads_client() {
            return None;
        }
        let subject = self.subject_at(caller.subject.clone(), request.client);
        Some(if caller.prepared.uses_caches() {
            self.privileges().caller(&subject)
        } else {
            self.privileges().uncached_caller(&subject)
        })
    }

    fn role_names(&self, subject: &search::Subject) -> Vec<String> {
        self.config().roles_of(subject).iter().map(ToString::to_string).collect()
    }

    /// The same subject with the address of a request's client, if a role is mapped to addresses.
    #[must_use]
    pub fn subject_at(&self, subject: search::Subject, client: &[u8]) -> search::Subject {
        let address = std::str::from_utf8(client).ok().and_then(|text| text.parse().ok());
        search::Subject { address: address.filter(|_| self.reads_client()), ..subject }
    }

    /// Reads the needs of a request, and returns its operation.
    ///
    /// # Errors
    /// If the needs are not known, or cannot be decided in a bounded time.
    pub fn read<'a>(
        &self,
        request: &search::Request<'a>,
        needs: &mut Vec<Need<'a>>,
    ) -> Result<&'static str, search::Problem> {
        let operation = search::read(request, needs)?;
        self.privileges().bound(needs)?;
        Ok(operation)
    }

    /// Its role files.
    #[must_use]
    pub fn config(&self) -> &SecurityConfig {
        self.privileges().config()
    }

    /// The privileges of its roles.
    #[must_use]
    pub fn privileges(&self) -> &Privileges {
        &self.compiled.privileges
    }

    /// Authenticates callers on its hosts.
    #[must_use]
    pub fn authenticator(&self) -> &Authenticator<ClusterCaller> {
        &self.authenticator
    }

    /// How callers authenticate on its hosts: its own users may take the place of the policy's.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.compiled.identity
    }

    /// Whether a decision may depend on the address of a client, [`Request::client`].
    #[must_use]
    pub fn reads_client(&self) -> bool {
        self.compiled.maps_addresses
    }
}

/// The answer to a caller who lacks only this privilege.
#[must_use]
pub fn denial_answer(missing: search::Missing) -> search::Answer {
    search::Answer {
        verdict: ClusterVerdict::Denied,
        missing: BTreeSet::from([missing]),
        ..search::Answer::default()
    }
}
