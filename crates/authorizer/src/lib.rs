//! Authorizes a request: parses it, authenticates its caller, evaluates the rules and builds the answer.
//!
//! The crate does no I/O, is not async and knows no Envoy type. Read [`Authorizer::check`] first: it takes these four
//! steps. The other modules:
//!
//! * `request`: what a request is, and how it is parsed and validated;
//! * `reason`: why a request is denied;
//! * `verdict`: the outcome;
//! * `answer`: header values, challenges and bodies;
//! * `sanitizer`: which headers of a request are set or removed, so that a client cannot spoof them;
//! * `identity_header`: the header that tells the application who the caller is, signed;
//! * `revision`: the ids of a policy and of its keys;
//! * `scratch`: what a thread keeps from request to request;
//! * `cluster`: requests to a search cluster, which its own roles decide;
//! * `decided`: a decided request that another policy decides again, to compare the two;
//! * `subject_data` and `cluster_caller`: what is computed for a subject and cached with it.

#![deny(clippy::wildcard_enum_match_arm)]

mod answer;
mod cluster;
mod cluster_caller;
mod decided;
mod identity_header;
mod reason;
mod request;
mod revision;
mod sanitizer;
mod scratch;
mod subject_data;
mod verdict;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use document::Problem;
use engine::{AccessRequest, Decision, Engine, PatternSubject, RoleSet};
use identity::{
    Attempted, Authenticator, CacheSize, CredentialsError, FetchedKeys, LocalCache, NotAuthenticated,
    Subject, UnixTime, UnknownKids, VerificationResult,
};
use policy::KeyUrl;
use policy::model::RuleId;

use crate::answer::{Denials, TemplateValues, Values};
use crate::identity_header::{IdentitySigner, NotSigned};
use crate::sanitizer::{Changes, HeaderSanitizer};
use crate::scratch::AnswerScratch;
pub use crate::subject_data::SubjectData;
use crate::subject_data::{Caller, pattern_subject};

pub use crate::answer::ResponseHeader;
pub use crate::cluster::{Cluster, ClusterHashes, ItemHash, NEEDS_PER_CHUNK, cluster_hashes, denied_for};
pub use crate::decided::{Decided, DecidedRequest, Difference};
pub use crate::reason::{Limit, Reason};
pub use crate::request::{
    Header, ParseScratch, ParsedRequest, Request, authorization, is_method, parse, parse_but_path,
};
pub use crate::revision::Revision;
pub use crate::scratch::Scratch;
pub use crate::verdict::{Allowed, BulkErrors, ClusterRequest, Denied, Outcome, PartialBulk, Verdict};
pub use ::search::{Problem as ClusterProblem, RequestBody, deciding_query};

/// What decides about the requests to a host.
#[derive(Clone, Copy, Debug)]
pub enum Backend<'a> {
    /// The rules of the policy.
    Rules(&'a Authorizer),
    /// The role files of a search cluster.
    Cluster(&'a Cluster),
}

impl<'a> Backend<'a> {
    /// How callers authenticate: on the hosts of a search cluster, its own users may take the place of the policy's.
    #[must_use]
    pub fn identity(self) -> &'a policy::model::Identity {
        match self {
            Self::Rules(rules) => &rules.loaded.policy.identity,
            Self::Cluster(cluster) => cluster.identity(),
        }
    }
}

/// A compiled policy with its keys and caches. All threads share it. Only the caches change; a reload makes a new one.
#[derive(Debug)]
pub struct Authorizer {
    loaded: Arc<policy::Loaded>,
    engine: Arc<Engine>,
    authenticator: Authenticator<SubjectData>,
    sanitizer: HeaderSanitizer,
    denials: Denials,
    /// Signs the identity header, if the policy has one.
    signer: Option<IdentitySigner>,
    /// The search cluster, if the policy has one.
    cluster: Option<Cluster>,
    /// The values of `set_headers` for an anonymous caller. Those of a subject are cached with the subject.
    anonymous: Values,
    /// The label `role: rule` of each rule, indexed by [`RuleId`].
    rules: Arc<[Box<str>]>,
    revision: Revision,
}

