// Package clusterdns controls the CoreDNS of a cluster: its settings, its rollouts, and what disrupts it.
package clusterdns

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// CoreDNS is the one of a cluster.
type CoreDNS struct {
	client kubernetes.Interface
	api    client.Client  // of objects of any kind
	engine *engine.Engine // of the nodes' containers
	// image is what CoreDNS runs instead of its original image, see UseImage.
	image string
}

// New returns the CoreDNS of a kind cluster.
func New(c *cluster.Cluster, eng *engine.Engine) *CoreDNS {
	return &CoreDNS{client: c.Clientset, api: c.API, engine: eng}
}

// readyTimeout bounds the wait for CoreDNS after a change.
const readyTimeout = 2 * time.Minute

// Pod is a running CoreDNS pod.
type Pod struct {
	Name, Node, IP string
	// Port is where it answers.
	Port uint16
}

const (
	namespace      = "kube-system"
	name           = "coredns"
	appLabel       = "k8s-app"
	selector       = appLabel + "=" + service
	service        = "kube-dns"
	settingsMark   = "spotdrill.dev/settings"
	container      = "coredns"
	corefileVolume = "config-volume"
)

var forwardLine = regexp.MustCompile(`(?m)^(\s*forward\s+\.)((?:[ \t]+[^\s{]+)+)`)

// withUpstream returns the Corefile with external names forwarded to server instead of
// the node's resolver, so that no query leaves the cluster.
func withUpstream(corefile, server string) (string, error) {
	if !forwardLine.MatchString(corefile) {
		return "", fmt.Errorf("the Corefile has no `forward . …` that could be changed to an upstream inside the cluster")
	}
	return forwardLine.ReplaceAllString(corefile, "${1} "+server), nil
}

// asOf returns the Corefile with external names forwarded as another one does.
func asOf(corefile, other string) string {
	if found := forwardLine.FindStringSubmatch(other); found != nil {
		return forwardLine.ReplaceAllString(corefile, "${1}"+found[2])
	}
	return corefile
}

// Set gives CoreDNS the settings, replaces its pods, and waits until all of them are
// Ready, are in the EndpointSlices and run with the settings. The pods are replaced
// because a changed Corefile takes up to 90 s to reach running ones. If the settings are
// already in force, nothing changes.
func (d *CoreDNS) Set(ctx context.Context, want coredns.Settings) error {
	_, deploy, err := d.read(ctx)
	if err != nil {
		return err
	}
	original, err := d.original(ctx)
	if err != nil {
		return err
	}
	text, err := want.Text(original.Corefile)
	if err != nil {
		return fmt.Errorf("set the Corefile: %w", err)
	}
	text = asOf(text, original.Corefile)
	image, err := d.wantedImage(ctx)
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", want, image, text)))[:16]
	if _, upgraded := deploy.Spec.Template.Annotations[addOnVersion]; !upgraded && deploy.Spec.Template.Annotations[settingsMark] == mark && d.whyNotSet(ctx, mark, text, want) == "" {
		return nil
	}
	if err := d.setBudget(ctx, budgetOf(want)); err != nil {
		return err
	}
	if err := d.setServing(ctx, servingOf(want)); err != nil {
		return err
	}
	if err := d.removeDaemonSet(ctx); err != nil {
		return err
	}
	err = d.replace(ctx, text, func(deploy *appsv1.Deployment) {
		setTemplate(deploy, original.Deployment, want, mark)
		if want.DaemonSet {
			deploy.Spec.Replicas = ptr.To(int32(0))
		}
		if c, before := containerOf(&deploy.Spec), containerOf(&original.Deployment); c != nil && before != nil {
			c.Image = image
			setRequests(c, before, want)
			setPort(c, before, want)
			setLife(c, before, want, coredns.Read(coredns.Source{Text: text}))
		}
	})
	if err != nil {
		return err
	}
	if want.DaemonSet {
		if err := d.createDaemonSet(ctx, want); err != nil {
			return err
		}
	}
	return wait.Until(ctx, readyTimeout, fmt.Sprintf("CoreDNS with %s", want), func(ctx context.Context) string {
		return d.whyNotSet(ctx, mark, text, want)
	})
}

// containerOf is the container of CoreDNS; nil if there is none.
func containerOf(of *appsv1.DeploymentSpec) *corev1.Container {
	for i := range of.Template.Spec.Containers {
		if c := &of.Template.Spec.Containers[i]; c.Name == container {
			return c
		}
	}
	return nil
}

// read reads the ConfigMap and the Deployment of CoreDNS.
func (d *CoreDNS) read(ctx context.Context) (*corev1.ConfigMap, *appsv1.Deployment, error) {
	cm, err := d.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("read Corefile: %w", err)
	}
	deploy, err := d.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("read Deployment coredns: %w", err)
	}
	return cm, deploy, nil
}

