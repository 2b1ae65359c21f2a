package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/kubectl/pkg/util/podutils"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// DNSPod is a running CoreDNS pod.
type DNSPod struct {
	Name, Node, IP string
}

const (
	dnsNamespace   = "kube-system"
	dnsName        = "coredns"
	appLabel       = "k8s-app"
	dnsLabel       = appLabel + "=" + dnsService
	dnsService     = "kube-dns"
	settingsMark   = "spotdrill.dev/settings"
	dnsContainer   = "coredns"
	hostnameLabel  = "kubernetes.io/hostname"
	corefileVolume = "config-volume"
)

var forwardLine = regexp.MustCompile(`(?m)^(\s*forward\s+\.\s+)\S+`)

// withUpstream returns the Corefile with external names forwarded to server instead of
// the node's resolver, so that no query leaves the cluster.
func withUpstream(corefile, server string) (string, error) {
	if !forwardLine.MatchString(corefile) {
		return "", fmt.Errorf("the Corefile has no `forward . …` that could be changed to an upstream inside the cluster")
	}
	return forwardLine.ReplaceAllString(corefile, "${1}"+server), nil
}

// SetDNS gives CoreDNS the settings, replaces its pods, and waits until all of them are
// Ready, are in the EndpointSlices and run with the settings. The pods are replaced
// because a changed Corefile takes up to 90 s to reach running ones. If the settings are
// already in force, nothing changes.
func (c *Cluster) SetDNS(ctx context.Context, want coredns.Settings) error {
	cm, deploy, err := c.readDNS(ctx)
	if err != nil {
		return err
	}
	text, err := coredns.WithLameduck(withoutEdits(cm.Data["Corefile"]), want.Lameduck.D())
	if err != nil {
		return err
	}
	text = coredns.WithDelay(text, want.Delay.D())
	image, err := c.wantedDNSImage(ctx)
	if err != nil {
		return err
	}
	mark := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", want, image, text)))[:16]
	if _, upgraded := deploy.Spec.Template.Annotations[addOnVersion]; !upgraded && deploy.Spec.Template.Annotations[settingsMark] == mark && c.whyDNSNotSet(ctx, mark, text, want) == "" {
		return nil
	}
	if err := c.setDNSBudget(ctx, want.MinAvailable); err != nil {
		return err
	}
	original, err := c.originalDNS(ctx)
	if err != nil {
		return err
	}
	err = c.replaceDNS(ctx, text, func(deploy *appsv1.Deployment) {
		setTemplate(deploy, want, mark)
		setRequests(deploy, original.Deployment, want)
		setImage(deploy.Spec.Template.Spec.Containers, dnsContainer, image)
	})
	if err != nil {
		return err
	}
	return Until(ctx, readyTimeout, fmt.Sprintf("CoreDNS with %s", want), func(ctx context.Context) string {
		return c.whyDNSNotSet(ctx, mark, text, want)
	})
}

func setTemplate(deploy *appsv1.Deployment, want coredns.Settings, mark string) {
	template := &deploy.Spec.Template
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[settingsMark] = mark
	delete(template.Annotations, coredns.DoNotDisrupt)
	if want.DoNotDisrupt {
		template.Annotations[coredns.DoNotDisrupt] = "true"
	}
	deploy.Spec.Replicas = ptr.To(int32(want.Replicas))

	spec := &template.Spec
	spec.TerminationGracePeriodSeconds = ptr.To(int64(want.GracePeriod.D().Seconds()))
	delete(spec.NodeSelector, CapacityLabel)
	delete(spec.NodeSelector, coredns.LaunchedKey)
	delete(spec.NodeSelector, nowhere)
	spec.Tolerations = slices.DeleteFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == coredns.LaunchedKey })
	self := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: dnsService}}
	spec.Affinity, spec.TopologySpreadConstraints = nil, nil
	apart := corev1.PodAffinityTerm{LabelSelector: self, TopologyKey: hostnameLabel}
	if want.Placement == coredns.Anywhere {
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 100, PodAffinityTerm: apart}},
		}}
	} else if want.Placement != coredns.OnOnDemand && !want.ShareNodes {
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{apart},
		}}
	}
	switch want.Placement {
	case coredns.OnOnDemand, coredns.OnSpot:
		spec.NodeSelector = with(spec.NodeSelector, CapacityLabel, string(want.Placement))
	case coredns.Launched:
		spec.NodeSelector = with(spec.NodeSelector, coredns.LaunchedKey, "true")
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: coredns.LaunchedKey, Operator: corev1.TolerationOpExists})
	case coredns.Spread:
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: CapacityLabel, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: self,
		}}
	}
	if c := dnsContainerOf(&deploy.Spec); c != nil && c.ReadinessProbe != nil {
		c.ReadinessProbe.PeriodSeconds = int32(want.Readiness.Period.D().Seconds())
		c.ReadinessProbe.FailureThreshold = int32(want.Readiness.FailureThreshold)
	}
}

