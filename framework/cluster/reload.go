package cluster

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// reloadBlock is what ReloadDNS adds to the Corefile. CoreDNS waits 5 s for the zone's
// API server, which never answers, before it serves again: the reload takes that long.
const reloadBlock = `
reload.spotdrill.test:53 {
    kubernetes reload.spotdrill.test {
        endpoint http://127.0.0.1:1
    }
}
`

// reloadTimeout bounds the wait for a reload to begin: the plugin reload looks at the
// file every 30 s, or up to 7.5 s later.
const reloadTimeout = 90 * time.Second

// ReloadDNS changes the Corefile and waits until CoreDNS begins to reload it in each of
// the pods. SetDNS takes the change back.
func (c *Cluster) ReloadDNS(ctx context.Context, pods []corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	since := metav1.Now()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cm, _, err := c.readDNS(ctx)
		if err != nil {
			return err
		}
		cm.Data["Corefile"] = withoutReload(cm.Data["Corefile"]) + reloadBlock
		_, err = c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Update(ctx, cm, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("change the Corefile: %w", err)
	}
	_, err = onEach(pods, func(p *corev1.Pod) ([]string, error) {
		// The kubelet looks at a pod's files again when the pod changes; otherwise after
		// a minute.
		hurry := fmt.Appendf(nil, `{"metadata":{"annotations":{"spotdrill.dev/reload":%q}}}`, since.Format(time.RFC3339Nano))
		if _, err := c.Clientset.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, hurry, metav1.PatchOptions{}); err != nil {
			return nil, fmt.Errorf("make the kubelet read the Corefile of pod %s: %w", p.Name, err)
		}
		return nil, c.untilReloading(ctx, p, since)
	})
	return err
}

// untilReloading waits until the pod's CoreDNS logs that it begins to reload.
func (c *Cluster) untilReloading(ctx context.Context, p *corev1.Pod, since metav1.Time) error {
	log, err := c.Clientset.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Follow: true, SinceTime: &since}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", p.Name, err)
	}
	defer log.Close()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if beginsReload(lines.Text()) {
			return nil
		}
	}
	return fmt.Errorf("pod %s did not reload its Corefile within %s", p.Name, reloadTimeout)
}

// beginsReload reports whether CoreDNS logs the line when it begins to reload.
func beginsReload(line string) bool { return strings.HasSuffix(line, "[INFO] Reloading") }

// withoutReload returns the Corefile without what ReloadDNS added.
func withoutReload(corefile string) string { return strings.ReplaceAll(corefile, reloadBlock, "") }
