//! The identity sources of the imported policy, and which of their claims conditions use.

use std::cell::RefCell;

use document::View;

use crate::expr::{Expr, Notes as _};
use crate::note::{Effect, Note};
use crate::term::Caller;

/// Why a condition on a token cannot be expressed.
const ELSEWHERE: &str = "the token may be in a place that is not read";

/// Why a condition on a claim cannot be expressed.
const OTHER_USER_CLAIM: &str = "another claim of this issuer is the user name already";

#[derive(Debug)]
pub(crate) struct Source {
    /// The name in the original.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The claim with the user name, once a condition uses one.
    pub(crate) user_claim: RefCell<Option<Vec<String>>>,
    pub(crate) group_claim: RefCell<Option<Vec<String>>>,
    /// Where its credentials are verified, before the filter that is being read.
    pub(crate) verified: Expr,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// Users of Basic, and the header to which Envoy writes the user name.
    Basic {
        users: Users,
        header: Option<String>,
    },
    Jwt(Issuer),
}

#[derive(Debug)]
pub(crate) enum Users {
    /// Names with their hashes.
    Inline(Vec<(String, String)>),
    /// A file in the format of `htpasswd`.
    File(String),
}

#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) issuer: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) keys: Keys,
    pub(crate) clock_skew: Option<String>,
    /// The key under which Envoy writes the claims, for conditions on them.
    pub(crate) payload: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Keys {
    Url(String),
    File(String),
    /// A key set that is a file beside the policy.
    Inline(String),
    Discovery,
}

