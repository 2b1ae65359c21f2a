package timeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// notices has a row for each notice or message step, with the time until its
// deadline, and one each for what else the drill did.
func (d picture) notices() []Row {
	var rows []Row
	var seen []string
	for _, put := range d.AllOf(history.NoticePut, history.MessagePut) {
		if slices.Contains(seen, put.Step()) {
			continue
		}
		seen = append(seen, put.Step())
		r := row{picture: d, Row: Row{Name: put.Step(), Note: string(put.NoticeType())}}
		r.mark(put, Put, "put")
		if put.Until != nil {
			r.span(put.At, *put.Until, Leaving, "time to leave: "+(*put.Until-put.At).String())
			deadline := put
			deadline.At = *put.Until
			r.mark(deadline, Ended, "deadline")
		}
		rows = append(rows, r.Row)
	}
	return append(rows, shown(
		d.marked("CoreDNS", "what was done to it", func(e history.Event) (Sign, string) { return Put, string(e.Disruption()) }, history.DNSDisrupted),
		d.marked("DaemonSet", "created by the drill", func(e history.Event) (Sign, string) { return Put, e.DaemonSet() }, history.Deployed),
		d.marked("handler", "configured otherwise", func(e history.Event) (Sign, string) {
			if e.Node != "" {
				return Put, "to remove " + e.Node
			}
			return Put, e.Step()
		}, history.HandlerReconfigured),
		d.marked("add-on", "upgraded by the drill", addOnMark, history.AddOnUpgrading, history.AddOnUpgraded, history.AddOnRefused, history.AddOnSet),
		d.marked("cluster", "virtual nodes", func(e history.Event) (Sign, string) {
			return Put, fmt.Sprintf("%.0f, with %.0f cores", e.Numbers[history.VirtualNodes], e.Numbers[history.Cores])
		}, history.ClusterGrown),
	)...)
}

// marked is a row with a mark for each event of these kinds; an empty text is no mark.
func (d picture) marked(name, note string, mark func(history.Event) (Sign, string), kinds ...history.Kind) row {
	r := row{picture: d, Row: Row{Name: name, Note: note}}
	for _, e := range d.AllOf(kinds...) {
		if sign, text := mark(e); text != "" {
			r.mark(e, sign, text)
		}
	}
	return r
}

// shown are the rows that show something.
func shown(rows ...row) (out []Row) {
	for _, r := range rows {
		if len(r.Spans)+len(r.Marks) > 0 {
			out = append(out, r.Row)
		}
	}
	return out
}

func addOnMark(e history.Event) (Sign, string) {
	switch e.Kind {
	case history.AddOnUpgrading:
		return Put, e.AddOn() + ": upgrade with " + e.Action
	case history.AddOnUpgraded:
		return Came, e.AddOn() + ": upgraded"
	case history.AddOnRefused:
		return Came, e.AddOn() + ": refused because of conflicts"
	}
	return Came, e.AddOn() + ": values set by hand"
}

// messages shows what a handler received and deleted.
func (d picture) messages(by, name string) row {
	messages := row{picture: d, Row: Row{Name: name}}
	received := map[string]time.Duration{}
	for _, e := range d.AllOf(history.SQSReceived, history.SQSDeleted) {
		if e.At < d.zero || e.By != by {
			continue // left by an earlier drill, or another handler's
		}
		if e.Kind == history.SQSReceived {
			received[e.Message] = e.At
			messages.mark(e, Came, "received")
			continue
		}
		if at, ok := received[e.Message]; ok {
			messages.span(at, e.At, InHand, "message in hand")
			delete(received, e.Message)
		}
		messages.mark(e, Ended, "deleted")
	}
	for _, id := range slices.Sorted(maps.Keys(received)) {
		messages.span(received[id], d.to, InHand, "message never deleted")
	}
	return messages
}

