//! The authentication tag of AES-256-GCM-SIV (RFC 8452) for an empty plaintext.

use aes::Aes256Enc;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use polyval::universal_hash::UniversalHash as _;
use polyval::{Block, Polyval};

/// The nonce of every message: what tells messages apart is their own bytes. RFC 8452 derives the keys from the secret and
/// the nonce, so with one nonce this is done once per secret, and not for each message, which takes 250 ns (the crate
/// `aes-gcm-siv`, November 2026).
///
/// The RFC does not recommend a fixed nonce (section 9), because equal plaintexts then have equal ciphertexts, and because
/// the number of messages is bounded as in other modes. Here each plaintext is empty, equal messages may have equal tags,
/// and the documentation of [`Algorithm`](super::Algorithm) has the bound.
const NONCE: [u8; 12] = [0; 12];

/// Makes the tags of messages, which are the associated data (additional authenticated data) of an empty plaintext.
#[derive(Clone)]
pub(super) struct Tags {
    /// The nonce, padded.
    nonce: u128,
    /// With the message authentication key.
    hash: Polyval,
    /// With the message encryption key. It never decrypts.
    cipher: Aes256Enc,
}

impl Tags {
    /// With the keys that are derived from a secret.
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        Self::with_nonce(secret, NONCE)
    }

    fn with_nonce(secret: &[u8; 32], nonce: [u8; 12]) -> Self {
        let (authentication, encryption) = derive(secret, nonce);
        let nonce = u128::from_le_bytes(first_bytes(nonce));
        Self { nonce, hash: Polyval::new(&authentication.into()), cipher: Aes256Enc::new(&encryption.into()) }
    }

    /// The tag of a message (RFC 8452, section 4).
    pub(super) fn tag(&self, message: &[u8]) -> [u8; 16] {
        let (blocks, rest) = Block::slice_as_chunks(message);
        let mut last = Block::default();
        if let Some(start) = last.get_mut(..rest.len()) {
            start.copy_from_slice(rest);
        }
        // In bits: of the message, and of the plaintext.
        let bits = u64::try_from(message.len()).unwrap_or(u64::MAX).saturating_mul(8);
        let tail = [last, u128::from(bits).to_le_bytes().into()];
        let tail = tail.get(usize::from(rest.is_empty())..).unwrap_or_default();
        // Four blocks at once take half of the time that they take one by one. So the last group is made whole with the end of
        // the message, and the first with zeros, which change nothing before all other blocks.
        let (front, end) = blocks.split_at(blocks.len().saturating_sub(GROUP - tail.len()));
        let (first, groups) = front.split_at(front.len() % GROUP);
        let mut hash = self.hash.clone();
        if !first.is_empty() {
            hash.update(&group(first.iter()));
        }
        hash.update(groups);
        hash.update(&group(end.iter().chain(tail)));
        let sum = u128::from_le_bytes(hash.finalize().into());
        let mut tag = ((sum ^ self.nonce) & (u128::MAX >> 1)).to_le_bytes().into();
        self.cipher.encrypt_block(&mut tag);
        tag.into()
    }
}

/// The blocks that POLYVAL takes at once.
const GROUP: usize = 4;

/// Blocks at the end of a group, after zeros.
fn group<'a>(blocks: impl DoubleEndedIterator<Item = &'a Block>) -> [Block; GROUP] {
    let mut group = [Block::default(); GROUP];
    for (place, block) in group.iter_mut().rev().zip(blocks.rev()) {
        *place = *block;
    }
    group
}

/// The message authentication key and the message encryption key (RFC 8452, section 4): of six encrypted blocks, which differ in
/// their first byte, the first halves.
fn derive(secret: &[u8; 32], nonce: [u8; 12]) -> ([u8; 16], [u8; 32]) {
    let generating = Aes256Enc::new(secret.into());
    let keys = [0_u32, 1, 2, 3, 4, 5].map(|counter| {
        let input: [u8; 16] = first_bytes(counter.to_le_bytes().into_iter().chain(nonce));
        let mut block = input.into();
        generating.encrypt_block(&mut block);
        first_bytes::<8>(block)
    });
    let [a, b, c, d, e, f] = keys;
    let (mut authentication, mut encryption) = ([0; 16], [0; 32]);
    authentication.copy_from_slice([a, b].as_flattened());
    encryption.copy_from_slice([c, d, e, f].as_flattened());
    (authentication, encryption)
}

/// The first bytes, and zeros where there are none.
fn first_bytes<const N: usize>(bytes: impl IntoIterator<Item = u8>) -> [u8; N] {
    let mut first = [0; N];
    for (to, from) in first.iter_mut().zip(bytes) {
        *to = from;
    }
    first
}

#[cfg(test)]
mod tests {
    use ::aes_gcm_siv::Aes256GcmSiv;
    use ::aes_gcm_siv::aead::{Aead as _, KeyInit as _, Payload};
    use proptest::prelude::*;

    use super::*;

    fn bytes<const N: usize>(digits: &str) -> [u8; N] {
        let found: Vec<u8> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect();
        found.try_into().unwrap()
    }

    /// A test vector of RFC 8452, appendix C.2: secret, nonce, message authentication key, message encryption key, tag.
    type Vector = [&'static str; 5];

    /// Those with an empty plaintext. Their associated data is empty, too.
    const EMPTY: [Vector; 2] = [
        [
            "0100000000000000000000000000000000000000000000000000000000000000",
            "030000000000000000000000",
            "b5d3c529dfafac43136d2d11be284d7f",
            "b914f4742be9e1d7a2f84addbf96dec3456e3c6c05ecc157cdbf0700fedad222",
            "07f5f4169bbf55a8400cd47ea6fd400f",
        ],
        [
            "e66021d5eb8e4f4066d4adb9c33560e4f46e44bb3da0015c94f7088736864200",
            "e0eaf5284d884a0e77d31646",
            "e40d26f82774aa27f47b047b608b9585",
            "7c7c3d9a542cef53dde0e6de9b5800400f82e73ec5f7ee41b7ba8dcb9ba078c3",
            "169fbb2fbf389a995f6390af22228a62",
        ],
    ];

    #[test]
    fn the_vectors_of_rfc_8452_with_an_empty_plaintext_hold() {
        for [secret, nonce, authentication, encryption, tag] in EMPTY {
            let keys = derive(&bytes(secret), bytes(nonce));
            assert_eq!(keys, (bytes(authentication), bytes(encryption)));
            assert_eq!(Tags::with_nonce(&bytes(secret), bytes(nonce)).tag(&[]), bytes(tag));
        }
    }

    /// The keys of the vectors in appendix C.3, which have the nonce that is used here.
    #[test]
    fn the_keys_of_rfc_8452_for_a_nonce_of_zeros_hold() {
        let expected = (
            bytes("dc95c078a24089895275f3d86b4fb868"),
            bytes("779b38d15bffb63d39d6e9ae76a9b2f375d11b0e3a68c422845c7d4690fa594f"),
        );
        assert_eq!(derive(&[0; 32], NONCE), expected);
    }

    proptest! {
        #[test]
        fn a_tag_is_that_of_the_crate_aes_gcm_siv(
            secret: [u8; 32], nonce: [u8; 12], message in prop::collection::vec(any::<u8>(), 0..600),
        ) {
            let stock = Aes256GcmSiv::new(&secret.into());
            for nonce in [NONCE, nonce] {
                let payload = Payload { msg: &[], aad: &message };
                let expected = stock.encrypt(&nonce.into(), payload).unwrap();
                prop_assert_eq!(&Tags::with_nonce(&secret, nonce).tag(&message)[..], expected);
            }
        }
    }
}
