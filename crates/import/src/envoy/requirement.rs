//! `JwtRequirement` of Envoy: which requests meet one, and whose claims Envoy knows then.
//!
//! The order of its members counts: Envoy tries one after the other until it can decide, and removes a token that it has verified
//! unless `forward` is set. A member whose outcome cannot be told has each that is possible.

use std::collections::BTreeSet;

use document::View;

use crate::expr::{Expr, Notes as _};
use crate::sources::{Kind, Source, Sources};
use crate::term::Caller;

/// A requirement of the filter `jwt_authn`.
pub(super) struct Requirement<'n> {
    /// That a request meets it.
    pub(super) condition: Expr,
    /// For each source, the outcomes for its tokens; none for users of Basic.
    outcomes: Vec<Outcomes>,
    /// The first member whose outcome cannot be told.
    unclear: Option<View<'n>>,
}

/// What becomes of a request.
type Outcomes = BTreeSet<(Status, Request)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Met,
    /// There is no token, which `allow_missing` accepts.
    Missing,
    Failed,
}

/// A request on its way through the members of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    /// The source of its token, which is valid.
    token: Option<usize>,
    /// Whether Envoy has verified the token, and knows its claims.
    is_verified: bool,
}

impl<'n> Requirement<'n> {
    /// Reads a requirement of a filter.
    pub(super) fn of(requires: &View<'n>, filter: &View<'n>, sources: &Sources) -> Self {
        let mut reader = Reader { filter, sources, unclear: None };
        let mut outcomes_of = |token| reader.outcomes(requires, Request { token, is_verified: false });
        // To this filter, users of Basic have no token.
        let without = outcomes_of(None);
        let outcomes: Vec<Outcomes> = (0..)
            .zip(&sources.all)
            .map(|(source, Source { kind, .. })| match kind {
                Kind::Jwt(_) => outcomes_of(Some(source)),
                Kind::Users { .. } | Kind::UsersFile { .. } => Outcomes::new(),
            })
            .collect();
        let tokens: Vec<&Outcomes> = outcomes.iter().filter(|outcomes| !outcomes.is_empty()).collect();
        let has_users = tokens.len() < sources.all.len();
        let with_token = || Expr::caller(Caller::Authenticated);
        let all_tokens = tokens.iter().all(|outcomes| is_met(outcomes));
        let any_token = tokens.iter().any(|outcomes| may_be_met(outcomes));
        let (under, is_exact) = match (is_met(&without), all_tokens) {
            (true, true) => (Expr::always(), true),
            (true, false) => (with_token().negated(), !any_token && !has_users),
            (false, true) if !has_users && any_token => (with_token(), !may_be_met(&without)),
            (false, _) => (Expr::never(), !any_token && !may_be_met(&without)),
        };
        let (at, message) = reader.unclear.clone().unwrap_or_else(|| {
            let message = "a grant to all callers of one of several identity sources cannot be expressed";
            (requires.clone(), message)
        });
        let condition = if is_exact { under } else { at.between(under, Expr::always(), message) };
        Self { condition, outcomes, unclear: reader.unclear.map(|(at, _)| at) }
    }

    /// Where Envoy knows the claims of the tokens of a source that pass, if this is required `here`.
    pub(super) fn verified(&self, source: usize, here: Expr) -> Option<Expr> {
        let passing = self.outcomes.get(source)?.iter().filter(|(status, _)| *status == Status::Met);
        let verified: BTreeSet<bool> = passing.map(|(_, request)| request.is_verified).collect();
        match (verified.contains(&true), verified.contains(&false), &self.unclear) {
            (true, true, Some(unclear)) => {
                let message = "tokens of providers that are not named may be verified here";
                Some(unclear.between(Expr::never(), here, message))
            }
            (true, false, _) => Some(here),
            _ => None,
        }
    }
}

fn is_met(outcomes: &Outcomes) -> bool {
    outcomes.iter().all(|(status, _)| *status == Status::Met)
}

fn may_be_met(outcomes: &Outcomes) -> bool {
    outcomes.iter().any(|(status, _)| *status == Status::Met)
}

/// Whether a member has this field, and no other.
fn is_only(member: &View<'_>, key: &str) -> bool {
    matches!(member.entries().as_slice(), [(only, _)] if only == key)
}

struct Reader<'r, 'n> {
    filter: &'r View<'n>,
    sources: &'r Sources,
    /// The first member whose outcome cannot be told, and why.
    unclear: Option<(View<'n>, &'static str)>,
}

