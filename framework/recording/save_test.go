package recording

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestSaveStateKeepsWhatExplainsAFailure(t *testing.T) {
	since := time.Date(2026, 1, 2, 15, 4, 5, 600e6, time.UTC)
	pod := func(namespace, name, app string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"k8s-app": app}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
		}
	}
	event := func(name string, at time.Time) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Type: "Normal", Reason: "Draining", Message: name,
			InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "worker"}, LastTimestamp: metav1.NewTime(at),
		}
	}
	client := fake.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}},
		pod("kube-system", "coredns", "kube-dns"), pod("kube-system", "proxy", "kube-proxy"), pod("kube-system", "etcd", ""),
		pod("spotdrill", "prober", ""), pod("default", "app", "kube-dns"),
		event("later", since.Add(time.Minute)), event("now", since.Truncate(time.Second)), event("before", since.Add(-time.Minute)),
	)
	dir := filepath.Join(t.TempDir(), "state")
	if err := SaveState(t.Context(), client, nil, dir, since, "spotdrill"); err != nil {
		t.Fatal(err)
	}
	var logs []string
	entries, err := os.ReadDir(filepath.Join(dir, logsFolder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		logs = append(logs, e.Name())
	}
	if want := []string{"kube-system_coredns_main.log", "kube-system_proxy_main.log", "spotdrill_prober_main.log"}; !slices.Equal(logs, want) {
		t.Errorf("logs %v, want %v", logs, want)
	}
	for file, want := range map[string]string{
		nodesFile: "name: worker", podsFile: "name: etcd", filepath.Join(logsFolder, logs[0]): "fake logs",
		eventsFile: "2026-01-02T15:04:05Z Normal Draining Node/worker: now\n2026-01-02T15:05:05Z Normal Draining Node/worker: later\n",
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(text); !strings.Contains(got, want) || file == eventsFile && got != want {
			t.Errorf("%s holds\n%s", file, got)
		}
	}
}

// The kubelet of a reclaimed node would not answer: nothing waits for it.
func TestTheLogsOfAReclaimedNodeAreNotRead(t *testing.T) {
	dir := t.TempDir()
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "mine", Name: "p"},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "app"}}},
	}
	if err := saveLogs(t.Context(), fake.NewClientset(), []string{"n"}, dir, []corev1.Pod{pod}, time.Now(), []string{"mine"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "mine_p_app.log"))
	if err != nil || string(text) != "the log could not be read: node n is not running\n" {
		t.Errorf("%q, %v", text, err)
	}
}
