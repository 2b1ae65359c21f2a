package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/story"
)

// Part is who takes part in a drill.
type Part string

// The parts, in the order of the picture's columns.
const (
	TheHandler   Part = "handler"
	OtherHandler Part = "second handler"
	TheQueue     Part = "queue"
	TheMetadata  Part = "metadata"
	AWS          Part = "EC2"
	APIServer    Part = "API server"
	TheNode      Part = "node"
	DNS          Part = "CoreDNS"
)

func parts() []Part {
	return []Part{TheHandler, OtherHandler, TheQueue, TheMetadata, AWS, APIServer, TheNode, DNS}
}

// Call is what one part requested of another or sent to it, or what happened at one of them.
type Call struct {
	// At is when a request arrived, or when it was seen what happened. Last is that of the last call, if it stands for several.
	At, Last time.Duration
	From, To Part // equal for what happened at one part
	Text     string
	Times    int  // how many calls it stands for
	Failed   bool // it was refused, or a fault hit it
	// Seq is the event's number, for the evidence that verdicts cite; of several calls the first one's.
	Seq int
	// routine calls share one row, if nothing else happened between them.
	routine bool
}

// Sequence is what went between the parts of a drill, in the order of time.
type Sequence struct {
	Parts []Part
	Calls []Call
	// Omitted counts the calls that are not shown, see maxCalls.
	Omitted int
}

// maxCalls keeps the sequence of a long drill readable. The history has all.
const maxCalls = 300

// windowsShown is how many windows of each stream the sequence shows at most.
const windowsShown = 5

// sequence is made of the streams' windows and of the history's events, from the first notice on.
func (d picture) sequence(streams []AnswerRow) Sequence {
	var calls []Call
	proxied := slices.ContainsFunc(d.Events, func(e history.Event) bool { return e.Kind == history.APICall })
	for _, e := range d.Events {
		c, ok := d.call(e, proxied)
		if !ok {
			continue
		}
		if c.Last = c.At; c.At >= d.zero && c.At <= d.to { // before it, what there was at first is listed
			c.Seq, c.Times = e.Seq, max(1, int(e.Numbers[history.Calls]))
			calls = append(calls, c)
		}
	}
	for _, s := range streams {
		if !s.Service {
			continue
		}
		windows := slices.SortedStableFunc(slices.Values(s.Measured.Windows), func(a, b history.Window) int { return cmp.Compare(b.Length(), a.Length()) })
		for _, w := range windows[:min(len(windows), windowsShown)] {
			calls = append(calls, Call{At: w.From, Last: w.From, From: DNS, To: DNS, Times: 1, Text: fmt.Sprintf("%s: queries are lost from here, for %s", s.Name, history.Seconds(w.Length()))})
		}
	}
	slices.SortStableFunc(calls, func(a, b Call) int { return cmp.Compare(a.At, b.At) })
	s := Sequence{Calls: fold(calls)}
	if n := len(s.Calls); n > maxCalls {
		s.Calls, s.Omitted = s.Calls[:maxCalls], n-maxCalls
	}
	for _, p := range parts() {
		if slices.ContainsFunc(s.Calls, func(c Call) bool { return c.From == p || c.To == p }) {
			s.Parts = append(s.Parts, p)
		}
	}
	return s
}

// fold makes one of routine calls that are the same, if nothing but routine happened between them. What is seen twice
// in a row at one part is one moment.
func fold(calls []Call) []Call {
	type same struct {
		from, to Part
		text     string
		failed   bool
	}
	var out []Call
	open := map[same]int{}
	for _, c := range calls {
		if !c.routine {
			clear(open)
			if n := len(out); n == 0 || c.From != c.To || out[n-1].From != c.From || out[n-1].To != c.To || out[n-1].Text != c.Text {
				out = append(out, c)
			}
			continue
		}
		k := same{c.From, c.To, c.Text, c.Failed}
		i, ok := open[k]
		if !ok {
			open[k] = len(out)
			out = append(out, c)
			continue
		}
		out[i].Times += c.Times
		out[i].Last = c.Last
	}
	return out
}

