//! Identity settings of policies, and helpers that authenticate a header under them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use document::{Place, Problem, Secret};
use identity::{
    Authenticator, CachedSubject, Credentials, CredentialsError, FetchedKeys, LocalCache,
    NotAuthenticated, Subject, UnixTime, VerificationResult,
};
use policy::model::{
    Basic, BasicUser, ClaimPath, Claims, Identity, Issuer, Keys, RolesFromToken, Separator,
};

/// These tests attach the user's name.
pub(crate) type Auth = Authenticator<String>;

/// Of the password `wonderland`, cheap to check.
pub(crate) const BCRYPT: &str = "$2b$04$abcdefghijklmnopqrstuujZkTwHUiJ9XdZPwKfcfDo7dMp5DjlTu";

pub(crate) const ISSUER: &str = "https://id.example.com";
pub(crate) const AUDIENCE: &str = "people";
/// The current time in these tests, in seconds since the Unix epoch.
pub(crate) const NOW: u64 = 1_800_000_000;

pub(crate) fn now() -> UnixTime {
    Duration::from_secs(NOW)
}

pub(crate) fn place() -> Place {
    Place::start_of(Path::new("policy.yaml"))
}

pub(crate) fn basic(users: &[(&str, &str)]) -> Identity {
    let user = |(name, hash): &(&str, &str)| BasicUser {
        name: Arc::from(*name),
        password: Some(Secret(Arc::from(*hash))),
        groups: vec![Arc::from("staff")],
        at: place(),
    };
    let basic = Basic {
        realm: "people".into(),
        users: users.iter().map(user).collect(),
        verify: true,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: place(),
    };
    Identity { basic: Some(basic), ..Identity::default() }
}

pub(crate) fn issuer(keys: Keys) -> Issuer {
    Issuer {
        issuer: ISSUER.into(),
        audiences: vec![AUDIENCE.into(), "other".into()],
        keys,
        claims: Claims {
            user: path(&["sub"]),
            roles: Some(path(&["realm_access", "roles"])),
            groups: Some(path(&["groups"])),
            separator: Separator::Spaces,
        },
        act: None,
        clock_skew: Duration::from_secs(60),
        require: Vec::new(),
        required_type: None,
        max_age: None,
        roles_from_token: RolesFromToken::All,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: place(),
    }
}

pub(crate) fn path(names: &[&str]) -> ClaimPath {
    ClaimPath(names.iter().map(|name| Box::from(*name)).collect())
}

pub(crate) fn file(jwks: &serde_json::Value) -> Keys {
    Keys::File {
        path: "jwks.json".into(),
        bytes: jwks.to_string().into_bytes().into(),
        at: place(),
    }
}

pub(crate) fn url(url: &str) -> Keys {
    Keys::Url { url: url.into(), refresh: Duration::from_secs(300), at: place() }
}

pub(crate) fn tokens_of(issuer: Issuer) -> Identity {
    Identity { jwt: vec![issuer], ..Identity::default() }
}

pub(crate) fn compile(settings: &Identity) -> Auth {
    Auth::compile(settings, &FetchedKeys::new(), identity::Limits::default()).unwrap().0
}

/// The problems of settings that do not compile.
pub(crate) fn errors(settings: &Identity) -> Vec<Problem> {
    Auth::compile(settings, &FetchedKeys::new(), identity::Limits::default()).err().unwrap()
}

/// The warnings of settings that compile.
pub(crate) fn warnings(settings: &Identity) -> Vec<Problem> {
    Auth::compile(settings, &FetchedKeys::new(), identity::Limits::default()).unwrap().1
}

/// The subject of a header, verified at once.
pub(crate) fn authenticate(auth: &Auth, header: &str) -> Result<Subject, CredentialsError> {
    authenticate_at(auth, header.as_bytes(), now()).map(|cached| cached.subject.clone())
}

/// A caller whose credentials are cached.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) subject: Subject,
    pub(crate) attached: String,
    /// Equal for callers from the same cache entry.
    pub(crate) entry: usize,
}

impl Caller {
    fn of(cached: &CachedSubject<String>) -> Self {
        let entry = std::ptr::from_ref(cached).addr();
        Self { subject: cached.subject.clone(), attached: cached.attached.clone(), entry }
    }
}

pub(crate) fn authenticate_at(
    auth: &Auth,
    header: &[u8],
    now: UnixTime,
) -> Result<Caller, CredentialsError> {
    let verified = match try_authenticate(auth, header, None, now) {
        Err(NotAuthenticated::Pending(verification)) => Some(verification.run()),
        Ok(_) | Err(NotAuthenticated::Invalid(_)) => None,
    };
    match try_authenticate(auth, header, verified.as_ref(), now) {
        Ok(caller) => Ok(caller),
        Err(NotAuthenticated::Invalid(error)) => Err(error),
        Err(NotAuthenticated::Pending(_)) => panic!("pending after the verification"),
    }
}

/// The caller of a header, with an empty local cache.
pub(crate) fn try_authenticate(
    auth: &Auth,
    header: &[u8],
    result: Option<&VerificationResult>,
    now: UnixTime,
) -> Result<Caller, NotAuthenticated> {
    let mut cache = LocalCache::default();
    let cached = auth.authenticate(
        Some(Credentials::Authorization(header)),
        result,
        now,
        &mut cache,
        attach,
    )?;
    Ok(Caller::of(cached.unwrap()))
}

pub(crate) fn attach(subject: &Subject) -> String {
    subject.user.to_string()
}

/// The header of these credentials.
pub(crate) fn header(credentials: impl AsRef<[u8]>) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(credentials))
}

/// Whether this header must be verified: it is not cached.
pub(crate) fn is_pending(auth: &Auth, header: &str) -> bool {
    is_pending_at(auth, header, now())
}

pub(crate) fn is_pending_at(auth: &Auth, header: &str, now: UnixTime) -> bool {
    matches!(
        try_authenticate(auth, header.as_bytes(), None, now),
        Err(NotAuthenticated::Pending(_))
    )
}
