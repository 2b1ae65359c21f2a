package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/spotdrill/spotdrill/framework/wrap"
)

// Names of what SaveState writes.
const (
	nodesFile  = "nodes.yaml"
	podsFile   = "pods.yaml"
	eventsFile = "events.txt"
	logsFolder = "logs"
)

// logTimeout bounds the reading of one pod's logs.
const logTimeout = 5 * time.Second

// SaveState writes what explains most failures into a new folder: all nodes and pods, the
// events since a time, and the logs since then of CoreDNS, of kube-proxy and of the pods
// in some namespaces. No log is read of a node that is down. The error describes what is missing; the rest is written.
func SaveState(ctx context.Context, client kubernetes.Interface, down []string, dir string, since time.Time, namespaces ...string) error {
	if err := os.MkdirAll(filepath.Join(dir, logsFolder), 0o755); err != nil {
		return fmt.Errorf("save the cluster's state: %w", err)
	}
	core := client.CoreV1()
	nodes, nodesErr := core.Nodes().List(ctx, metav1.ListOptions{})
	pods, podsErr := core.Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	events, eventsErr := core.Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err := errors.Join(nodesErr, podsErr, eventsErr); err != nil {
		return fmt.Errorf("save the cluster's state: %w", err)
	}
	err := errors.Join(
		saveYAML(filepath.Join(dir, nodesFile), nodes.Items),
		saveYAML(filepath.Join(dir, podsFile), pods.Items),
		os.WriteFile(filepath.Join(dir, eventsFile), []byte(eventLines(events.Items, since)), 0o644),
		saveLogs(ctx, client, down, filepath.Join(dir, logsFolder), pods.Items, since, namespaces),
	)
	return wrap.Errorf(err, "save the cluster's state")
}

func saveYAML(file string, v any) error {
	text, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", filepath.Base(file), err)
	}
	return os.WriteFile(file, text, 0o644)
}

// eventLines formats the events since a time, oldest first, one per line.
func eventLines(events []corev1.Event, since time.Time) string {
	last := func(e corev1.Event) time.Time {
		if !e.LastTimestamp.IsZero() {
			return e.LastTimestamp.Time
		}
		return e.EventTime.Time
	}
	// Times in the API are whole seconds.
	events = slices.DeleteFunc(slices.Clone(events), func(e corev1.Event) bool { return last(e).Before(since.Truncate(time.Second)) })
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return last(a).Compare(last(b)) })
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s %s %s/%s: %s\n", last(e).UTC().Format(time.RFC3339), e.Type, e.Reason,
			e.InvolvedObject.Kind, strings.TrimPrefix(e.InvolvedObject.Namespace+"/"+e.InvolvedObject.Name, "/"), e.Message)
	}
	return b.String()
}

// saveLogs writes a file for each container whose log may explain a failure. The file of a
// log that cannot be read contains the error: on a reclaimed node that is normal.
func saveLogs(ctx context.Context, client kubernetes.Interface, down []string, dir string, pods []corev1.Pod, since time.Time, namespaces []string) error {
	group := new(errgroup.Group)
	for _, p := range pods {
		app := p.Labels[appLabel]
		system := p.Namespace == metav1.NamespaceSystem && (app == "kube-dns" || app == "kube-proxy")
		if !system && !slices.Contains(namespaces, p.Namespace) {
			continue
		}
		for _, container := range p.Spec.Containers {
			group.Go(func() error {
				text, err := []byte(nil), errors.New("node "+p.Spec.NodeName+" is not running")
				// The kubelet of a node that is down would not answer until logTimeout.
				if !slices.Contains(down, p.Spec.NodeName) {
					text, err = containerLog(ctx, client, p, container.Name, since)
				}
				if err != nil {
					text = append(text, fmt.Sprintf("the log could not be read: %v\n", err)...)
				}
				file := fmt.Sprintf("%s_%s_%s.log", p.Namespace, p.Name, container.Name)
				return os.WriteFile(filepath.Join(dir, file), text, 0o644)
			})
		}
	}
	return group.Wait()
}

// mostLog is how much is kept of the log of a container, in bytes.
const mostLog = 64 << 20

func containerLog(ctx context.Context, client kubernetes.Interface, p corev1.Pod, container string, since time.Time) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	options := &corev1.PodLogOptions{Container: container, SinceTime: &metav1.Time{Time: since}, LimitBytes: ptr.To[int64](mostLog)}
	stream, err := client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, options).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return io.ReadAll(stream)
}
