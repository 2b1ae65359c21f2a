package clusterdns

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// kubeDNS is the Service as kubeadm makes it.
func kubeDNS() *corev1.Service {
	port := func(name string, protocol corev1.Protocol, n int32) corev1.ServicePort {
		return corev1.ServicePort{Name: name, Protocol: protocol, Port: n, TargetPort: intstr.FromInt32(n)}
	}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: service}, Spec: corev1.ServiceSpec{
		ClusterIP: "10.96.0.10", Ports: []corev1.ServicePort{port("dns", corev1.ProtocolUDP, 53), port("dns-tcp", corev1.ProtocolTCP, 53), port("metrics", corev1.ProtocolTCP, 9153)},
	}}
}

// endpointsOf is the EndpointSlice of one pod at a port, with a hint for its node or none.
func endpointsOf(port int32, hinted bool) *discoveryv1.EndpointSlice {
	e := discoveryv1.Endpoint{Addresses: []string{"10.244.1.2"}, NodeName: ptr.To("worker")}
	if hinted {
		e.Hints = &discoveryv1.EndpointHints{ForNodes: []discoveryv1.ForNode{{Name: "worker"}}}
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-dns-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Ports:      []discoveryv1.EndpointPort{{Name: ptr.To("metrics"), Port: ptr.To(int32(9153))}, {Name: ptr.To("dns"), Port: &port}},
		Endpoints:  []discoveryv1.Endpoint{e},
	}
}

// Each is set after the one before: nothing of that may be left.
func TestTheServiceReachesThePodsAsSet(t *testing.T) {
	client := fake.NewClientset(kubeDNS())
	d := &CoreDNS{client: client}
	container, original := &corev1.Container{}, &corev1.Container{Ports: []corev1.ContainerPort{{Name: "dns", ContainerPort: 53}, {Name: "dns-tcp", ContainerPort: 53}, {Name: "metrics", ContainerPort: 9153}}}
	for _, of := range []struct {
		set          coredns.Settings
		port         int32
		distribution string
	}{
		{coredns.Settings{Port: 5353, TrafficDistribution: coredns.PreferSameNode}, 5353, "PreferSameNode"},
		{coredns.Settings{Port: 5353}, 5353, ""},
		{coredns.Settings{Port: 53, TrafficDistribution: coredns.PreferClose}, 53, "PreferClose"},
		{coredns.Settings{}, 53, ""},
	} {
		if err := d.setServing(t.Context(), servingOf(of.set)); err != nil {
			t.Fatal(err)
		}
		svc, err := d.readService(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range svc.Spec.Ports {
			if want := map[string]int32{"dns": of.port, "dns-tcp": of.port, "metrics": 9153}[p.Name]; p.TargetPort != intstr.FromInt32(want) || p.Port != map[string]int32{"metrics": 9153, "dns": 53, "dns-tcp": 53}[p.Name] {
				t.Errorf("%+v: port %+v, want target %d", of.set, p, want)
			}
		}
		if got := ptr.Deref(svc.Spec.TrafficDistribution, ""); got != of.distribution || servingBy(svc) != servingOf(of.set) {
			t.Errorf("%+v: trafficDistribution %q, %s", of.set, got, servingBy(svc))
		}
		setPort(container, original, of.set)
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{*container}}}
		if got := portOf(pod); int32(got) != of.port || container.Ports[1].ContainerPort != of.port || container.Ports[2].ContainerPort != 9153 || original.Ports[0].ContainerPort != 53 {
			t.Errorf("%+v: the pod has ports %+v", of.set, container.Ports)
		}
	}
	if (servingOf(coredns.Defaults()) != serving{}) {
		t.Error("what kubeadm sets is to be the zero value: the state of a cluster that an earlier build made has none")
	}
}

func TestWhyTheServiceDoesNotReachThePods(t *testing.T) {
	openShift := servingOf(coredns.Settings{Port: 5353, TrafficDistribution: coredns.PreferSameNode})
	for name, c := range map[string]struct {
		service   serving
		endpoints *discoveryv1.EndpointSlice
		want      serving
		why       string
	}{
		"as set":                      {openShift, endpointsOf(5353, true), openShift, ""},
		"as kubeadm sets it":          {serving{}, endpointsOf(53, false), serving{}, ""},
		"the Service was changed":     {serving{}, endpointsOf(5353, true), openShift, `target port 53 and trafficDistribution "", want target port 5353`},
		"the endpoints have no port":  {openShift, endpointsOf(53, true), openShift, "has port 53, want 5353"},
		"no hints yet":                {openShift, endpointsOf(5353, false), openShift, "false by the hints of EndpointSlice kube-dns-1, true by the Service"},
		"hints are left":              {serving{}, endpointsOf(53, true), serving{}, "true by the hints"},
		"hints are left at that port": {serving{Port: 5353}, endpointsOf(5353, true), serving{Port: 5353}, "true by the hints"},
	} {
		d := &CoreDNS{client: fake.NewClientset(kubeDNS(), c.endpoints)}
		if err := d.setServing(t.Context(), c.service); err != nil {
			t.Fatal(err)
		}
		if why := d.whyNotServed(t.Context(), []string{"10.244.1.2"}, c.want); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
	}
	d := &CoreDNS{client: fake.NewClientset(kubeDNS(), endpointsOf(53, false))}
	if why := d.whyNotServed(t.Context(), []string{"10.244.1.3"}, serving{}); !strings.Contains(why, "10.244.1.3") {
		t.Errorf("another pod: %q", why)
	}
}

// Kubernetes before v1.34 refuses the value, and one before v1.30 drops the field.
func TestATrafficDistributionThatKubernetesDoesNotKnow(t *testing.T) {
	for name, reaction := range map[string]clienttesting.ReactionFunc{
		"refused": func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.NewBadRequest(`Unsupported value: "PreferSameNode"`)
		},
		"dropped": func(clienttesting.Action) (bool, runtime.Object, error) { return true, kubeDNS(), nil },
	} {
		client := fake.NewClientset(kubeDNS())
		client.PrependReactor("update", "services", reaction)
		err := (&CoreDNS{client: client}).setServing(t.Context(), servingOf(coredns.Settings{TrafficDistribution: coredns.PreferSameNode}))
		if err == nil || !strings.Contains(err.Error(), "PreferSameNode of Service kube-dns") || !strings.Contains(err.Error(), "v1.34 or newer (--kubernetes)") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
