package recommend

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TerminationHandler is an AWS Node Termination Handler that runs together with Karpenter.
type TerminationHandler struct {
	// Name is "Deployment NAMESPACE/NAME" or "DaemonSet NAMESPACE/NAME".
	Name string
	// Queue is the name of the queue that it reads; empty if it reads instance metadata.
	Queue string
	// Acts are the notices that it acts on and Karpenter as well; empty for none.
	Acts []string
}

// readTerminationHandlers finds them by the label that their chart sets.
func readTerminationHandlers(ctx context.Context, client kubernetes.Interface) ([]TerminationHandler, error) {
	labelled := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=aws-node-termination-handler"}
	deployments, err := client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("list the Deployments of the Node Termination Handler: %w", err)
	}
	daemonSets, err := client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("list the DaemonSets of the Node Termination Handler: %w", err)
	}
	var out []TerminationHandler
	for _, d := range deployments.Items {
		out = append(out, terminationHandler("Deployment", d.ObjectMeta, d.Spec.Template.Spec))
	}
	for _, d := range daemonSets.Items {
		out = append(out, terminationHandler("DaemonSet", d.ObjectMeta, d.Spec.Template.Spec))
	}
	return out, nil
}

// terminationHandler reads the settings that decide what it acts on. Without a value they are as its
// own defaults: https://github.com/aws/aws-node-termination-handler/blob/main/pkg/config/config.go
func terminationHandler(kind string, meta metav1.ObjectMeta, spec corev1.PodSpec) TerminationHandler {
	h := TerminationHandler{Name: kind + " " + meta.Namespace + "/" + meta.Name}
	c := containerOf(&spec, "aws-node-termination-handler")
	if c == nil {
		return h
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	if cmp.Or(env["ENABLE_SQS_TERMINATION_DRAINING"], "false") == "true" {
		// It acts on every kind of message.
		url := env["QUEUE_URL"]
		h.Queue, h.Acts = cmp.Or(url[strings.LastIndex(url, "/")+1:], "not known"), []string{"spot interruptions", "scheduled changes", "state changes"}
		return h
	}
	for _, on := range []struct{ variable, acts string }{
		{"ENABLE_SPOT_INTERRUPTION_DRAINING", "spot interruptions"}, {"ENABLE_SCHEDULED_EVENT_DRAINING", "scheduled changes"},
	} {
		if cmp.Or(env[on.variable], "true") == "true" {
			h.Acts = append(h.Acts, on.acts)
		}
	}
	return h
}

// lintOthers checks whether another handler acts on what Karpenter acts on.
func (k Karpenter) lintOthers(queue string) []Finding {
	var found []Finding
	for _, h := range k.Others {
		switch {
		case queue == "" || len(h.Acts) == 0: // Karpenter hears of nothing, or the other does nothing of its
		case h.Queue == queue:
			found = append(found, breaks("one-reader-of-the-queue", "%s reads queue %s, as Karpenter does", h.Name, queue))
		default:
			found = append(found, breaks("one-interruption-handler", "%s acts on %s, as Karpenter does", h.Name, strings.Join(h.Acts, ", ")))
		}
	}
	return found
}
