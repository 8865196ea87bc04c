//! The identity sources of the imported policy, and the claims that conditions use.

use std::cell::RefCell;

use document::View;

use crate::expr::{Expr, Notes as _};
use crate::note::{Effect, Note};
use crate::term::Caller;
use crate::when::{self, Doubt, When, quoted};

const ELSEWHERE: &str = "the token may be in a place that rolegate does not read";

/// In place of an issuer: any issuer.
pub(crate) const ANY_ISSUER: &str = "*";

#[derive(Debug)]
pub(crate) struct Source {
    /// The name in the original.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The names that lead to the claim with the groups. `None` until a condition uses a claim so.
    pub(crate) group_claim: RefCell<Option<Vec<String>>>,
    /// Holds for requests whose credentials from this source were verified before the current
    /// filter.
    pub(crate) verified: Expr,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// `basic_auth`: its users, and the header to which Envoy writes the user name.
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
    /// The metadata key under which Envoy writes the claims.
    pub(crate) payload: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Keys {
    Url(String),
    File(String),
    /// The text of a key set, which becomes a file beside the policy.
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
    /// Notes about the claims and addresses that are used.
    pub(crate) notes: RefCell<Vec<Note>>,
    /// Issuers whose tokens are not accepted.
    pub(crate) unaccepted: Vec<String>,
    /// Whether the original also reads tokens from places that rolegate does not read.
    pub(crate) tokens_may_be_elsewhere: bool,
    /// The headers that some filters set: those that are imported only in part. In lower case.
    pub(crate) set_headers: Vec<String>,
    /// The addresses of the listener.
    pub(crate) addresses: Addresses,
}

/// The addresses of a listener, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Addresses {
    /// Whether the client's address is that of the connection, whatever `x-forwarded-for` says.
    pub(crate) are_of_connections: bool,
    /// Whether a listener filter, such as PROXY protocol, may replace the address of the peer.
    pub(crate) may_be_forwarded: bool,
}

impl Addresses {
    /// Those of a connection manager, whose listener has these filters.
    pub(crate) fn new(manager: &View<'_>, listener_filters: &[View<'_>]) -> Self {
        let hops = manager.get("xff_num_trusted_hops");
        let has_hops = hops.is_some_and(|hops| hops.text() != Some("0"));
        let are_of_connections = manager.is_true("use_remote_address")
            && !has_hops
            && manager.get("original_ip_detection_extensions").is_none();
        let may_be_forwarded = listener_filters.iter().any(|filter| {
            // Filters that only look at the connection, or change its destination.
            let harmless = ["tls_inspector", "http_inspector", "original_dst"];
            let name = filter.text_of("name").unwrap_or_default();
            !harmless.iter().any(|harmless| name.ends_with(harmless))
        });
        Self { are_of_connections, may_be_forwarded }
    }
}

impl Sources {
    /// Adds a source, and returns its index.
    pub(crate) fn add(&mut self, name: &str, kind: Kind) -> usize {
        let (name, group_claim) = (name.to_owned(), RefCell::default());
        self.all.push(Source { name, kind, group_claim, verified: Expr::never() });
        self.all.len() - 1
    }

    /// A condition on callers of an issuer, or of [`ANY_ISSUER`], that is not in `all`. If the
    /// issuer is in `unaccepted`, another note says already that its tokens allow nothing.
    pub(crate) fn missing_issuer(&self, view: &View<'_>, issuer: &str, message: &str) -> Expr {
        if !self.unaccepted.iter().any(|unaccepted| issuer == ANY_ISSUER || unaccepted == issuer) {
            return view.inexpressible(message);
        }
        Expr::Between {
            under: Box::new(Expr::never()),
            over: Box::new(Expr::always()),
            note: view.note(Effect::Same, "tokens of this issuer are not accepted"),
            allow_wider_helps: false,
        }
    }

    /// Any caller with valid credentials of this source.
    pub(crate) fn any_of(&self, view: &View<'_>, source: usize) -> Expr {
        let any = Expr::caller(Caller::Authenticated);
        if self.all.len() == 1 && source == 0 {
            return any;
        }
        match self.issued_by(source) {
            Some(when) => view.when(when, None),
            None => Expr::all([any, view.when(When::Test("scheme == 'basic'".to_owned()), None)]),
        }
    }

    /// The condition that the caller has a token of this source; `None` for Basic users.
    fn issued_by(&self, source: usize) -> Option<When> {
        let issuer = &self.all.get(source)?.issuer()?.issuer;
        let claim = when::claim(&["iss"]);
        Some(When::all([
            claim.is_there,
            When::Test(format!("{} == {}", claim.value, quoted(issuer))),
        ]))
    }

    /// A condition on the claims of tokens of this source. `doubt` has the requests for which it
    /// cannot be computed.
    pub(crate) fn claims_condition(
        &self,
        view: &View<'_>,
        source: usize,
        when: When,
        doubt: Option<Doubt>,
    ) -> Expr {
        let issued = self.issued_by(source).filter(|_| self.all.len() > 1);
        let expr = view.when(When::all(issued.into_iter().chain([when])), doubt);
        self.if_verified(view, source, expr)
    }

    /// The condition that holds for these callers alone. `None` if there is none that can be
    /// computed for every caller.
    pub(crate) fn caller_condition(&self, caller: &Caller) -> Option<When> {
        let has_basic = self.all.iter().any(|source| source.issuer().is_none());
        match caller {
            Caller::Anyone => None,
            Caller::Authenticated if has_basic => None,
            Caller::Authenticated => Some(when::claim(&["iss"]).is_there),
            Caller::User(source, name) => {
                let issued = Some(self.issued_by(*source)?).filter(|_| self.all.len() > 1);
                let claim = when::claim(&["sub"]);
                let is_user = When::Test(format!("{} == {}", claim.value, quoted(name)));
                Some(When::all(issued.into_iter().chain([claim.is_there, is_user])))
            }
            Caller::Group(source, name) => {
                let prefix = self.prefixes().get(*source).cloned().unwrap_or_default();
                Some(When::Test(format!("{} in groups", quoted(&format!("{prefix}{name}")))))
            }
        }
    }

