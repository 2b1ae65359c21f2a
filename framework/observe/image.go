package observe

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Machines are the ids of the nodes' machines, as /etc/machine-id has them, by the names of the nodes
// that a pod of an observation can be on.
func (c *Cluster) Machines(ctx context.Context) (map[string]string, error) {
	nodes, err := c.nodes(ctx, "")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, n := range nodes {
		out[n.Name] = n.Status.NodeInfo.MachineID
	}
	return out, nil
}

// pullPatience is how long an image may fail to be pulled: the kubelet tries again after 10 s.
const pullPatience = 15 * time.Second

// imagesToCome knows since when the image of each pod fails to be pulled.
type imagesToCome struct {
	image string
	since map[string]time.Time
}

// neverStarts is why a pod will not start, however long one waits.
type neverStarts struct{ pod, node, reason, message, image string }

func (e *neverStarts) Error() string {
	return fmt.Sprintf("the probers cannot start: pod %s on node %s: %s: %s; the nodes must have the image %s, or be able to pull it: give another one with --image",
		e.pod, e.node, e.reason, e.message, e.image)
}

// missing returns an error for a pod whose image will not come.
func (i imagesToCome) missing(pod corev1.Pod) error {
	for _, status := range pod.Status.ContainerStatuses {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		never := &neverStarts{pod.Name, pod.Spec.NodeName, waiting.Reason, waiting.Message, i.image}
		switch waiting.Reason {
		case "InvalidImageName", "ErrImageNeverPull":
			return never
		case "ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
			first, known := i.since[pod.Name]
			if !known {
				first = time.Now()
				i.since[pod.Name] = first
			}
			if time.Since(first) >= pullPatience {
				return never
			}
		}
	}
	return nil
}
