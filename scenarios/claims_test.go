package scenarios

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/fault"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// claiming is a scenario that drains one node and has pods that move, with an edit.
func claiming(edit func(*Scenario)) Scenario {
	s := Scenario{
		CoreDNS:  coredns.Settings{Placement: coredns.OnOnDemand, Replicas: 2},
		Workload: Workload{Replicas: 3},
		Nodes:    map[string]Pick{"victim": {Capacity: "spot"}},
		Steps:    []Step{{Notice: &Notice{Name: "reclaim", Nodes: []string{"victim"}}}, {Message: &Message{Name: "bad"}}},
	}
	if edit != nil {
		edit(&s)
	}
	return s
}

func does(verb Verb, on Target) func(*Scenario) {
	return func(s *Scenario) { s.Steps = append(s.Steps, Step{Do: &Do{Verb: verb, Target: on, Node: "victim"}}) }
}

func fails(on history.FaultTarget) func(*Scenario) {
	return func(s *Scenario) { s.Steps = append(s.Steps, Step{Fault: &Fault{fault.Fault{Name: "outage", On: on}}}) }
}

// counting is a check for which the handler's calls are counted.
type counting struct{}

func (counting) Validate(*Scope)             {}
func (counting) DecidedBy(Times) Observation { return AtEnd() }
func (counting) Needs() Needs                { return Needs{APICalls: true} }

// exclusive is a scenario for each resource that a drill can need for itself, and what it needs.
var exclusive = map[string]struct {
	edit func(*Scenario)
	want Resource
}{
	"it measures DNS":                   {func(s *Scenario) { s.Probe = &Probe{} }, Quiet},
	"it has no handler":                 {func(s *Scenario) { s.Handler = HandlerNone }, HandlerProcess},
	"it has a second handler":           {func(s *Scenario) { s.OtherHandler = &OtherHandler{Name: "nth"} }, HandlerProcess},
	"it kills the handler":              {does(Kill, OnHandler), HandlerProcess},
	"it stops the handler for a time":   {does(Stop, OnHandler), HandlerProcess},
	"it configures the handler":         {does(Configure, OnHandler), HandlerProcess},
	"it takes the handler off its node": {does(Unlabel, OnNode), HandlerProcess},
	"it is about the on-demand worker":  {func(s *Scenario) { s.Nodes["victim"] = Pick{Capacity: "on-demand"} }, OnDemandWorker},
	"its pods go anywhere":              {func(s *Scenario) { s.Workload.Spill = true }, OnDemandWorker},
	"its node runs CoreDNS":             {func(s *Scenario) { s.Nodes["victim"] = Pick{Capacity: "spot", Runs: "coredns"} }, ClusterDNS},
	"it kills CoreDNS":                  {does(Kill, OnCoreDNS), ClusterDNS},
	"it upgrades CoreDNS": {func(s *Scenario) {
		s.Steps = append(s.Steps, Step{Do: &Do{Verb: Upgrade, Target: OnAddOn, AddOn: CoreDNSAddOn}})
	}, ClusterDNS},
	"it upgrades vpc-cni": {func(s *Scenario) {
		s.Steps = append(s.Steps, Step{Do: &Do{Verb: Upgrade, Target: OnAddOn, AddOn: VPCCNIAddOn}})
	}, AllNodes},
	"its pods have security groups":    {func(s *Scenario) { s.Workload.SecurityGroups = true }, AllNodes},
	"it scales the cluster":            {does(Scale, OnCluster), AllNodes},
	"it deletes a node":                {does(Delete, OnNode), Recovery},
	"it drains a node as kubectl does": {does(Drain, OnNode), Recovery},
	"it stops a kubelet":               {does(Stop, OnKubelet), Recovery},
	"it starts an instance":            {does(Start, OnInstance), Recovery},
	"the queue fails":                  {fails(history.OnQueue), HandlerQueue},
	"it floods the queue": {func(s *Scenario) {
		s.Steps = append(s.Steps, Step{Message: &Message{Name: "flood", Every: strict.Duration(time.Second)}})
	}, HandlerQueue},
	"the API server fails":           {fails(history.OnAPI), APIProxy},
	"calls are counted":              {func(s *Scenario) { s.Checks = []Check{{Requirement: counting{}}} }, APIProxy},
	"the metadata fails":             {fails(history.OnMetadata), Metadata},
	"EC2 launches nothing":           {fails(history.OnEC2), Launches},
	"a node is launched":             {func(s *Scenario) { s.Nodes["new"] = Pick{Capacity: "spot", Launched: &Launched{}} }, Launches},
	"CoreDNS waits for its own node": {func(s *Scenario) { s.CoreDNS.Placement = coredns.Launched }, Launches},
	"a DaemonSet is created":         {does(Create, OnWorkload), Launches},
}

