//! Decoding of texts.

use refrain_bytes::BytesError;
use refrain_bytes::varint::take_bytes;

/// Decodes a text.
pub fn take_text(input: &mut &[u8]) -> Result<String, BytesError> {
    Ok(String::from_utf8_lossy(take_bytes(input)?).into_owned())
}