// setRequests gives the container of CoreDNS the resources that it had originally, and those
// that are wanted.
func setRequests(deploy *appsv1.Deployment, original appsv1.DeploymentSpec, want coredns.Settings) {
	wanted := corev1.ResourceList{}
	if want.Memory != "" {
		wanted[corev1.ResourceMemory] = resource.MustParse(want.Memory) // the scenario's loader checked it
	}
	if want.PodENI {
		wanted[coredns.PodENI] = resource.MustParse("1")
	}
	now, before := dnsContainerOf(&deploy.Spec), dnsContainerOf(&original)
	if now == nil || before == nil {
		return
	}
	now.Resources = *before.Resources.DeepCopy()
	for name, quantity := range wanted {
		now.Resources.Requests = with(now.Resources.Requests, name, quantity)
		now.Resources.Limits = with(now.Resources.Limits, name, quantity)
	}
}

// dnsContainerOf is the container of CoreDNS; nil if there is none.
func dnsContainerOf(of *appsv1.DeploymentSpec) *corev1.Container {
	for i := range of.Template.Spec.Containers {
		if c := &of.Template.Spec.Containers[i]; c.Name == dnsContainer {
			return c
		}
	}
	return nil
}

// readDNS reads the ConfigMap and the Deployment of CoreDNS.
func (c *Cluster) readDNS(ctx context.Context) (*corev1.ConfigMap, *appsv1.Deployment, error) {
	cm, err := c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("read Corefile: %w", err)
	}
	deploy, err := c.Clientset.AppsV1().Deployments(dnsNamespace).Get(ctx, dnsName, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("read Deployment coredns: %w", err)
	}
	return cm, deploy, nil
}

