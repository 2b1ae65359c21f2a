package recommend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/logic"
)

// TerminationHandler is another handler of interruptions, which runs together with Karpenter: an AWS Node
// Termination Handler, or what names a queue and may drain nodes.
type TerminationHandler struct {
	// Name is its kind, and NAMESPACE/NAME.
	Name string
	// Queue is the queue that it reads, by its URL, ARN or name; empty if it reads instance metadata, or that is not
	// known.
	Queue string
	// Acts are the notices that it acts on and Karpenter as well; empty for none.
	Acts []string
	// DryRun reports whether it only logs what it would do. It reads its queue all the same.
	DryRun bool
	// Tag is the tag of the instances that it drains; empty if it drains all.
	Tag string
	// Pod is where it acts, if it only acts on the nodes that it runs on; else nil.
	Pod *corev1.PodSpec
	// GracePeriod is what it gives pods in place of their own grace period; empty if it leaves theirs.
	GracePeriod string
	// Deaf reports whether it is to read a queue and has no URL of one.
	Deaf bool
	// Unread are settings that decide what it acts on, but are not in the workload; with where they may be.
	Unread []string
	// Guessed is why it is taken for a handler, if it is no Node Termination Handler.
	Guessed string
}

// nodeTerminationHandler is how the AWS Node Termination Handler is known.
func nodeTerminationHandler() program {
	return program{
		images:    []string{"*/aws-node-termination-handler*", "*/node-termination-handler*"},
		variables: []string{"ENABLE_SQS_TERMINATION_DRAINING", "ENABLE_SPOT_INTERRUPTION_DRAINING", "ENABLE_SCHEDULED_EVENT_DRAINING"},
		flags:     []string{"enable-sqs-termination-draining", "enable-spot-interruption-draining", "enable-scheduled-event-draining"},
		label:     "aws-node-termination-handler",
	}
}

// spotHandlers is how earlier handlers of spot interruptions are known, which drain the node that they run on.
func spotHandlers() program {
	return program{images: []string{"*/kube-spot-termination-notice-handler*", "*/k8s-spot-termination-handler*", "*/spot-termination-handler*"}}
}

// readTerminationHandlers finds the handlers among the workloads. Queue is Karpenter's.
func readTerminationHandlers(ctx context.Context, client kubernetes.Interface, workloads []Workload, queue string) ([]TerminationHandler, error) {
	var out []TerminationHandler
	var known *rights
	nth, spot, karpenter := nodeTerminationHandler(), spotHandlers(), karpenterProgram()
	karpenter.label = "karpenter"
	for _, w := range workloads {
		if c := nth.in(w); c != nil {
			if err := resolve(ctx, client, w.Namespace, c); err != nil {
				return nil, err
			}
			out = append(out, terminationHandler(w, c))
			continue
		}
		if spot.in(w) != nil {
			out = append(out, TerminationHandler{Name: w.String(), Acts: []string{"spot interruptions"}, Pod: &w.Template.Spec})
			continue
		}
		named := w.queueNamed(queue)
		if named == "" || karpenter.in(w) != nil {
			continue
		}
		if known == nil {
			r, err := readRights(ctx, client)
			if err != nil {
				return nil, err
			}
			known = &r
		}
		h := TerminationHandler{Name: w.String(), Queue: named, Guessed: "its settings name queue " + queueName(named)}
		switch {
		case known.mayDrain(w):
			h.Guessed += ", and its ServiceAccount may drain nodes"
			h.Acts = []string{"what comes into it"}
		case queueName(named) != queue:
			continue // no other sign of a handler
		case known.unread != "":
			h.Unread = []string{"the rights of its ServiceAccount: " + known.unread}
		default:
			h.Unread = []string{"whether it receives messages or only looks at the queue"}
		}
		out = append(out, h)
	}
	return out, nil
}

// terminationHandler reads the settings that decide what it acts on. Without a value they are as its
// own defaults: https://github.com/aws/aws-node-termination-handler/blob/main/pkg/config/config.go
func terminationHandler(w Workload, c *corev1.Container) TerminationHandler {
	h := TerminationHandler{Name: w.String()}
	value := func(variable, otherwise string) string {
		v, elsewhere := setting(c, variable, strings.ReplaceAll(strings.ToLower(variable), "_", "-"))
		if v == "" && elsewhere != "" {
			h.Unread = append(h.Unread, variable+" may be in "+elsewhere)
		}
		return cmp.Or(v, otherwise)
	}
	on := func(variable string, otherwise bool) bool {
		b, err := strconv.ParseBool(value(variable, strconv.FormatBool(otherwise)))
		return b && err == nil // with any other text it does not start
	}
	h.DryRun = on("DRY_RUN", false)
	if seconds, err := strconv.Atoi(value("POD_TERMINATION_GRACE_PERIOD", "-1")); err == nil && seconds >= 0 && !on("CORDON_ONLY", false) {
		h.GracePeriod = strconv.Itoa(seconds) + "s"
	}
	if on("ENABLE_SQS_TERMINATION_DRAINING", false) {
		// It acts on every kind of message.
		h.Queue, h.Acts = value("QUEUE_URL", ""), []string{"spot interruptions", "scheduled changes", "state changes"}
		h.Deaf = h.Queue == "" && !slices.ContainsFunc(h.Unread, func(u string) bool { return strings.HasPrefix(u, "QUEUE_URL ") })
		if on("CHECK_TAG_BEFORE_DRAINING", on("CHECK_ASG_TAG_BEFORE_DRAINING", true)) {
			h.Tag = value("MANAGED_TAG", value("MANAGED_ASG_TAG", "aws-node-termination-handler/managed"))
		}
		return h
	}
	h.Pod = &w.Template.Spec
	for _, of := range []struct{ variable, acts string }{
		{"ENABLE_SPOT_INTERRUPTION_DRAINING", "spot interruptions"}, {"ENABLE_SCHEDULED_EVENT_DRAINING", "scheduled changes"},
	} {
		if on(of.variable, true) {
			h.Acts = append(h.Acts, of.acts)
		}
	}
	return h
}