// call is what an event shows. Proxied is whether the handler's requests to the API server are on record; if not, the
// audit log has those that changed something.
func (d picture) call(e history.Event, proxied bool) (Call, bool) {
	handler := TheHandler
	if e.By == history.OtherHandler {
		handler = OtherHandler
	}
	at := func(p Part, text string) (Call, bool) {
		return Call{At: d.Happened(e), From: p, To: p, Text: text}, text != ""
	}
	switch e.Kind {
	case history.NoticePut:
		to := TheQueue
		if d.History.Meta.Handler.ReadsMetadata() {
			to = TheMetadata
		}
		return at(to, fmt.Sprintf("notice %s: %s for %s", e.Step(), e.NoticeType(), e.Node))
	case history.MessagePut:
		return at(TheQueue, "message "+e.Step())
	case history.SQSCall:
		return d.queueCall(e, handler)
	case history.SQSReceived:
		return Call{At: e.At, From: TheQueue, To: handler, Text: d.message(e) + " received"}, true
	case history.SQSDeleted:
		return Call{At: e.At, From: handler, To: TheQueue, Text: "delete " + d.message(e)}, true
	case history.MetadataRead:
		c := Call{At: e.At, From: handler, To: TheMetadata, Text: "read " + e.MetadataPath(), Failed: e.Fault != "", routine: true}
		if e.NoticeType() != "" {
			c.From, c.To, c.Text, c.routine = TheMetadata, handler, fmt.Sprintf("%s for %s", e.NoticeType(), e.Node), false
		}
		return c, true
	case history.LifecycleActed:
		return Call{At: e.At, From: handler, To: AWS, Text: strings.TrimSpace(e.Action + " " + e.LifecycleResult())}, true
	case history.APICall, history.APIFolded:
		return apiCall(e, handler), e.Owner != history.ProxyOwner
	case history.HandlerWrote, history.HandlerTook:
		if proxied || e.Said == nil {
			return Call{}, false
		}
		return Call{At: *e.Said, From: handler, To: APIServer, Text: auditText(e)}, true
	case history.HandlerDisturbed:
		return at(handler, string(e.Disturbance()))
	case history.HandlerLeftAlone:
		return at(handler, string(e.Disturbance())+" is over")
	case history.ClusterEvent:
		if !e.About("Node") || e.Node == "" || story.KubernetesComponent(e.Owner) {
			return Call{}, false
		}
		return Call{At: e.At, From: handler, To: APIServer, Text: fmt.Sprintf("event %s on %s", e.KubernetesReason(), e.Node)}, true
	case history.DNSDisrupted:
		return at(DNS, string(e.Disruption()))
	case history.EndpointReady, history.EndpointNotReady, history.EndpointTerminating, history.EndpointGone:
		if e.Service() != "" {
			return Call{}, false
		}
		_, _, text := endpointState(e)
		return at(DNS, "endpoint "+e.IP+" "+text)
	}
	if strings.HasPrefix(string(e.Kind), "pod.") {
		return d.podCall(e)
	}
	if sign, text := nodeMark(e); text != "" {
		c := Call{At: d.Happened(e), From: TheNode, To: TheNode, Text: e.Node + ": " + text}
		if sign == Act && e.Kind != history.OperatorActed {
			c.From = APIServer
		}
		return c, true
	}
	return Call{}, false
}

// queueCall leaves out what SQSReceived and SQSDeleted show.
func (d picture) queueCall(e history.Event, handler Part) (Call, bool) {
	if e.Owner == history.ProxyOwner {
		return Call{}, false
	}
	c := Call{At: story.Arrived(e), From: handler, To: TheQueue, Text: e.Action, Failed: e.Fault != "" || e.ErrorCode() != "" || !story.Done(e)}
	service, _, other := strings.Cut(e.Action, ":")
	switch {
	case c.Failed:
		c.Text += failure(e)
	case e.Action == "ReceiveMessage" && e.Numbers[history.Messages] > 0, strings.HasPrefix(e.Action, "DeleteMessage"):
		return Call{}, false
	case e.Action == "ReceiveMessage":
		c.Text += ", nothing there"
	}
	if other {
		c.To, c.Text = AWS, strings.TrimPrefix(c.Text, service+":")
	}
	c.routine = reads(c.Text)
	return c, true
}

