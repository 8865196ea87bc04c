//! Envoy's `JwtRequirement`: the requests that meet it, and the tokens that Envoy then has
//! verified.

use document::View;

use crate::expr::{Expr, Notes as _};
use crate::sources::Sources;
use crate::term::Caller;

/// A requirement of the filter `jwt_authn`.
pub(super) struct Requirement<'n> {
    /// Holds for requests that meet the requirement.
    pub(super) condition: Expr,
    /// For each source, the outcome for its tokens; `None` for a source of Basic users.
    outcomes: Vec<Option<Outcome>>,
    /// The first part of the requirement whose outcome is unclear.
    unclear: Option<View<'n>>,
}

/// The result of a requirement for requests with a valid token of one source, or without a token.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    /// The request passes.
    Met {
        /// Whether Envoy has verified its token, and knows the claims; `None` if that is unclear.
        is_verified: Option<bool>,
    },
    /// The request fails because it has no token. `allow_missing` beside it would accept that.
    Missing,
    Failed,
    Unclear,
}

const UNVERIFIED: Outcome = Outcome::Met { is_verified: Some(false) };

impl Outcome {
    fn is_met(self) -> bool {
        matches!(self, Self::Met { .. })
    }

    fn may_be_met(self) -> bool {
        self.is_met() || self == Self::Unclear
    }
}

impl<'n> Requirement<'n> {
    /// Reads a requirement of a filter.
    pub(super) fn new(requires: &View<'n>, filter: &View<'n>, sources: &Sources) -> Self {
        let mut reader = Reader { filter, sources, unclear: None };
        // For requests without a token, such as those of Basic users.
        let without = reader.outcome(requires, None);
        let mut outcomes = Vec::new();
        for (number, source) in sources.all.iter().enumerate() {
            outcomes.push(source.issuer().map(|_| reader.outcome(requires, Some(number))));
        }
        let [met, may_be_met] = [Outcome::is_met as fn(Outcome) -> bool, Outcome::may_be_met]
            .map(|counts| callers(requires, sources, without, &outcomes, counts));
        let is_unclear = without == Outcome::Unclear || outcomes.contains(&Some(Outcome::Unclear));
        let condition = match &reader.unclear {
            Some((at, message)) if is_unclear => at.between(met, may_be_met, *message),
            _ => met,
        };
        Self { condition, outcomes, unclear: reader.unclear.map(|(at, _)| at) }
    }

    /// The condition under which Envoy has verified tokens of this source, if the requirement
    /// applies to requests that meet `applies`.
    pub(super) fn verified(&self, source: usize, applies: Expr) -> Option<Expr> {
        match ((*self.outcomes.get(source)?)?, &self.unclear) {
            (Outcome::Met { is_verified: Some(true) }, _) => Some(applies),
            (Outcome::Met { is_verified: None } | Outcome::Unclear, Some(unclear)) => {
                let message = "tokens of any provider may be verified here";
                Some(unclear.between(Expr::never(), applies, message))
            }
            _ => None,
        }
    }
}

/// The callers for whose outcome `counts` is true. `without` is the outcome of requests without a
/// token, such as those of Basic users.
fn callers(
    requires: &View<'_>,
    sources: &Sources,
    without: Outcome,
    outcomes: &[Option<Outcome>],
    counts: fn(Outcome) -> bool,
) -> Expr {
    let counted: Vec<bool> =
        outcomes.iter().map(|outcome| counts(outcome.unwrap_or(without))).collect();
    match (counts(without), counted.iter().all(|counts| *counts)) {
        (true, true) => Expr::always(),
        (false, true) if !counted.is_empty() => Expr::caller(Caller::Authenticated),
        (has_anonymous, _) => {
            let anonymous = Expr::caller(Caller::Authenticated).negated();
            let counting = counted.iter().enumerate().filter(|(_, counts)| **counts);
            let tokens = counting.map(|(source, _)| sources.any_of(requires, source));
            Expr::any(has_anonymous.then_some(anonymous).into_iter().chain(tokens))
        }
    }
}

struct Reader<'r, 'n> {
    filter: &'r View<'n>,
    sources: &'r Sources,
    /// The first part of the requirement whose outcome is unclear, and why.
    unclear: Option<(View<'n>, &'static str)>,
}