// drains reports whether the handler drains nodes of Karpenter, and why that is not known, or so.
func (h TerminationHandler) drains(k Karpenter) (is logic.Truth, why string) {
	switch {
	case len(h.Acts) == 0 || h.DryRun:
		return logic.No, ""
	case len(h.Unread) > 0:
		return logic.Maybe, strings.Join(h.Unread, "; ")
	case h.Guessed != "":
		return logic.Maybe, h.Guessed + "; which nodes it acts on is not known"
	case h.Tag != "":
		for _, class := range k.Classes {
			if _, tagged := class.Tags[h.Tag]; tagged {
				return logic.Yes, "it drains only instances with the tag " + h.Tag + ", which EC2NodeClass " + class.Name + " sets"
			}
		}
		if k.ClassesUnread != "" {
			return logic.Maybe, "it drains only instances with the tag " + h.Tag + "; whether those of Karpenter have it is not known: " + k.ClassesUnread
		}
		return logic.No, ""
	case h.Pod == nil:
		return logic.Yes, ""
	}
	is = logic.No
	for _, p := range k.Pools {
		if on := p.runs(*h.Pod); on > is {
			is, why = on, "it runs on nodes of NodePool "+p.Name
		}
	}
	switch {
	case len(k.Pools) == 0 && len(h.Pod.NodeSelector) == 0 && h.Pod.Affinity == nil:
		return logic.Yes, ""
	case k.PoolsUnread != "":
		return logic.Maybe, "it runs only on some nodes; whether Karpenter launches such nodes is not known: " + k.PoolsUnread
	case len(k.Pools) == 0:
		return logic.Maybe, "it runs only on some nodes; whether Karpenter launches such nodes is not known, without a NodePool"
	case is == logic.Maybe:
		return is, strings.Replace(why, "it runs", "it may run", 1) + ", by labels that Karpenter chooses"
	}
	return is, why
}

// lintOthers checks whether another handler acts on what Karpenter acts on.
func (k Karpenter) lintOthers(queue string) []Finding {
	if queue == "" { // Karpenter hears of nothing, or that is not known
		return nil
	}
	var found []Finding
	for _, h := range k.Others {
		before := len(found)
		reads := queueName(h.Queue) == queue && !queueElsewhere(h.Queue, k.Region)
		is, why := h.drains(k)
		text := fmt.Sprintf("%s acts on %s, as Karpenter does", h.Name, strings.Join(h.Acts, ", "))
		if why != "" {
			text += ": " + why
		}
		switch {
		case reads && h.Guessed != "" && len(h.Acts) == 0:
			found = append(found, unknown("one-reader-of-the-queue", "%s: %s, which Karpenter reads; not known is %s", h.Name, h.Guessed, strings.Join(h.Unread, "; ")))
		case reads:
			found = append(found, breaks("one-reader-of-the-queue", "%s reads queue %s, as Karpenter does%s", h.Name, queue, after(": ", strings.TrimPrefix(h.Queue, queue))))
		case is == logic.Yes:
			found = append(found, breaks("one-interruption-handler", "%s", text))
		case is == logic.Maybe:
			found = append(found, unknown("one-interruption-handler", "%s", text))
		}
		about(found[before:], h)
	}
	return found
}

// lintHandlers checks whether the handlers that drain nodes hear of notices, and let CoreDNS terminate.
func (d DNS) lintHandlers(s coredns.Settings) (found []Finding) {
	preStop, _ := d.preStop()
	least := preStop + s.Lameduck.D() + ShutdownTime
	for _, h := range append(slices.Clone(d.Karpenter.Others), d.Handlers...) {
		before := len(found)
		if h.Deaf {
			found = append(found, breaks("handler-queue", "%s is to read a queue, and QUEUE_URL is empty", h.Name))
		}
		grace, err := time.ParseDuration(h.GracePeriod)
		const rule = "handler-keeps-the-grace-period"
		switch {
		case err != nil || h.DryRun:
		case s.LameduckUnknown || d.CorefileUnread != "":
			found = append(found, unknown(rule, "%s gives each pod %s in place of its own grace period, and the lameduck of CoreDNS is not known", h.Name, grace).fixedBy(least.Seconds()))
		case grace <= least:
			found = append(found, breaks(rule, "%s gives each pod %s in place of its own grace period, and CoreDNS has lameduck %s and takes up to %s to exit", h.Name, grace, s.Lameduck.D(), ShutdownTime).fixedBy(least.Seconds()))
		}
		about(found[before:], h)
	}
	return found
}

// about notes the handler that findings are about.
func about(found []Finding, h TerminationHandler) {
	for i := range found {
		found[i].handler = h.Name
	}
}