// replaceDNS sets the Corefile, changes the Deployment and replaces all of its pods. It
// removes the old pods first, without lameduck, since nothing is measured yet. In a
// rolling update, the old ReplicaSet would recreate the pods that are removed.
func (c *Cluster) replaceDNS(ctx context.Context, text string, change func(*appsv1.Deployment)) error {
	var replicas int32
	// The Deployment's controller updates it as well.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cm, deploy, err := c.readDNS(ctx)
		if err != nil {
			return err
		}
		cm.Data["Corefile"] = text
		withoutAddOn(cm, deploy)
		if _, err := c.Clientset.CoreV1().ConfigMaps(dnsNamespace).Update(ctx, cm, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("set Corefile: %w", err)
		}
		change(deploy)
		replicas, deploy.Spec.Replicas = ptr.Deref(deploy.Spec.Replicas, 1), ptr.To(int32(0))
		if _, err := c.Clientset.AppsV1().Deployments(dnsNamespace).Update(ctx, deploy, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("set Deployment coredns: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = Until(ctx, readyTimeout, "the previous CoreDNS pods to terminate", func(ctx context.Context) string {
		pods, err := c.dnsPods(ctx)
		if err != nil {
			return err.Error()
		}
		for _, p := range pods {
			if p.DeletionTimestamp == nil {
				continue // its ReplicaSet would create another
			}
			if err := c.forceDelete(ctx, p); err != nil {
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
	return c.ScaleDNS(ctx, int(replicas))
}

func (c *Cluster) dnsPods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.Clientset.CoreV1().Pods(dnsNamespace).List(ctx, metav1.ListOptions{LabelSelector: dnsLabel})
	if err != nil {
		return nil, fmt.Errorf("list CoreDNS pods: %w", err)
	}
	return list.Items, nil
}

// whyDNSNotSet returns why the settings are not in force, or "".
func (c *Cluster) whyDNSNotSet(ctx context.Context, mark, text string, want coredns.Settings) string {
	pods, err := c.dnsPods(ctx)
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
	if len(ips) != want.Replicas {
		return fmt.Sprintf("%d pods, want %d", len(ips), want.Replicas)
	}
	if why := c.whyNotServed(ctx, ips); why != "" {
		return why
	}
	_, err = onEach(pods, func(p *corev1.Pod) ([]string, error) { return nil, c.runsWith(ctx, p, text) })
	if err != nil {
		return err.Error()
	}
	return ""
}

// whyNotServed returns why the ready addresses of the EndpointSlices are not those of the
// pods, or "".
func (c *Cluster) whyNotServed(ctx context.Context, want []string) string {
	slicesOf, err := c.Clientset.DiscoveryV1().EndpointSlices(dnsNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + dnsService,
	})
	if err != nil {
		return err.Error()
	}
	var got []string
	for _, s := range slicesOf.Items {
		for _, e := range s.Endpoints {
			if ptr.Deref(e.Conditions.Ready, true) {
				got = append(got, e.Addresses...)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Sprintf("the EndpointSlices have %v, the pods %v", got, want)
	}
	return ""
}

// runsWith returns an error if the pod's CoreDNS did not start with the Corefile. It reads
// the file that the kubelet mounted.
func (c *Cluster) runsWith(ctx context.Context, p *corev1.Pod, want string) error {
	file := fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~configmap/%s/Corefile", p.UID, corefileVolume)
	got, err := c.engine.Exec(ctx, p.Spec.NodeName, nil, "cat", file)
	if err != nil {
		return fmt.Errorf("pod %s: read its Corefile: %w", p.Name, err)
	}
	if strings.TrimSpace(got) != strings.TrimSpace(want) {
		return fmt.Errorf("pod %s runs with another Corefile", p.Name)
	}
	return nil
}

// DNSPods returns the Ready CoreDNS pods, sorted by node and name.
func (c *Cluster) DNSPods(ctx context.Context) ([]DNSPod, error) {
	pods, err := c.dnsPods(ctx)
	if err != nil {
		return nil, err
	}
	var out []DNSPod
	for i := range pods {
		if p := &pods[i]; podutils.IsPodReady(p) && p.DeletionTimestamp == nil {
			out = append(out, DNSPod{Name: p.Namespace + "/" + p.Name, Node: p.Spec.NodeName, IP: p.Status.PodIP})
		}
	}
	slices.SortFunc(out, func(a, b DNSPod) int { return strings.Compare(a.Node+a.Name, b.Node+b.Name) })
	return out, nil
}

// HasDNSPods reports whether there are so many CoreDNS pods, all Ready, and no others.
func (c *Cluster) HasDNSPods(ctx context.Context, n int) (bool, error) {
	all, err := c.dnsPods(ctx)
	if err != nil {
		return false, err
	}
	ready, err := c.DNSPods(ctx)
	return len(all) == n && len(ready) == n, err
}

// DNSServiceIP returns the cluster IP of kube-dns, which pods use as their resolver.
func (c *Cluster) DNSServiceIP(ctx context.Context) (string, error) {
	svc, err := c.Clientset.CoreV1().Services(dnsNamespace).Get(ctx, dnsService, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read Service kube-dns: %w", err)
	}
	return svc.Spec.ClusterIP, nil
}