// reads reports whether an action of AWS changes nothing.
func reads(action string) bool {
	return slices.ContainsFunc([]string{"Receive", "Get", "Describe", "List"}, func(verb string) bool { return strings.HasPrefix(action, verb) })
}

func failure(e history.Event) string {
	why := cmp.Or(string(e.ErrorCode()), "no answer")
	if e.Status != 0 {
		why = strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, e.ErrorCode()))
	}
	if e.Fault != "" {
		why += ", by the fault " + e.Fault
	}
	return ": " + why
}

// message names a message by the notice in it.
func (d picture) message(e history.Event) string {
	for _, put := range d.AllOf(history.NoticePut, history.MessagePut) {
		if e.Notice != "" && put.Notice == e.Notice || put.Message != "" && put.Message == e.Message {
			return "message " + put.Step()
		}
	}
	return "message " + e.Message[:min(len(e.Message), 8)]
}

func apiCall(e history.Event, handler Part) Call {
	object := cmp.Or(lastPart(e.Pod), e.Node, e.Object)
	c := Call{At: story.Arrived(e), From: handler, To: APIServer, Failed: e.Fault != "" || !story.Done(e)}
	switch resource := strings.TrimPrefix(e.Resource, "/"); {
	case e.Resource == history.EvictionsResource && e.Action == "create":
		c.Text = "evict " + object
	case slices.Contains([]string{"get", "list", "watch"}, e.Action):
		c.Text, c.routine = e.Action+" "+resource, true
	case resource == history.LeasesResource, strings.HasSuffix(resource, "events"):
		c.Text, c.routine = e.Action+" "+resource, true
	default:
		c.Text = strings.TrimSpace(e.Action + " " + resource + " " + object)
	}
	if marks := e.Marks(); len(marks) > 0 {
		c.Text += ": " + strings.Join(marks, ", ")
	}
	if e.Kind == history.APIFolded {
		c.routine = true
	}
	if c.Failed {
		why := fmt.Sprintf("%d", e.Status)
		if e.Status == 0 {
			why = "no answer"
		}
		if e.Fault != "" {
			why += ", by the fault " + e.Fault
		}
		c.Text += ": " + why
	}
	return c
}

// auditText is a change as the API server's audit log has it.
func auditText(e history.Event) string {
	if e.Kind == history.HandlerTook {
		return e.Action + " " + lastPart(e.Pod)
	}
	if e.WroteNode() {
		return e.Action + " nodes " + e.Node
	}
	return e.Action + " an object of " + e.Node
}

// podCall is what happened to a pod: on the node that it is on, or to CoreDNS.
func (d picture) podCall(e history.Event) (Call, bool) {
	texts := map[history.Kind]string{
		history.PodReady: "ready", history.PodEvicted: "evicted", history.PodTerminating: "terminating", history.PodSignalled: "SIGTERM",
		history.PodLameduck: "lameduck begins", history.PodExited: "exited", history.PodRestarted: "restarted", history.PodDeleted: "deleted",
	}
	text, ok := texts[e.Kind]
	if !ok {
		return Call{}, false
	}
	if grace, known := e.Numbers[history.Grace]; known && e.Kind == history.PodTerminating {
		text += fmt.Sprintf(", grace %gs", grace)
	}
	c := Call{At: d.Happened(e), From: TheNode, To: TheNode, Text: lastPart(e.Pod) + ": " + text}
	if d.dns[e.Pod] {
		c.From, c.To = DNS, DNS
	}
	if e.Kind == history.PodEvicted || e.Kind == history.PodTerminating {
		c.From = APIServer
	}
	return c, true
}
