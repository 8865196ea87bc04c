//! Small random policies in which all features interact.

use std::sync::Arc;
use std::time::Duration;

use crate::{OwnedAccessRequest, Rng, nowhere};
use document::Place;
use policy::model::{
    ANYONE, AUTHENTICATED, Basic, ClaimPath, Claims, Grant, Identity, Issuer, Keys, Policy, Role,
    RoleId, RolesFromToken, Rule, Separator, SourceId,
};
use policy::pattern::{Actions, Glob, HostLabel, Pattern, Scope, Segment};

/// The parameters of generated policies. Shares are in percent.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The number of roles, including the two reserved roles.
    pub roles: usize,
    /// The maximum number of rules per role.
    pub rules_per_role: usize,
    /// The number of users with grants.
    pub users: usize,
    /// The maximum number of roles granted to a user or group.
    pub roles_per_caller: usize,
    /// The maximum number of segments of a pattern or a resource.
    pub depth: usize,
    /// The number of different segments.
    pub words: usize,
    /// Share of segments that are `{id}`.
    pub one: usize,
    /// Share of segments that are `{user}`.
    pub user: usize,
    /// Share of segments that are `{user.id}`.
    pub user_id: usize,
    /// Share of segments that are globs.
    pub glob: usize,
    /// Share of patterns that end in `**`.
    pub rest: usize,
    /// Share of patterns that end in a slash.
    pub slash: usize,
    /// Share of patterns that are relative.
    pub relative: usize,
    /// Share of rules with scopes.
    pub scopes: usize,
    /// Share of rules under `deny`.
    pub deny: usize,
    /// Share of roles that extend others.
    pub extends: usize,
}

/// An owned caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedCaller {
    /// The user name; `None` if anonymous.
    pub user: Option<String>,
    /// The source that authenticated it; sometimes unknown.
    pub source: Option<SourceId>,
    /// The length of the prefix of that source, with which `user` begins.
    pub prefix: usize,
    /// Its groups.
    pub groups: Vec<String>,
    /// The roles in its token.
    pub roles: Vec<String>,
}

/// Generates policies, callers and requests with the parameters of a [`Shape`].
#[derive(Clone, Debug)]
pub struct Generator {
    shape: Shape,
    rng: Rng,
    place: Place,
}

/// The number of groups with grants.
const GROUPS: usize = 3;
/// Share of rules with [`Actions::Any`].
const ANY_ACTION: usize = 20;
const ACTIONS: &[&str] = &["GET", "HEAD", "POST", "DELETE"];
const HOSTS: &[&str] = &["test", "a.test", "b.test", "a.b.test", "b.a.test", "c.b.a.test"];
const REQUEST_HOSTS: &[&str] =
    &["a.test", "b.a.test", "c.b.a.test", "test", "a.b.test", "x.test", "", ".a.test"];
/// Segments and user names consist of these, so that many are similar. In segments, the last two
/// are percent-encoded, as `%C3%A9` and `%25`: these end in `9` and `5`, which are also in this
/// list.
const LETTERS: &[&str] = &["a", "9", "A", "5", "é", "%"];

impl Default for Shape {
    fn default() -> Self {
        Self {
            roles: 8,
            rules_per_role: 6,
            users: 6,
            roles_per_caller: 6,
            depth: 4,
            words: 12,
            one: 15,
            user: 6,
            user_id: 6,
            glob: 15,
            rest: 20,
            slash: 5,
            relative: 0,
            scopes: 20,
            deny: 14,
            extends: 30,
        }
    }
}

impl Generator {
    /// Equal seeds give equal policies, callers and requests.
    #[must_use]
    pub fn new(shape: Shape, seed: u64) -> Self {
        Self { shape, rng: Rng::new(seed), place: nowhere() }
    }

    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// A valid policy. Callers authenticate with Basic, which is not verified, or with tokens of
    /// two issuers.
    pub fn policy(&mut self) -> Policy {
        let mut roles: Vec<Role> = (0..self.shape.roles).map(|number| self.role(number)).collect();
        self.extend(&mut roles);
        let grants = self.grants(&roles);
        Policy {
            identity: three_sources(&self.place),
            roles: roles.into(),
            grants,
            ..Policy::default()
        }
    }

    /// A rule.
    pub fn rule(&mut self) -> Rule {
        let actions = self.actions();
        let mut scopes = Vec::new();
        if self.rng.percent(self.shape.scopes) {
            scopes.push(self.scope());
            if self.rng.percent(30) {
                scopes.push(self.scope());
            }
        }
        let mut resources = vec![self.pattern()];
        if self.rng.percent(20) {
            resources.push(self.pattern());
        }
        self.set_sources(&mut resources);
        let mut rule = Rule {
            name: "".into(),
            actions,
            scopes,
            resources,
            when: None,
            at: self.place.clone(),
        };
        rule.name = name_of(&rule);
        rule
    }