impl<'n> Reader<'_, 'n> {
    /// The outcome for requests with a token of this source, or without a token.
    fn outcome(&mut self, requirement: &View<'n>, token: Option<usize>) -> Outcome {
        let entries = requirement.entries();
        let (key, value) = match entries.as_slice() {
            [entry] => entry,
            [] if requirement.is_mapping() => return UNVERIFIED,
            _ => return self.unclear(requirement, "exactly one requirement is expected here"),
        };
        match key.as_str() {
            "provider_name" => self.provider(value, token),
            "requires_any" | "requires_all" => {
                let members = value.list("requirements");
                if members.is_empty() || !value.values_except("requirements").is_empty() {
                    return self.unclear(value, "only `requirements` are expected here");
                }
                if key == "requires_any" {
                    self.any(&members, token)
                } else {
                    self.all(&members, token)
                }
            }
            "allow_missing" | "allow_missing_or_failed" | "extract_only_without_validation" => {
                self.lenient(value, key, token)
            }
            _ => self.unclear(value, "this requirement cannot be expressed"),
        }
    }

    /// `provider_name`: a token of this provider is required.
    fn provider(&mut self, name: &View<'n>, token: Option<usize>) -> Outcome {
        let Some(token) = token else { return Outcome::Missing };
        let provider = name.text().unwrap_or_default();
        // A source of Basic users may have the same name.
        let mut sources = self.sources.all.iter();
        let source =
            sources.position(|source| source.name == provider && source.issuer().is_some());
        if let Some(source) = source {
            return if source == token {
                Outcome::Met { is_verified: Some(true) }
            } else {
                Outcome::Failed
            };
        }
        let providers = self.filter.entries_as_written_at("providers");
        let unaccepted = providers.iter().find(|(key, _)| key == provider);
        let issuer = unaccepted.and_then(|(_, provider)| provider.text_of("issuer"));
        let issuer = issuer.filter(|issuer| !issuer.is_empty());
        if issuer.is_none() || issuer == self.issuer(token) {
            self.unclear(name, "tokens of this provider are not accepted")
        } else {
            Outcome::Failed
        }
    }

    /// `requires_all`: each member must be met. The first member that fails decides.
    fn all(&mut self, members: &[View<'n>], token: Option<usize>) -> Outcome {
        for (number, member) in members.iter().enumerate() {
            match self.outcome(member, token) {
                UNVERIFIED => {}
                // Envoy removes a token that it has verified, unless `forward` is set.
                Outcome::Met { .. } if number + 1 < members.len() => {
                    return self
                        .unclear(member, "the token may be removed before the next requirement");
                }
                outcome => return outcome,
            }
        }
        UNVERIFIED
    }

    /// `requires_any`: a member must be met. If none is, the member `allow_missing` accepts a
    /// request without tokens, and `allow_missing_or_failed` accepts every request.
    fn any(&mut self, members: &[View<'n>], token: Option<usize>) -> Outcome {
        let (missing, failed) =
            (only(members, "allow_missing"), only(members, "allow_missing_or_failed"));
        let mut required: Vec<&View<'n>> = members.iter().collect();
        required.retain(|member| {
            ![missing, failed].into_iter().flatten().any(|bypass| bypass.path == member.path)
        });
        if let (true, Some(bypass)) = (required.is_empty(), failed.or(missing)) {
            return self.outcome(bypass, token);
        }
        let mut outcome = Outcome::Missing;
        for member in required {
            outcome = match (outcome, self.outcome(member, token)) {
                // An unclear member may have removed the token.
                (Outcome::Unclear, _) | (_, Outcome::Unclear) => Outcome::Unclear,
                (_, met @ Outcome::Met { .. }) => return met,
                (Outcome::Failed, _) | (_, Outcome::Failed) => Outcome::Failed,
                (_, Outcome::Missing) => Outcome::Missing,
            };
        }
        match outcome {
            Outcome::Missing if missing.is_some() => UNVERIFIED,
            Outcome::Missing | Outcome::Failed if failed.is_some() => UNVERIFIED,
            Outcome::Unclear if failed.is_some() => Outcome::Met { is_verified: None },
            outcome => outcome,
        }
    }

    /// A requirement such as `allow_missing`. Requests without a token meet it, and Envoy verifies
    /// tokens of any provider for it.
    fn lenient(&mut self, at: &View<'n>, key: &str, token: Option<usize>) -> Outcome {
        let Some(token) = token else { return UNVERIFIED };
        self.unclear(at, "tokens of any provider are verified here");
        let providers = self.filter.entries_as_written_at("providers");
        let has_issuer = |provider: &View<'_>| provider.text_of("issuer") == self.issuer(token);
        // Envoy may use any of several providers with the same issuer.
        if key == "allow_missing"
            && providers.iter().filter(|(_, provider)| has_issuer(provider)).count() > 1
        {
            return Outcome::Unclear;
        }
        Outcome::Met { is_verified: None }
    }

    fn unclear(&mut self, at: &View<'n>, message: &'static str) -> Outcome {
        self.unclear.get_or_insert_with(|| (at.clone(), message));
        Outcome::Unclear
    }

    fn issuer(&self, source: usize) -> Option<&str> {
        Some(&self.sources.all.get(source)?.issuer()?.issuer)
    }
}

/// The first requirement whose only field is `key`.
fn only<'v, 'n>(members: &'v [View<'n>], key: &str) -> Option<&'v View<'n>> {
    members.iter().find(|member| matches!(&*member.entries(), [(field, _)] if field == key))
}
