//go:build !linux

package engine

// RaisePriority is for Linux, where the containers share the processors with this process.
func RaisePriority() string { return "not raised: the containers do not run on this host itself" }
