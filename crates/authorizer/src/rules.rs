//! The first backend: requests that the rules of the policy decide.

use std::sync::Arc;

use engine::{AccessRequest, Decision, Engine, PatternSubject, RoleSet};
use identity::{Authenticator, CachedSubject, HeapSize, NotAuthenticated, Subject, UnixTime};
use policy::model::RuleId;

use crate::authentication::{Authentication, Caller, Trust};
use crate::reason::Reason;
use crate::request::{self, ParsedRequest, Request};
use crate::responder::{CallerHeaders, Permitted, Responder};
use crate::scratch::AnswerScratch;
use crate::verdict::{Denied, Outcome, Verdict};
use crate::{Scratch, answer};

/// The rules of a policy, ready to decide about requests.
#[derive(Debug)]
pub struct Rules {
    pub(crate) loaded: Arc<policy::Loaded>,
    engine: Arc<Engine>,
    pub(crate) authenticator: Authenticator<RulesCaller>,
    /// The headers of an anonymous caller. Those of a subject are cached with the subject.
    anonymous: CallerHeaders,
    /// The label `role: rule` of each rule, indexed by [`RuleId`].
    labels: Arc<[Box<str>]>,
}

/// The data of the rules for a caller, cached with it, so that its next requests neither resolve
/// roles nor format headers.
#[derive(Debug)]
pub struct RulesCaller {
    roles: RoleSet,
    /// The length of the `user_prefix` in its user name.
    user_prefix_len: usize,
    headers: CallerHeaders,
}

impl HeapSize for RulesCaller {
    fn heap_size(&self) -> usize {
        self.roles.heap_size() + self.headers.heap_size()
    }
}

impl Rules {
    /// Compiles the rules. `unchanged` are the rules of the same policy with other keys.
    pub(crate) fn compile(
        loaded: Arc<policy::Loaded>,
        authenticator: Authenticator<RulesCaller>,
        responder: &Responder,
        unchanged: Option<&Self>,
    ) -> Self {
        let policy = &loaded.policy;
        let (engine, labels) = match unchanged {
            Some(rules) => (Arc::clone(&rules.engine), Arc::clone(&rules.labels)),
            None => (Engine::compile(policy).into(), labels(policy)),
        };
        let roles: Vec<&str> = engine.role_names(engine.anonymous()).collect();
        let anonymous = responder.caller_headers(None, &roles);
        Self { engine, authenticator, anonymous, labels, loaded }
    }

