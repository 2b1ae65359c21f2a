package recording

import (
	"bufio"
	"context"
	"regexp"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/history"
)

// dnsLogs reads what CoreDNS logs while it terminates: no API object shows when it received
// SIGTERM, or when its lameduck began.
type dnsLogs struct {
	ctx       context.Context //nolint:containedctx // the watcher's lifetime, not a call's
	clientset kubernetes.Interface
	rec       *history.Recorder

	mu      sync.Mutex
	open    map[types.UID]bool
	running sync.WaitGroup
}

// follow reads the pod's log from now on until it ends, unless it is being read already. A
// log that cannot be read is no error: its events are missing in the history.
func (l *dnsLogs) follow(p *corev1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[p.UID] || l.ctx.Err() != nil {
		return
	}
	l.open[p.UID] = true
	l.running.Go(func() {
		l.read(p)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, p.UID)
	})
}

func (l *dnsLogs) read(p *corev1.Pod) {
	log, err := l.clientset.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{
		Follow: true, Timestamps: true, TailLines: ptr.To[int64](0),
	}).Stream(l.ctx)
	if err != nil {
		return
	}
	defer log.Close()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		kind, at, numbers, ok := dnsEnding(lines.Text())
		if !ok {
			continue
		}
		report := history.NewPodSignalled
		if kind == history.PodLameduck {
			report = history.NewPodLameduck
		}
		e := podEvent(report, p)
		e.Said, e.Numbers = ptr.To(l.rec.Clock().Of(at)), numbers
		l.rec.Record(e)
	}
}

// lameduckLine is what CoreDNS's health plugin logs when it receives SIGTERM.
var lameduckLine = regexp.MustCompile(`Going into lameduck mode for (\S+)$`)

// dnsEnding parses a line of CoreDNS's log, prefixed with the kubelet's time, for an event
// of its termination.
func dnsEnding(line string) (kind history.Kind, at time.Time, numbers history.Numbers, ok bool) {
	stamp, text, _ := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		return "", at, nil, false
	}
	if strings.Contains(text, " SIGTERM: ") {
		return history.PodSignalled, at, nil, true
	}
	found := lameduckLine.FindStringSubmatch(text)
	if found == nil {
		return "", at, nil, false
	}
	lasts, err := time.ParseDuration(found[1])
	return history.PodLameduck, at, history.Numbers{history.LameduckTime: lasts.Seconds()}, err == nil
}
