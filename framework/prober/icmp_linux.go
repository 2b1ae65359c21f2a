package prober

import (
	"net"

	"golang.org/x/sys/unix"
)

// reportICMP asks for every ICMP error, host unreachable included, with the
// packet that caused it: see IP_RECVERR in ip(7).
func reportICMP(conn *net.UDPConn, v4 bool) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		if v4 {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_RECVERR, 1)
		} else {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// reportedIDs takes the waiting ICMP errors and returns the ids of the queries
// that they quote. On a port with several queries under way there is no other
// way to know whose error it is: host unreachable comes seconds later, when a
// newer query may be doing fine.
func reportedIDs(conn *net.UDPConn) []uint16 {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	var ids []uint16
	_ = raw.Control(func(fd uintptr) {
		quoted, oob := make([]byte, maxAnswer), make([]byte, 512)
		for {
			n, _, _, _, err := unix.Recvmsg(int(fd), quoted, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return
			}
			if id, ok := idOf(quoted[:n]); ok {
				ids = append(ids, id)
			}
		}
	})
	return ids
}
