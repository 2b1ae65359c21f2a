package system

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/spotdrill/spotdrill/framework/objects"
)

// Whoever reaches a port by which drills control their parts needs the token of that Secret.
func TestOurPodsServeOnlyWhoHasTheToken(t *testing.T) {
	for file, values := range map[string]map[string]string{
		"proxy.yaml":    {"NAMESPACE": Namespace, "IMAGE": "i", "UPSTREAM": "u", "API_UPSTREAM": "a", "NODE_IP": "n"},
		"metadata.yaml": (&Handlers{}).metadata().values("i"),
	} {
		objs, err := objects.Decode(t.Context(), manifests, "manifests/"+file, values)
		if err != nil {
			t.Fatal(err)
		}
		guarded := false
		for _, obj := range objs {
			var spec corev1.PodSpec
			switch o := obj.(type) {
			case *corev1.Pod:
				spec = o.Spec
			case *appsv1.DaemonSet:
				spec = o.Spec.Template.Spec
			default:
				continue
			}
			from := slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
				return v.Name == "control" && v.Secret != nil && v.Secret.SecretName == controlToken
			})
			at := slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == "control" && m.MountPath == "/var/run/control"
			})
			guarded = from && at && slices.Contains(spec.Containers[0].Args, "--token-file=/var/run/control/token")
		}
		if !guarded {
			t.Errorf("%s: it serves whoever asks", file)
		}
	}
}

// The token is no secret to a handler that may read Secrets in every namespace.
func TestNoHandlerOfOursReadsSecrets(t *testing.T) {
	reads := regexp.MustCompile(`\bsecrets\b|resources: *\[? *["']?\*`)
	files, err := filepath.Glob(filepath.Join("..", "handler", "descriptions", "*", "*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := reads.Find(text); found != nil {
			t.Errorf("%s: %s", file, found)
		}
	}
}
