//! Random secrets: the bearer token of a companion, and session ids.

use std::sync::Arc;

use rand::TryRng;
use rand::rngs::SysRng;
use subtle::ConstantTimeEq;

/// The bearer token. Compared in constant time, and never printed by accident.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    /// A fresh token of 256 random bits from the operating system.
    pub fn generate() -> anyhow::Result<Token> {
        Ok(Token(random_hex::<32>()?.into()))
    }

    pub(crate) fn matches(&self, candidate: &[u8]) -> bool {
        self.0.as_bytes().ct_eq(candidate).into()
    }

    /// The secret itself, for the discovery file and the environment of our own terminals.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Token(..)")
    }
}

/// `BYTES` random bytes from the operating system, in hexadecimal.
pub fn random_hex<const BYTES: usize>() -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    SysRng.try_fill_bytes(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_shows_itself_only_when_asked() {
        let token = Token::generate().unwrap();
        assert_eq!(format!("{token:?} {:?}", Some(&token)), "Token(..) Some(Token(..))");
        assert!(token.matches(token.reveal().as_bytes()));
    }
}
