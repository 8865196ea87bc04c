//! Requests to a search cluster: decided by the cluster's own role files instead of the rules.
//!
//! The users of `internal_users.yml` exist on the hosts of the cluster only, so these hosts have an authenticator of
//! their own. Tokens are those of the policy's issuers.

mod answer;
mod bulk;
mod compile;
mod filters;
mod subject;

use std::collections::BTreeSet;
use std::sync::Arc;

use identity::{
    Authenticator, CachedSubject, CredentialsError, LocalCache, NotAuthenticated, Subject, UnixTime,
    VerificationResult,
};
use policy::canonical;
use policy::pattern::Scope;
use search::{Caller, Filter, MAX_FILTERS, Need, Privileges, Verdict as ClusterVerdict};

use crate::Authorizer;
use crate::answer::{self as rules_answer, TemplateValues};
use crate::cluster_caller::ClusterCaller;
use crate::identity_header::NotSigned;
use crate::reason::{Limit, Reason};
use crate::request::{self, Header, Request};
use crate::sanitizer::Changes;
use crate::scratch::{AnswerScratch, Scratch};
use crate::verdict::{Allowed, ClusterRequest, MAX_INDICES, Outcome, PartialBulk, Verdict};
use answer::Denials;
pub(crate) use compile::Compiled;
pub use compile::{ClusterHashes, ItemHash, cluster_hashes};

/// A search cluster, ready to decide about requests.
#[derive(Debug)]
pub struct Cluster {
    /// Its hosts; empty means any.
    hosts: Box<[Scope]>,
    pub(crate) authenticator: Authenticator<ClusterCaller>,
    pub(crate) compiled: Compiled,
    denials: Denials,
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

/// Needs are decided in chunks of this many, so that what is missing is listed for the first chunk in which something is. A
/// request with more needs is never reduced.
pub const NEEDS_PER_CHUNK: usize = 500;

/// An authenticated caller of the cluster.
pub(crate) type Cached = CachedSubject<ClusterCaller>;

impl Authorizer {
    /// The cluster, if it decides about requests to this host.
    pub(crate) fn cluster_of(&self, host: &[u8], buffer: &mut Vec<u8>) -> Option<&Cluster> {
        let cluster = self.cluster.as_ref()?;
        // A host that is not valid belongs to the cluster only if all do; either way the request is denied.
        let serves = cluster.hosts.is_empty()
            || canonical::host(host, buffer)
                .is_ok_and(|host| cluster.hosts.iter().any(|scope| scope.matches(host)));
        serves.then_some(cluster)
    }

    /// Authorizes a request to the cluster, as [`Authorizer::check`] does.
    pub(crate) fn check_cluster<'a>(
        &'a self,
        cluster: &'a Cluster,
        request: &Request<'a>,
        result: Option<&VerificationResult>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Outcome<'a> {
        let Scratch { answer, cluster_callers, .. } = scratch;
        let attach = |subject: &Subject| self.cluster_caller(cluster, subject);
        let authorization = match request::parse_but_path(request) {
            Ok(authorization) => authorization,
            Err(reason) => return Outcome::Decided(self.deny_unparsed(request, reason, answer)),
        };
        let caller =
            match cluster.authenticator.authenticate(authorization, result, now, cluster_callers, attach) {
                Ok(caller) => Ok(caller),
                Err(NotAuthenticated::Invalid(error)) => Err(error),
                Err(NotAuthenticated::Pending(verification)) => return Outcome::Pending(verification),
            };
        Outcome::Decided(self.authorize_on_cluster(cluster, request, caller, now, answer))
    }

