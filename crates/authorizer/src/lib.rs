//! Authorizes a request: parses it, authenticates its caller, decides, and builds the answer.
//!
//! The crate does no I/O, is not async and knows no Envoy type. [`Authorizer::check`] chooses the
//! backend of the request's host once; that backend's `check` then reads from top to bottom:
//!
//! * `rules`: the rules of the policy decide;
//! * `cluster`: the role files of a search cluster decide.
//!
//! Both use the other modules:
//!
//! * `request`: parses and validates a request; `tokens` finds tokens in headers and `cookies`;
//! * `authentication`: finds out who the caller of a request is;
//! * `responder`: builds the headers of an allowed request and the answer to a denied request;
//! * `answer`: header values, challenges and bodies, for the responder;
//! * `sanitizer`: which headers are set or removed, so that a client cannot spoof them;
//! * `identity_header`: a signed header that tells the application who the caller is;
//! * `metadata`: the metadata of an allowed request, for Envoy's later filters;
//! * `conditions`: the variables of conditions; `recorded`: their values for the decision log;
//! * `verdict`: the outcome, and `reason`: why a request is denied;
//! * `scratch`: buffers that a thread keeps; `revision`: the ids of a policy and of its keys.

#![deny(clippy::wildcard_enum_match_arm)]

mod answer;
mod authentication;
mod cluster;
mod conditions;
mod cookies;
mod identity_header;
mod metadata;
mod reason;
mod recorded;
mod request;
mod responder;
mod revision;
mod rules;
mod sanitizer;
mod scratch;
mod tokens;
mod verdict;

use std::sync::Arc;

use condition::Attribute;
use document::Problem;
use identity::{
    Attempted, Authenticator, CacheLookups, CacheSize, CachedSubject, Certificate, Credentials,
    CredentialsError, FetchedKeys, Limits, LocalCache, Subject, UnixTime, UnknownKids,
    VerificationResult,
};
use policy::KeyUrl;
use policy::model::Identity;

use crate::authentication::{Authentication, PreparedCaller, Trust};
use crate::responder::{CallerHeaders, Responder};
use crate::scratch::AnswerScratch;

pub use crate::answer::ResponseHeader;
pub use crate::cluster::{
    Cluster, ClusterCaller, NEEDS_PER_CHUNK, cluster_config, denial_answer, reads_header,
};
pub use crate::conditions::{HeaderLines, caller_inputs, certificate_names, request_inputs};
pub use crate::metadata::MetadataValue;
pub use crate::reason::{Limit, Reason, Stage};
pub use crate::recorded::RecordedInputs;
pub use crate::request::{
    Header, ParseScratch, ParsedRequest, Request, has_token_elsewhere, is_method, parse,
    parse_without_path,
};
pub use crate::revision::Revision;
pub use crate::rules::{Rules, RulesCaller};
pub use crate::verdict::{
    Allowed, BulkErrors, ClusterRequest, Denied, MAX_INDICES, Outcome, PartialBulk, Verdict,
};
pub use ::search::{Problem as ClusterProblem, RequestBody, deciding_query};
pub use condition::{Question, Timestamp};

/// A compiled policy with its keys and caches. All threads share it. Only the caches change: a
/// reload compiles a new `Authorizer`.
#[derive(Debug)]
pub struct Authorizer {
    loaded: Arc<policy::Loaded>,
    revision: Revision,
    responder: Responder,
    rules: Rules,
    cluster: Option<Cluster>,
    names_hosts: bool,
}

/// A caller that is assumed, not authenticated; or the error of its credentials. Its roles and
/// headers are resolved once for many requests. It belongs to the authorizer that made it: another
/// authorizer could give it other roles.
#[derive(Debug)]
pub struct AssumedCaller<'p> {
    authorizer: &'p Authorizer,
    prepared: Result<PreparedCaller, CredentialsError>,
}

