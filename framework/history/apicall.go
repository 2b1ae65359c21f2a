package history

// Resources of the API server that checks refer to, as in an event's Resource.
const (
	NodesResource     = "/nodes"
	PodsResource      = "/pods"
	EvictionsResource = "/pods/eviction"
	LeasesResource    = "coordination.k8s.io/leases"
)
