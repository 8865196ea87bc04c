//! The first backend: requests that the rules of the policy decide.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use condition::{Attribute, Constant, Fault};
use engine::{
    AccessRequest, CallerConditions, ConditionInputs, Decision, Engine, PatternSubject, RoleSet,
};
use identity::{
    Authenticator, CachedSubject, Certificate, HeapSize, NotAuthenticated, Subject, UnixTime,
};
use policy::model::RuleId;

use crate::authentication::{Authentication, Caller, Trust};
use crate::conditions::{self, HeaderLines};
use crate::reason::Reason;
use crate::recorded::{RecordedInputs, RecordedVariables};
use crate::request::{self, ParsedRequest, Request};
use crate::responder::{CallerHeaders, Permitted, Responder};
use crate::scratch::AnswerScratch;
use crate::verdict::{Allowed, Denied, Outcome, Verdict};
use crate::{Scratch, answer};

/// The most steps that the conditions of all rules that match a request may take together: ten
/// times the limit of one condition. Many rules may match each interpretation of a path, and each
/// of their conditions may read all header lines.
const MAX_STEPS: usize = 10 * condition::MAX_STEPS;

/// The rules of a policy, ready to decide about requests.
#[derive(Debug)]
pub struct Rules {
    pub(crate) loaded: Arc<policy::Loaded>,
    engine: Arc<Engine>,
    pub(crate) authenticator: Authenticator<RulesCaller>,
    /// The headers of an anonymous caller. Those of a subject are cached with the subject.
    anonymous: CallerHeaders,
    /// The data of conditions for an anonymous caller.
    anonymous_conditions: Option<CallerConditions>,
    /// The variables of requests that conditions read.
    pub(crate) read_variables: BTreeSet<Attribute>,
    /// The variables whose values the decision log records.
    recorded_variables: RecordedVariables,
    /// Whether a condition reads the names of certificates.
    reads_certificates: bool,
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
    /// The data of conditions, if the policy has any.
    conditions: Option<CallerConditions>,
    /// The subject with its claims. It is kept only if headers name its roles and these depend on
    /// the request. Then its headers are rendered for each request.
    with_claims: Option<Box<(Subject, Trust)>>,
    /// The values that conditions read in its claims, for the decision log.
    read_claims: Option<Box<RecordedInputs>>,
}

impl HeapSize for RulesCaller {
    fn heap_size(&self) -> usize {
        let claims = self
            .with_claims
            .as_ref()
            .map_or(0, |kept| size_of_val(&**kept) + condition::claim_size(&kept.0.claims));
        let conditions = self.conditions.as_ref().map_or(0, CallerConditions::heap_size);
        let read_claims = self.read_claims.as_ref().map_or(0, |claims| claims.heap_size());
        self.roles.heap_size() + self.headers.heap_size() + conditions + claims + read_claims
    }
}

