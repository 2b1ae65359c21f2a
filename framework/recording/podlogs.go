package recording

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/spotdrill/spotdrill/framework/nodes"
)

// logRetry is the pause until a log that ended is read again: its container may have been restarted, or the
// connection to its node be lost.
const logRetry = time.Second

// longestLine is the size in bytes beyond which a line is broken.
const longestLine = 64 << 10

// PodLogs writes into one text what some pods log while they run, line by line: what a pod logged is kept if
// the pod is deleted, its node is lost or its container is restarted. Where the pod changes, a
// heading names it, as tail -f does.
type PodLogs struct {
	pods     typedcorev1.PodInterface
	selector string
	since    time.Time
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu         sync.Mutex
	containers map[container]*followed
	out        io.Writer
	heading    string
	failed     error // of out
}

// container is one of a pod.
type container struct {
	pod  types.UID
	name string
}

// followed is a container whose log is read. It is read by one goroutine at a time.
type followed struct {
	pod, name, heading string
	read               time.Time // the kubelet's time of the last line

	restarts int32 // as last seen; guarded by PodLogs.mu
	over     bool  // so is this: no line can follow
}

// FollowLogs writes into out what the pods of a namespace that match the selector have logged since a time (in whole seconds), and what
// they and those that appear later log until Stop. An empty selector matches no pod.
func FollowLogs(ctx context.Context, clientset kubernetes.Interface, namespace, selector string, since time.Time, out io.Writer) *PodLogs {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &PodLogs{
		pods: clientset.CoreV1().Pods(namespace), selector: selector, since: since, cancel: cancel,
		containers: map[container]*followed{}, out: out,
	}
	if selector == "" {
		return l
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	seen := func(p *corev1.Pod, over bool) {
		for _, c := range l.seen(p, over) {
			l.running.Go(func() { l.follow(ctx, c) })
		}
	}
	// It fails only for an informer that has ended.
	_, _ = factory.Core().V1().Pods().Informer().AddEventHandler(on(
		func(p *corev1.Pod, _ bool) { seen(p, false) }, func(_, p *corev1.Pod) { seen(p, false) }, func(p *corev1.Pod) { seen(p, true) }))
	l.running.Go(func() {
		factory.StartWithContext(ctx)
		<-ctx.Done()
		factory.Shutdown()
	})
	return l
}

// seen notes the state of a pod's containers, and returns those that were not known.
func (l *PodLogs) seen(p *corev1.Pod, over bool) (added []*followed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if s.ContainerID == "" && s.LastTerminationState.Terminated == nil {
			continue // it has not run yet
		}
		key := container{p.UID, s.Name}
		c := l.containers[key]
		if c == nil {
			c = &followed{pod: p.Name, name: s.Name, heading: p.Name, read: l.since.Truncate(time.Second).Add(-1)}
			if len(p.Spec.InitContainers)+len(p.Spec.Containers) > 1 {
				c.heading += " " + s.Name
			}
			c.heading += " on " + p.Spec.NodeName
			l.containers[key] = c
			added = append(added, c)
		}
		c.restarts, c.over = s.RestartCount, over || nodes.Finished(p)
	}
	return added
}

// follow reads the log of a container until no line can follow.
func (l *PodLogs) follow(ctx context.Context, c *followed) {
	for {
		restarts, over := l.state(c)
		err := l.readBoth(ctx, c, restarts, true)
		if ctx.Err() != nil || apierrors.IsNotFound(err) || over && err == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(logRetry):
		}
	}
}

func (l *PodLogs) state(c *followed) (restarts int32, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.restarts, c.over
}

// readBoth reads what a container logged before its last restart, and since then.
func (l *PodLogs) readBoth(ctx context.Context, c *followed, restarts int32, follow bool) error {
	if restarts > 0 {
		// A container that has gone by now has no log.
		if err := l.read(ctx, c, corev1.PodLogOptions{Previous: true}); err != nil && !apierrors.IsBadRequest(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return l.read(ctx, c, corev1.PodLogOptions{Follow: follow})
}

// read writes what follows the last line that was read.
func (l *PodLogs) read(ctx context.Context, c *followed, options corev1.PodLogOptions) error {
	options.Container, options.Timestamps, options.SinceTime = c.name, true, &metav1.Time{Time: c.read.Truncate(time.Second)}
	log, err := l.pods.GetLogs(c.pod, &options).Stream(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	lines, wanted, rest := bufio.NewReaderSize(log, longestLine), false, false
	for {
		line, err := lines.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && !cut && !errors.Is(err, io.EOF) {
			return err // what was read of the line is read again
		}
		text := string(line)
		if !rest {
			stamp, after, _ := strings.Cut(text, " ")
			at, wrong := time.Parse(time.RFC3339Nano, stamp)
			if wanted = wrong == nil && at.After(c.read); wanted {
				text, c.read = after, at
			}
		}
		if wanted {
			l.write(c.heading, text)
		}
		rest = cut
		if err != nil && !cut {
			return nil
		}
	}
}

// write writes a line.
func (l *PodLogs) write(heading, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if heading != l.heading {
		l.heading = heading
		text = fmt.Sprintf("==> %s <==\n%s", heading, text)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := io.WriteString(l.out, text); err != nil && l.failed == nil {
		l.failed = err
	}
}

// Stop ends it with what the pods have logged by now. What could not be read is a line of the text; an error
// means that the text could not be written.
func (l *PodLogs) Stop(ctx context.Context) error {
	l.cancel()
	l.running.Wait()
	if l.selector == "" {
		return l.failed
	}
	list, err := l.pods.List(ctx, metav1.ListOptions{LabelSelector: l.selector})
	if err != nil {
		l.write("spotdrill", fmt.Sprintf("the last lines may be missing: list the pods: %v", err))
		return l.failed
	}
	there := map[types.UID]bool{}
	for i := range list.Items {
		l.seen(&list.Items[i], false)
		there[list.Items[i].UID] = true
	}
	var ending sync.WaitGroup
	for key, c := range l.containers {
		if !there[key.pod] {
			continue
		}
		ending.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, logTimeout)
			defer cancel()
			if err := l.readBoth(ctx, c, c.restarts, false); err != nil {
				l.write(c.heading, fmt.Sprintf("spotdrill: the last lines may be missing: %v", err))
			}
		})
	}
	ending.Wait()
	return l.failed
}
