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
	disrupted := row{picture: d, Row: Row{Name: "CoreDNS", Note: "what was done to it"}}
	for _, e := range d.AllOf(history.DNSDisrupted) {
		disrupted.mark(e, Put, string(e.Disruption()))
	}
	configured := row{picture: d, Row: Row{Name: "handler", Note: "configured otherwise"}}
	for _, e := range d.AllOf(history.HandlerReconfigured) {
		text := e.Step()
		if e.Node != "" {
			text = "to remove " + e.Node
		}
		configured.mark(e, Put, text)
	}
	deployed := row{picture: d, Row: Row{Name: "DaemonSet", Note: "created by the drill"}}
	for _, e := range d.AllOf(history.Deployed) {
		deployed.mark(e, Put, e.DaemonSet())
	}
	upgraded := row{picture: d, Row: Row{Name: "add-on", Note: "upgraded by the drill"}}
	for _, e := range d.AllOf(history.AddOnUpgrading, history.AddOnUpgraded, history.AddOnRefused, history.AddOnSet) {
		sign, text := Came, addOnText(e)
		if e.Kind == history.AddOnUpgrading {
			sign = Put
		}
		upgraded.mark(e, sign, text)
	}
	grown := row{picture: d, Row: Row{Name: "cluster", Note: "virtual nodes"}}
	for _, e := range d.AllOf(history.ClusterGrown) {
		grown.mark(e, Put, fmt.Sprintf("%.0f, with %.0f cores", e.Numbers[history.VirtualNodes], e.Numbers[history.Cores]))
	}
	for _, r := range []row{disrupted, deployed, configured, upgraded, grown} {
		if len(r.Marks) > 0 {
			rows = append(rows, r.Row)
		}
	}
	return rows
}

// addOnText is an event of an add-on in words.
func addOnText(e history.Event) string {
	switch e.Kind {
	case history.AddOnUpgrading:
		return e.AddOn() + ": upgrade with " + e.Action
	case history.AddOnUpgraded:
		return e.AddOn() + ": upgraded"
	case history.AddOnRefused:
		return e.AddOn() + ": refused because of conflicts"
	}
	return e.AddOn() + ": values set by hand"
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
	lifecycle := row{picture: d, Row: Row{Name: "lifecycle", Note: "of Auto Scaling"}}
	for _, e := range d.AllOf(history.LifecycleActed) {
		if result := e.LifecycleResult(); result != "" {
			lifecycle.mark(e, Ended, "completed: "+result)
		} else {
			lifecycle.mark(e, Came, "heartbeat")
		}
	}
	metadata := row{picture: d, Row: Row{Name: "metadata", Note: "that it read"}}
	for _, e := range d.AllOf(history.MetadataRead) {
		switch {
		case e.At < d.zero:
		case e.NoticeType() != "":
			metadata.mark(e, Came, string(e.NoticeType())+" read on "+e.Node)
		case e.Fault != "":
			metadata.mark(e, Ended, "failed on "+e.Node+" ("+e.Fault+")")
		}
	}
	said := row{picture: d, Row: Row{Name: "events", Note: "that it wrote"}}
	for _, e := range d.AllOf(history.ClusterEvent) {
		if e.About("Node") && e.At >= d.zero && !story.KubernetesComponent(e.Owner) {
			said.mark(e, Told, e.KubernetesReason())
		}
	}
	disturbed := row{picture: d, Row: Row{Name: "disturbed", Note: "by the drill"}}
	for _, e := range d.AllOf(history.HandlerDisturbed, history.HandlerLeftAlone) {
		if e.Kind == history.HandlerDisturbed {
			disturbed.mark(e, Act, string(e.Disturbance()))
			continue
		}
		disturbed.mark(e, Came, string(e.Disturbance())+" is over")
	}
	var rows []Row
	for _, r := range []row{messages, second, metadata, lifecycle, said, disturbed} {
		if len(r.Spans)+len(r.Marks) > 0 {
			rows = append(rows, r.Row)
		}
	}
	return rows
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
	since := map[State]time.Duration{}
	end := func(state State, at time.Duration, text string) {
		if from, ok := since[state]; ok {
			r.span(from, at, state, text)
			delete(since, state)
		}
	}
	begin := func(state State, at time.Duration) {
		if _, ok := since[state]; !ok {
			since[state] = at
		}
	}
	for _, e := range events {
		switch e.Kind {
		case history.NodeCordoned:
			begin(Cordoned, e.At)
			r.mark(e, Act, "cordoned")
		case history.NodeUncordoned:
			end(Cordoned, e.At, "cordoned")
			r.mark(e, Act, "uncordoned")
		case history.NodeTainted:
			r.mark(e, Act, "taint "+lastPart(e.Setting().Key))
		case history.NodeUntainted:
			r.mark(e, Act, "taint "+lastPart(e.Setting().Key)+" off")
		case history.NodeNotReady:
			begin(NotReady, e.At)
			r.mark(e, Ended, "not ready ("+e.ReadyStatus()+")")
		case history.NodeReady:
			end(NotReady, e.At, "not ready")
			r.mark(e, Came, "ready")
		case history.Reclaimed:
			begin(Gone, e.At)
			r.mark(e, Ended, "instance taken")
		case history.InstanceJoined:
			r.mark(e, Came, "instance "+e.Instance+" joined")
		case history.InstanceEnded:
			begin(Gone, e.At)
			r.mark(e, Ended, "instance terminated")
		case history.NodeUnlabelled:
			r.mark(e, Act, "label "+lastPart(e.Setting().Key)+" off")
		case history.NodeUnannotated:
			r.mark(e, Act, "annotation "+lastPart(e.Setting().Key)+" off")
		case history.OperatorActed:
			r.mark(e, Act, "operator: "+string(e.Operation()))
			if e.Operation() == history.StartAgain {
				end(Gone, e.At, "instance gone")
			}
		case history.NodeDeleted:
			r.mark(e, Ended, "node object deleted")
		}
	}
	end(Cordoned, taken, "cordoned")
	end(NotReady, d.to, "not ready")
	end(Gone, d.to, "instance gone")
	return r.Row
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