    /// Authorizes a request to the cluster for the caller that `authenticate` returns.
    pub(crate) fn authorize_cluster_with<'a>(
        &'a self,
        cluster: &'a Cluster,
        request: &Request<'a>,
        now: UnixTime,
        scratch: &'a mut Scratch,
        authenticate: impl FnOnce(
            Option<&[u8]>,
            &'a mut LocalCache<ClusterCaller>,
        ) -> Result<Option<&'a Cached>, CredentialsError>,
    ) -> Verdict<'a> {
        let Scratch { answer, cluster_callers, .. } = scratch;
        match request::parse_but_path(request) {
            Ok(authorization) => {
                let caller = authenticate(authorization, cluster_callers);
                self.authorize_on_cluster(cluster, request, caller, now, answer)
            }
            Err(reason) => self.deny_unparsed(request, reason, answer),
        }
    }

    pub(crate) fn authorize_on_cluster<'a>(
        &'a self,
        cluster: &'a Cluster,
        request: &Request<'a>,
        caller: Result<Option<&'a Cached>, CredentialsError>,
        now: UnixTime,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        match caller {
            Ok(Some(caller)) => self.evaluate_on_cluster(cluster, request, caller, now, scratch),
            Ok(None) => cluster.denials.unauthorized(request, Reason::MissingCredentials),
            Err(error) => cluster.denials.unauthorized(request, Reason::InvalidCredentials(error)),
        }
    }

    /// Decides what the roles of the cluster permit, and builds the verdict. Only this function and [`Authorizer::evaluate`]
    /// allow a request.
    fn evaluate_on_cluster<'a>(
        &'a self,
        cluster: &'a Cluster,
        request: &Request<'a>,
        caller: &'a Cached,
        now: UnixTime,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        let compiled = &cluster.compiled;
        let mut needs = Vec::new();
        let unknown = |problem| ("", Err((Reason::Cluster(problem), search::Answer::default())));
        let (operation, verdict) = match cluster_request(compiled, request, now) {
            Ok(search_request) => match compiled.read(&search_request, &mut needs) {
                Ok(operation) => {
                    let of_address = compiled.of_address(request, &caller.attached);
                    let prepared = of_address.as_ref().unwrap_or(&caller.attached.prepared);
                    let forwarded = compiled.forwarded(&search_request, operation, prepared, &needs);
                    let forwarded = forwarded.or_else(|denial| {
                        let subject = &caller.attached.subject;
                        let in_part = || compiled.permitted_items(&search_request, prepared, subject, &needs);
                        request.is_changeable.then(in_part).flatten().ok_or(denial)
                    });
                    (operation, forwarded)
                }
                Err(problem) => unknown(problem),
            },
            Err(problem) => unknown(problem),
        };
        let (verdict, permitted, bulk) = match verdict {
            Ok(Forwarded { target, names, filters, bulk }) => (Ok((target, filters)), names, bulk),
            Err(denial) => (Err(denial), Vec::new(), None),
        };
        let asked = ClusterRequest::new(operation, needs, permitted, bulk);
        match verdict {
            Ok((target, filters)) => {
                scratch.target = target;
                if filters::write(&filters, &mut scratch.document_security) {
                    return self.allow_on_cluster(cluster, request, caller, asked, now, scratch);
                }
                let AnswerScratch { body, detail, .. } = scratch;
                let (reason, answer) = (Reason::DocumentSecurityTooLong, search::Answer::default());
                cluster.denials.forbidden(request, reason, caller, &answer, asked, (body, detail))
            }
            Err((reason, answer)) => {
                let AnswerScratch { body, detail, .. } = scratch;
                cluster.denials.forbidden(request, reason, caller, &answer, asked, (body, detail))
            }
        }
    }

    fn allow_on_cluster<'a>(
        &'a self,
        cluster: &'a Cluster,
        request: &Request<'a>,
        caller: &'a Cached,
        asked: Option<Box<ClusterRequest<'a>>>,
        now: UnixTime,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        let AnswerScratch { with_rule, aliases, body, detail, target, document_security, identity } = scratch;
        let signed = self.signed_on_cluster(cluster, caller, now, identity);
        let aliases_found = self.sanitizer.find_aliases(request.headers, aliases);
        let deny = |reason, asked, texts| {
            cluster.denials.forbidden(request, reason, caller, &search::Answer::default(), asked, texts)
        };
        let too_large = Reason::Limit(Limit::ResponseSize);
        let signed = signed.map_err(|NotSigned| too_large);
        let may_be_there = match aliases_found.and_then(|may_be_there| signed.map(|()| may_be_there)) {
            Ok(may_be_there) => may_be_there,
            Err(reason) => return deny(reason, asked, (body, detail)),
        };
        let rule = asked.as_ref().map_or("", |asked| asked.operation);
        caller.attached.values.render_rule(rule, with_rule);
        let changes = Changes {
            sanitizer: &self.sanitizer,
            values: &caller.attached.values,
            with_rule,
            identity: Some(identity.as_str()).filter(|identity| !identity.is_empty()),
            headers: request.headers,
            aliases,
            may_be_there,
            document_security,
        };
        let (path, subject) = (path_of(request), Some(&caller.subject));
        let rewritten = Some(target.as_str()).filter(|target| !target.is_empty());
        let allowed = Allowed { rule, subject, path, cluster: asked, rewritten, changes };
        if allowed.is_too_large() {
            deny(too_large, allowed.cluster, (body, detail))
        } else {
            Verdict::Allowed(allowed)
        }
    }

    /// Writes the identity header of a verified caller to `value`; nothing for others, or if the policy has none.
    fn signed_on_cluster(
        &self,
        cluster: &Cluster,
        caller: &Cached,
        now: UnixTime,
        value: &mut String,
    ) -> Result<(), NotSigned> {
        value.clear();
        let Some((signer, signed)) = self.signer.as_ref().zip(caller.attached.signed.as_ref()) else {
            return Ok(());
        };
        let names = || {
            let roles = &cluster.compiled.config;
            let roles = roles.roles_of(&caller.attached.subject, search::Resolution::MappingOnly);
            roles.iter().map(|role| role.to_string()).collect()
        };
        signer.write(signed, (&caller.subject, &self.revision.policy), names, now, value)
    }

    /// A subject that nothing has verified, as a caller of the cluster.
    pub(crate) fn unverified_on_cluster(&self, cluster: &Cluster, subject: Subject) -> Arc<Cached> {
        Self::unverified_with(cluster, subject, |subject| self.cluster_caller(cluster, subject))
    }

    /// The same to explain a decision.
    pub(crate) fn explained_on_cluster(&self, cluster: &Cluster, subject: Subject) -> Arc<Cached> {
        Self::unverified_with(cluster, subject, |subject| self.uncached_cluster_caller(cluster, subject))
    }

    fn unverified_with(
        cluster: &Cluster,
        mut subject: Subject,
        attach: impl FnOnce(&Subject) -> ClusterCaller,
    ) -> Arc<Cached> {
        subject.source = subject.source.or_else(|| cluster.identity().source_of(&subject.user));
        let mut attached = attach(&subject);
        // Who is not verified gets no identity header.
        attached.signed = None;
        Arc::new(CachedSubject { attached, subject })
    }

    /// What the cluster attaches to a verified subject.
    pub(crate) fn cluster_caller(&self, cluster: &Cluster, subject: &Subject) -> ClusterCaller {
        self.cluster_caller_with(cluster, subject, Privileges::caller)
    }

    /// The same to explain something: it takes no place in a cache, and no lock that decisions wait for.
    pub(crate) fn uncached_cluster_caller(&self, cluster: &Cluster, subject: &Subject) -> ClusterCaller {
        self.cluster_caller_with(cluster, subject, Privileges::uncached_caller)
    }

    fn cluster_caller_with(
        &self,
        cluster: &Cluster,
        subject: &Subject,
        prepare: fn(&Privileges, &search::Subject) -> Caller,
    ) -> ClusterCaller {
        let Compiled { config, privileges, .. } = &cluster.compiled;
        let of_cluster = subject::of(subject, &cluster.compiled);
        let roles = config.roles_of(&of_cluster, search::Resolution::MappingOnly);
        let roles: Vec<&str> = roles.iter().map(|role| &**role).collect();
        let template =
            TemplateValues { subject: Some(subject), roles: &roles, revision: &self.revision.policy };
        ClusterCaller {
            prepared: prepare(privileges, &of_cluster),
            values: rules_answer::render(&self.loaded.policy.allow_response.set_headers, template),
            signed: self.signer.as_ref().map(|signer| signer.place(subject, &roles)),
            subject: of_cluster,
        }
    }
}