// handler shows what the handler read and deleted, and its events about nodes.
func (d picture) handler() []Row {
	messages, second := d.messages("", "queue"), row{picture: d}
	if d.History.Meta.Other != nil {
		second = d.messages(history.OtherHandler, "queue, "+d.History.Meta.Other.Name)
	}
	return shown(messages, second,
		d.marked("metadata", "that it read", func(e history.Event) (Sign, string) {
			switch {
			case e.At < d.zero:
			case e.NoticeType() != "":
				return Came, string(e.NoticeType()) + " read on " + e.Node
			case e.Fault != "":
				return Ended, "failed on " + e.Node + " (" + e.Fault + ")"
			}
			return "", ""
		}, history.MetadataRead),
		d.marked("lifecycle", "of Auto Scaling", func(e history.Event) (Sign, string) {
			if result := e.LifecycleResult(); result != "" {
				return Ended, "completed: " + result
			}
			return Came, "heartbeat"
		}, history.LifecycleActed),
		d.marked("events", "that it wrote", func(e history.Event) (Sign, string) {
			if !e.About("Node") || e.At < d.zero || story.KubernetesComponent(e.Owner) {
				return "", ""
			}
			return Reported, e.KubernetesReason()
		}, history.ClusterEvent),
		d.marked("disturbed", "by the drill", func(e history.Event) (Sign, string) {
			if e.Kind == history.HandlerDisturbed {
				return Act, string(e.Disturbance())
			}
			return Came, string(e.Disturbance()) + " is over"
		}, history.HandlerDisturbed, history.HandlerLeftAlone),
	)
}

// nodes has a row for each node to which something happened, or that has a name in
// the scenario.
func (d picture) nodes() []Row {
	type subject struct {
		name   string
		events []history.Event
	}
	var subjects []*subject
	for _, e := range d.Events {
		if e.Node == "" {
			continue
		}
		unshown := []history.Kind{history.NodePresent, history.NodePrepared, history.NodeLabelled, history.NodeAnnotated}
		change := (strings.HasPrefix(string(e.Kind), "node.") && !slices.Contains(unshown, e.Kind) && e.At >= d.zero) ||
			slices.Contains([]history.Kind{history.NodeRole, history.Reclaimed, history.OperatorActed, history.InstanceJoined, history.InstanceEnded}, e.Kind)
		if !change {
			continue
		}
		i := slices.IndexFunc(subjects, func(s *subject) bool { return s.name == e.Node })
		if i < 0 {
			i = len(subjects)
			subjects = append(subjects, &subject{name: e.Node})
		}
		subjects[i].events = append(subjects[i].events, e)
	}
	// Those to which more happened come first.
	slices.SortStableFunc(subjects, func(a, b *subject) int { return cmp.Compare(len(b.events), len(a.events)) })
	var rows []Row
	for _, s := range subjects {
		rows = append(rows, d.node(s.name, s.events))
	}
	return rows
}

func (d picture) node(name string, events []history.Event) Row {
	r := row{picture: d, Row: Row{Name: name, Note: d.Role(name)}}
	there, taken := time.Duration(0), d.to
	if present, ok := d.First(func(e history.Event) bool { return e.Kind == history.NodePresent && e.Node == name }); ok && present.At > d.zero {
		there = present.At // it was launched in the drill
	}
	if e, ok := d.Reclaimed(name); ok {
		taken = e.At
	} else if i := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.InstanceEnded }); i >= 0 {
		taken = events[i].At
	}
	r.span(there, taken, Running, "there")
	begins := map[history.Kind]State{history.NodeCordoned: Cordoned, history.NodeNotReady: NotReady, history.Reclaimed: Gone, history.InstanceEnded: Gone}
	lasting := map[State]string{Cordoned: "cordoned", NotReady: "not ready", Gone: "instance gone"}
	since := map[State]time.Duration{}
	end := func(state State, at time.Duration) {
		if from, ok := since[state]; ok {
			r.span(from, at, state, lasting[state])
			delete(since, state)
		}
	}
	for _, e := range events {
		if state, ok := begins[e.Kind]; ok {
			if _, lasts := since[state]; !lasts {
				since[state] = e.At
			}
		}
		switch {
		case e.Kind == history.NodeUncordoned:
			end(Cordoned, e.At)
		case e.Kind == history.NodeReady:
			end(NotReady, e.At)
		case e.Kind == history.OperatorActed && e.Operation() == history.StartAgain:
			end(Gone, e.At)
		}
		if sign, text := nodeMark(e); text != "" {
			r.mark(e, sign, text)
		}
	}
	end(Cordoned, taken)
	end(NotReady, d.to)
	end(Gone, d.to)
	return r.Row
}

