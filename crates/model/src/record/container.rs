//! Names that engines and Kubernetes give to containers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A container with processes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Container {
    /// The engine's name for it; for a container of a pod, its name within the pod; the id if no name is known.
    pub name: String,
    /// The first twelve digits of its id; the whole id for engines that accept any text.
    pub id: String,
    /// `docker`, `podman`, `containerd`, `cri-o`, `runc` or `crun`; absent if only its control group is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Name of its Kubernetes pod; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Kubernetes namespace of the pod; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl Container {
    /// Returns the name after namespace and pod, if known: `cache`, or `default/cache-0/redis`.
    pub fn full_name(&self) -> String {
        let parts = [self.namespace.as_deref(), self.pod.as_deref(), Some(&*self.name)];
        parts.into_iter().flatten().collect::<Vec<_>>().join("/")
    }
}