    /// Gives all `{user.id}` of a rule the same sources.
    fn set_sources(&mut self, resources: &mut [Pattern]) {
        let chosen = (0..SOURCES).map(SourceId).filter(|_| self.rng.percent(50));
        let mut chosen: Vec<SourceId> = chosen.collect();
        if chosen.is_empty() {
            chosen.push(SourceId(1));
        }
        for segment in resources.iter_mut().flat_map(|pattern| &mut pattern.segments) {
            if let Segment::UserId(sources) = segment {
                sources.clone_from(&chosen);
            }
        }
    }

    /// A caller from a random source, with the prefix of that source in its name.
    fn caller_from_source(&mut self, user: usize) -> OwnedCaller {
        let name = user_name(user);
        let identity = three_sources(&self.place);
        let sources: Vec<_> = identity.sources().collect();
        match self.rng.pick(&sources).filter(|_| self.shape.user_id > 0) {
            Some((source, _, prefix)) => OwnedCaller {
                user: Some(format!("{prefix}{name}")),
                source: Some(*source),
                prefix: prefix.len(),
                ..OwnedCaller::default()
            },
            None => OwnedCaller { user: Some(name), ..OwnedCaller::default() },
        }
    }

    /// A caller: anonymous, known or unknown to the policy, perhaps with groups and roles in its
    /// token.
    pub fn caller(&mut self) -> OwnedCaller {
        if self.rng.percent(10) {
            return OwnedCaller::default();
        }
        let user = self.rng.below(self.shape.users + 1);
        let mut caller = self.caller_from_source(user);
        while self.rng.percent(30) {
            caller.groups.push(group_name(self.rng.below(GROUPS + 1)));
        }
        while self.rng.percent(40) {
            caller.roles.push(role_name(self.rng.below(self.shape.roles + 1)));
        }
        caller
    }

    /// A request. Most are derived from a rule of the policy, so that they match or nearly match.
    pub fn request(&mut self, policy: &Policy, caller: &OwnedCaller) -> OwnedAccessRequest {
        let user = caller.user.as_deref().unwrap_or("a");
        let rules: Vec<&Rule> =
            policy.roles.iter().flat_map(|role| role.allow.iter().chain(&role.deny)).collect();
        let rule = self.rng.pick(&rules).copied().filter(|_| self.rng.percent(85));
        OwnedAccessRequest {
            action: self.action_of(rule),
            scope: self.scope_of(rule),
            resource: self.resource_of(rule, user),
        }
    }

    fn action_of(&mut self, rule: Option<&Rule>) -> String {
        let action = match rule.map(|rule| &rule.actions) {
            Some(Actions::These(actions)) if self.rng.percent(80) => {
                self.rng.pick(actions).map(|action| &**action)
            }
            _ => self.rng.pick(&["GET", "POST", "HEAD", "DELETE", "TRACE", "get", ""]).copied(),
        };
        action.unwrap_or_default().into()
    }

    fn scope_of(&mut self, rule: Option<&Rule>) -> String {
        let rule = rule.filter(|_| self.rng.percent(80));
        match rule.and_then(|rule| self.rng.pick(&rule.scopes)) {
            Some(Scope::Exact(exact)) => exact.to_string(),
            Some(Scope::Below(suffix)) => format!("a.{suffix}"),
            Some(Scope::Labels(labels)) => {
                let labels = labels.iter().map(|label| match label {
                    HostLabel::Literal(literal) => &**literal,
                    HostLabel::Any(_) => "a",
                });
                labels.collect::<Vec<_>>().join(".")
            }
            None => self.rng.pick(REQUEST_HOSTS).copied().unwrap_or_default().into(),
        }
    }

    fn resource_of(&mut self, rule: Option<&Rule>, user: &str) -> String {
        match rule.and_then(|rule| self.rng.pick(&rule.resources)) {
            Some(pattern) => self.matching(pattern, user),
            None => self.resource(),
        }
    }

    fn role(&mut self, number: usize) -> Role {
        let mut role = Role {
            name: role_name(number).into(),
            extends: Vec::new(),
            allow: Vec::new(),
            deny: Vec::new(),
            when: None,
            at: self.place.clone(),
        };
        for _ in 0..self.rng.below(self.shape.rules_per_role + 1) {
            let rule = self.rule();
            let list =
                if self.rng.percent(self.shape.deny) { &mut role.deny } else { &mut role.allow };
            list.push(rule);
        }
        role
    }

