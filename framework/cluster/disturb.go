package cluster

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

// killAll kills the processes whose cgroup contains the id of one of the containers, its
// arguments. The API server can only terminate pods gracefully or remove their objects.
const killAll = `n=0
for id; do for f in $(grep -ls "$id" /proc/[0-9]*/cgroup); do kill -KILL "$(echo "$f" | cut -d/ -f3)" && n=$((n+1)); done; done
test $n -gt 0`

// Kill sends SIGKILL to every process of the pod's containers. The kubelet restarts them.
func (c *Cluster) Kill(ctx context.Context, p corev1.Pod) error {
	argv := []string{"sh", "-c", killAll, "sh"}
	for _, s := range p.Status.ContainerStatuses {
		_, id, _ := strings.Cut(s.ContainerID, "://")
		if s.State.Running == nil || id == "" {
			continue
		}
		argv = append(argv, id)
	}
	_, err := c.engine.Exec(ctx, p.Spec.NodeName, nil, argv...)
	return wrap.Errorf(err, "kill the containers of pod %s/%s on node %s", p.Namespace, p.Name, p.Spec.NodeName)
}

// cutOffComment identifies the rules of CutOff.
const cutOffComment = "spotdrill-cut-off"

// cutOffRule matches packets from a pod to the API server, and to the recording proxy that
// stands before it, after kube-proxy's rules: both listen on that port.
func cutOffRule(p corev1.Pod) string {
	return "FORWARD -s " + p.Status.PodIP + " -p tcp --dport 6443 -m comment --comment " + cutOffComment + " -j DROP"
}

// reconnectAll undoes every CutOff on a node, also those of a run that was killed.
const reconnectAll = `iptables -w -S FORWARD | sed -n '/` + cutOffComment + `/{s/^-A/-D/;s/"//g;p}' | while read -r rule; do iptables -w $rule; done
`

// CutOff drops every packet from the pod to the API server, including those of open
// connections, until Reconnect.
func (c *Cluster) CutOff(ctx context.Context, p corev1.Pod) error {
	_, err := c.engine.Exec(ctx, p.Spec.NodeName, nil, "sh", "-ec", "iptables -w -I "+cutOffRule(p))
	return wrap.Errorf(err, "cut pod %s/%s off from the API server", p.Namespace, p.Name)
}

// Reconnect undoes CutOff and returns how many packets were dropped.
func (c *Cluster) Reconnect(ctx context.Context, p corev1.Pod) (dropped int, err error) {
	count := fmt.Sprintf("iptables -w -nvxL FORWARD | awk '/"+cutOffComment+"/ && $8 == %q {n += $1} END {print n+0}'; while iptables -w -D %s 2>/dev/null; do :; done",
		p.Status.PodIP, cutOffRule(p))
	out, err := c.engine.Exec(ctx, p.Spec.NodeName, nil, "sh", "-ec", count)
	if err != nil {
		return 0, fmt.Errorf("reconnect pod %s/%s to the API server: %w", p.Namespace, p.Name, err)
	}
	_, err = fmt.Sscan(out, &dropped)
	return dropped, wrap.Errorf(err, "parse the number of dropped packets of pod %s/%s from %q", p.Namespace, p.Name, out)
}

// DeletePod deletes a pod gracefully, as kubectl delete does.
func (c *Cluster) DeletePod(ctx context.Context, p corev1.Pod) error {
	err := c.Clientset.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
	return wrap.Errorf(err, "delete pod %s/%s", p.Namespace, p.Name)
}
