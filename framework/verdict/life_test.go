package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// replicas adds the handler's pods to a story, with their IPs, and disturbs the first.
func (s *script) replicas(seconds float64, how history.Disturbance) {
	s.meta.Handler.Deployment = "default/handler"
	for name, ip := range map[string]string{"handler-1": "10.0.1.1", "handler-2": "10.0.1.2"} {
		s.at(1, history.NewPodPresent("default/"+name, "uid-"+name, "", "Running", history.Node(reserved), history.Owner("ReplicaSet/handler-7"), history.IP(ip)))
	}
	s.at(seconds, history.NewHandlerDisturbed("stop", how, history.Pod("default/handler-1"), history.UID("uid-handler-1"), history.Node(reserved)))
	s.at(seconds+0.1, history.NewPodTerminating("default/handler-1", "uid-handler-1", history.Node(reserved), history.Owner("ReplicaSet/handler-7"), history.With(history.Numbers{history.Grace: 10})))
	s.at(seconds+0.2, history.NewHandlerLeftAlone("stop", how))
}

func (s *script) replicaEnded(seconds, code float64) {
	s.at(seconds, history.NewPodExited("default/handler-1", "uid-handler-1", history.Node(reserved), history.Owner("ReplicaSet/handler-7"), history.With(history.Numbers{history.ExitCode: code})))
}

// received is a message of no importance that a client receives.
func (s *script) received(seconds float64, ip string) {
	s.at(seconds, history.NewMessagePut("another", "m-2"))
	s.at(seconds, history.NewSQSReceived("", "m-2", "", history.IP(ip)))
	s.at(seconds+0.5, history.NewSQSDeleted("", "m-2", ""))
}

func TestAHandlerStopsCleanly(t *testing.T) {
	const check = "handler stops cleanly at stop"
	play := func(edits ...func(*script)) func() *script {
		return func() *script {
			s := blockedStory()
			s.replicas(8, history.TerminateHandler)
			s.only(Require(StopsCleanly{Disturbance: "stop"}))
			for _, edit := range edits {
				edit(s)
			}
			return s
		}
	}
	ends := func(s *script) { s.replicaEnded(12, 0) }
	elsewhere := func(s *script) { s.received(12, "10.0.1.2") }
	late := func(s *script) { s.received(11, "10.0.1.1") }
	polling := func(s *script) {
		s.at(13, history.NewSQSCall("", "ReceiveMessage", "", history.Status(200), history.IP("10.0.1.1")))
	}
	killed := func(s *script) { s.replicaEnded(18.2, killedCode) }
	for _, x := range []struct {
		name  string
		edits []func(*script)
		want  Outcome
		got   string
	}{
		{"receives nothing more", []func(*script){ends, elsewhere}, Pass, "1 pod received nothing more"},
		{"receives one message more", []func(*script){ends, elsewhere, late}, Fail, "received a message 2.900s after"},
		{"receives one that was on its way", []func(*script){ends, elsewhere, func(s *script) { s.received(9, "10.0.1.1") }}, Pass, "nothing more"},
		{"receives nothing, and polls", []func(*script){ends, elsewhere, polling}, Fail, "still polled the queue 4.900s after"},
		{"is killed", []func(*script){killed, elsewhere}, Fail, "by SIGKILL"},
		{"ends too late", []func(*script){func(s *script) { s.replicaEnded(20, 0) }, elsewhere}, Fail, "too late"},
		{"does not end", []func(*script){elsewhere}, Fail, "has not ended"},
		{"no other message came", []func(*script){ends}, Unknown, "no message came after"},
		{"an address that no pod has received", []func(*script){ends, func(s *script) { s.received(12, "172.18.0.9") }}, Unknown, "no pod is known"},
		{"the history does not show who received", []func(*script){ends, func(s *script) { s.received(12, "") }}, Unknown, "does not show which pod"},
	} {
		expectation{name: x.name, check: check, want: x.want, got: x.got}.run(t, play(x.edits...))
	}
	for name, edits := range map[string][]func(*script){"a message received": {ends, elsewhere, late}, "a kill": {killed, elsewhere}} {
		t.Run("no other check finds "+name, func(t *testing.T) { missedBefore(t, play(edits...)(), check) })
	}
}

func TestADrainIsTakenOver(t *testing.T) {
	const check = "drain of victim taken over after stop"
	by := func(seconds float64, replica string) func(*script) {
		return func(s *script) {
			said := sec(seconds)
			s.at(29.12, history.NewHandlerTook(replica, "default/app-1", history.Action("evict"), history.Said(said)))
			s.pod(seconds+0.1, history.PodEvicted, "app-1", victim, "ReplicaSet/app")
			s.pod(seconds+0.1, history.PodTerminating, "app-1", victim, "ReplicaSet/app")
		}
	}
	play := func(edits ...func(*script)) func() *script {
		return func() *script {
			s := blockedStory()
			s.replicas(8, history.RetireHandler)
			s.replicaEnded(10, 0)
			s.at(29.15, history.NewAuditRead(""))
			s.only(Require(TakenOver{Node: "victim", Disturbance: "stop", Within: strict.Duration(sec(10))}))
			for _, edit := range edits {
				edit(s)
			}
			return s
		}
	}
	for _, x := range []struct {
		name  string
		edits []func(*script)
		want  Outcome
		got   string
	}{
		{"by another replica", []func(*script){by(15, "handler-2")}, Pass, "handler-2 evicted default/app-1 5.000s after"},
		{"by none", nil, Fail, "nobody evicted the 2 pods left"},
		{"too late", []func(*script){by(21, "handler-2")}, Fail, "nobody evicted"},
		{"by the replica itself, before its end", []func(*script){by(9, "handler-1")}, Fail, "nobody evicted the 1 pod"},
		{"by none, and every pod leaves before the time is over", []func(*script){func(s *script) {
			for _, name := range []string{"app-1", "app-2"} {
				s.pod(15, history.PodTerminating, name, victim, "ReplicaSet/app")
			}
			cutAt(16)(s)
		}}, Fail, "nobody evicted the 2 pods"},
		{"by an unknown one", []func(*script){by(15, "")}, Unknown, "does not show which replica"},
		{"no audit log", []func(*script){by(15, "handler-2"), func(s *script) { s.drop(kind(history.AuditRead)) }}, Unknown, "was not read"},
		{"the replica has not ended", []func(*script){by(15, "handler-2"), func(s *script) { s.drop(kind(history.PodExited)) }}, Unknown, "has not ended"},
		{"nothing was left", []func(*script){func(s *script) {
			for _, name := range []string{"app-1", "app-2"} {
				s.pod(9, history.PodTerminating, name, victim, "ReplicaSet/app")
			}
		}}, Unknown, "nothing was left"},
	} {
		expectation{name: x.name, check: check, want: x.want, got: x.got}.run(t, play(x.edits...))
	}
	t.Run("no other check finds it", func(t *testing.T) { missedBefore(t, play()(), check) })
	// The audit log is read when the recording has ended: waiting for what it reports would never end.
	for seconds, want := range map[float64]bool{14: false, 16.5: true} {
		s := play(by(15, "handler-2"), func(s *script) {
			s.pod(16, history.PodTerminating, "app-2", victim, "ReplicaSet/app")
		})()
		if got := Decided(s.scenario, recordedUpTo(s.history(), sec(seconds)), s.scenario.Checks); got != want {
			t.Errorf("decided by +%gs: %t, want %t", seconds, got, want)
		}
	}
}
