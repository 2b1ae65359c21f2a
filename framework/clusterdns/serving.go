package clusterdns

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// portNames are those of the ports for queries: of the container, the Service and its EndpointSlices.
func portNames() []string { return []string{"dns", "dns-tcp"} }

// serving is how the Service reaches the pods. Zero is as kubeadm sets it.
type serving struct {
	// Port is that of the pods; 0: 53.
	Port int32 `json:"port,omitempty"`
	// Distribution is the Service's trafficDistribution; empty: none.
	Distribution string `json:"trafficDistribution,omitempty"`
}

func servingOf(want coredns.Settings) serving {
	return servingAt(int32(want.PodPort()), string(want.TrafficDistribution))
}

func servingAt(port int32, distribution string) serving {
	if port == coredns.DNSPort {
		port = 0
	}
	return serving{port, distribution}
}

// servingBy is what a Service has.
func servingBy(svc *corev1.Service) serving {
	port := int32(coredns.DNSPort)
	for _, p := range svc.Spec.Ports {
		if p.Name == portNames()[0] && p.TargetPort.IntVal != 0 {
			port = p.TargetPort.IntVal
		}
	}
	return servingAt(port, ptr.Deref(svc.Spec.TrafficDistribution, ""))
}

// at is the port of the pods.
func (s serving) at() int32 { return cmp.Or(s.Port, coredns.DNSPort) }

// String is it in words.
func (s serving) String() string {
	return fmt.Sprintf("target port %d and trafficDistribution %q", s.at(), s.Distribution)
}

func (d *CoreDNS) readService(ctx context.Context) (*corev1.Service, error) {
	svc, err := d.client.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	return svc, wrap.Errorf(err, "read Service %s", service)
}

// ServiceIP returns the cluster IP of kube-dns, which pods use as their resolver.
func (d *CoreDNS) ServiceIP(ctx context.Context) (string, error) {
	svc, err := d.readService(ctx)
	if err != nil {
		return "", err
	}
	return svc.Spec.ClusterIP, nil
}

// setServing changes how the Service reaches the pods.
func (d *CoreDNS) setServing(ctx context.Context, want serving) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		svc, err := d.readService(ctx)
		if err != nil || servingBy(svc) == want {
			return err
		}
		for i := range svc.Spec.Ports {
			if p := &svc.Spec.Ports[i]; slices.Contains(portNames(), p.Name) {
				p.TargetPort = intstr.FromInt32(want.at())
			}
		}
		svc.Spec.TrafficDistribution = nil
		if want.Distribution != "" {
			svc.Spec.TrafficDistribution = &want.Distribution
		}
		now, err := d.client.CoreV1().Services(namespace).Update(ctx, svc, metav1.UpdateOptions{})
		if err == nil && servingBy(now) != want {
			err = fmt.Errorf("the API server kept %s", servingBy(now))
		}
		if err != nil && want.Distribution != "" {
			needs := coredns.TrafficDistribution(want.Distribution).Since()
			if needs != "" {
				needs = "; it needs " + needs + " or newer (--kubernetes)"
			}
			return fmt.Errorf("set trafficDistribution %s of Service %s, in a cluster with Kubernetes %s%s: %w", want.Distribution, service, d.kubernetes(), needs, err)
		}
		return wrap.Errorf(err, "set the port of Service %s", service)
	})
}

// kubernetes is the version of the API server, for an error.
func (d *CoreDNS) kubernetes() string {
	version, err := d.client.Discovery().ServerVersion()
	if err != nil {
		return "of an unknown version"
	}
	return version.GitVersion
}

// setPort gives the container of CoreDNS the port of the settings.
func setPort(c, original *corev1.Container, want coredns.Settings) {
	c.Ports = slices.Clone(original.Ports)
	for i := range c.Ports {
		if slices.Contains(portNames(), c.Ports[i].Name) {
			c.Ports[i].ContainerPort = int32(want.PodPort())
		}
	}
}

// portOf is where a pod of CoreDNS answers.
func portOf(p *corev1.Pod) uint16 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == portNames()[0] {
				return uint16(port.ContainerPort)
			}
		}
	}
	return coredns.DNSPort
}

// whyNotServed returns why the Service does not reach the pods as it is to, or "": its ready addresses in the
// EndpointSlices, their port, and their hints to kube-proxy.
func (d *CoreDNS) whyNotServed(ctx context.Context, ips []string, want serving) string {
	svc, err := d.readService(ctx)
	if err != nil {
		return err.Error()
	}
	if got := servingBy(svc); got != want {
		return fmt.Sprintf("Service %s has %s, want %s", service, got, want)
	}
	slicesOf, err := d.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelServiceName + "=" + service,
	})
	if err != nil {
		return err.Error()
	}
	var got []string
	for _, s := range slicesOf.Items {
		for _, p := range s.Ports {
			if slices.Contains(portNames(), ptr.Deref(p.Name, "")) && ptr.Deref(p.Port, 0) != want.at() {
				return fmt.Sprintf("EndpointSlice %s has port %d, want %d", s.Name, ptr.Deref(p.Port, 0), want.at())
			}
		}
		for _, e := range s.Endpoints {
			if !ptr.Deref(e.Conditions.Ready, true) {
				continue
			}
			hinted, local := e.Hints != nil && len(e.Hints.ForNodes) > 0, want.Distribution == string(coredns.PreferSameNode)
			if hinted != local {
				return fmt.Sprintf("kube-proxy is to prefer the pod of the same node: %t by the hints of EndpointSlice %s, %t by the Service", hinted, s.Name, local)
			}
			got = append(got, e.Addresses...)
		}
	}
	slices.Sort(got)
	slices.Sort(ips)
	if !slices.Equal(got, ips) {
		return fmt.Sprintf("the EndpointSlices have %v, the pods %v", got, ips)
	}
	return ""
}
