package launch

import (
	"errors"
	"reflect"
	"testing"

	"github.com/spotdrill/spotdrill/framework/cloud"
)

func TestPlan(t *testing.T) {
	runs := func(id string) cloud.Launched { return cloud.Launched{ID: id} }
	gone := func(id string) cloud.Launched { return cloud.Launched{ID: id, Ended: true} }
	for name, c := range map[string]struct {
		spares    []spare
		instances []cloud.Launched
		failed    map[string]error
		want      plan
	}{
		"nothing was launched": {spares: []spare{{name: "w5", state: parked, instance: ""}}},
		"a launch joins a worker that was no instance before": {
			spares:    []spare{{name: "w5", state: joined, instance: "i-1", turn: 2}, {name: "w6", state: parked, instance: "i-0", turn: 1}, {name: "w7", state: parked}},
			instances: []cloud.Launched{runs("i-1"), runs("i-2")},
			want:      plan{join: []assignment{{"w7", runs("i-2")}}},
		},
		"or one that was, if there is no other": {
			spares:    []spare{{name: "w5", state: joined, instance: "i-1"}, {name: "w6", state: parked, instance: "i-0"}},
			instances: []cloud.Launched{runs("i-1"), runs("i-2")},
			want:      plan{join: []assignment{{"w6", runs("i-2")}}},
		},
		"or the one that was one longest ago": {
			spares:    []spare{{name: "w5", state: parked, instance: "i-1", turn: 3}, {name: "w6", state: parked, instance: "i-0", turn: 1}, {name: "w7", state: parked, instance: "i-0", turn: 2}},
			instances: []cloud.Launched{runs("i-2"), runs("i-3")},
			want:      plan{join: []assignment{{"w6", runs("i-2")}, {"w7", runs("i-3")}}},
		},
		"or a virtual node, if no worker is left": {
			spares:    []spare{{name: "v1", state: parked, rank: 1}, {name: "w5", state: parked, instance: "i-1", turn: 3}},
			instances: []cloud.Launched{runs("i-2"), runs("i-3")},
			want:      plan{join: []assignment{{"w5", runs("i-2")}, {"v1", runs("i-3")}}},
		},
		"two launches join two workers, and the third has none": {
			spares:    []spare{{name: "w5", state: parked, instance: ""}, {name: "w6", state: parked, instance: ""}},
			instances: []cloud.Launched{runs("i-1"), runs("i-2"), runs("i-3")},
			want:      plan{join: []assignment{{"w5", runs("i-1")}, {"w6", runs("i-2")}}, unassigned: []cloud.Launched{runs("i-3")}},
		},
		"an instance that joins is not joined again": {
			spares:    []spare{{name: "w5", state: joining, instance: "i-1"}, {name: "w6", state: parked, instance: ""}},
			instances: []cloud.Launched{runs("i-1")},
		},
		"a worker ends with its instance": {
			spares:    []spare{{name: "w5", state: joined, instance: "i-1"}, {name: "w6", state: joined, instance: "i-2"}},
			instances: []cloud.Launched{gone("i-1"), runs("i-2")},
			want:      plan{end: []string{"w5"}},
		},
		"a worker whose instance EC2 has forgotten ends": {
			spares: []spare{{name: "w5", state: joined, instance: "i-1"}},
			want:   plan{end: []string{"w5"}},
		},
		"an instance that ends while it joins ends once it has joined": {
			spares:    []spare{{name: "w5", state: joining, instance: "i-1"}},
			instances: []cloud.Launched{gone("i-1")},
		},
		"what ends is not free yet": {
			spares:    []spare{{name: "w5", state: ending, instance: "i-1"}},
			instances: []cloud.Launched{gone("i-1"), runs("i-2")},
			want:      plan{unassigned: []cloud.Launched{runs("i-2")}},
		},
		"an instance that did not register is left alone": {
			spares:    []spare{{name: "w5", state: parked, instance: "i-1"}},
			instances: []cloud.Launched{runs("i-1")},
			failed:    map[string]error{"i-1": errors.New("no kubelet")},
		},
		"an instance that ended before anybody saw it is none": {
			spares:    []spare{{name: "w5", state: parked, instance: ""}},
			instances: []cloud.Launched{gone("i-1")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := planFor(c.spares, c.instances, c.failed); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}
