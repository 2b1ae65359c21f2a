//go:build !linux

package prober

import "net"

func reportICMP(*net.UDPConn, bool) error { return nil }

// reportedIDs knows nothing where the kernel does not say whose error it is.
// Such a query ends as a timeout, which is a loss as well.
func reportedIDs(*net.UDPConn) []uint16 { return nil }