    /// Whether a filter that is imported only in part sets this header.
    pub(crate) fn sets_header(&self, name: &str) -> bool {
        let mut users = self.all.iter().filter_map(|source| match &source.kind {
            Kind::Basic { header, .. } => header.as_deref(),
            Kind::Jwt(_) => None,
        });
        self.set_headers.iter().any(|header| header == name) || users.any(|header| header == name)
    }

    /// Sets the condition under which the credentials of a source are verified.
    pub(crate) fn set_verified(&mut self, source: usize, condition: Expr) {
        if let Some(source) = self.all.get_mut(source) {
            source.verified = condition;
        }
    }

    /// Limits a condition on the caller to requests whose credentials are verified.
    fn if_verified(&self, view: &View<'_>, source: usize, condition: Expr) -> Expr {
        let Some(source) = self.all.get(source) else { return Expr::never() };
        let verified = source.verified.clone();
        let both = Expr::All(vec![verified.clone(), condition]);
        match source.kind {
            // Otherwise a denied caller could evade the denial with a token in another place.
            Kind::Jwt(_) if self.tokens_may_be_elsewhere => view.between(both, verified, ELSEWHERE),
            Kind::Jwt(_) | Kind::Basic { .. } => both,
        }
    }

    /// Any caller with a valid token.
    pub(crate) fn any_token(&self, view: &View<'_>) -> Expr {
        let any = Expr::caller(Caller::Authenticated);
        if self.tokens_may_be_elsewhere {
            view.between(any, Expr::always(), ELSEWHERE)
        } else {
            any
        }
    }

    /// Any caller with verified credentials of this source.
    pub(crate) fn any_verified(&self, view: &View<'_>, source: usize) -> Expr {
        self.if_verified(view, source, self.any_of(view, source))
    }

    /// The user with this name. The name in a token is its subject (`sub`).
    pub(crate) fn user(&self, view: &View<'_>, source: usize, value: &str) -> Expr {
        if !is_name(value) {
            // rolegate answers 401 to a token with such a user name.
            return Expr::never();
        }
        if value.trim().is_empty() {
            return view.inexpressible("a grant cannot name a user whose name is only white space");
        }
        self.if_verified(view, source, Expr::caller(Caller::User(source, value.to_owned())))
    }

    /// The callers whose claim is a list with `value`. The claim becomes the source's group claim;
    /// `None` if another claim already is, or if no group has this name.
    pub(crate) fn use_claim_as_groups(
        &self,
        view: &View<'_>,
        source: usize,
        claim: &[&str],
        value: &str,
    ) -> Option<Expr> {
        if !is_name(value)
            || value.contains(' ')
            || value.trim().is_empty()
            || !self.try_use_as_groups(source, claim)
        {
            return None;
        }
        self.note_list_claim(view, claim);
        let group = Expr::caller(Caller::Group(source, value.to_owned()));
        Some(self.if_verified(view, source, group))
    }

    /// Notes, once for each claim, that the claim must be a list.
    fn note_list_claim(&self, view: &View<'_>, claim: &[&str]) {
        let message = format!(
            "the claim `{}` must be a list in each token: if it is a string, rolegate reads each \
             word in it as a group",
            claim.join(".")
        );
        self.note_once(view.note(Effect::Unexpected, message));
    }

    /// Adds a note, unless there is a note with its message.
    pub(crate) fn note_once(&self, note: Note) {
        let mut notes = self.notes.borrow_mut();
        if notes.iter().all(|n| n.message != note.message) {
            notes.push(note);
        }
    }

    /// Makes a claim the group claim of a source, if it has none. Returns whether the source uses
    /// this claim.
    fn try_use_as_groups(&self, source: usize, claim: &[&str]) -> bool {
        let Some(source) = self.all.get(source) else { return false };
        let claim: Vec<String> = claim.iter().map(|name| (*name).to_owned()).collect();
        let mut used = source.group_claim.borrow_mut();
        *used.get_or_insert_with(|| claim.clone()) == claim
    }

    /// The prefix of each source for its user and group names. Without them, two sources could give
    /// the same name.
    pub(crate) fn prefixes(&self) -> Vec<String> {
        if self.all.len() < 2 {
            return vec![String::new(); self.all.len()];
        }
        // If a prefix began with another (`id:` and `id:8443:`), users of both sources could have
        // the same name.
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

    /// The header to which `basic_auth` writes the user name, and the prefix of the name in the
    /// imported policy.
    pub(crate) fn user_header(&self) -> Option<(&str, String)> {
        self.all.iter().zip(self.prefixes()).find_map(|(source, prefix)| match &source.kind {
            Kind::Basic { header, .. } => Some((header.as_deref()?, prefix)),
            Kind::Jwt(_) => None,
        })
    }

    /// The indices of the token sources whose issuer meets a condition.
    pub(crate) fn indices_of_issuers(&self, condition: impl Fn(&Issuer) -> bool) -> Vec<usize> {
        let sources = self.all.iter().enumerate();
        let sources = sources.filter(|(_, source)| source.issuer().is_some_and(&condition));
        sources.map(|(index, _)| index).collect()
    }
}

/// Whether rolegate accepts credentials with this name, according to the same rule as in
/// `identity`.
fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}