impl Rules {
    /// Compiles the rules. `unchanged` are the rules that were compiled before from the same
    /// policy, maybe with other keys.
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
        let inputs = conditions::caller_inputs(None);
        let anonymous_conditions = engine.caller_conditions(engine.anonymous(), inputs);
        // Certain roles are those that do not depend on the request.
        let roles = engine.certain_role_names(engine.anonymous(), anonymous_conditions.as_ref());
        let anonymous = responder.caller_headers(None, &roles);
        let conditions = policy.all_conditions();
        let read_variables: BTreeSet<Attribute> = conditions
            .flat_map(|condition| condition.expression.attributes())
            .filter(|attribute| !attribute.is_of_caller())
            .cloned()
            .collect();
        Self {
            engine,
            authenticator,
            anonymous,
            anonymous_conditions,
            reads_certificates: read_variables.contains(&Attribute::Certificate),
            read_variables,
            recorded_variables: RecordedVariables::new(policy),
            labels,
            loaded,
        }
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
        let Scratch { parse, answer, callers, caller_headers, .. } = scratch;
        let parsed = match request::parse(request, &self.loaded.policy.identity, parse) {
            Ok(parsed) => parsed,
            Err(reason) => return Outcome::Decided(responder.deny_early(request, reason, answer)),
        };
        let credentials = parsed.credentials;
        let reads_credentials = authentication.reads_credentials();
        let caller = authentication.caller(
            &self.authenticator,
            (credentials, parsed.certificate),
            now,
            callers,
            |subject, trust| self.caller(responder, subject, trust),
        );
        // Credentials that authenticated the caller need no further validation: the function
        // `validate_credentials` says why. All other credentials are validated here.
        let is_known_valid = reads_credentials && caller.is_ok();
        debug_assert!(!is_known_valid || request::validate_credentials(credentials).is_ok());
        if !is_known_valid && let Err(reason) = request::validate_credentials(credentials) {
            return Outcome::Decided(responder.deny_early(request, reason, answer));
        }
        Outcome::Decided(match caller {
            Ok(caller) => {
                let scratch = (answer, caller_headers);
                self.evaluate(responder, request, &parsed, caller, now, scratch)
            }
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
        (scratch, caller_headers): (&'a mut AnswerScratch, &'a mut Option<CallerHeaders>),
    ) -> Verdict<'a> {
        // The data of the rules that is cached with the caller.
        let attached = caller.map(|caller| &caller.attached);
        let subject = caller.map(|caller| &caller.subject);
        let read_claims = attached.and_then(|attached| attached.read_claims.as_deref());
        let path = parsed.paths.first();
        let roles = attached.map_or_else(|| self.engine.anonymous(), |attached| &attached.roles);
        let conditions = match attached {
            Some(attached) => attached.conditions.as_ref(),
            None => self.anonymous_conditions.as_ref(),
        };
        let lines = HeaderLines(request.headers);
        let names = self.certificate_names(parsed.certificate);
        let mut inputs = ConditionInputs { caller: conditions, ..ConditionInputs::default() };
        if conditions.is_some() {
            inputs.request = conditions::request_inputs(request, &lines, &names, now);
        }
        let subject_of_patterns = caller.map(pattern_subject);
        let (reason, rule) = match self.decide(parsed, roles, subject_of_patterns, &inputs).1 {
            Decision::Allowed(rule) => {
                let mut headers = attached.map_or(&self.anonymous, |attached| &attached.headers);
                let held = if responder.shows_roles {
                    self.held_role_names(parsed, roles, subject_of_patterns, &inputs)
                } else {
                    None
                };
                if let Some(held) = &held {
                    let kept = attached.and_then(|attached| attached.with_claims.as_deref());
                    let kept = kept.map(|(subject, trust)| (subject, *trust));
                    headers = caller_headers.insert(responder.caller_headers(kept, held));
                }
                let permitted = Permitted {
                    rule: self.label(rule),
                    subject,
                    headers,
                    path,
                    // The rules have no values for these two.
                    target: "",
                    document_security: "",
                };
                let role_names = || match &held {
                    Some(held) => {
                        answer::unreserved_roles(held).into_iter().map(str::to_owned).collect()
                    }
                    None => self.unreserved_role_names(roles),
                };
                match responder.changes(request, permitted, role_names, now, &mut scratch.changes) {
                    Ok(allowed) => return Verdict::Allowed(Allowed { read_claims, ..allowed }),
                    Err(reason) => (reason, None),
                }
            }
            // An anonymous caller is asked for credentials (401), even if a `deny` rule matches:
            // with credentials, the caller has other roles, and the answer may differ.
            Decision::Denied(rule) if caller.is_none() => (Reason::MissingCredentials, Some(rule)),
            Decision::NotAllowed if caller.is_none() => (Reason::MissingCredentials, None),
            Decision::ConditionFailed(rule) if caller.is_none() => {
                (Reason::MissingCredentials, Some(rule))
            }
            Decision::Denied(rule) => (Reason::Denied, Some(rule)),
            Decision::ConditionFailed(rule) => (Reason::ConditionFailed, Some(rule)),
            Decision::NotAllowed => (Reason::NotAllowed, None),
        };
        let rule = rule.map(|rule| self.label(rule));
        let body = &mut scratch.denial.body;
        let denied = responder.deny(request, reason, parsed.credentials, rule, body);
        Verdict::Denied(Denied { subject, path, read_claims, ..denied })
    }