    /// Makes roles extend their predecessor in a shuffled order, which rules out cycles.
    fn extend(&mut self, roles: &mut [Role]) {
        let mut order: Vec<usize> = (0..roles.len()).collect();
        self.rng.shuffle(&mut order);
        for pair in order.windows(2) {
            let [extended, role] = pair else { continue };
            if self.rng.percent(self.shape.extends)
                && let (Ok(extended), Some(role)) = (u32::try_from(*extended), roles.get_mut(*role))
            {
                role.extends.push(RoleId(extended));
            }
        }
    }

    fn grants(&mut self, roles: &[Role]) -> Vec<Grant> {
        let mut grants: Vec<Grant> = (0..roles.len())
            .filter_map(|role| u32::try_from(role).ok())
            .map(|role| Grant {
                role: RoleId(role),
                users: Vec::new(),
                groups: Vec::new(),
                when: None,
                at: self.place.clone(),
            })
            .collect();
        let reserved =
            roles.iter().take_while(|role| [ANYONE, AUTHENTICATED].contains(&&*role.name)).count();
        for user in 0..self.shape.users {
            for role in self.some_roles(reserved, roles.len()) {
                if let Some(grant) = grants.get_mut(role) {
                    grant.users.push(user_name(user).into());
                }
            }
        }
        for group in 0..GROUPS {
            for role in self.some_roles(reserved, roles.len()) {
                if let Some(grant) = grants.get_mut(role) {
                    grant.groups.push(group_name(group).into());
                }
            }
        }
        grants.retain(|grant| !grant.users.is_empty() || !grant.groups.is_empty());
        grants
    }

    fn some_roles(&mut self, from: usize, end: usize) -> Vec<usize> {
        let count = self.rng.below(self.shape.roles_per_caller + 1);
        let mut roles: Vec<usize> = (0..count).map(|_| from + self.rng.below(end - from)).collect();
        roles.sort_unstable();
        roles.dedup();
        roles.retain(|role| *role < end);
        roles
    }

    fn actions(&mut self) -> Actions {
        if self.rng.percent(ANY_ACTION) {
            return Actions::Any;
        }
        let chosen = ACTIONS.iter().filter(|_| self.rng.percent(35));
        let mut chosen: Vec<Box<str>> = chosen.map(|action| (*action).into()).collect();
        if chosen.is_empty() {
            chosen.push("GET".into());
        }
        Actions::These(chosen)
    }

    fn scope(&mut self) -> Scope {
        let host = self.rng.pick(HOSTS).copied().unwrap_or_default();
        if self.rng.percent(50) { Scope::Exact(host.into()) } else { Scope::Below(host.into()) }
    }

    fn pattern(&mut self) -> Pattern {
        if self.rng.percent(self.shape.relative) {
            let segments = vec![Segment::Literal("*".into())];
            return Pattern { absolute: false, segments, open_ended: false };
        }
        let open_ended = self.rng.percent(self.shape.rest);
        let min = usize::from(!open_ended);
        let count = min + self.rng.below((self.shape.depth + 1).saturating_sub(min));
        let mut segments: Vec<Segment> = (0..count).map(|_| self.segment()).collect();
        if !open_ended && self.rng.percent(self.shape.slash) {
            segments.push(Segment::Literal("".into()));
        }
        Pattern { absolute: true, segments, open_ended }
    }

    fn segment(&mut self) -> Segment {
        let Shape { one, user, user_id, glob, .. } = self.shape;
        let choice = self.rng.below(100);
        if choice < one {
            Segment::Any("id".into())
        } else if choice < one + user {
            Segment::User
        } else if choice < one + user + user_id {
            Segment::UserId(Vec::new())
        } else if choice < one + user + user_id + glob {
            Segment::Glob(self.glob())
        } else {
            Segment::Literal(self.word().into())
        }
    }

    fn glob(&mut self) -> Glob {
        let mut pieces: Vec<Box<str>> = vec![self.letters(0, 2).into()];
        while self.rng.percent(30) {
            pieces.push(self.letters(1, 2).into());
        }
        pieces.push(self.letters(0, 2).into());
        Glob(pieces)
    }

    /// A resource that matches a pattern, or nearly matches it (in 10 % of the cases).
    fn matching(&mut self, pattern: &Pattern, user: &str) -> String {
        let mut segments: Vec<String> =
            pattern.segments.iter().map(|segment| self.segment_like(segment, user)).collect();
        if pattern.open_ended {
            for _ in 0..self.rng.below(3) {
                segments.push(self.word());
            }
        }
        if self.rng.percent(10) {
            let word = self.word();
            match self.rng.below(4) {
                0 => segments.push(String::new()),
                1 => drop(segments.pop()),
                2 => segments.push(word),
                _ => segments.iter_mut().take(1).for_each(|segment| segment.clone_from(&word)),
            }
        }
        let start = if pattern.absolute { "/" } else { "" };
        format!("{start}{}", segments.join("/"))
    }

