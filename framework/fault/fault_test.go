package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// minute is a fault of that type with what it requires.
func minute(k history.FaultKind) Fault {
	f := Fault{On: k.On, Name: "f", Type: k.Type, For: strict.Duration(2 * time.Minute)}
	for _, field := range k.Requires {
		switch field {
		case "by":
			f.By = strict.Duration(time.Second)
		case "status":
			f.Status = 503
		case "code":
			f.Code = k.Codes[0]
		case "node":
			f.Node = "victim"
		}
	}
	return f
}

func TestEveryKindOfFaultIsPossible(t *testing.T) {
	fields := map[string]bool{}
	for i := range reflect.TypeFor[Fault]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[Fault]().Field(i).Tag.Get("yaml"), ",")
		fields[name] = slices.Contains([]string{"on", "name", "type"}, name)
	}
	for _, k := range history.FaultKinds() {
		f := minute(k)
		if err := f.Err(); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for _, field := range slices.Concat(k.Requires, k.Allows) {
			if _, ok := fields[field]; !ok {
				t.Errorf("%s on %s: a fault has no field %s", k.Type, k.On, field)
			}
			fields[field] = true
		}
		if slices.Contains(slices.Concat(k.Requires, k.Allows), "code") != (len(k.Codes) > 0) {
			t.Errorf("%s on %s: codes %v", k.Type, k.On, k.Codes)
		}
		if slices.Contains(k.Allows, "code") && f.ErrorCode() != k.Codes[0] {
			t.Errorf("%s on %s: the default code is %q", k.Type, k.On, f.ErrorCode())
		}
		f.On, f.Type = k.On, "flood"
		if f.Err() == nil {
			t.Errorf("%s: no error", f)
		}
	}
	for field, used := range fields {
		if !used {
			t.Errorf("no kind of fault has the field %s", field)
		}
	}
}

// The step, its targets, types and fields are words that a user meets. A further one needs a reason why none
// of these fits.
func TestTheWordsOfFaultsAreFew(t *testing.T) {
	words := 1 + len(history.FaultTargets()) + len(history.FaultTypes(history.FaultTargets()...)) + reflect.TypeFor[Fault]().NumField()
	if words > 47 {
		t.Errorf("%d words, at most 47", words)
	}
}

func TestWhatIsWrongWithAFault(t *testing.T) {
	reset := minute(history.FaultKind{On: history.OnQueue, Type: history.Reset})
	for want, change := range map[string]func(*Fault){
		"name must not be empty":                   func(f *Fault) { f.Name = "" },
		`on "sqs" is not known`:                    func(f *Fault) { f.On = "sqs" },
		`type "conflict" is not known`:             func(f *Fault) { f.Type = history.Conflict },
		"by is not allowed with type reset":        func(f *Fault) { f.By = 1 },
		"node is not allowed with type reset":      func(f *Fault) { f.Node = "victim" },
		"requires count, for or both":              func(f *Fault) { f.For = 0 },
		"count -1 is less than 0":                  func(f *Fault) { f.Count = -1 },
		"for -1ns is less than 0s":                 func(f *Fault) { f.For = -1 },
		"silent requires for":                      func(f *Fault) { f.Type, f.Silent, f.For, f.Count = history.BlackHole, true, 0, 1 },
		"status is required with type error":       func(f *Fault) { f.Type = history.ServerError },
		`code "SlowDown" is not known`:             func(f *Fault) { f.Type, f.Code = history.Throttle, "SlowDown" },
		"retryAfter 1ns is not a whole number":     func(f *Fault) { f.On, f.Type, f.RetryAfter = history.OnAPI, history.Throttle, 1 },
		`resources "/nodes" is not a resource`:     func(f *Fault) { f.On, f.Resources = history.OnAPI, []string{"/nodes"} },
		`capacity "reserved" is not known`:         func(f *Fault) { f.On, f.Type, f.Capacity = history.OnEC2, history.NoCapacity, "reserved" },
		"for is required with type reset":          func(f *Fault) { f.On, f.For, f.Count = history.OnMetadata, 0, 0 },
		"after 2m0s is not less than for (2m0s)":   func(f *Fault) { f.Type, f.After = history.Duplicate, f.For },
		"for is required with type second-reader":  func(f *Fault) { f.Type, f.For, f.Count = history.SecondReader, 0, 1 },
		`actions "PurgeQueue" is not known`:        func(f *Fault) { f.Actions = []string{"PurgeQueue"} },
		"toAnother is not allowed with type reset": func(f *Fault) { f.ToAnother = true },
		"oneIn 1 is less than 2":                   func(f *Fault) { f.OneIn = 1 },
		`at "sometimes" is not a call`:             func(f *Fault) { f.At = "sometimes" },
		`requires a type that changes answers (`:   func(f *Fault) { f.At = "ReceiveMessage #1" },
		"oneIn is not allowed with type reset":     func(f *Fault) { f.On, f.OneIn = history.OnMetadata, 5 },
	} {
		f := reset
		change(&f)
		if err := f.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", f, err, want)
		}
	}
}