impl Cluster {
    /// Denies a request that exceeds a limit.
    pub(crate) fn over_limit<'a>(
        &'a self,
        request: &Request<'a>,
        limit: Limit,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        self.denials.over_limit(request, limit, &mut scratch.body)
    }

    /// An authenticated subject as the cluster sees it, without an address.
    #[must_use]
    pub fn subject(&self, subject: &Subject) -> search::Subject {
        subject::of(subject, &self.compiled)
    }

    /// The same with the address of a request's client, if a role is mapped to addresses.
    #[must_use]
    pub fn subject_at(&self, subject: search::Subject, client: &[u8]) -> search::Subject {
        let address = std::str::from_utf8(client).ok().and_then(|text| text.parse().ok());
        search::Subject { address: address.filter(|_| self.compiled.maps_addresses), ..subject }
    }

    /// Its role files.
    #[must_use]
    pub fn config(&self) -> &search::SecurityConfig {
        &self.compiled.config
    }

    /// The privileges that they give.
    #[must_use]
    pub fn privileges(&self) -> &Privileges {
        &self.compiled.privileges
    }

    /// Authenticates callers on its hosts.
    #[must_use]
    pub fn authenticator(&self) -> &Authenticator<ClusterCaller> {
        &self.authenticator
    }

    /// A request as the cluster reads it.
    ///
    /// # Errors
    /// If it is invalid, or nobody could say what it needs.
    pub fn search_request<'a>(
        &self,
        request: &Request<'a>,
        now: UnixTime,
    ) -> Result<search::Request<'a>, search::Problem> {
        cluster_request(&self.compiled, request, now)
    }

    /// Reads what a request needs, and returns its operation. Only needs that can be decided in a bounded time are
    /// returned.
    ///
    /// # Errors
    /// If it is not known what the request needs.
    pub fn read<'a>(
        &self,
        request: &search::Request<'a>,
        needs: &mut Vec<Need<'a>>,
    ) -> Result<&'static str, search::Problem> {
        self.compiled.read(request, needs)
    }

    /// Whether this is a bulk request with items of which only some may be permitted to a caller, and forwarded.
    #[must_use]
    pub fn separates_items(&self, request: &search::Request<'_>, needs: &[Need<'_>]) -> bool {
        self.compiled.separates_items(request, needs)
    }

    /// Whether a role is mapped to addresses of clients.
    pub(crate) fn reads_client(&self) -> bool {
        self.compiled.maps_addresses
    }
}

