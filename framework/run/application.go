package run

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/vpccni"
	"github.com/spotdrill/spotdrill/scenarios"
)

// workloadGrace is the grace period of a workload's pods in seconds, next to their preStop hook.
const workloadGrace = 10

// podsOf are the values of the workload's manifest that describe what its pods do.
func podsOf(w scenarios.Workload) map[string]string {
	values := map[string]string{"GRACE": fmt.Sprint(workloadGrace), "ARGS": asYAML([]string{"workload"}), "LIFECYCLE": "null", "READINESS": "null", "ANNOTATIONS": "{}"}
	if w.SecurityGroups {
		values["ANNOTATIONS"] = asYAML(map[string]string{vpccni.Annotation: "[]"})
	}
	if w.Serves == nil {
		return values
	}
	preStop := int64(w.Serves.PreStop.D().Seconds())
	values["GRACE"] = fmt.Sprint(workloadGrace + preStop)
	values["ARGS"] = asYAML([]string{"workload", "--http=:8080", fmt.Sprintf("--starts-in=%s", w.Serves.StartsIn.D())})
	values["READINESS"] = asYAML(corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}}, PeriodSeconds: 1,
	})
	if preStop > 0 {
		values["LIFECYCLE"] = asYAML(corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: preStop}}})
	}
	return values
}

// applicationStreams are what the probers request of the workload's Service and of its control,
// a pod of its own; none without an application. The rates are those of all probers together.
func (p *probers) applicationStreams(ctx context.Context) ([]prober.QueryStream, error) {
	if !p.application() {
		return nil, nil
	}
	service, err := p.pods.Clientset.CoreV1().Services(p.namespace).Get(ctx, scenarios.App, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the address of the workload's Service: %w", err)
	}
	controlIP, err := p.startControl(ctx, history.ApplicationControl, scenarios.App, map[string]string{"NAMESPACE": system.Namespace, "IMAGE": p.image})
	if err != nil {
		return nil, err
	}
	to, control, err := parseAddresses(service.Spec.ClusterIP, controlIP)
	if err != nil {
		return nil, err
	}
	return applicationPlan(*p.Scenario.Probe.Application, netip.AddrPortFrom(to, 80), netip.AddrPortFrom(control, 8080)), nil
}

// applicationPlan is the load of all probers together.
func applicationPlan(a scenarios.ApplicationProbe, service, control netip.AddrPort) []prober.QueryStream {
	each, path := history.HTTP, "/"
	if a.Transport == scenarios.OverTCP {
		each, path = history.Dial, ""
	}
	streams := []prober.QueryStream{
		{Target: history.Application, Server: service, Mode: each, Rate: a.Fresh, Path: path},
		{Target: history.ApplicationControl, Server: control, Mode: each, Rate: a.Control, Path: path},
	}
	if a.Fixed > 0 {
		streams = append(streams, prober.QueryStream{Target: history.Application, Server: service, Mode: history.HTTPKept, Rate: a.Fixed, Ports: a.FixedPorts, Path: path})
	}
	return streams
}