// replace sets the Corefile, changes the Deployment and replaces all of its pods. It
// removes the old pods first, without lameduck, since nothing is measured yet. In a
// rolling update, the old ReplicaSet would recreate the pods that are removed.
func (d *CoreDNS) replace(ctx context.Context, text string, change func(*appsv1.Deployment)) error {
	var replicas int32
	// The Deployment's controller updates it as well.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cm, deploy, err := d.read(ctx)
		if err != nil {
			return err
		}
		cm.Data["Corefile"] = text
		withoutAddOn(cm, deploy)
		if _, err := d.client.CoreV1().ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("set Corefile: %w", err)
		}
		change(deploy)
		replicas, deploy.Spec.Replicas = ptr.Deref(deploy.Spec.Replicas, 1), ptr.To(int32(0))
		_, err = d.client.AppsV1().Deployments(namespace).Update(ctx, deploy, metav1.UpdateOptions{})
		return wrap.Errorf(err, "set Deployment coredns")
	})
	if err != nil {
		return err
	}
	err = wait.Until(ctx, readyTimeout, "the previous CoreDNS pods to terminate", func(ctx context.Context) string {
		pods, err := d.pods(ctx)
		if err != nil {
			return err.Error()
		}
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				continue // its ReplicaSet would create another
			}
			if err := nodes.ForceDeletePod(ctx, d.client, p); err != nil {
				return err.Error()
			}
		}
		if len(pods) > 0 {
			return fmt.Sprintf("%d are left", len(pods))
		}
		return ""
	})
	if err != nil {
		return err
	}
	return d.Scale(ctx, int(replicas))
}

func (d *CoreDNS) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list CoreDNS pods: %w", err)
	}
	return list.Items, nil
}

// whyNotSet returns why the settings are not in force, or "".
func (d *CoreDNS) whyNotSet(ctx context.Context, mark, text string, want coredns.Settings) string {
	pods, err := d.pods(ctx)
	if err != nil {
		return err.Error()
	}
	var ips []string
	for i := range pods {
		p := &pods[i]
		switch {
		case p.Annotations[settingsMark] != mark || p.DeletionTimestamp != nil:
			return fmt.Sprintf("the previous pod %s is still there", p.Name)
		case !podutils.IsPodReady(p):
			return fmt.Sprintf("pod %s on %q is not Ready (phase %s)", p.Name, p.Spec.NodeName, p.Status.Phase)
		}
		ips = append(ips, p.Status.PodIP)
	}
	n, why := d.wanted(ctx, want)
	if why != "" {
		return why
	}
	if len(ips) != n {
		return fmt.Sprintf("%s, want %d", history.Count(len(ips), "pod"), n)
	}
	if why := d.whyNotServed(ctx, ips, servingOf(want)); why != "" {
		return why
	}
	var group errgroup.Group
	for i := range pods {
		group.Go(func() error { return d.runsWith(ctx, &pods[i], text) })
	}
	if err := group.Wait(); err != nil {
		return err.Error()
	}
	return ""
}

// runsWith returns an error if the pod's CoreDNS did not start with the Corefile. It reads
// the file that the kubelet mounted.
func (d *CoreDNS) runsWith(ctx context.Context, p *corev1.Pod, want string) error {
	file := fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~configmap/%s/Corefile", p.UID, corefileVolume)
	got, err := d.engine.Exec(ctx, p.Spec.NodeName, nil, "cat", file)
	if err != nil {
		return fmt.Errorf("pod %s: read its Corefile: %w", p.Name, err)
	}
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		return fmt.Errorf("pod %s runs with another Corefile", p.Name)
	}
	return nil
}

// ReadyPods returns the Ready CoreDNS pods, sorted by node and name.
func (d *CoreDNS) ReadyPods(ctx context.Context) ([]Pod, error) {
	pods, err := d.pods(ctx)
	if err != nil {
		return nil, err
	}
	var out []Pod
	for i := range pods {
		if p := &pods[i]; podutils.IsPodReady(p) && p.DeletionTimestamp == nil {
			out = append(out, Pod{Name: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, IP: p.Status.PodIP, Port: portOf(p)})
		}
	}
	slices.SortFunc(out, func(a, b Pod) int { return strings.Compare(a.Node+a.Name, b.Node+b.Name) })
	return out, nil
}

// HasPods reports whether there are so many CoreDNS pods, all Ready, and no others.
func (d *CoreDNS) HasPods(ctx context.Context, n int) (bool, error) {
	all, err := d.pods(ctx)
	if err != nil {
		return false, err
	}
	ready, err := d.ReadyPods(ctx)
	return len(all) == n && len(ready) == n, err
}

// UseImage makes Set run CoreDNS from another image, which the workers have; "" for
// the one that the cluster was created with.
func (d *CoreDNS) UseImage(ref string) { d.image = ref }

// wantedImage is the image that Set gives to CoreDNS.
func (d *CoreDNS) wantedImage(ctx context.Context) (string, error) {
	if d.image != "" {
		return d.image, nil
	}
	original, err := d.original(ctx)
	if err != nil {
		return "", err
	}
	if c := containerOf(&original.Deployment); c != nil {
		return c.Image, nil
	}
	return "", nil
}