    /// Authorizes a request: parses it, authenticates its caller, and evaluates the rules.
    pub(crate) fn check<'a>(
        &'a self,
        responder: &'a Responder,
        request: &Request<'a>,
        authentication: Authentication<'_>,
        scratch: &'a mut Scratch,
        now: UnixTime,
    ) -> Outcome<'a> {
        let Scratch { parse, answer, callers, .. } = scratch;
        let parsed = match request::parse(request, &self.loaded.policy.identity, parse) {
            Ok(parsed) => parsed,
            Err(reason) => return Outcome::Decided(responder.deny_early(request, reason, answer)),
        };
        let credentials = parsed.credentials;
        let reads_credentials = authentication.reads_credentials();
        let caller = authentication.caller(
            &self.authenticator,
            credentials,
            now,
            callers,
            |subject, trust| self.caller(responder, subject, trust),
        );
        // `validate_credentials` need not run for accepted credentials: it says why.
        let is_well_formed = reads_credentials && caller.is_ok();
        debug_assert!(!is_well_formed || request::validate_credentials(credentials).is_ok());
        if !is_well_formed && let Err(reason) = request::validate_credentials(credentials) {
            return Outcome::Decided(responder.deny_early(request, reason, answer));
        }
        Outcome::Decided(match caller {
            Ok(caller) => self.evaluate(responder, request, &parsed, caller, now, answer),
            Err(NotAuthenticated::Invalid(error)) => {
                let reason = Reason::InvalidCredentials(error);
                let body = &mut answer.denial.body;
                let denied = responder.deny(request, reason, credentials, None, body);
                Verdict::Denied(Denied { path: parsed.paths.first(), ..denied })
            }
            Err(NotAuthenticated::Pending(verification)) => return Outcome::Pending(verification),
        })
    }

    /// Evaluates the rules and builds the verdict. Only this function and `Cluster::evaluate` allow
    /// a request.
    fn evaluate<'a>(
        &'a self,
        responder: &'a Responder,
        request: &Request<'a>,
        parsed: &ParsedRequest<'a>,
        caller: Caller<'a, RulesCaller>,
        now: UnixTime,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        let attached = caller.map(|caller| &caller.attached);
        let subject = caller.map(|caller| &caller.subject);
        let path = parsed.paths.first();
        let roles = attached.map_or_else(|| self.engine.anonymous(), |attached| &attached.roles);
        let (reason, rule) = match self.decide(parsed, roles, caller.map(pattern_subject)).1 {
            Decision::Allowed(rule) => {
                let permitted = Permitted {
                    rule: self.label(rule),
                    subject,
                    headers: attached.map_or(&self.anonymous, |attached| &attached.headers),
                    path,
                    target: "",
                    document_security: "",
                };
                let role_names = || self.unreserved_role_names(roles);
                match responder.changes(request, permitted, role_names, now, &mut scratch.changes) {
                    Ok(allowed) => return Verdict::Allowed(allowed),
                    Err(reason) => (reason, None),
                }
            }
            // An anonymous caller is asked for credentials (401), even if a `deny` rule matches:
            // with credentials, the caller has other roles, and the answer may differ.
            Decision::Denied(rule) if caller.is_none() => (Reason::MissingCredentials, Some(rule)),
            Decision::NotAllowed if caller.is_none() => (Reason::MissingCredentials, None),
            Decision::Denied(rule) => (Reason::Denied, Some(rule)),
            Decision::NotAllowed => (Reason::NotAllowed, None),
        };
        let rule = rule.map(|rule| self.label(rule));
        let body = &mut scratch.denial.body;
        let denied = responder.deny(request, reason, parsed.credentials, rule, body);
        Verdict::Denied(Denied { subject, path, ..denied })
    }

    /// Finds the deciding rule. The decision is to allow only if every interpretation of the path
    /// in `all` is allowed, and no `deny` rule matches an interpretation in `deny_only` (see
    /// [`policy::canonical::PathInterpretations`]). Nearly every path has a single interpretation:
    /// itself. Returns the decision and its interpretation; if allowed, the canonical path.
    pub fn decide<'r>(
        &self,
        parsed: &ParsedRequest<'r>,
        roles: &RoleSet,
        subject: Option<PatternSubject<'_>>,
    ) -> (&'r [u8], Decision) {
        let ParsedRequest { method: action, host: scope, paths, credentials: _ } = parsed;
        let canonical = paths.first();
        let request = AccessRequest { action, scope, resource: canonical };
        let allowed = match self.engine.decide(roles, subject, request) {
            allowed @ Decision::Allowed(_) => allowed,
            negative @ (Decision::Denied(_) | Decision::NotAllowed) => {
                return (canonical, negative);
            }
        };
        if paths.is_only() {
            return (canonical, allowed);
        }
        for path in paths.all().skip(1) {
            match self.engine.decide(roles, subject, AccessRequest { resource: path, ..request }) {
                Decision::Allowed(_) => {}
                negative @ (Decision::Denied(_) | Decision::NotAllowed) => return (path, negative),
            }
        }
        // An upstream that does not remove dot segments would see a path that a `deny` rule covers.
        for path in paths.deny_only() {
            match self.engine.decide(roles, subject, AccessRequest { resource: path, ..request }) {
                Decision::Allowed(_) | Decision::NotAllowed => {}
                denied @ Decision::Denied(_) => return (path, denied),
            }
        }
        (canonical, allowed)
    }

    /// The data of the rules for a subject.
    pub(crate) fn caller(
        &self,
        responder: &Responder,
        subject: &Subject,
        trust: Trust,
    ) -> RulesCaller {
        let [groups, roles] =
            [&subject.groups, &subject.roles].map(|names| names.iter().map(|name| &**name));
        let roles = self.engine.roles_of(&subject.user, groups, roles);
        let names: Vec<&str> = self.engine.role_names(&roles).collect();
        let identity = &self.loaded.policy.identity;
        let prefix = subject.source.map_or("", |source| identity.user_prefix(source));
        RulesCaller {
            user_prefix_len: prefix.len(),
            headers: responder.caller_headers(Some((subject, trust)), &names),
            roles,
        }
    }

    /// The compiled rules.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Authenticates callers on all hosts but those of a search cluster.
    #[must_use]
    pub fn authenticator(&self) -> &Authenticator<RulesCaller> {
        &self.authenticator
    }

    fn unreserved_role_names(&self, roles: &RoleSet) -> Vec<String> {
        let names: Vec<&str> = self.engine.role_names(roles).collect();
        answer::unreserved_roles(&names).into_iter().map(str::to_owned).collect()
    }

    fn label(&self, rule: RuleId) -> &str {
        self.labels.get(rule.0 as usize).map_or("", |label| label)
    }
}

fn labels(policy: &policy::Policy) -> Arc<[Box<str>]> {
    policy
        .rules()
        .map(|(_, role, rule, _)| format!("{}: {}", role.name, rule.name).into())
        .collect()
}

/// The subject, as patterns see it.
fn pattern_subject(caller: &CachedSubject<RulesCaller>) -> PatternSubject<'_> {
    let CachedSubject { subject, attached } = caller;
    PatternSubject {
        user: subject.user.as_bytes(),
        prefix_len: attached.user_prefix_len,
        source: subject.source,
    }
}