// What a drill needs for itself shows in its claims with a reason, and no other drill is played at the same time.
// Each resource is among the cases, and each is shared without a reason against it.
func TestWhatADrillNeedsForItself(t *testing.T) {
	seen := map[Resource]bool{SpotNodes: true}
	for name, c := range exclusive {
		seen[c.want] = true
		claims := claiming(c.edit).Claims()
		if claim, ok := claims.Of(c.want, Exclusive); !ok || claim.Because == "" {
			t.Errorf("%s: claims %v, want %s for itself, with the reason", name, claims, c.want)
		}
		for _, others := range [][]Claims{{claiming(nil).Claims(), claims}, {claims, claiming(nil).Claims()}, {claims, claims}} {
			if why := FixedNodes().Conflict(others...); why == "" {
				t.Errorf("%s, and shares the cluster", name)
			}
		}
	}
	for _, r := range Resources() {
		if !seen[r] {
			t.Errorf("no drill needs %s for itself", r)
		}
		if _, ok := claiming(nil).Claims().Of(r, Shared); !ok {
			t.Errorf("a drill without steps that speak against it does not share %s", r)
		}
		if r.String() == "" || strings.Contains(string(r), " ") {
			t.Errorf("%q reads %q", string(r), r)
		}
	}
}

func TestWhatSharesTheCluster(t *testing.T) {
	for name, edit := range map[string]func(*Scenario){
		"nothing speaks against it":    nil,
		"its node is prepared":         func(s *Scenario) { s.Nodes["victim"] = Pick{Capacity: "spot", Prepared: &Prepared{Cordoned: true}} },
		"its node is uncordoned":       does(Uncordon, OnNode),
		"its instance is taken":        func(s *Scenario) { s.Steps = append(s.Steps, Step{Reclaim: &Reclaim{Node: "victim"}}) },
		"a budget changes":             func(s *Scenario) { s.Steps = append(s.Steps, Step{Do: &Do{Verb: Configure, Target: OnBudget}}) },
		"it has a bystander":           func(s *Scenario) { s.Nodes["bystander"] = Pick{Capacity: "spot"} },
		"it looks at the others":       func(s *Scenario) { s.Nodes["reserved"] = Pick{Capacity: "on-demand"} },
		"it does nothing to any one":   func(s *Scenario) { s.Steps, s.Nodes = nil, nil },
		"two nodes, and no pods there": func(s *Scenario) { onlyNodes(s, 2) },
	} {
		neighbour := claiming(nil)
		if strings.HasPrefix(name, "two") {
			onlyNodes(&neighbour, 1)
		}
		one, other := neighbour.Claims(), claiming(edit).Claims()
		if why := FixedNodes().Conflict(one, other) + FixedNodes().Conflict(other, one); why != "" {
			t.Errorf("%s, and it shares the cluster with none: %s", name, why)
		}
	}
}

// onlyNodes makes the scenario one of that many nodes that it acts on, and of no pods.
func onlyNodes(s *Scenario, n int) {
	s.Workload, s.Nodes, s.Steps = Workload{}, map[string]Pick{}, nil
	for i := range n {
		s.Nodes[fmt.Sprint("node-", i)] = Pick{Capacity: "spot", Prepared: &Prepared{Cordoned: true}}
	}
}