impl<'n> Reader<'_, 'n> {
    fn outcomes(&mut self, requirement: &View<'n>, request: Request) -> Outcomes {
        let entries = requirement.entries();
        let (key, value) = match entries.as_slice() {
            [one] => one,
            [] if requirement.is_mapping() => return Outcomes::from([(Status::Met, request)]),
            _ => return self.any_outcome(requirement, "exactly one requirement is expected here", request),
        };
        match key.as_str() {
            "provider_name" => self.provider(value, value.text().unwrap_or_default(), request),
            "requires_any" | "requires_all" => {
                let members = value.list("requirements");
                if members.is_empty() || !value.besides(&["requirements"]).is_empty() {
                    return self.any_outcome(value, "only `requirements` are expected here", request);
                }
                if key == "requires_any" { self.any(&members, request) } else { self.all(&members, request) }
            }
            "allow_missing" | "allow_missing_or_failed" | "extract_only_without_validation" => {
                self.lenient(value, key, request)
            }
            _ => self.any_outcome(value, "this requirement cannot be expressed", request),
        }
    }

    /// A token of this provider.
    fn provider(&mut self, at: &View<'n>, name: &str, request: Request) -> Outcomes {
        let Some(token) = request.token else { return Outcomes::from([(Status::Missing, request)]) };
        match self.sources.of_provider(name) {
            Some(source) if source == token => {
                let forwards = self.provider_named(name).is_some_and(|provider| provider.is_true("forward"));
                let token = request.token.filter(|_| forwards);
                Outcomes::from([(Status::Met, Request { token, is_verified: true })])
            }
            Some(_) => Outcomes::from([(Status::Failed, request)]),
            None => {
                let mut outcomes = self.any_outcome(at, "tokens of this provider are not accepted", request);
                let issuer = self.provider_named(name).and_then(|provider| provider.text_of("issuer"));
                if issuer.is_some_and(|issuer| !issuer.is_empty() && Some(issuer) != self.issuer(token)) {
                    outcomes.retain(|(status, _)| *status != Status::Met);
                }
                outcomes
            }
        }
    }

    /// Each member must be met; the first that is not decides.
    fn all(&mut self, members: &[View<'n>], request: Request) -> Outcomes {
        let (mut decided, mut open) = (Outcomes::new(), BTreeSet::from([request]));
        for member in members {
            let outcomes: Outcomes =
                open.into_iter().flat_map(|request| self.outcomes(member, request)).collect();
            let (met, others): (Outcomes, Outcomes) =
                outcomes.into_iter().partition(|(status, _)| *status == Status::Met);
            decided.extend(others);
            open = met.into_iter().map(|(_, request)| request).collect();
        }
        decided.extend(open.into_iter().map(|request| (Status::Met, request)));
        decided
    }

    /// One member must be met. Only where no member is, `allow_missing` accepts that for each of them there was no token, and
    /// `allow_missing_or_failed` accepts all.
    fn any(&mut self, members: &[View<'n>], request: Request) -> Outcomes {
        let of = |key: &str| members.iter().find(|member| is_only(member, key));
        let (missing, failed) = (of("allow_missing"), of("allow_missing_or_failed"));
        let is_bypass = |member: &View<'n>| {
            is_only(member, "allow_missing") || is_only(member, "allow_missing_or_failed")
        };
        let others: Vec<&View<'n>> = members.iter().filter(|member| !is_bypass(member)).collect();
        if let (true, Some(bypass)) = (others.is_empty(), failed.or(missing)) {
            return self.outcomes(bypass, request);
        }
        let (mut decided, mut open) = (Outcomes::new(), Outcomes::from([(Status::Missing, request)]));
        for member in others {
            let mut next = Outcomes::new();
            for (before, request) in open {
                for (status, request) in self.outcomes(member, request) {
                    match status {
                        Status::Met => decided.insert((Status::Met, request)),
                        Status::Missing | Status::Failed => next.insert((status.max(before), request)),
                    };
                }
            }
            open = next;
        }
        let is_bypassed = |status| failed.is_some() || missing.is_some() && status == Status::Missing;
        decided.extend(open.into_iter().map(|(status, request)| match status {
            status if is_bypassed(status) => (Status::Met, request),
            status => (status, request),
        }));
        decided
    }

    /// What requests without a token meet. It verifies a token of any provider.
    fn lenient(&mut self, at: &View<'n>, key: &str, request: Request) -> Outcomes {
        let Some(token) = request.token else { return Outcomes::from([(Status::Met, request)]) };
        let issuer = self.issuer(token);
        let providers = self.filter.get("providers").map(|all| all.named_entries()).unwrap_or_default();
        let of_issuer = providers.iter().filter(|(_, provider)| provider.text_of("issuer") == issuer);
        // Of several providers with the issuer, Envoy takes any.
        let may_fail = key == "allow_missing" && of_issuer.count() > 1;
        let mut outcomes = self.any_outcome(at, "tokens of any provider are verified here", request);
        outcomes.retain(|(status, _)| match status {
            Status::Met => true,
            Status::Missing => false,
            Status::Failed => may_fail,
        });
        outcomes
    }

    /// Every outcome, because that of this member cannot be told.
    fn any_outcome(&mut self, at: &View<'n>, message: &'static str, request: Request) -> Outcomes {
        self.unclear.get_or_insert_with(|| (at.clone(), message));
        let mut outcomes = Outcomes::new();
        for status in [Status::Met, Status::Missing, Status::Failed] {
            for token in [None, request.token] {
                for is_verified in [true, request.is_verified] {
                    outcomes.insert((status, Request { token, is_verified }));
                }
            }
        }
        outcomes
    }

    fn provider_named(&self, name: &str) -> Option<View<'n>> {
        let providers = self.filter.get("providers")?.named_entries();
        providers.into_iter().find(|(key, _)| key == name).map(|(_, provider)| provider)
    }

    fn issuer(&self, source: usize) -> Option<&str> {
        match &self.sources.all.get(source)?.kind {
            Kind::Jwt(issuer) => Some(&issuer.issuer),
            Kind::Users { .. } | Kind::UsersFile { .. } => None,
        }
    }
}
