//! Argon2id (RFC 9106) in a PHC string: `$argon2id$v=19$m=19456,t=2,p=1$salt$digest`.

use argon2::{Algorithm, Argon2, Params, Version};
use zeroize::Zeroizing;

use super::{
    Cost, HashError, Parsed, PasswordHash, Stored, Weakness, damaged, decimal, phc_base64, same,
    too_costly,
};

/// The most memory of one check, in KiB: 1 GiB.
const MAX_MEMORY: u32 = 1 << 20;
/// The most memory that one check fills over all passes, in KiB: 4 GiB, which takes some seconds.
const MAX_WORK: u64 = 4 << 20;
/// The most lanes. They run one after another here.
const MAX_LANES: u32 = 64;
/// The least memory among the equivalent choices of OWASP's password storage cheat sheet, in KiB.
/// Less is weak.
const RECOMMENDED_MEMORY: u32 = 7_168;
/// The least memory over all passes among those choices, in KiB. Less is weak.
const RECOMMENDED_WORK: u64 = 35_840;

/// The memory over all passes from which a check takes about a second, in KiB: 1 GiB.
const SLOW_WORK: u64 = 1 << 20;

struct Hash {
    params: Params,
    salt: Box<[u8]>,
    digest: Box<[u8]>,
}

/// Parses what follows `$argon2id$`.
pub(super) fn parse(text: &str) -> Parsed<Stored> {
    let fields: Vec<&str> = text.split('$').collect();
    let [version, costs, salt, digest] = fields.as_slice() else {
        return Err(damaged(
            "an argon2id hash that is not `$argon2id$v=19$m=…,t=…,p=…$salt$digest`",
        ));
    };
    if *version != "v=19" {
        return Err(damaged("an argon2id hash whose version is not 19"));
    }
    let (params, weakness) = parameters(costs)?;
    let salt = phc_base64(salt).filter(|salt| (8..=64).contains(&salt.len()));
    let salt = salt.ok_or(damaged("an argon2id hash whose salt is not 8 to 64 bytes in base64"))?;
    let digest = phc_base64(digest).filter(|digest| (16..=64).contains(&digest.len()));
    let digest =
        digest.ok_or(damaged("an argon2id hash whose digest is not 16 to 64 bytes in base64"))?;
    Ok((Stored(Box::new(Hash { params, salt, digest })), weakness))
}

fn parameters(text: &str) -> Parsed<Params> {
    let bad = damaged("an argon2id hash whose parameters are not `m=…,t=…,p=…`");
    let fields: Vec<&str> = text.split(',').collect();
    let [memory, passes, lanes] = fields.as_slice() else { return Err(bad) };
    let number = |field: &str, name: &str| field.strip_prefix(name).and_then(decimal).ok_or(bad);
    let (memory, passes, lanes) =
        (number(memory, "m=")?, number(passes, "t=")?, number(lanes, "p=")?);
    let work = check_cost(memory, passes, lanes)?;
    let params = Params::new(memory, passes, lanes, None).map_err(|_| bad)?;
    let weak = memory < RECOMMENDED_MEMORY || work < RECOMMENDED_WORK;
    let weakness = if weak {
        Some(Weakness::Weak("argon2id with less work than `m=19456,t=2,p=1`"))
    } else {
        (work > SLOW_WORK).then_some(Weakness::Slow("argon2id over more than 1 GiB in all passes"))
    };
    Ok((params, weakness))
}

pub(super) fn check_cost(memory: u32, passes: u32, lanes: u32) -> Result<u64, HashError> {
    let work = u64::from(memory).saturating_mul(u64::from(passes));
    if memory > MAX_MEMORY || work > MAX_WORK || lanes > MAX_LANES {
        return Err(too_costly(
            "an argon2id hash that costs more than 1 GiB, 4 GiB over all passes, or 64 lanes",
        ));
    }
    Ok(work)
}

impl PasswordHash for Hash {
    fn cost(&self) -> Cost {
        let parameters = [self.params.m_cost(), self.params.t_cost(), self.params.p_cost()];
        Cost { algorithm: "argon2id", parameters }
    }

    fn matches(&self, password: &[u8]) -> bool {
        let mut digest = Zeroizing::new(vec![0; self.digest.len()]);
        let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, self.params.clone());
        argon2.hash_password_into(password, &self.salt, &mut digest).is_ok()
            && same(&digest, &self.digest)
    }
}
