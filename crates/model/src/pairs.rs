//! Maps as lists of pairs, for `#[serde(with = "overhead_model::pairs")]`: keys of JSON objects are texts only.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Serializes a map as a list of pairs.
pub fn serialize<'a, S: Serializer, M, K: Serialize + 'a, V: Serialize + 'a>(
    map: &'a M,
    serializer: S,
) -> Result<S::Ok, S::Error>
where
    &'a M: IntoIterator<Item = (&'a K, &'a V)>,
{
    serializer.collect_seq(map)
}

/// Reads a map from a list of pairs.
pub fn deserialize<'de, D: Deserializer<'de>, M, K: Deserialize<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> Result<M, D::Error>
where
    M: FromIterator<(K, V)> + IntoIterator<Item = (K, V)>,
{
    Ok(Vec::deserialize(deserializer)?.into_iter().collect())
}
