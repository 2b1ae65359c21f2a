package run

import (
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/scenarios"
)

func TestPick(t *testing.T) {
	there := []cluster.Node{
		{Name: "control", Capacity: nodes.ControlPlane},
		{Name: "steady", Capacity: nodes.OnDemand},
		{Name: "spot-1", Capacity: nodes.Spot},
		{Name: "spot-2", Capacity: nodes.Spot},
		{Name: "spot-3", Capacity: nodes.Spot},
	}
	spot := scenarios.Pick{Capacity: nodes.Spot}
	dns := scenarios.Pick{Capacity: nodes.Spot, Runs: "coredns"}
	tests := []struct {
		name   string
		wanted map[string]scenarios.Pick
		dnsOn  []string
		want   map[string]string
		err    string
	}{
		{name: "no names", want: map[string]string{}},
		{
			name:   "a node without CoreDNS comes first if CoreDNS is not required",
			wanted: map[string]scenarios.Pick{"doomed": spot}, dnsOn: []string{"spot-1"},
			want: map[string]string{"doomed": "spot-2"},
		},
		{
			name:   "a node with CoreDNS if it is required",
			wanted: map[string]scenarios.Pick{"doomed": dns}, dnsOn: []string{"spot-3"},
			want: map[string]string{"doomed": "spot-3"},
		},
		{
			name:   "the name that needs CoreDNS is served before one that sorts earlier",
			wanted: map[string]scenarios.Pick{"a": spot, "b": spot, "c": dns}, dnsOn: []string{"spot-1"},
			want: map[string]string{"a": "spot-2", "b": "spot-3", "c": "spot-1"},
		},
		{
			name:   "on-demand",
			wanted: map[string]scenarios.Pick{"n": {Capacity: nodes.OnDemand}},
			want:   map[string]string{"n": "steady"},
		},
		{
			name:   "no node is taken twice",
			wanted: map[string]scenarios.Pick{"a": spot, "b": spot, "c": spot, "d": spot},
			err:    `no node left for "d"`,
		},
		{
			name:   "CoreDNS on another capacity does not count",
			wanted: map[string]scenarios.Pick{"a": dns}, dnsOn: []string{"steady"},
			err: `no node left for "a": capacity spot, runs "coredns"`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := pick(test.wanted, there, func(n cluster.Node) bool {
				for _, name := range test.dnsOn {
					if n.Name == name {
						return true
					}
				}
				return false
			})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(test.want) {
				t.Errorf("picked %v, want %v", got, test.want)
			}
			for name, want := range test.want {
				if got[name].Name != want {
					t.Errorf("%s is %s, want %s", name, got[name].Name, want)
				}
			}
		})
	}
}
