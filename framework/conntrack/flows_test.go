package conntrack

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
)

var (
	here = netip.MustParseAddr("10.244.1.9")
	dns  = netip.MustParseAddrPort("10.96.0.10:53")
)

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// began and over are what the kernel reports of an entry of a port.
func began(port uint16, backend string) change {
	return change{protocol: protocolUDP, client: netip.AddrPortFrom(here, port), service: dns, backend: netip.AddrPortFrom(netip.MustParseAddr(backend), 53)}
}

func over(port uint16, removed, replied bool) change {
	c := began(port, "10.244.2.5")
	c.ended, c.removed, c.replied = true, removed, replied
	return c
}

func TestFlows(t *testing.T) {
	other := func(edit func(*change)) change {
		c := began(1, "10.244.2.5")
		edit(&c)
		return c
	}
	for name, c := range map[string]struct {
		batches [][]change // 10 ms apart
		want    []history.Flow
	}{
		"nothing": {nil, nil},
		"one that stays": {
			[][]change{{began(1, "10.244.2.5")}},
			[]history.Flow{{Port: 1, Backend: "10.244.2.5", From: ms(0)}},
		},
		"one whose time is up": {
			[][]change{{began(1, "10.244.2.5")}, {over(1, false, true)}},
			[]history.Flow{{Port: 1, Backend: "10.244.2.5", From: ms(0), To: ms(10), Replied: true}},
		},
		"kube-proxy removes one and the port goes elsewhere": {
			[][]change{{began(1, "10.244.2.5")}, {over(1, true, false), began(1, "10.244.3.7")}},
			[]history.Flow{{Port: 1, Backend: "10.244.2.5", From: ms(0), To: ms(10), Removed: true}, {Port: 1, Backend: "10.244.3.7", From: ms(10)}},
		},
		"an end that was missed": {
			[][]change{{began(1, "10.244.2.5")}, {began(1, "10.244.3.7")}},
			[]history.Flow{{Port: 1, Backend: "10.244.2.5", From: ms(0), To: ms(10)}, {Port: 1, Backend: "10.244.3.7", From: ms(10)}},
		},
		"an end of what began before the record": {[][]change{{over(1, false, false)}}, nil},
		"another protocol":                       {[][]change{{other(func(c *change) { c.protocol = 132 })}}, nil},
		"a connection":                           {[][]change{{other(func(c *change) { c.protocol = protocolTCP })}}, []history.Flow{{Port: 1, Backend: "10.244.2.5", From: ms(0), TCP: true}}},
		"a port of UDP and of TCP": {
			[][]change{{began(1, "10.244.2.5"), other(func(c *change) { c.protocol, c.backend = protocolTCP, netip.MustParseAddrPort("10.244.3.7:53") })}, {over(1, true, false)}},
			[]history.Flow{{Port: 1, Backend: "10.244.2.5", From: ms(0), To: ms(10), Removed: true}, {Port: 1, Backend: "10.244.3.7", From: ms(0), TCP: true}},
		},
		"another client": {[][]change{{other(func(c *change) {
			c.client = netip.MustParseAddrPort("10.244.1.10:1")
		})}}, nil},
		"another service": {[][]change{{other(func(c *change) {
			c.service = netip.AddrPortFrom(dns.Addr(), 9153)
		})}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlows(here, Services{dns: ""}, 0)
			for i, batch := range c.batches {
				f.add(ms(10*i), batch)
			}
			if got, _ := f.snapshot(); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// For a flow that goes on, the kernel reports only when asked whether it was
// answered.
func TestLivingFlows(t *testing.T) {
	f := newFlows(here, Services{dns: ""}, 0)
	f.add(0, []change{began(1, "10.244.2.5"), began(2, "10.244.2.5"), began(3, "10.244.2.5")})
	f.add(ms(10), []change{over(3, false, false)})
	answered, elsewhere := began(1, "10.244.2.5"), began(2, "10.244.2.5")
	answered.replied, elsewhere.replied = true, true
	elsewhere.service = netip.AddrPortFrom(dns.Addr(), 54)
	f.living([]change{answered, elsewhere, began(4, "10.244.2.5")})
	all, _ := f.snapshot()
	for i, want := range []bool{true, false, false} {
		if all[i].Replied != want {
			t.Errorf("port %d answered: %t, want %t", all[i].Port, all[i].Replied, want)
		}
	}
}

// What the kernel counted before the record begins is not part of it.
func TestWhenInsertsFailed(t *testing.T) {
	f := newFlows(here, Services{dns: ""}, 40)
	f.failed(ms(100), 40)
	f.failed(ms(200), 43)
	f.failed(ms(300), 43)
	f.failed(ms(400), 44)
	_, last := f.snapshot()
	if want := []failure{{ms(100), ms(200), 3}, {ms(300), ms(400), 1}}; !reflect.DeepEqual(last.Failures, want) || last.InsertFailed != 4 {
		t.Errorf("%d: %+v, want %+v", last.InsertFailed, last.Failures, want)
	}
}

// A client's port can have a flow to each of two services at once.
func TestFlowsToTwoServices(t *testing.T) {
	web := netip.MustParseAddrPort("10.96.12.7:80")
	f := newFlows(here, Services{dns: "", web: "application"}, 0)
	toWeb := began(1, "10.244.3.7")
	toWeb.service, toWeb.protocol = web, protocolTCP
	ended := toWeb
	ended.ended, ended.replied = true, true
	f.add(ms(0), []change{began(1, "10.244.2.5"), toWeb})
	f.add(ms(10), []change{ended})
	want := []history.Flow{
		{Port: 1, Backend: "10.244.2.5", From: ms(0)},
		{Port: 1, Target: "application", Backend: "10.244.3.7", From: ms(0), To: ms(10), Replied: true, TCP: true},
	}
	if got, _ := f.snapshot(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
