package history

// PlatformKey is the part of an environment that names the preset of a run, such as eks-1.34, and PlatformLacksKey
// what a drill with it does not have of the platform.
const (
	PlatformKey      = "platform"
	PlatformLacksKey = "platform-lacks"
)