// Conflicts are reported in words. More drills than two, and virtual nodes, are counted.
func TestConflict(t *testing.T) {
	nodes := func(own, seen int, real string) Claims {
		out := Claims{{Resource: SpotNodes, Mode: Exclusive, Nodes: own, Real: real}}
		if seen > 0 {
			out = append(out, Claim{Resource: SpotNodes, Mode: Shared, Nodes: seen, Real: real})
		}
		return out
	}
	shares := func(r Resource, as string) Claims { return Claims{{Resource: r, Mode: Shared, As: as}} }
	alone := func(r Resource) Claims { return Claims{{Resource: r, Mode: Exclusive, Because: "step 3"}} }
	for name, c := range map[string]struct {
		there  Nodes
		claims []Claims
		want   string
	}{
		"nobody":                              {Nodes{}, nil, ""},
		"one alone":                           {Nodes{Spot: 3}, []Claims{alone(HandlerQueue)}, ""},
		"two that share":                      {Nodes{}, []Claims{shares(HandlerQueue, ""), shares(HandlerQueue, "")}, ""},
		"one for itself, the other uses it":   {Nodes{}, []Claims{alone(HandlerQueue), shares(HandlerQueue, "")}, "one needs the queue for itself (step 3), and another uses it"},
		"both for themselves":                 {Nodes{}, []Claims{alone(Quiet), alone(Quiet)}, "one needs the machine for itself (step 3), and another uses it"},
		"for themselves, different resources": {Nodes{}, []Claims{alone(HandlerQueue), alone(APIProxy)}, ""},
		"the same settings":                   {Nodes{}, []Claims{shares(ClusterDNS, "a"), shares(ClusterDNS, "a")}, ""},
		"other settings":                      {Nodes{}, []Claims{shares(ClusterDNS, "b"), shares(ClusterDNS, "a")}, `they need CoreDNS with other settings ("a" and "b")`},
		"other settings of a third":           {Nodes{}, []Claims{shares(HandlerProcess, "a"), shares(HandlerProcess, "a"), shares(HandlerProcess, "")}, `they need the handler with other settings ("" and "a")`},
		"nodes of their own":                  {Nodes{Spot: 3}, []Claims{nodes(1, 1, "x"), nodes(1, 1, "x")}, ""},
		"a third one has no node":             {Nodes{Spot: 3}, []Claims{nodes(1, 1, "x"), nodes(1, 1, "x"), nodes(1, 1, "x")}, "they need 4 spot nodes, and there are 3"},
		"what they look at is the same":       {Nodes{Spot: 4}, []Claims{nodes(1, 1, "x"), nodes(1, 2, "x")}, ""},
		"one alone, and too few nodes":        {Nodes{Spot: 3}, []Claims{nodes(4, 0, "x")}, "they need 4 spot nodes, and there are 3"},
		"virtual is enough, and there is":     {Nodes{Spot: 2, Virtual: 4}, []Claims{nodes(1, 1, "x"), nodes(2, 1, ""), nodes(1, 1, "")}, ""},
		"virtual is enough, and all are used": {Nodes{Spot: 2, Virtual: 3}, []Claims{nodes(1, 1, "x"), nodes(2, 1, ""), nodes(1, 1, "")}, "they need 3 spot nodes, and there are 2"},
		"virtual, and the rest on spot nodes": {Nodes{Spot: 3, Virtual: 3}, []Claims{nodes(1, 1, "x"), nodes(2, 1, ""), nodes(1, 1, "")}, ""},
		"virtual is not enough":               {Nodes{Spot: 2, Virtual: 9}, []Claims{nodes(1, 1, "x"), nodes(1, 1, "x")}, "they need 3 spot nodes, and there are 2"},
	} {
		if got := c.there.Conflict(c.claims...); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		slices.Reverse(c.claims)
		if got := c.there.Conflict(c.claims...); got != c.want {
			t.Errorf("%s, in the other order: %q, want %q", name, got, c.want)
		}
	}
}