// life records what becomes of faults.
type life []string

func (l *life) record(e history.Event) {
	*l = append(*l, strings.TrimSpace(fmt.Sprint(strings.TrimPrefix(string(e.Kind), "fault."), " ", e.Step(), " ", e.FaultType(), e.FaultEnd())))
}

func every(Fault) bool { return true }

func TestTheLifeOfAFault(t *testing.T) {
	var got life
	faults := New(got.record)
	begin := func(f Fault) *Active {
		t.Helper()
		f.On, f.Type = history.OnQueue, history.Reset
		a, err := faults.Begin(f)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	counted := begin(Fault{Name: "counted", Count: 1})
	if _, err := faults.Begin(Fault{On: history.OnQueue, Name: "counted", Type: history.Reset, Count: 1}); err == nil {
		t.Error("two faults of one name at once are no error")
	}
	hit := faults.Take(every)
	if hit != counted || faults.Take(every) != nil {
		t.Error("a count of 1 is not one hit")
	}
	if !faults.Again(counted) {
		t.Error("the hit cannot be opened again while it lasts")
	}
	faults.Done(counted)
	if !faults.Has(counted) {
		t.Error("it ended although a hit is open")
	}
	faults.Done(counted)
	if faults.Has(counted) || faults.Any() || faults.Again(counted) {
		t.Error("it has not ended with its last hit")
	}
	<-counted.Over()
	short := begin(Fault{Name: "short", For: strict.Duration(time.Millisecond)})
	<-short.Over()
	begin(Fault{Name: "long", For: strict.Duration(time.Hour)})
	begin(Fault{Name: "later", For: strict.Duration(time.Hour)})
	if first := faults.Take(every); first.Name != "long" {
		t.Errorf("hit by %s, want the one that began first", first.Name)
	}
	faults.Clear()
	want := life{
		"begun counted reset", "ended counted count", "begun short reset", "ended short time",
		"begun long reset", "begun later reset", "ended long cleared", "ended later cleared",
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// It starts at the second call of its kind, affects that one, and its time counts from there.
func TestAFaultThatStartsAtACall(t *testing.T) {
	faults := New(func(history.Event) {})
	var begun []*Active
	for _, f := range []Fault{{Name: "one"}, {Name: "timed", For: strict.Duration(100 * time.Millisecond)}} {
		f.On, f.Type, f.At = history.OnAPI, history.BlackHole, "patch nodes n1 #2"
		a, err := faults.Begin(f)
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, a)
	}
	time.Sleep(150 * time.Millisecond)
	for n, call := range []struct{ verb, node string }{{"patch", "n1"}, {"patch", "n2"}, {"get", "n1"}, {"patch", "n1"}} {
		if faults.Take(every) != nil {
			t.Errorf("it hits before call %d", n+1)
		}
		faults.Reach(history.OnAPI, call.verb, "nodes", call.node)
	}
	for _, want := range begun {
		if hit := faults.Take(every); hit != want {
			t.Errorf("hit by %v, want %s", hit, want.Name)
		}
	}
	faults.Done(begun[0])
	if faults.Has(begun[0]) {
		t.Error("without count and for, it is not over after one call")
	}
	<-begun[1].Over()
}

func TestPoints(t *testing.T) {
	for text, on := range map[string]history.FaultTarget{
		"patch nodes victim #1": history.OnAPI, "create pods/eviction #12": history.OnAPI, "get leases.coordination.k8s.io #1": history.OnAPI, "DeleteMessage #3": history.OnQueue,
	} {
		if p, err := ParsePoint(on, text); err != nil || p.String() != text {
			t.Errorf("%q is %q, %v", text, p, err)
		}
	}
	for text, want := range map[string]string{
		"patch nodes victim":    "is not a call on api and its number",
		"patch nodes victim #0": "is not a call on api and its number",
		"patch #1":              "is not a call on api and its number",
		"pathc nodes #1":        `did you mean "patch"`,
		"patch Nodes #1":        "is not a resource as in kubectl",
		"get pods victim #1":    "is only possible with nodes",
	} {
		if _, err := ParsePoint(history.OnAPI, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	f := Fault{On: history.OnAPI, At: "patch nodes victim #1"}
	if f.AtNode() != "victim" || f.WithAtNode("worker2").At != "patch nodes worker2 #1" {
		t.Errorf("%q of %q", f.WithAtNode("worker2").At, f.AtNode())
	}
}

func FuzzParsePoint(f *testing.F) {
	f.Add("patch nodes victim #1")
	f.Add("DeleteMessage #1")
	f.Fuzz(func(t *testing.T, text string) {
		for _, on := range []history.FaultTarget{history.OnAPI, history.OnQueue} {
			if p, err := ParsePoint(on, text); err == nil && p.String() != text {
				t.Errorf("%q is written as %q", text, p)
			}
		}
	})
}

// A call that one fault leaves alone may be hit by another.
func TestAFaultThatAffectsOneCallInThree(t *testing.T) {
	faults := New(func(history.Event) {})
	for _, f := range []Fault{{Name: "some", OneIn: 3, For: strict.Duration(time.Hour)}, {Name: "counted", OneIn: 2, Count: 2}} {
		f.On, f.Type = history.OnAPI, history.Conflict
		if _, err := faults.Begin(f); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for range 9 {
		hit := faults.Take(every)
		if hit == nil {
			got = append(got, "none")
			continue
		}
		got = append(got, hit.Name)
		faults.Done(hit)
	}
	if want := []string{"some", "counted", "none", "some", "counted", "none", "some", "none", "none"}; !slices.Equal(got, want) {
		t.Errorf("hit %q, want %q", got, want)
	}
	faults.Clear()
}

func TestASilentFaultLetsGoWhenAllAreCleared(t *testing.T) {
	ended := make(chan struct{})
	faults := New(func(e history.Event) {
		if e.Kind == history.FaultEnded {
			close(ended)
		}
	})
	a, err := faults.Begin(Fault{On: history.OnAPI, Name: "f", Type: history.BlackHole, Silent: true, For: 1})
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	select {
	case <-a.Over():
		t.Error("what it holds is let go at its end")
	default:
	}
	faults.Clear()
	<-a.Over()
}

func TestWhatAFaultChangesIsPutBackBeforeItHasEnded(t *testing.T) {
	var got life
	faults := New(got.record)
	f := Fault{On: history.OnQueue, Name: "f", Type: history.RecreatedQueue, For: strict.Duration(time.Hour)}
	refused := errors.New("refused")
	if _, err := faults.BeginWith(f, func() (func(), error) { return nil, refused }); !errors.Is(err, refused) || faults.Any() {
		t.Errorf("what cannot be done has begun: %v", err)
	}
	got = nil
	_, err := faults.BeginWith(f, func() (func(), error) {
		got = append(got, "done")
		return func() { got = append(got, "undone") }, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	faults.Clear()
	faults.Clear()
	if want := (life{"begun f recreated-queue", "done", "undone", "ended f cleared"}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzFault: whatever is sent to a target, what it accepts ends.
func FuzzFault(f *testing.F) {
	for _, k := range history.FaultKinds() {
		text, err := json.Marshal(minute(k))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var one Fault
		if json.Unmarshal(text, &one) != nil || one.Err() != nil {
			return
		}
		if one.Count <= 0 && one.For <= 0 || one.Name == "" || one.String() == "" {
			t.Errorf("let through: %+v", one)
		}
	})
}