impl Source {
    pub(crate) fn issuer(&self) -> Option<&Issuer> {
        match &self.kind {
            Kind::Jwt(issuer) => Some(issuer),
            Kind::Basic { .. } => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sources {
    pub(crate) all: Vec<Source>,
    /// Notes about the claims that are used.
    pub(crate) notes: RefCell<Vec<Note>>,
    /// Issuers whose tokens are not accepted.
    pub(crate) unaccepted: Vec<String>,
    /// Whether the original also reads tokens in places that rolegate does not know.
    pub(crate) are_elsewhere: bool,
}

impl Sources {
    /// Adds a source, and returns its number.
    pub(crate) fn add(&mut self, name: &str, kind: Kind) -> usize {
        let (user_claim, group_claim) = (RefCell::default(), RefCell::default());
        let (name, verified) = (name.to_owned(), Expr::never());
        self.all.push(Source { name, kind, user_claim, group_claim, verified });
        self.all.len() - 1
    }

    /// A condition on callers of an issuer (`*` for any) that is no source. If its tokens are not
    /// accepted, the note about the issuer says already that they allow nothing.
    pub(crate) fn without_issuer(&self, view: &View<'_>, issuer: &str, message: &str) -> Expr {
        if !self.unaccepted.iter().any(|unaccepted| issuer == "*" || unaccepted == issuer) {
            return view.inexpressible(message);
        }
        Expr::Between {
            under: Box::new(Expr::never()),
            over: Box::new(Expr::always()),
            note: view.note(Effect::Same, "tokens of this issuer are not accepted"),
            acceptable: false,
        }
    }

    /// Any caller with valid credentials of this source.
    pub(crate) fn any_of(&self, view: &View<'_>, source: usize) -> Expr {
        let any = Expr::caller(Caller::Authenticated);
        if self.all.len() == 1 && source == 0 {
            return any;
        }
        let message =
            "a grant to all callers of one of several identity sources cannot be expressed";
        view.between(Expr::never(), any, message)
    }

    /// Sets where the credentials of a source are verified.
    pub(crate) fn verify(&mut self, source: usize, condition: Expr) {
        if let Some(source) = self.all.get_mut(source) {
            source.verified = condition;
        }
    }

    /// A condition on the caller, where its credentials are verified.
    fn verified(&self, view: &View<'_>, source: usize, condition: Expr) -> Expr {
        let Some(source) = self.all.get(source) else { return Expr::never() };
        let verified = source.verified.clone();
        let both = Expr::All(vec![verified.clone(), condition]);
        match source.kind {
            // A caller who is denied would only have to move the token.
            Kind::Jwt(_) if self.are_elsewhere => view.between(both, verified, ELSEWHERE),
            Kind::Jwt(_) | Kind::Basic { .. } => both,
        }
    }

    /// Any caller with a valid token.
    pub(crate) fn any_token(&self, view: &View<'_>) -> Expr {
        let any = Expr::caller(Caller::Authenticated);
        if self.are_elsewhere { view.between(any, Expr::always(), ELSEWHERE) } else { any }
    }

    /// Any caller with valid credentials of this source, where they are verified.
    pub(crate) fn any_verified(&self, view: &View<'_>, source: usize) -> Expr {
        self.verified(view, source, self.any_of(view, source))
    }

    /// Callers with a verified token of this issuer that has a subject. rolegate answers 401 to
    /// tokens without one only where the subject is the user name.
    pub(crate) fn any_subject(&self, view: &View<'_>, source: usize) -> Expr {
        if !self.uses(source, &["sub"], |source| &source.user_claim) {
            return view.inexpressible(OTHER_USER_CLAIM);
        }
        self.any_verified(view, source)
    }

    /// The caller whose claim is this text.
    pub(crate) fn claim_is(
        &self,
        view: &View<'_>,
        source: usize,
        claim: &[&str],
        value: &str,
    ) -> Expr {
        if !self.uses(source, claim, |source| &source.user_claim) {
            return view.inexpressible(OTHER_USER_CLAIM);
        }
        if !is_name(value) {
            // rolegate answers 401 to a token with it.
            return Expr::never();
        }
        if value.trim().is_empty() {
            return view.inexpressible("a grant cannot name a user whose name is only white space");
        }
        self.verified(view, source, Expr::caller(Caller::User(source, value.to_owned())))
    }

    /// The callers whose claim is a list with this text.
    pub(crate) fn claim_has(
        &self,
        view: &View<'_>,
        source: usize,
        claim: &[&str],
        value: &str,
    ) -> Expr {
        if !self.uses(source, claim, |source| &source.group_claim) {
            return view.inexpressible("another claim of this issuer has the groups already");
        }
        if !is_name(value) || value.contains(' ') || value.trim().is_empty() {
            return view.inexpressible("this is not the name of a group");
        }
        self.note_list(view, claim);
        self.verified(view, source, Expr::caller(Caller::Group(source, value.to_owned())))
    }

    /// Notes, once for each claim, the effect of a token with another type of claim.
    fn note_list(&self, view: &View<'_>, claim: &[&str]) {
        let message = format!(
            "the claim `{}` must be a list in each token: if it is a string, rolegate takes each \
             word in it as a name",
            claim.join(".")
        );
        let mut notes = self.notes.borrow_mut();
        if notes.iter().all(|note| note.message != message) {
            notes.push(view.note(Effect::Unexpected, message));
        }
    }

    /// Whether a claim is the user or group claim of a source, or becomes it.
    fn uses(
        &self,
        source: usize,
        claim: &[&str],
        field: impl Fn(&Source) -> &RefCell<Option<Vec<String>>>,
    ) -> bool {
        let Some(source) = self.all.get(source) else { return false };
        let claim: Vec<String> = claim.iter().map(|name| (*name).to_owned()).collect();
        let mut used = field(source).borrow_mut();
        *used.get_or_insert_with(|| claim.clone()) == claim
    }

    /// The prefixes of the names of all sources, in their order: without them, two sources could
    /// give the same name.
    pub(crate) fn prefixes(&self) -> Vec<String> {
        if self.all.len() < 2 {
            return vec![String::new(); self.all.len()];
        }
        // If a prefix began with another (`id:` and `id:8443:`), a user of one source could have
        // the name of a user of the other.
        let mut prefixes: Vec<String> = Vec::new();
        for source in &self.all {
            let plain = format!("{}:", source.name);
            let numbered = (2..).map(|number| format!("{number}-{plain}"));
            let prefix = [plain.clone()].into_iter().chain(numbered).find(|prefix| {
                !prefixes.iter().any(|p| p.starts_with(&**prefix) || prefix.starts_with(&**p))
            });
            prefixes.push(prefix.unwrap_or(plain));
        }
        prefixes
    }

    /// The header to which Envoy writes the user name of Basic, and the prefix that the name has
    /// here.
    pub(crate) fn user_header(&self) -> Option<(&str, String)> {
        self.all.iter().zip(self.prefixes()).find_map(|(source, prefix)| match &source.kind {
            Kind::Basic { header, .. } => Some((header.as_deref()?, prefix)),
            Kind::Jwt(_) => None,
        })
    }

    /// The sources of tokens for whose issuers a condition holds.
    pub(crate) fn issuers(&self, condition: impl Fn(&Issuer) -> bool) -> Vec<usize> {
        let sources = self.all.iter().enumerate();
        let sources = sources.filter(|(_, source)| source.issuer().is_some_and(&condition));
        sources.map(|(number, _)| number).collect()
    }
}

/// Whether credentials can give rolegate this name: the same names as in `identity`. A user name
/// may have spaces.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}