func nodeMark(e history.Event) (Sign, string) {
	switch e.Kind {
	case history.NodeCordoned:
		return Act, "cordoned"
	case history.NodeUncordoned:
		return Act, "uncordoned"
	case history.NodeTainted:
		return Act, "taint " + lastPart(e.Setting().Key)
	case history.NodeUntainted:
		return Act, "taint " + lastPart(e.Setting().Key) + " off"
	case history.NodeUnlabelled:
		return Act, "label " + lastPart(e.Setting().Key) + " off"
	case history.NodeUnannotated:
		return Act, "annotation " + lastPart(e.Setting().Key) + " off"
	case history.NodeNotReady:
		return Ended, "not ready (" + e.ReadyStatus() + ")"
	case history.NodeReady:
		return Came, "ready"
	case history.Reclaimed:
		return Ended, "instance taken"
	case history.InstanceJoined:
		return Came, "instance " + e.Instance + " joined"
	case history.InstanceEnded:
		return Ended, "instance terminated"
	case history.OperatorActed:
		return Act, "operator: " + string(e.Operation())
	case history.NodeDeleted:
		return Ended, "node object deleted"
	}
	return "", ""
}

// lastPart is a taint's key or a pod's name without the part before the slash.
func lastPart(s string) string { return s[strings.LastIndexByte(s, '/')+1:] }

// endpoints has a row for each address of a service, "" for kube-dns, with the states that
// kube-proxy uses.
func (d picture) endpoints(service string) []Row {
	type endpoint struct {
		row
		state State // "" while the endpoint does not exist
		since time.Duration
	}
	texts := map[State]string{
		Ready: "ready", Serving: "terminating, still serving",
		Terminating: "terminating, not serving", NotReady: "not ready",
	}
	var all []*endpoint
	for _, e := range d.endpointChanges(service) {
		i := slices.IndexFunc(all, func(p *endpoint) bool { return p.Note == e.IP && p.Name == lastPart(e.Pod) })
		if i < 0 {
			i = len(all)
			all = append(all, &endpoint{row: row{picture: d, Row: Row{Name: lastPart(e.Pod), Note: e.IP}}})
		}
		p := all[i]
		state, sign, text := endpointState(e)
		if state == p.state {
			continue
		}
		if p.state != "" {
			p.span(p.since, e.At, p.state, texts[p.state])
		}
		p.mark(e, sign, text)
		p.state, p.since = state, e.At
	}
	var rows []Row
	for _, p := range all {
		if p.state != "" {
			p.span(p.since, d.to, p.state, texts[p.state])
		}
		rows = append(rows, p.Row)
	}
	return rows
}

func endpointState(e history.Event) (State, Sign, string) {
	switch now := e.Conditions(); {
	case e.Kind == history.EndpointReady:
		return Ready, Came, "ready"
	case e.Kind == history.EndpointGone:
		return "", Ended, "gone"
	case now.Terminating && now.Serving:
		return Serving, Act, "terminating, serving"
	case now.Terminating:
		return Terminating, Act, "terminating, not serving"
	default:
		return NotReady, Ended, fmt.Sprintf("not ready (%s)", now)
	}
}