impl Authorizer {
    /// Compiles a loaded policy with the key sets that were fetched for it, and returns warnings with it.
    ///
    /// If `previous` was compiled from the same `Arc` of the loaded policy, its engine is reused, so that a change of
    /// keys alone costs little. Basic credentials that `previous` has verified are carried over; tokens are not.
    ///
    /// # Errors
    /// Every problem of the policy's key sets and password hashes and of the search cluster's files, if at least one is an error; otherwise those of the identity header's keys.
    pub fn compile<'p>(
        loaded: Arc<policy::Loaded>,
        fetched: &FetchedKeys,
        previous: Option<&'p Self>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let policy = &loaded.policy;
        let before = previous.map(|previous| &previous.authenticator);
        let unchanged = previous.filter(|previous| Arc::ptr_eq(&previous.loaded, &loaded));
        let compiled = Authenticator::compile(&policy.identity, fetched, before);
        let cluster_of = |authorizer: Option<&'p Self>| authorizer.and_then(|one| one.cluster.as_ref());
        let cluster = Cluster::compile(policy, fetched, cluster_of(previous), cluster_of(unchanged));
        let ((authenticator, mut warnings), cluster) = match (compiled, cluster) {
            (Ok(compiled), Ok(cluster)) => (compiled, cluster),
            (Err(problems), Ok(_)) | (Ok(_), Err(problems)) => return Err(problems),
            (Err(problems), Err(more)) => return Err([problems, more].concat()),
        };
        let signer = policy.identity_header.as_ref().map(IdentitySigner::compile).transpose()?;
        let cluster = cluster.map(|(mut cluster, more)| {
            cluster.share_keys(&authenticator);
            warnings.extend(more);
            cluster
        });
        let engine =
            unchanged.map_or_else(|| Engine::compile(policy).into(), |previous| Arc::clone(&previous.engine));
        let rules = unchanged.map_or_else(|| rule_labels(policy), |previous| Arc::clone(&previous.rules));
        let revision = match unchanged {
            Some(previous) => previous.revision.with_keys(fetched),
            None => Revision::of(&loaded.files, fetched),
        };
        let roles: Vec<&str> = engine.role_names(engine.anonymous()).collect();
        let template = TemplateValues { subject: None, roles: &roles, revision: &revision.policy };
        let authorizer = Self {
            anonymous: answer::render(&policy.allow_response.set_headers, template),
            sanitizer: HeaderSanitizer::new(policy, signer.as_ref().map(|signer| &**signer.name())),
            denials: Denials::new(&policy.deny_response, &policy.identity),
            signer,
            authenticator,
            cluster,
            engine,
            rules,
            revision,
            loaded,
        };
        Ok((authorizer, warnings))
    }

    /// Carries over the Basic credentials that `previous` has verified, if this was compiled without `previous`. See
    /// [`Authenticator::carry_over`] for why that may be a step of its own.
    pub fn carry_over(&mut self, previous: &Self) {
        self.authenticator.carry_over(&previous.authenticator);
        if let Some(cluster) = &mut self.cluster {
            if let Some(before) = &previous.cluster {
                cluster.carry_over(before);
            }
            cluster.share_keys(&self.authenticator);
        }
    }

    /// Authorizes a request. If its credentials must be verified first, the outcome is [`Outcome::Pending`]. Then call
    /// this again with the result as `result`.
    ///
    /// A reload may replace the authorizer between the two calls; then call this on the new one, whose policy decides.
    /// If it has another hash for the user, or `result` is that of a token, `result` is ignored, and the outcome may be pending again.
    pub fn check<'a>(
        &'a self,
        request: &Request<'a>,
        result: Option<&VerificationResult>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Outcome<'a> {
        if let Some(cluster) = self.cluster_of(request.host, &mut scratch.host) {
            return self.check_cluster(cluster, request, result, scratch, now);
        }
        let Scratch { parse, answer, callers, .. } = scratch;
        let parsed = match request::parse_but_credentials(request, parse) {
            Ok(parsed) => parsed,
            Err(reason) => return Outcome::Decided(self.deny_unparsed(request, reason, answer)),
        };
        let attach = |subject: &Subject| self.subject_data(subject);
        let caller = self.authenticator.authenticate(parsed.authorization, result, now, callers, attach);
        if caller.is_err()
            && let Err(reason) = request::validate_authorization(parsed.authorization)
        {
            return Outcome::Decided(self.deny_unparsed(request, reason, answer));
        }
        debug_assert!(caller.is_err() || request::validate_authorization(parsed.authorization).is_ok());
        let caller = match caller {
            Ok(caller) => Ok(caller),
            Err(NotAuthenticated::Invalid(error)) => Err(error),
            Err(NotAuthenticated::Pending(verification)) => return Outcome::Pending(verification),
        };
        Outcome::Decided(self.authorize(request, parsed, caller, now, answer))
    }

    /// The sizes of the caches of verified credentials: of Basic, and of tokens. Those for requests to a search cluster are
    /// included.
    #[must_use]
    pub fn credential_caches(&self) -> [CacheSize; 2] {
        let mut sizes = self.authenticator.cache_sizes();
        let of_cluster = self.cluster.iter().flat_map(|cluster| cluster.authenticator.cache_sizes());
        sizes.iter_mut().zip(of_cluster).for_each(|(size, more)| *size += more);
        sizes
    }

    /// The same; `None` where it would have to wait for a thread that changes a cache.
    #[must_use]
    pub fn try_credential_caches(&self) -> Option<[CacheSize; 2]> {
        let mut sizes = self.authenticator.try_cache_sizes()?;
        if let Some(cluster) = &self.cluster {
            let of_cluster = cluster.authenticator.try_cache_sizes()?;
            sizes.iter_mut().zip(of_cluster).for_each(|(size, more)| *size += more);
        }
        Some(sizes)
    }

    /// Caches verified credentials, if they are valid under this policy, and returns whether they are. A user of the policy that
    /// is also one of the cluster is cached for both.
    pub fn cache_result(&self, result: &VerificationResult, now: UnixTime) -> bool {
        let cluster = self.cluster.as_ref().is_some_and(|cluster| {
            cluster.authenticator.cache_result(result, now, |subject| self.cluster_caller(cluster, subject))
        });
        self.authenticator.cache_result(result, now, |subject| self.subject_data(subject)) || cluster
    }

    /// Authorizes a request, and verifies its credentials on the calling thread: for tools and tests, as a hash takes milliseconds.
    pub fn check_inline<'a>(
        &'a self,
        request: &Request<'a>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Verdict<'a> {
        if let Some(cluster) = self.cluster_of(request.host, &mut scratch.host) {
            let attach = |subject: &Subject| self.cluster_caller(cluster, subject);
            return self.authorize_cluster_with(cluster, request, now, scratch, |authorization, callers| {
                cluster.authenticator.authenticate_inline(authorization, now, callers, attach)
            });
        }
        let attach = |subject: &Subject| self.subject_data(subject);
        self.authorize_with(request, now, scratch, |authorization, callers| {
            self.authenticator.authenticate_inline(authorization, now, callers, attach)
        })
    }

    /// Authorizes a request as if this were its caller, or as if authenticating it had failed: for tools and tests. The
    /// credentials in the request are not verified. On a search cluster this takes no place in a cache, and no lock that
    /// other decisions wait for.
    pub fn check_as<'a>(
        &'a self,
        request: &Request<'a>,
        subject: Result<Option<Subject>, CredentialsError>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Verdict<'a> {
        if let Some(cluster) = self.cluster_of(request.host, &mut scratch.host) {
            return self.authorize_cluster_with(cluster, request, now, scratch, |_, callers| {
                Ok(subject?.map(|subject| callers.hold(self.explained_on_cluster(cluster, subject))))
            });
        }
        self.authorize_with(request, now, scratch, |_, callers| {
            Ok(subject?.map(|subject| callers.hold(self.unverified(subject))))
        })
    }

    /// Who makes a request, by its credentials, which are verified on the calling thread: for tools. The subject has the
    /// claims of its token, unless the token was verified before.
    ///
    /// # Errors
    /// If the credentials are invalid.
    pub fn identify(
        &self,
        request: &Request<'_>,
        now: UnixTime,
    ) -> Result<Option<Subject>, CredentialsError> {
        let authorization = request::authorization(request.headers).ok().flatten();
        let with_claims = RefCell::default();
        let keep = |subject: &Subject| _ = with_claims.replace(Some(subject.clone()));
        let subject = match self.backend(request.host) {
            Backend::Rules(rules) => {
                let attach = |subject: &Subject| {
                    keep(subject);
                    rules.subject_data(subject)
                };
                let callers = &mut LocalCache::default();
                let caller = rules.authenticator.authenticate_inline(authorization, now, callers, attach)?;
                caller.map(|caller| caller.subject.clone())
            }
            Backend::Cluster(cluster) => {
                let attach = |subject: &Subject| {
                    keep(subject);
                    self.cluster_caller(cluster, subject)
                };
                let callers = &mut LocalCache::default();
                let caller =
                    cluster.authenticator.authenticate_inline(authorization, now, callers, attach)?;
                caller.map(|caller| caller.subject.clone())
            }
        };
        Ok(with_claims.into_inner().or(subject))
    }

    /// Denies a request that exceeds a limit of the server, without authorizing it. Fields not yet known may be empty.
    pub fn deny_over_limit<'a>(
        &'a self,
        request: &Request<'a>,
        limit: Limit,
        scratch: &'a mut Scratch,
    ) -> Verdict<'a> {
        match self.cluster_of(request.host, &mut scratch.host) {
            Some(cluster) => cluster.over_limit(request, limit, &mut scratch.answer),
            None => self.deny_unparsed(request, Reason::Limit(limit), &mut scratch.answer),
        }
    }

    /// Whether the decision about a request may depend on the address of its client, [`Request::client`].
    #[must_use]
    pub fn reads_client(&self) -> bool {
        self.cluster.as_ref().is_some_and(Cluster::reads_client)
    }

    /// Whether the decision about a request may depend on its body, [`Request::body`].
    #[must_use]
    pub fn reads_body(&self) -> bool {
        self.cluster.is_some()
    }

    /// Which policy and which keys decide.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// What decides about requests to this host.
    #[must_use]
    pub fn backend(&self, host: &[u8]) -> Backend<'_> {
        self.cluster_of(host, &mut Vec::new()).map_or(Backend::Rules(self), Backend::Cluster)
    }

    /// The search cluster, if the policy has one.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// Authenticates callers on all hosts but those of the search cluster.
    #[must_use]
    pub fn authenticator(&self) -> &Authenticator<SubjectData> {
        &self.authenticator
    }

    /// The compiled rules.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The user and the issuer that the invalid credentials of a request claim, unverified, and what is wrong with them;
    /// for logs and people, never for the client. `error` is why they are invalid.
    #[must_use]
    pub fn attempted(&self, request: &Request<'_>, error: CredentialsError, now: UnixTime) -> Attempted {
        let authorization = request::authorization(request.headers).ok().flatten();
        let of = |value| match self.backend(request.host) {
            Backend::Cluster(cluster) => cluster.authenticator.attempted(value, error, now),
            Backend::Rules(rules) => rules.authenticator.attempted(value, error, now),
        };
        authorization.map(of).unwrap_or_default()
    }

    /// The `kid`s of the keys of this URL; none if they are not fetched yet. A key without a `kid` has an empty one.
    #[must_use]
    pub fn kids(&self, url: &KeyUrl) -> BTreeSet<&str> {
        self.authenticator.kids(url)
    }

    /// How many names the inventory of the search cluster has; 0 without one.
    #[must_use]
    pub fn inventory_len(&self) -> u32 {
        self.cluster.as_ref().map_or(0, Cluster::inventory_len)
    }

    /// The `kid`s that tokens have named since the last call and the key set of this URL does not have.
    #[must_use]
    pub fn take_unknown_kids(&self, url: &KeyUrl) -> UnknownKids {
        let mut unknown = self.authenticator.take_unknown_kids(url);
        if let Some(cluster) = &self.cluster {
            unknown.extend(&cluster.authenticator.take_unknown_kids(url));
        }
        unknown
    }

    /// The loaded policy that this was compiled from.
    #[must_use]
    pub fn loaded(&self) -> &Arc<policy::Loaded> {
        &self.loaded
    }

    /// Authorizes a request for the caller that `authenticate` returns for the value of its `Authorization` header.
    fn authorize_with<'a>(
        &'a self,
        request: &Request<'a>,
        now: UnixTime,
        scratch: &'a mut Scratch,
        authenticate: impl FnOnce(
            Option<&[u8]>,
            &'a mut LocalCache<SubjectData>,
        ) -> Result<Caller<'a>, CredentialsError>,
    ) -> Verdict<'a> {
        let Scratch { parse, answer, callers, .. } = scratch;
        match request::parse(request, parse) {
            Ok(parsed) => {
                let caller = authenticate(parsed.authorization, callers);
                self.authorize(request, parsed, caller, now, answer)
            }
            Err(reason) => self.deny_unparsed(request, reason, answer),
        }
    }

    /// Authorizes a parsed request for an authenticated caller.
    fn authorize<'a>(
        &'a self,
        request: &Request<'a>,
        parsed: ParsedRequest<'a>,
        caller: Result<Caller<'a>, CredentialsError>,
        now: UnixTime,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        match caller {
            Ok(caller) => self.evaluate(request, parsed, caller, now, scratch),
            Err(error) => {
                let reason = Reason::InvalidCredentials(error);
                self.deny(request, parsed, reason, None, None, &mut scratch.body)
            }
        }
    }

    /// Evaluates the rules and builds the verdict. Only this function and `evaluate_on_cluster` allow a request.
    fn evaluate<'a>(
        &'a self,
        request: &Request<'a>,
        parsed: ParsedRequest<'a>,
        caller: Caller<'a>,
        now: UnixTime,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        let roles = caller.map_or_else(|| self.engine.anonymous(), |cached| &cached.attached.roles);
        let (reason, rule) = match self.decide(&parsed, roles, caller.map(pattern_subject)).1 {
            Decision::Allowed(rule) => {
                return self.allow(request, parsed, caller, rule, now, scratch);
            }
            Decision::Denied(rule) => (Reason::Denied, Some(rule)),
            Decision::NotAllowed => (Reason::NotAllowed, None),
        };
        // An anonymous caller is asked for credentials (401), even if a `deny` rule matches: with credentials, the
        // caller has other roles, and the answer may differ.
        let reason = if caller.is_none() { Reason::MissingCredentials } else { reason };
        let subject = caller.map(|cached| &cached.subject);
        self.deny(request, parsed, reason, rule, subject, &mut scratch.body)
    }

    /// Allows only if every interpretation of the path in `all` is allowed, and no `deny` rule matches one in
    /// `deny_only` (see [`policy::canonical::PathInterpretations`]). Nearly every path has one interpretation: itself.
    /// Returns the decision and the interpretation that it was made on; if allowed, the canonical one. A request is
    /// allowed only by [`Authorizer::check`]; for others this explains why.
    pub fn decide<'r>(
        &self,
        parsed: &'r ParsedRequest<'_>,
        roles: &RoleSet,
        subject: Option<PatternSubject<'_>>,
    ) -> (&'r [u8], Decision) {
        let decide = |path| {
            let request = AccessRequest { action: parsed.method, scope: parsed.host, resource: path };
            self.engine.decide(roles, subject, request)
        };
        let canonical = parsed.paths.first();
        let first = match decide(canonical) {
            allowed @ Decision::Allowed(_) => allowed,
            negative @ (Decision::Denied(_) | Decision::NotAllowed) => return (canonical, negative),
        };
        if parsed.paths.is_only() {
            return (canonical, first);
        }
        for path in parsed.paths.all().skip(1) {
            match decide(path) {
                Decision::Allowed(_) => {}
                negative @ (Decision::Denied(_) | Decision::NotAllowed) => return (path, negative),
            }
        }
        // The path with its dot segments kept: a backend that does not remove them would see a path that a `deny` rule
        // covers.
        for path in parsed.paths.deny_only() {
            match decide(path) {
                Decision::Allowed(_) | Decision::NotAllowed => {}
                denied @ Decision::Denied(_) => return (path, denied),
            }
        }
        (canonical, first)
    }

    fn allow<'a>(
        &'a self,
        request: &Request<'a>,
        parsed: ParsedRequest<'a>,
        caller: Caller<'a>,
        rule: RuleId,
        now: UnixTime,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        let subject = caller.map(|cached| &cached.subject);
        let AnswerScratch { with_rule, aliases, body, identity, .. } = scratch;
        // Too many aliases cannot all be named in the response, and one that is not removed could spoof a header (S12 in
        // `SECURITY.md`).
        let may_be_there = match self.sanitizer.find_aliases(request.headers, aliases) {
            Ok(may_be_there) => may_be_there,
            Err(reason) => return self.deny(request, parsed, reason, None, subject, body),
        };
        let identity = match self.signed_identity(caller, now, identity) {
            Ok(identity) => identity,
            Err(NotSigned) => {
                let reason = Reason::Limit(Limit::ResponseSize);
                return self.deny(request, parsed, reason, None, subject, body);
            }
        };
        let values = caller.map_or(&self.anonymous, |cached| &cached.attached.values);
        let rule = self.rule_label(rule);
        values.render_rule(rule, with_rule);
        let changes = Changes {
            sanitizer: &self.sanitizer,
            values,
            with_rule,
            identity,
            headers: request.headers,
            aliases,
            may_be_there,
            document_security: "",
        };
        let path = parsed.paths.first();
        let allowed = Allowed { rule, subject, path, cluster: None, rewritten: None, changes };
        if allowed.is_too_large() {
            let reason = Reason::Limit(Limit::ResponseSize);
            return self.deny(request, parsed, reason, None, subject, body);
        }
        Verdict::Allowed(allowed)
    }

    fn deny<'a>(
        &'a self,
        request: &Request<'a>,
        parsed: ParsedRequest<'a>,
        reason: Reason,
        rule: Option<RuleId>,
        subject: Option<&'a Subject>,
        body: &'a mut String,
    ) -> Verdict<'a> {
        let rule = rule.map(|rule| self.rule_label(rule));
        self.denials.write_body(reason, rule, request.id, body);
        let headers = self.denials.headers(reason, request::is_bearer(parsed.authorization));
        let path = parsed.paths.first();
        Verdict::Denied(Denied { reason, headers, body, rule, subject, path, detail: "", cluster: None })
    }

    /// Denies a request that is invalid or exceeds a limit. Its canonical path is not known, so the verdict has none.
    fn deny_unparsed<'a>(
        &'a self,
        request: &Request<'a>,
        reason: Reason,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        let body = &mut scratch.body;
        self.denials.write_body(reason, None, request.id, body);
        let headers = self.denials.headers(reason, false);
        let (rule, subject, path) = (None, None, &b""[..]);
        Verdict::Denied(Denied { reason, headers, body, rule, subject, path, detail: "", cluster: None })
    }

    fn rule_label(&self, rule: RuleId) -> &str {
        self.rules.get(rule.0 as usize).map_or("", |label| label)
    }
}

fn rule_labels(policy: &policy::Policy) -> Arc<[Box<str>]> {
    policy.rules().map(|(_, role, rule, _)| format!("{}: {}", role.name, rule.name).into()).collect()
}