    /// Finds the deciding rule. The decision is to allow only if every interpretation of the path
    /// in `all` is allowed, and no `deny` rule matches an interpretation in `deny_only` (see
    /// [`policy::canonical::PathInterpretations`]). Nearly every path has a single interpretation:
    /// itself. Returns the interpretation that decided, and the decision. If the decision is to
    /// allow, the interpretation is the canonical path.
    pub fn decide<'r>(
        &self,
        parsed: &ParsedRequest<'r>,
        roles: &RoleSet,
        subject: Option<PatternSubject<'_>>,
        inputs: &ConditionInputs<'_>,
    ) -> (&'r [u8], Decision) {
        let ParsedRequest { method: action, host: scope, paths, .. } = parsed;
        let steps_left = Cell::new(MAX_STEPS);
        let inputs = &ConditionInputs { steps_left: Some(&steps_left), ..*inputs };
        let canonical = paths.first();
        let request = AccessRequest { action, scope, resource: canonical };
        let allowed = match self.engine.decide_with(roles, subject, request, inputs) {
            allowed @ Decision::Allowed(_) => allowed,
            negative @ (Decision::Denied(_)
            | Decision::ConditionFailed(_)
            | Decision::NotAllowed) => return (canonical, negative),
        };
        if paths.is_only() {
            return (canonical, allowed);
        }
        for path in paths.all().skip(1) {
            let request = AccessRequest { resource: path, ..request };
            match self.engine.decide_with(roles, subject, request, inputs) {
                Decision::Allowed(_) => {}
                negative @ (Decision::Denied(_)
                | Decision::ConditionFailed(_)
                | Decision::NotAllowed) => return (path, negative),
            }
        }
        // An upstream that does not remove dot segments sees one of these paths. A `deny` rule for
        // it counts. That no rule allows it does not matter.
        for path in paths.deny_only() {
            let request = AccessRequest { resource: path, ..request };
            match self.engine.decide_with(roles, subject, request, inputs) {
                Decision::Allowed(_) | Decision::ConditionFailed(_) | Decision::NotAllowed => {}
                denied @ Decision::Denied(_) => return (path, denied),
            }
        }
        (canonical, allowed)
    }

    /// Resolves the roles of a subject and renders its headers, to cache them with it.
    pub(crate) fn caller(
        &self,
        responder: &Responder,
        subject: &Subject,
        trust: Trust,
    ) -> RulesCaller {
        let (roles, conditions) = self.roles_and_conditions(Some(subject));
        let inputs = conditions::caller_inputs(Some(subject));
        let has_claims = subject.claims.is_object();
        let read_claims =
            has_claims.then(|| self.recorded_variables.record_claims(&inputs)).flatten();
        let names = self.engine.certain_role_names(&roles, conditions.as_ref());
        let is_uncertain = responder.shows_roles
            && conditions.as_ref().is_some_and(CallerConditions::has_uncertain_roles);
        let identity = &self.loaded.policy.identity;
        let prefix = subject.source.map_or("", |source| identity.user_prefix(source));
        RulesCaller {
            user_prefix_len: prefix.len(),
            headers: responder.caller_headers(Some((subject, trust)), &names),
            with_claims: is_uncertain.then(|| Box::new((subject.clone(), trust))),
            conditions,
            roles,
            read_claims,
        }
    }

    /// The values that conditions read in a request, for the decision log. Values that each line of
    /// the log has anyway are left out; `None` if no value remains. `read_claims` is the field of
    /// the verdict.
    #[must_use]
    pub fn recorded_inputs(
        &self,
        request: &Request<'_>,
        read_claims: Option<&RecordedInputs>,
        now: UnixTime,
    ) -> Option<Box<RecordedInputs>> {
        let lines = HeaderLines(request.headers);
        let certificate = request::certificate(request, &self.loaded.policy.identity);
        let names = self.certificate_names(certificate.ok().flatten());
        let inputs = conditions::request_inputs(request, &lines, &names, now);
        self.recorded_variables.record(inputs, read_claims)
    }

    /// The names of a certificate for conditions, if they read any.
    fn certificate_names(
        &self,
        certificate: Option<Certificate<'_>>,
    ) -> Result<Vec<Constant>, Fault> {
        if self.reads_certificates {
            conditions::certificate_names(certificate)
        } else {
            Err(Fault::Unknown)
        }
    }

    /// The roles of a caller, and the other data that decisions about it need. If the caller has an
    /// actor, the roles are those that both have. Without a subject, the caller is anonymous.
    #[must_use]
    pub fn roles_and_conditions(
        &self,
        subject: Option<&Subject>,
    ) -> (RoleSet, Option<CallerConditions>) {
        let inputs = conditions::caller_inputs(subject);
        let roles = self.roles_without_actor(subject);
        match subject.and_then(|subject| subject.actor.as_deref()) {
            Some(actor) => {
                let of_actor = self.roles_without_actor(Some(actor));
                let (common, conditions) = self.engine.both(&roles, &of_actor, inputs);
                (common, Some(conditions))
            }
            None => {
                let conditions = self.engine.caller_conditions(&roles, inputs);
                (roles, conditions)
            }
        }
    }

    fn roles_without_actor(&self, subject: Option<&Subject>) -> RoleSet {
        let Some(subject) = subject else { return self.engine.anonymous().clone() };
        let [groups, roles] =
            [&subject.groups, &subject.roles].map(|names| names.iter().map(|name| &**name));
        self.engine.roles_of(&subject.user, groups, roles)
    }

    /// Whether a condition depends on the query, the address or certificate of the client, or a
    /// header. Other variables, such as the method or the time, do not count.
    #[must_use]
    pub fn reads_more_than_the_path(&self) -> bool {
        self.read_variables.iter().any(|attribute| {
            matches!(
                attribute,
                Attribute::Query(_)
                    | Attribute::Header(_)
                    | Attribute::SourceIp
                    | Attribute::Certificate
            )
        })
    }

    /// Whether a condition depends on the header with this name.
    #[must_use]
    pub fn reads_header(&self, name: &[u8]) -> bool {
        self.read_variables.iter().any(|attribute| {
            matches!(attribute, Attribute::Header(read) if name.eq_ignore_ascii_case(read.as_bytes()))
        })
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

    /// The names of the roles that a caller has for this request; `None` if none of its roles
    /// depends on the request.
    fn held_role_names(
        &self,
        parsed: &ParsedRequest<'_>,
        roles: &RoleSet,
        subject: Option<PatternSubject<'_>>,
        inputs: &ConditionInputs<'_>,
    ) -> Option<Vec<&str>> {
        inputs.caller.filter(|caller| caller.has_uncertain_roles())?;
        let ParsedRequest { method: action, host: scope, paths, .. } = parsed;
        let request = AccessRequest { action, scope, resource: paths.first() };
        let steps_left = Cell::new(MAX_STEPS);
        let inputs = ConditionInputs { steps_left: Some(&steps_left), ..*inputs };
        Some(self.engine.held_role_names(roles, subject, request, &inputs))
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