/// The part of a policy that decides about the requests to a host.
#[derive(Clone, Copy, Debug)]
pub enum Backend<'a> {
    /// The rules of the policy.
    Rules(&'a Rules),
    /// The role files of a search cluster.
    Cluster(&'a Cluster),
}

/// The caller caches and buffers that a thread keeps from request to request. If the rules decide
/// and the caller is in `callers`, a request allocates nothing and writes to no memory that
/// threads share (invariant 6 in `crates/README.md`).
#[derive(Debug, Default)]
pub struct Scratch {
    /// The canonical host of a request.
    host: Vec<u8>,
    parse: ParseScratch,
    answer: AnswerScratch,
    /// The headers of a caller whose roles depend on the request.
    caller_headers: Option<CallerHeaders>,
    callers: LocalCache<RulesCaller>,
    cluster_callers: LocalCache<ClusterCaller>,
}

impl Authorizer {
    /// Compiles a loaded policy with its fetched key sets. Returns warnings, too.
    ///
    /// If `previous` was compiled from the same `Arc` of the loaded policy, its engine is reused,
    /// so that a change of keys alone costs little. Basic credentials that `previous` has verified
    /// are carried over; tokens are not.
    ///
    /// # Errors
    /// The errors and warnings of the policy's key sets, password hashes and search cluster; if
    /// these have no errors, the errors of the identity header's keys.
    pub fn compile(
        loaded: Arc<policy::Loaded>,
        fetched: &FetchedKeys,
        previous: Option<&Self>,
    ) -> Result<(Self, Vec<Problem>), Vec<Problem>> {
        let policy = &loaded.policy;
        // The previous authorizer, if at most the keys have changed since.
        let unchanged = previous.filter(|previous| Arc::ptr_eq(&previous.loaded, &loaded));
        let compiled = Authenticator::compile(&policy.identity, fetched, Limits::default());
        let unchanged_cluster = unchanged.and_then(|unchanged| unchanged.cluster.as_ref());
        let cluster = Cluster::compile(policy, fetched, unchanged_cluster);
        let ((authenticator, mut warnings), cluster) = match (compiled, cluster) {
            (Ok(compiled), Ok(cluster)) => (compiled, cluster),
            (Err(problems), Ok(_)) | (Ok(_), Err(problems)) => return Err(problems),
            (Err(problems), Err(more)) => return Err([problems, more].concat()),
        };
        let revision = match unchanged {
            Some(previous) => previous.revision.with_keys(fetched),
            None => Revision::new(&loaded.files, fetched),
        };
        let responder = Responder::compile(Arc::clone(&loaded), revision.policy.clone())?;
        let unchanged = unchanged.map(|unchanged| &unchanged.rules);
        let rules = Rules::compile(Arc::clone(&loaded), authenticator, &responder, unchanged);
        let cluster = cluster.map(|(mut cluster, more)| {
            // The cluster's authenticator uses the hasher of the rules' authenticator.
            cluster.authenticator.share_hasher(&rules.authenticator);
            warnings.extend(more);
            cluster
        });
        // The scopes of a rule are the hosts that it is for.
        let names_hosts = cluster.is_some()
            || rules.read_variables.contains(&Attribute::Host)
            || loaded.policy.rules().any(|(.., rule, _)| !rule.scopes.is_empty());
        let mut this = Self { loaded, revision, responder, rules, cluster, names_hosts };
        if let Some(previous) = previous {
            this.carry_over(previous);
        }
        Ok((this, warnings))
    }

    /// Carries over the Basic credentials that `previous` has verified. [`Self::compile`] does this
    /// for its argument `previous`. Code that calls `compile` without `previous` calls this later,
    /// as a separate step: [`Authenticator::carry_over`] says why.
    pub fn carry_over(&mut self, previous: &Self) {
        self.rules.authenticator.carry_over(&previous.rules.authenticator);
        if let Some(cluster) = &mut self.cluster {
            if let Some(before) = &previous.cluster {
                cluster.authenticator.carry_over(&before.authenticator);
            }
            // Both authenticators of `previous` use one hasher. The rules' authenticator has just
            // taken it over, and the cluster's must use the same.
            cluster.authenticator.share_hasher(&self.rules.authenticator);
        }
    }

    /// Authorizes a request. If its credentials must be verified first, the outcome is
    /// [`Outcome::Pending`]. Then call this again with the result as `result`.
    ///
    /// If a reload replaces the authorizer between the two calls, call the new authorizer with the
    /// old `result`. It ignores a `result` for a token, and a `result` for a user whose password
    /// hash has changed.
    pub fn check<'a>(
        &'a self,
        request: &Request<'a>,
        result: Option<&VerificationResult>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Outcome<'a> {
        self.check_with(Authentication::Deferred(result), request, scratch, now)
    }

    /// Authorizes a request, and verifies its credentials on the calling thread, which may take
    /// milliseconds: for tools and tests.
    pub fn check_inline<'a>(
        &'a self,
        request: &Request<'a>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Verdict<'a> {
        self.check_with(Authentication::Inline, request, scratch, now).verdict()
    }

    /// Authorizes a request as if `subject` were its caller. If `subject` is an error, the request
    /// is treated as if authentication had failed with that error. This is for tools and tests: the
    /// credentials in the request are not verified. On a search cluster, this adds nothing to
    /// shared caches and takes no lock that other decisions wait for: `Trust::AssumedUncached`.
    pub fn check_as<'a>(
        &'a self,
        request: &Request<'a>,
        subject: Result<Option<Subject>, CredentialsError>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Verdict<'a> {
        let backend = self.backend(request.host);
        let caller = subject.map(|subject| subject.map(|subject| backend.with_source(subject)));
        let assumed = Authentication::Assumed(caller, Trust::AssumedUncached);
        self.check_with(assumed, request, scratch, now).verdict()
    }

    /// Prepares a caller for requests to this host. It is assumed, as in [`Self::check_as`].
    #[must_use]
    pub fn assumed_caller(
        &self,
        host: &[u8],
        subject: Result<Subject, CredentialsError>,
    ) -> AssumedCaller<'_> {
        let backend = self.backend(host);
        let prepared = subject.map(|subject| {
            let (subject, trust) = (backend.with_source(subject), Trust::AssumedUncached);
            let prepared: PreparedCaller = match backend {
                Backend::Rules(rules) => {
                    let attached = rules.caller(&self.responder, &subject, trust);
                    Arc::new(CachedSubject { subject, attached })
                }
                Backend::Cluster(cluster) => {
                    let attached = cluster.caller(&self.responder, &subject, trust);
                    Arc::new(CachedSubject { subject, attached })
                }
            };
            prepared
        });
        AssumedCaller { authorizer: self, prepared }
    }

    /// Authorizes a request for a caller whom another policy has authenticated, to compare the two
    /// policies.
    pub fn check_authenticated<'a>(
        &'a self,
        request: &Request<'a>,
        subject: Result<Option<Subject>, CredentialsError>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Verdict<'a> {
        let assumed = Authentication::Assumed(subject, Trust::Assumed);
        self.check_with(assumed, request, scratch, now).verdict()
    }

    /// The outcome is pending only with [`Authentication::Deferred`].
    fn check_with<'a>(
        &'a self,
        authentication: Authentication<'_>,
        request: &Request<'a>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Outcome<'a> {
        match self.backend_of(request.host, &mut scratch.host) {
            Backend::Rules(rules) => {
                rules.check(&self.responder, request, authentication, scratch, now)
            }
            Backend::Cluster(cluster) => {
                cluster.check(&self.responder, request, authentication, scratch, now)
            }
        }
    }

    /// Denies a request that exceeds a limit of the server, without authorizing it. Fields of
    /// `request` that the server has not read yet may be empty.
    pub fn deny_over_limit<'a>(
        &'a self,
        request: &Request<'a>,
        limit: Limit,
        scratch: &'a mut Scratch,
    ) -> Verdict<'a> {
        let answer = &mut scratch.answer;
        match self.backend_of(request.host, &mut scratch.host) {
            Backend::Rules(_) => self.responder.deny_early(request, Reason::Limit(limit), answer),
            Backend::Cluster(cluster) => {
                cluster.denials.over_limit(request, limit, &mut answer.denial.body)
            }
        }
    }

    /// The backend for requests to this host.
    #[must_use]
    pub fn backend(&self, host: &[u8]) -> Backend<'_> {
        self.backend_of(host, &mut Vec::new())
    }

    /// The backend for requests to this host. `buffer` is for the canonical form of the host.
    fn backend_of(&self, host: &[u8], buffer: &mut Vec<u8>) -> Backend<'_> {
        match &self.cluster {
            Some(cluster) if cluster.serves(host, buffer) => Backend::Cluster(cluster),
            Some(_) | None => Backend::Rules(&self.rules),
        }
    }

    /// Whether decisions depend on the host: a rule or a search cluster is for certain hosts, or a
    /// condition reads the host. Then a request without a host cannot be decided.
    #[must_use]
    pub fn names_hosts(&self) -> bool {
        self.names_hosts
    }

    /// Whether the policy reads client certificates.
    #[must_use]
    pub fn reads_certificates(&self) -> bool {
        self.loaded.policy.identity.certificates.is_some()
    }

    /// The rules of the policy.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The search cluster, if the policy has it. Only its decisions depend on bodies.
    #[must_use]
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// The loaded policy that this was compiled from.
    #[must_use]
    pub fn loaded(&self) -> &Arc<policy::Loaded> {
        &self.loaded
    }

    /// The revision of the policy and of its keys.
    #[must_use]
    pub fn revision(&self) -> &Revision {
        &self.revision
    }

    /// The public keys of the identity header as a JWK Set (RFC 7517); `None` unless the policy has
    /// this header in the form of a JWT.
    #[must_use]
    pub fn identity_keys(&self) -> Option<&str> {
        self.responder.signer.as_ref()?.public_keys()
    }

    /// The well-formed credentials of a request, not verified.
    ///
    /// # Errors
    /// If the credentials are malformed or ambiguous.
    pub fn credentials<'r>(
        &self,
        request: &Request<'r>,
    ) -> Result<Option<Credentials<'r>>, Reason> {
        request::credentials(request, self.backend(request.host).identity())
    }

    /// The subject of an assumed caller. If the policy requires an actor and the subject has none,
    /// the actor is added: the client certificate of the request names it.
    ///
    /// # Errors
    /// If an actor is required, and the certificate is missing, invalid or not named by the policy;
    /// or if the subject itself is that of a certificate.
    pub fn with_required_actor(
        &self,
        request: &Request<'_>,
        subject: Subject,
    ) -> Result<Subject, CredentialsError> {
        let authenticator = &self.rules.authenticator;
        authenticator.with_required_actor(subject, self.certificate(request))
    }

    /// The certificate of a request's client, if this policy reads it.
    #[must_use]
    pub fn certificate<'r>(&self, request: &Request<'r>) -> Option<Certificate<'r>> {
        request::certificate(request, self.backend(request.host).identity()).ok().flatten()
    }

    /// Details of the error in the credentials of a request, with the user and the issuer that the
    /// credentials name. None of it is verified. It is for logs and people, never for the client.
    #[must_use]
    pub fn attempted(
        &self,
        request: &Request<'_>,
        error: CredentialsError,
        now: UnixTime,
    ) -> Attempted {
        if let Some(user) = request.claimed_user {
            return Attempted { user: Some(user.to_owned()), ..Attempted::default() };
        }
        let Ok(Some(credentials)) = self.credentials(request) else { return Attempted::default() };
        match self.backend(request.host) {
            Backend::Rules(rules) => rules.authenticator.attempted(credentials, error, now),
            Backend::Cluster(cluster) => cluster.authenticator.attempted(credentials, error, now),
        }
    }

    /// Caches verified credentials, if they are valid under this policy, and returns whether they
    /// are. They may be valid for the rules, for the cluster, or for both.
    pub fn cache_result(&self, result: &VerificationResult, now: UnixTime) -> bool {
        let Self { responder, rules, cluster, .. } = self;
        let on_cluster = cluster.as_ref().is_some_and(|cluster| {
            cluster.authenticator.cache_result(result, now, |subject| {
                cluster.caller(responder, subject, Trust::Verified)
            })
        });
        let by_rules = rules
            .authenticator
            .cache_result(result, now, |subject| rules.caller(responder, subject, Trust::Verified));
        by_rules || on_cluster
    }

    /// The sizes of the caches of verified credentials, Basic and tokens, for both backends. Never
    /// waits.
    #[must_use]
    pub fn credential_caches(&self) -> [CacheSize; 2] {
        let [mut basic, mut tokens] = self.rules.authenticator.cache_sizes();
        if let Some(cluster) = &self.cluster {
            let [more_basic, more_tokens] = cluster.authenticator.cache_sizes();
            basic += more_basic;
            tokens += more_tokens;
        }
        [basic, tokens]
    }

    /// The `kid`s that tokens have named since the last call, and that the key set of this URL does
    /// not have.
    #[must_use]
    pub fn take_unknown_kids(&self, url: &KeyUrl) -> UnknownKids {
        let mut unknown = self.rules.authenticator.take_unknown_kids(url);
        if let Some(cluster) = &self.cluster {
            unknown.extend(&cluster.authenticator.take_unknown_kids(url));
        }
        unknown
    }
}