    fn segment_like(&mut self, segment: &Segment, user: &str) -> String {
        match segment {
            Segment::Literal(literal) => literal.to_string(),
            Segment::Any(_) => self.word(),
            Segment::User => encoded(user),
            // Half of the time, the name without `PREFIX`: it can match if the caller's source has
            // that prefix. Otherwise, the whole name: it can match if the source has none. For
            // other callers, it nearly matches.
            Segment::UserId(_) => {
                let prefix = if self.rng.percent(50) { PREFIX } else { "" };
                encoded(user.strip_prefix(prefix).filter(|id| !id.is_empty()).unwrap_or(user))
            }
            Segment::Glob(glob) => {
                let mut text = String::new();
                for (index, piece) in glob.0.iter().enumerate() {
                    if index > 0 {
                        text.push_str(&self.letters(0, 2));
                    }
                    text.push_str(piece);
                }
                text
            }
        }
    }

    fn resource(&mut self) -> String {
        let count = self.rng.below(self.shape.depth + 1);
        let mut resource: String = (0..count).map(|_| format!("/{}", self.word())).collect();
        if resource.is_empty() || self.rng.percent(self.shape.slash) {
            resource.push('/');
        }
        if self.rng.percent(self.shape.relative) { "*".into() } else { resource }
    }

    /// One of [`Shape::words`] different segments. Each is an encoded user name; the policy's users
    /// come first.
    fn word(&mut self) -> String {
        encoded(&user_name(self.rng.below(self.shape.words)))
    }

    fn letters(&mut self, from: usize, to: usize) -> String {
        let count = from + self.rng.below(to - from + 1);
        (0..count).map(|_| encoded(self.rng.pick(LETTERS).copied().unwrap_or_default())).collect()
    }
}

/// Basic authentication without verification: callers are who they claim to be.
pub(super) fn unverified(place: &Place) -> Identity {
    let basic = Basic {
        realm: "generated".into(),
        users: Vec::new(),
        verify: false,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: place.clone(),
    };
    Identity { basic: Some(basic), ..Identity::default() }
}

/// How many sources [`three_sources`] has.
const SOURCES: u32 = 3;
/// The prefix of one issuer. Other user names begin with it, too.
const PREFIX: &str = "a";

/// Basic authentication and two issuers, of which the second has a prefix.
fn three_sources(place: &Place) -> Identity {
    let issuers = [("https://id.test", ""), ("https://ci.test", PREFIX)];
    let jwt = issuers.map(|(name, prefix)| Issuer {
        issuer: name.into(),
        audiences: vec!["generated".into()],
        keys: Keys::Url {
            url: "https://id.test/jwks".into(),
            refresh: Duration::from_secs(300),
            at: place.clone(),
        },
        claims: Claims {
            user: ClaimPath(vec!["sub".into()]),
            roles: None,
            groups: None,
            separator: Separator::Spaces,
        },
        act: None,
        clock_skew: Duration::from_secs(60),
        require: Vec::new(),
        required_type: None,
        max_age: None,
        roles_from_token: RolesFromToken::All,
        user_prefix: prefix.into(),
        group_prefix: "".into(),
        at: place.clone(),
    });
    Identity { jwt: jwt.into(), ..unverified(place) }
}

/// The name of a rule. If the rule has a short form, it is the name that the parser gives to it;
/// otherwise it is `several`.
pub(super) fn name_of(rule: &Rule) -> Arc<str> {
    let Rule { actions, scopes, resources, .. } = rule;
    match (&**scopes, &**resources) {
        ([], [resource]) => format!("{actions} {resource}").into(),
        ([scope], [resource]) if resource.absolute => format!("{actions} {scope}{resource}").into(),
        _ => "several".into(),
    }
}

fn role_name(number: usize) -> String {
    match number {
        0 => ANYONE.into(),
        1 => AUTHENTICATED.into(),
        _ => format!("role-{number}"),
    }
}

fn group_name(number: usize) -> String {
    format!("group-{number}")
}

/// Unencoded user names: `a`, `9`, `A`, `5`, `é`, `%`, `aa`, `9a`, …
fn user_name(number: usize) -> String {
    let mut name = String::new();
    let mut number = number + 1;
    while number > 0 {
        number -= 1;
        name.push_str(LETTERS.get(number % LETTERS.len()).copied().unwrap_or_default());
        number /= LETTERS.len();
    }
    name
}

/// The name as it appears in a canonical path: unreserved characters raw, others percent-encoded in
/// upper case.
fn encoded(name: &str) -> String {
    let bytes = name.bytes().map(|byte| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    bytes.collect()
}