impl Compiled {
    /// The caller with the address of a request, if that matters. Few configurations map roles by address. For the others the
    /// prepared caller is the same for every address.
    fn of_address(&self, request: &Request<'_>, caller: &ClusterCaller) -> Option<Caller> {
        if !self.maps_addresses {
            return None;
        }
        let address = std::str::from_utf8(request.client).ok().and_then(|text| text.parse().ok());
        let subject = search::Subject { address, ..caller.subject.clone() };
        Some(match caller.prepared.is_cached() {
            true => self.privileges.caller(&subject),
            false => self.privileges.uncached_caller(&subject),
        })
    }

    /// Reads what a request needs. Only needs that can be decided in a bounded time are returned.
    pub(crate) fn read<'a>(
        &self,
        request: &search::Request<'a>,
        needs: &mut Vec<Need<'a>>,
    ) -> Result<&'static str, search::Problem> {
        let operation = search::read(request, needs)?;
        self.privileges.bound(needs)?;
        Ok(operation)
    }

    /// Decides about a request, and says how it is forwarded.
    fn forwarded(
        &self,
        request: &search::Request<'_>,
        operation: &str,
        caller: &Caller,
        needs: &[Need<'_>],
    ) -> Result<Forwarded, (Reason, search::Answer)> {
        match self.decide(caller, needs) {
            Ok(filters) => {
                let target = match self.privileges.forwarded(caller, request, needs) {
                    Some(target) => target,
                    None => match self.privileges.shown_by_patterns(caller, needs) {
                        Some(missing) => return Err((Reason::NotPermitted, denied_for(missing))),
                        None => String::new(),
                    },
                };
                Ok(Forwarded { target, names: Vec::new(), filters, bulk: None })
            }
            Err((reason, answer)) => {
                self.reduced(request, operation, caller, &answer).ok_or((reason, answer))
            }
        }
    }

    /// Decides about what a request needs, and says what must be filtered.
    fn decide(
        &self,
        caller: &Caller,
        needs: &[Need<'_>],
    ) -> Result<BTreeSet<Filter>, (Reason, search::Answer)> {
        let mut filters = BTreeSet::new();
        // What is missing is worked out for the first needs that are not permitted: a bulk request may have thousands.
        for some in needs.chunks(NEEDS_PER_CHUNK) {
            // The header has no room for so many. Each chunk would add as many again, each with a copy of the role's query.
            if filters.len() > MAX_FILTERS {
                return Err((Reason::DocumentSecurityTooLong, search::Answer::default()));
            }
            if self.privileges.permits(caller, some) {
                continue;
            }
            let mut answer = self.privileges.decide(caller, some);
            match &answer.verdict {
                ClusterVerdict::Permitted => filters.append(&mut answer.filters),
                ClusterVerdict::PermittedInPart(_) if needs.len() <= NEEDS_PER_CHUNK => {
                    return Err((Reason::PartlyPermitted, answer));
                }
                ClusterVerdict::PermittedInPart(_) | ClusterVerdict::Denied => {
                    return Err((Reason::NotPermitted, answer));
                }
            }
        }
        Ok(filters)
    }

    /// A request that is permitted in part, reduced to the permitted indices. The request with them is read and decided
    /// about like any other: it must be permitted as it is.
    fn reduced(
        &self,
        request: &search::Request<'_>,
        operation: &str,
        caller: &Caller,
        answer: &search::Answer,
    ) -> Option<Forwarded> {
        let ClusterVerdict::PermittedInPart(parts) = &answer.verdict else { return None };
        let target = search::narrowed(request, parts)?;
        let (mut needs, again) = (Vec::new(), search::Request { target: &target, ..*request });
        if self.read(&again, &mut needs) != Ok(operation) {
            return None;
        }
        let filters = self.decide(caller, &needs).ok()?;
        let names = parts.iter().flat_map(|part| &part.names).take(MAX_INDICES).cloned().collect();
        Some(Forwarded { target, names, filters, bulk: None })
    }
}

/// The answer to a request that is denied because of this alone.
#[must_use]
pub fn denied_for(missing: search::Missing) -> search::Answer {
    search::Answer {
        verdict: ClusterVerdict::Denied,
        missing: BTreeSet::from([missing]),
        ..search::Answer::default()
    }
}

/// The request as the cluster reads it.
pub(crate) fn cluster_request<'a>(
    compiled: &Compiled,
    request: &Request<'a>,
    now: UnixTime,
) -> Result<search::Request<'a>, search::Problem> {
    let is_of = |line: &Header<'_>, names: &[&str]| {
        names.iter().any(|name| line.name.eq_ignore_ascii_case(name.as_bytes())) && !line.value.is_empty()
    };
    if request.headers.iter().any(|line| is_of(line, &TENANT)) {
        return Err(search::Problem::Unsupported(
            "a tenant (`securitytenant`) other than the global one, whose header is empty",
        ));
    }
    if request.headers.iter().any(|line| is_of(line, &IMPERSONATION)) {
        return Err(search::Problem::Unsupported("a request in the name of another user"));
    }
    let text = |bytes: &'a [u8]| {
        std::str::from_utf8(bytes).map_err(|_| search::Problem::Invalid("its path is not UTF-8"))
    };
    Ok(search::Request {
        method: text(request.method)?,
        target: text(request.path)?,
        content_type: header(request, "content-type")?,
        content_encoding: header(request, "content-encoding")?,
        scrolls_are_checked: compiled.scrolls_are_checked,
        body: request.body,
        now: search::Request::time(now),
    })
}

