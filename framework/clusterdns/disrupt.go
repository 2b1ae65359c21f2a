package clusterdns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// RunningPods returns the CoreDNS pods of a node that are not terminating; of all nodes if
// node is empty.
func (d *CoreDNS) RunningPods(ctx context.Context, node string) ([]corev1.Pod, error) {
	pods, err := d.pods(ctx)
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, p := range pods {
		if p.DeletionTimestamp == nil && p.Spec.NodeName != "" && (node == "" || p.Spec.NodeName == node) {
			out = append(out, p)
		}
	}
	return out, nil
}

// Restart starts a rolling restart of CoreDNS, as kubectl rollout restart does.
func (d *CoreDNS) Restart(ctx context.Context) error {
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339))
	daemons, err := d.hasDaemonSet(ctx)
	if err != nil || !daemons {
		return errors.Join(err, d.patch(ctx, patch))
	}
	_, err = d.client.AppsV1().DaemonSets(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return wrap.Errorf(err, "patch DaemonSet coredns with %s", patch)
}

// Scale sets the number of CoreDNS pods.
func (d *CoreDNS) Scale(ctx context.Context, replicas int) error {
	return d.patch(ctx, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// nowhere is a label that no node has.
const nowhere = "spotdrill.dev/nowhere"

// Misplace gives CoreDNS a nodeSelector that no node satisfies. Set takes it back.
func (d *CoreDNS) Misplace(ctx context.Context) error {
	return d.patch(ctx, fmt.Sprintf(`{"spec":{"template":{"spec":{"nodeSelector":{%q:"true"}}}}}`, nowhere))
}

func (d *CoreDNS) patch(ctx context.Context, patch string) error {
	_, err := d.client.AppsV1().Deployments(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return wrap.Errorf(err, "patch Deployment coredns with %s", patch)
}

// CorefileEdit is a change of the Corefile while CoreDNS runs. Set takes it back.
type CorefileEdit struct {
	// change returns the changed Corefile.
	change func(corefile string) (string, error)
	// ended reports whether a line of CoreDNS's log reports that a pod has taken the change, or
	// refused it.
	ended func(line string) bool
	// hurry makes the kubelets look at the pods' files again. Otherwise they do after a minute or
	// more.
	hurry bool
}

// SlowReload adds a zone whose API server never answers. CoreDNS waits 5 s for it before it serves
// again: the reload takes that long. The edit is over when the reload begins.
func SlowReload() CorefileEdit {
	return CorefileEdit{appended(reloadBlock), func(line string) bool { return strings.HasSuffix(line, "[INFO] Reloading") }, true}
}

// BrokenCorefile adds a block that CoreDNS cannot parse. Running pods go on with what they have.
func BrokenCorefile() CorefileEdit {
	return CorefileEdit{appended(brokenBlock), func(line string) bool { return strings.Contains(line, "[ERROR] Restart failed") }, true}
}

// EditedLameduck changes lameduck as kubectl edit does: the change takes its own time to reach the
// pods.
func EditedLameduck(lameduck time.Duration) CorefileEdit {
	change := func(corefile string) (string, error) { return coredns.WithLameduck(corefile, lameduck) }
	return CorefileEdit{change, func(line string) bool { return strings.HasSuffix(line, "[INFO] Reloading complete") }, false}
}

// What edits add to the Corefile, at the port of its first server block.
const (
	reloadBlock = `
reload.spotdrill.test:%d {
    kubernetes reload.spotdrill.test {
        endpoint http://127.0.0.1:1
    }
}
`
	brokenBlock = `
broken.spotdrill.test:%d {
    no-such-plugin
}
`
)

func appended(block string) func(string) (string, error) {
	return func(corefile string) (string, error) { return withoutEdits(corefile) + atPortOf(corefile, block), nil }
}

// withoutEdits returns the Corefile without what edits added.
func withoutEdits(corefile string) string {
	return strings.NewReplacer(atPortOf(corefile, reloadBlock), "", atPortOf(corefile, brokenBlock), "").Replace(corefile)
}

func atPortOf(corefile, block string) string {
	return fmt.Sprintf(block, coredns.Read(coredns.Source{Text: corefile}).Port())
}

// editTimeout bounds the wait until the pods have taken an edit: the kubelet looks at the files of
// a pod that does not change after up to a minute and a half, and the plugin reload at the Corefile
// after up to 45 s.
const editTimeout = 3 * time.Minute

// EditCorefile changes the Corefile and waits until CoreDNS has taken the change in each of the
// pods, or refused it. Read is called for each pod that has.
func (d *CoreDNS) EditCorefile(ctx context.Context, pods []corev1.Pod, edit CorefileEdit, read func(*corev1.Pod)) error {
	ctx, cancel := context.WithTimeout(ctx, editTimeout)
	defer cancel()
	since := metav1.Now()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cm, _, err := d.read(ctx)
		if err != nil {
			return err
		}
		if cm.Data["Corefile"], err = edit.change(cm.Data["Corefile"]); err != nil {
			return err
		}
		_, err = d.client.CoreV1().ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("change the Corefile: %w", err)
	}
	var group errgroup.Group
	for i := range pods {
		group.Go(func() error {
			p := &pods[i]
			if edit.hurry {
				if err := d.hurry(ctx, p, since); err != nil {
					return err
				}
			}
			if err := d.untilLogged(ctx, p, since, edit.ended); err != nil {
				return err
			}
			read(p)
			return nil
		})
	}
	return group.Wait()
}

// hurry makes the kubelet look at a pod's files: it does when the pod changes.
func (d *CoreDNS) hurry(ctx context.Context, p *corev1.Pod, since metav1.Time) error {
	change := fmt.Appendf(nil, `{"metadata":{"annotations":{"spotdrill.dev/reload":%q}}}`, since.Format(time.RFC3339Nano))
	_, err := d.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, change, metav1.PatchOptions{})
	return wrap.Errorf(err, "make the kubelet read the Corefile of pod %s", p.Name)
}

// untilLogged waits until the pod's CoreDNS logs what ends an edit.
func (d *CoreDNS) untilLogged(ctx context.Context, p *corev1.Pod, since metav1.Time, ended func(string) bool) error {
	log, err := d.client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Follow: true, SinceTime: &since}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("read the log of pod %s: %w", p.Name, err)
	}
	defer log.Close()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if ended(lines.Text()) {
			return nil
		}
	}
	return fmt.Errorf("pod %s did not take a change of its Corefile within %s", p.Name, editTimeout)
}
