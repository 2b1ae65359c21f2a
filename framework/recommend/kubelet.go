package recommend

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Kubelet is how the kubelets of some nodes end pods when their node shuts down.
type Kubelet struct {
	// Of is which nodes, or which file.
	Of string
	// Periods are for how long the pods of a priority may end, one group after the other. None: the kubelet does not
	// delay the shutdown, and pods end with the operating system.
	Periods []ShutdownPeriod
	// Default is what the platform sets if the file is laid over that and sets none of the periods; nil otherwise.
	Default *Supposed
	unset   bool // it sets none of the periods
	from    source
}

// ShutdownPeriod is that of the pods whose priority is at least this one, and below that of the next period.
type ShutdownPeriod struct {
	Priority int32
	Lasts    time.Duration
}

// criticalPriority is that from which pods are critical: system-cluster-critical has it.
const criticalPriority = 2_000_000_000

// kubeletConfig are the fields of a KubeletConfiguration that decide it:
// https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/
type kubeletConfig struct {
	ShutdownGracePeriod              *metav1.Duration `json:"shutdownGracePeriod"`
	ShutdownGracePeriodCriticalPods  *metav1.Duration `json:"shutdownGracePeriodCriticalPods"`
	ShutdownGracePeriodByPodPriority []struct {
		Priority                   int32 `json:"priority"`
		ShutdownGracePeriodSeconds int64 `json:"shutdownGracePeriodSeconds"`
	} `json:"shutdownGracePeriodByPodPriority"`
	FeatureGates map[string]bool `json:"featureGates"`
}

// kubeletOf reads a KubeletConfiguration.
func kubeletOf(of string, fields map[string]any) (Kubelet, error) {
	k := Kubelet{Of: of}
	var c kubeletConfig
	text, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		return k, fmt.Errorf("the kubelet's configuration: %w", err)
	}
	k.unset = c.ShutdownGracePeriod == nil && c.ShutdownGracePeriodCriticalPods == nil && c.ShutdownGracePeriodByPodPriority == nil
	if on, set := c.FeatureGates["GracefulNodeShutdown"]; set && !on {
		return k, nil
	}
	for _, p := range c.ShutdownGracePeriodByPodPriority {
		k.Periods = append(k.Periods, ShutdownPeriod{p.Priority, time.Duration(p.ShutdownGracePeriodSeconds) * time.Second})
	}
	slices.SortStableFunc(k.Periods, func(a, b ShutdownPeriod) int { return cmp.Compare(a.Priority, b.Priority) })
	if len(k.Periods) > 0 {
		return k, nil
	}
	total, critical := time.Duration(0), time.Duration(0)
	if c.ShutdownGracePeriod != nil {
		total = c.ShutdownGracePeriod.Duration
	}
	if c.ShutdownGracePeriodCriticalPods != nil {
		critical = c.ShutdownGracePeriodCriticalPods.Duration
	}
	if total > 0 {
		k.Periods = shutdown(total, critical)
	}
	return k, nil
}

// shutdown are the periods of shutdownGracePeriod and shutdownGracePeriodCriticalPods.
func shutdown(total, critical time.Duration) []ShutdownPeriod {
	return []ShutdownPeriod{{0, total - critical}, {criticalPriority, critical}}
}

// errNoKubelet reports that files have no configuration of a kubelet.
var errNoKubelet = errors.New("no configuration of a kubelet: a KubeletConfiguration, a NodeConfig of nodeadm, or what /configz answered")

// Kubelets are the configurations of kubelets in the files. The error is that there are none.
func (m *Manifests) Kubelets() ([]Kubelet, error) {
	if len(m.kubelets) == 0 {
		return nil, errNoKubelet
	}
	return m.kubelets, nil
}

// WithKubelets is the same DNS on nodes whose kubelets have these configurations; none: those that were read.
func (d DNS) WithKubelets(of []Kubelet) DNS {
	if len(of) > 0 {
		d.Kubelets, d.KubeletsUnread = of, ""
	}
	return d
}