func TestTheNodesOfADrill(t *testing.T) {
	spot, looked := Pick{Capacity: "spot"}, Pick{Capacity: "spot"}
	for name, c := range map[string]struct {
		edit        func(*Scenario)
		own, shared int
	}{
		"one to drain, one for its pods": {nil, 1, 1},
		"a bystander can take them":      {func(s *Scenario) { s.Nodes["bystander"] = looked }, 1, 1},
		"two bystanders":                 {func(s *Scenario) { s.Nodes["bystander"], s.Nodes["other"] = looked, looked }, 1, 2},
		"two to drain":                   {func(s *Scenario) { s.Workload.Pods, s.Nodes["second"] = []Pods{{"bare", "second"}}, spot }, 2, 1},
		"no pods":                        {func(s *Scenario) { s.Workload = Workload{} }, 1, 0},
		"CoreDNS runs there":             {func(s *Scenario) { s.Workload, s.CoreDNS.Placement = Workload{}, coredns.OnSpot }, 1, 1},
		"on the on-demand worker":        {func(s *Scenario) { s.Workload, s.Nodes["victim"] = Workload{}, Pick{Capacity: "on-demand"} }, 0, 0},
		"one that is launched":           {func(s *Scenario) { s.Nodes["victim"] = Pick{Capacity: "spot", Launched: &Launched{}} }, 0, 1},
		"one that CoreDNS has launched": {func(s *Scenario) {
			s.CoreDNS.Placement, s.Nodes["victim"] = coredns.Launched, Pick{Capacity: "spot", Runs: "coredns"}
		}, 0, 1},
		"all: their pods have no other":   {func(s *Scenario) { onlyNodes(s, 3); s.Workload.Replicas = 3 }, 3, 0},
		"a message that names a node too": {func(s *Scenario) { s.Nodes["second"] = spot; s.Steps[1].Message.Body = "${INSTANCE:second}" }, 2, 1},
	} {
		claims := claiming(c.edit).Claims()
		own, _ := claims.Of(SpotNodes, Exclusive)
		shared, _ := claims.Of(SpotNodes, Shared)
		if own.Nodes != c.own || shared.Nodes != c.shared || c.own+c.shared > 0 && own.Because+shared.Because == "" {
			t.Errorf("%s: %v and %v, want %d and %d", name, own, shared, c.own, c.shared)
		}
	}
}

// A virtual node is enough unless something has to run there.
func TestWhereRealNodesAreNeeded(t *testing.T) {
	grace := strict.Duration(30 * time.Second)
	for name, c := range map[string]struct {
		edit func(*Scenario)
		want string // in the reason; empty: virtual is enough
	}{
		"pods that are moved":          {nil, ""},
		"a bare pod":                   {func(s *Scenario) { s.Workload.Pods = []Pods{{"bare", "victim"}} }, ""},
		"its node is uncordoned":       {does(Uncordon, OnNode), ""},
		"its node is deleted":          {does(Delete, OnNode), ""},
		"the queue fails":              {fails(history.OnQueue), ""},
		"the scenario requires it":     {func(s *Scenario) { s.RealNodes = true }, "realNodes"},
		"a pod that stops slowly":      {func(s *Scenario) { s.Workload.Pods = []Pods{{"slow", "victim"}} }, "pods slow must run"},
		"a static pod":                 {func(s *Scenario) { s.Workload.Pods = []Pods{{"static", "victim"}} }, "pods static must run"},
		"DNS is measured":              {func(s *Scenario) { s.Probe = &Probe{} }, "queries"},
		"an application answers":       {func(s *Scenario) { s.Workload.Serves = &Serves{} }, "pods of the workload must run"},
		"CoreDNS runs there":           {func(s *Scenario) { s.CoreDNS.Placement = coredns.OnSpot }, "CoreDNS"},
		"its instance is taken":        {func(s *Scenario) { s.Steps = append(s.Steps, Step{Reclaim: &Reclaim{Node: "victim"}}) }, "taken"},
		"its kubelet stops":            {does(Stop, OnKubelet), "kubelet"},
		"its kubelet registers it":     {does(Join, OnNode), "joins"},
		"its instance starts again":    {does(Start, OnInstance), "starts again"},
		"the handler moves there":      {does(Move, OnHandler), "moved"},
		"the handler's pods run there": {does(Label, OnNode), "labels"},
		"its metadata fails":           {fails(history.OnMetadata), "outage"},
		"a second handler":             {func(s *Scenario) { s.OtherHandler = &OtherHandler{} }, "second handler"},
		"its kubelet delays a shutdown": {func(s *Scenario) {
			s.Nodes["victim"] = Pick{Capacity: "spot", Prepared: &Prepared{ShutdownGracePeriod: &grace}}
		}, "kubelet of victim"},
	} {
		claim, _ := claiming(c.edit).Claims().Of(SpotNodes, Exclusive)
		if got := claim.Real; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: real because %q, want %q", name, got, c.want)
		}
	}
	for _, kind := range podsOfVirtualNodes() {
		if !slices.Contains(PodKinds(), kind) {
			t.Errorf("no pods are of the kind %s", kind)
		}
	}
}

