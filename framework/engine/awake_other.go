//go:build !linux

package engine

// KeepAwake is for Linux, where the containers share the processors with this process.
func KeepAwake() string { return "not kept awake: the containers do not run on this host itself" }