// kubeletIn are the paths at which objects have a KubeletConfiguration, as fields or as a text, by their group and kind;
// without a group, by a key that only such a file has.
var kubeletIn = []struct {
	group, kind, path string
	over              shutdownPlatform // over whose defaults it is laid
}{
	{"kubelet.config.k8s.io", "KubeletConfiguration", "", ""},
	{"node.eks.aws", "NodeConfig", "spec.kubelet.config", eksLinux},
	{"machineconfiguration.openshift.io", "KubeletConfig", "spec.kubeletConfig", ""},
	{"kops.k8s.io", "Cluster", "spec.kubelet", kOpsNodes},
	{"kops.k8s.io", "InstanceGroup", "spec.kubelet", kOpsNodes},
	{"", "ConfigMap", "data.kubelet", ""},
	{"", "", "kubeletconfig", ""}, // the answer of a node's /configz
	{"", "", "", ""},              // what is in it
	{"", "", "machine.kubelet.extraConfig", talos},
	{karpenterAWSGroup, "EC2NodeClass", "spec.userData", ""},
}

// addKubelet adds the configuration of a kubelet that an object or a file has. Configured reports whether there is one.
func (m *Manifests) addKubelet(from source, fields map[string]any) (configured bool, err error) {
	kind, _ := fields["kind"].(string)
	version, _ := fields["apiVersion"].(string)
	group, _, grouped := strings.Cut(version, "/")
	if !grouped {
		group = ""
	}
	for _, in := range kubeletIn {
		if in.kind != kind || in.group != group {
			continue
		}
		if _, has := fields["shutdownGracePeriod"]; in.kind == "" && in.path == "" && !has {
			continue
		}
		var value any = fields
		at := slices.Clone(from.path)
		if in.path != "" {
			var has bool
			if value, has = lookUp(fields, in.path); !has && in.kind != "NodeConfig" {
				continue
			}
			at = append(at, steps(in.path)...)
		}
		place := source{in: from.in, path: at}
		if text, ok := value.(string); ok {
			found, err := m.addKubeletText(from.in.within(text, at...), text)
			if err != nil || found {
				return found, err
			}
			continue
		}
		below, _ := value.(map[string]any)
		k, err := kubeletOf(place.in.file, below)
		if err != nil {
			return false, err
		}
		if k.from = place; k.unset && in.over != "" {
			k.Default = platformShutdowns[in.over].supposed(place.in.file)
		}
		m.kubelets = append(m.kubelets, k)
		return true, nil
	}
	return false, nil
}

// isUserData reports whether a file is user data in MIME, as nodeadm reads it.
func isUserData(text []byte) bool {
	return bytes.HasPrefix(text, []byte("MIME-Version:")) || bytes.HasPrefix(text, []byte("Content-Type: multipart/"))
}

// addKubeletText adds the configurations in a text: YAML, or the parts of user data in MIME.
func (m *Manifests) addKubeletText(within *document, text string) (found bool, err error) {
	for _, part := range mimeParts(text) {
		d := *within
		d.text, d.root = []byte(part.text), nil
		if !d.flat {
			d.line += part.line
		}
		var fields map[string]any
		if yaml.Unmarshal(d.text, &fields) != nil || len(fields) == 0 {
			continue // a script
		}
		one, err := m.addKubelet(source{in: &d}, fields)
		if err != nil {
			return found, err
		}
		found = found || one
	}
	return found, nil
}

// mimePart is a part of user data, and the line at which its text begins, from 0.
type mimePart struct {
	text string
	line int
}

// mimeParts are the parts of a MIME document, or the text itself if it is none.
func mimeParts(text string) (out []mimePart) {
	whole := []mimePart{{text, 0}}
	message, err := mail.ReadMessage(strings.NewReader(strings.TrimLeft(text, "\r\n ")))
	if err != nil {
		return whole
	}
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || parameters["boundary"] == "" {
		return whole
	}
	reader := multipart.NewReader(message.Body, parameters["boundary"])
	for {
		part, err := reader.NextRawPart()
		if err != nil {
			return out
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return out
		}
		line := 0
		if at := strings.Index(text, string(bytes.TrimSpace(body))); at >= 0 {
			line = strings.Count(text[:at], "\n") - (len(body) - len(bytes.TrimLeft(body, "\n")))
		}
		out = append(out, mimePart{string(body), line})
	}
}