/// Whether the decision about a request may depend on a header of this name.
pub(crate) fn reads_header(name: &[u8]) -> bool {
    let mut known = DESCRIBE_BODY.iter().chain(&TENANT).chain(&IMPERSONATION);
    known.any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

const DESCRIBE_BODY: [&str; 2] = ["content-type", "content-encoding"];
/// The tenant of a request. The security plugin takes another index in place of that of OpenSearch Dashboards, without
/// asking for a privilege on it, if the account that it sees may use the tenant: behind rolegate that is one account for all callers.
const TENANT: [&str; 2] = ["securitytenant", "security_tenant"];
/// The user that a request is to be made for, if the account that the plugin sees may do that.
const IMPERSONATION: [&str; 1] = ["opendistro_security_impersonate_as"];

/// The value of a header that may be there once.
fn header<'a>(request: &Request<'a>, name: &str) -> Result<Option<&'a str>, search::Problem> {
    let mut lines = request.headers.iter().filter(|line| line.name.eq_ignore_ascii_case(name.as_bytes()));
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(search::Problem::Invalid("it has two headers that describe its body"));
    }
    let value = std::str::from_utf8(line.value);
    value.map(Some).map_err(|_| search::Problem::Invalid("a header that describes its body is not UTF-8"))
}

/// The path without its query.
fn path_of<'a>(request: &Request<'a>) -> &'a [u8] {
    request.path.split(|byte| *byte == b'?').next().unwrap_or_default()
}