// The loader knows of each action what it needs.
func TestEveryActionHasAnEffect(t *testing.T) {
	for _, on := range Targets() {
		for verb, a := range on.actions() {
			if a.effect == nil {
				t.Errorf("%s: it is not known what it means for other drills", Do{Verb: verb, Target: on}.What())
			}
		}
	}
	for _, on := range history.FaultTargets() {
		if len((Fault{fault.Fault{On: on}}).effect().alone) == 0 {
			t.Errorf("a fault on %s: it is not known what it means for other drills", on)
		}
	}
}

// Drills share CoreDNS only with the same settings, whichever they are.
func TestEachSettingOfCoreDNSIsPartOfTheClaim(t *testing.T) {
	of := reflect.TypeFor[coredns.Settings]()
	as := map[string]string{claiming(nil).sharesAs(ClusterDNS): "none"}
	for i := range of.NumField() {
		s := claiming(nil)
		if !filled(reflect.ValueOf(&s.CoreDNS).Elem().Field(i)) {
			t.Fatalf("%s has no value to change", of.Field(i).Name)
		}
		claim := s.sharesAs(ClusterDNS)
		if other, ok := as[claim]; ok {
			t.Errorf("a change of %s shows in the claim as one of %s: %s", of.Field(i).Name, other, claim)
		}
		as[claim] = of.Field(i).Name
	}
	one, other := claiming(nil), claiming(nil)
	one.CoreDNS.Corefile, other.CoreDNS.Corefile = ". { forward . 10.0.0.1 }", ". { forward . 10.0.0.2 }"
	if one.sharesAs(ClusterDNS) == other.sharesAs(ClusterDNS) {
		t.Error("two Corefiles are the same")
	}
}

// filled gives the value another one.
func filled(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + int64(7*time.Second))
	case reflect.String:
		v.SetString(v.String() + "7")
	case reflect.Struct:
		return filled(v.Field(0))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return filled(v.Index(0))
	default:
		return false
	}
	return true
}

// SharedBefore is the rule for drills that share the cluster that was written by hand before there were claims; they
// also needed the same settings of CoreDNS.
func (s Scenario) SharedBefore() bool {
	targets, spot := s.Targets(), 0
	if s.Probe != nil || s.Handler == HandlerNone || s.OtherHandler != nil || s.Launches() > 0 || s.Workload.Spill || s.Workload.SecurityGroups || len(targets) > 1 {
		return false
	}
	for name, pick := range s.Nodes {
		isSpot := pick.Capacity == string(coredns.OnSpot)
		if pick.Runs != "" || slices.Contains(targets, name) && !isSpot {
			return false
		}
		if isSpot {
			spot++
		}
	}
	if slices.ContainsFunc(s.needs(), func(n Needs) bool { return n.APICalls }) {
		return false
	}
	return spot <= 2 && !slices.ContainsFunc(s.effects(), func(e effect) bool { return len(e.alone) > 0 })
}