impl AssumedCaller<'_> {
    /// Authorizes a request as if it came from this caller, as [`Authorizer::check_as`] does. The
    /// caller was prepared for one backend: a request to a host of the other backend is denied.
    pub fn check<'a>(
        &'a self,
        request: &Request<'a>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Verdict<'a> {
        let prepared = Authentication::Prepared(self.prepared.as_ref().map_err(|error| *error));
        self.authorizer.check_with(prepared, request, scratch, now).verdict()
    }
}

impl<'a> Backend<'a> {
    /// How callers authenticate: on the hosts of a search cluster, its own users may take the place
    /// of the policy's.
    #[must_use]
    pub fn identity(self) -> &'a Identity {
        match self {
            Self::Rules(rules) => &rules.loaded.policy.identity,
            Self::Cluster(cluster) => cluster.identity(),
        }
    }

    /// Adds the source of a subject that has none: the source that its user name belongs to. A tool
    /// may know only the name, but patterns with `{user}` also need the source.
    fn with_source(self, subject: Subject) -> Subject {
        let source = subject.source.or_else(|| self.identity().source_of(&subject.user));
        Subject { source, ..subject }
    }
}

impl Scratch {
    /// The look-ups of credentials since the last call: for the rules, and for a search cluster.
    pub fn take_cache_lookups(&mut self) -> [CacheLookups; 2] {
        [self.callers.take_lookups(), self.cluster_callers.take_lookups()]
    }
}
