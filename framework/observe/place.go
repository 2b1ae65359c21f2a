package observe

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/prober"
	"github.com/spotdrill/spotdrill/framework/wait"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

//go:embed manifests
var manifests embed.FS

const (
	// PartOf labels everything of an observation.
	PartOf = "spotdrill.dev/part-of=observe"
	// nameLabel has the name of one observation.
	nameLabel = "spotdrill.dev/observation"
	// madeByUs is on a namespace that an observation has created, and removes.
	madeByUs = "spotdrill.dev/created-for"

	// startTimeout bounds the start of the pods: their image may have to be pulled.
	startTimeout  = 3 * time.Minute
	removeTimeout = time.Minute
)

type placed struct {
	*Cluster
	namespace, name, token, owner string
	madeNamespace                 bool
}

// place creates the keeper, and the probers that it owns.
func (c *Cluster) place(ctx context.Context, o Options, cpu string, expected int) (p *placed, err error) {
	secret := make([]byte, 20)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("make a token: %w", err)
	}
	p = &placed{Cluster: c, namespace: o.Namespace, name: "observe-" + hex.EncodeToString(secret[:4]), token: hex.EncodeToString(secret[4:])}
	nodes, err := affinity(o.Nodes)
	if err != nil {
		return p, err
	}
	if err := p.ensureNamespace(ctx, o); err != nil {
		return p, err
	}
	values := map[string]string{
		"NAME": p.name, "NAMESPACE": p.namespace, "IMAGE": o.Image, "NODES": nodes, "TOKEN": p.token, "CPU": cpu,
		"PROBERS": fmt.Sprint(expected), "DEADLINE": fmt.Sprint(int((MaxFor + MaxSettleLimit + 5*time.Minute).Seconds())),
	}
	if err := p.create(ctx, "keeper.yaml", values); err != nil {
		return p, err
	}
	keeper, err := c.Clientset.BatchV1().Jobs(p.namespace).Get(ctx, p.name, metav1.GetOptions{})
	if err != nil {
		return p, fmt.Errorf("read Job %s/%s: %w", p.namespace, p.name, err)
	}
	p.owner = string(keeper.UID)
	values["OWNER"] = p.owner
	probers := "each-node.yaml"
	if o.Probers > 0 {
		probers = "spread.yaml"
	}
	return p, errors.Join(p.create(ctx, "token.yaml", values), p.create(ctx, probers, values))
}

func (p *placed) create(ctx context.Context, file string, values map[string]string) error {
	values = maps.Clone(values)
	objs, err := objects.Decode(ctx, manifests, "manifests/"+file, values)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if err := p.klient.Resources().Create(ctx, obj); err != nil {
			return fmt.Errorf("create %s %s/%s: %w%s", obj.GetObjectKind().GroupVersionKind().Kind, p.namespace, obj.GetName(), err, remedy(err))
		}
	}
	return nil
}

// remedy is what to do about an error of creating something, as the end of a sentence.
func remedy(err error) string {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "; wait until the namespace is gone, and create it again"
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return "; spotdrill observe --print-rbac prints the namespace and the rights that are needed"
	}
	return ""
}

// ensureNamespace creates the namespace if the client may, and if it is not there. One that is being
// terminated, as after an earlier observation, is awaited. Whether it is there shows when something is
// created in it.
func (p *placed) ensureNamespace(ctx context.Context, o Options) error {
	if !p.May(ctx, "create", "", "namespaces", "", "") {
		return nil
	}
	level := "restricted"
	if o.Conntrack {
		level = "privileged"
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: p.namespace, Labels: map[string]string{madeByUs: "observe", "pod-security.kubernetes.io/enforce": level},
	}}
	var failed error
	err := wait.Until(ctx, removeTimeout, "namespace "+p.namespace+", which is being terminated, to be gone", func(ctx context.Context) string {
		_, failed = p.Clientset.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(failed) {
			p.madeNamespace = failed == nil
			return ""
		}
		failed = nil
		there, err := p.Clientset.CoreV1().Namespaces().Get(ctx, p.namespace, metav1.GetOptions{})
		if err != nil || there.DeletionTimestamp == nil {
			return ""
		}
		o.progress("waiting until namespace " + p.namespace + " of an earlier observation is gone")
		return fmt.Sprintf("it has been terminating since %s; kubectl get namespace %s -o yaml shows what it waits for", there.DeletionTimestamp.UTC().Format(time.TimeOnly), p.namespace)
	})
	if err != nil {
		return err
	}
	return wrap.Errorf(failed, "create namespace %s", p.namespace)
}

func (p *placed) selected() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: "app=prober," + nameLabel + "=" + p.name}
}

// ready waits until that many probers run, and returns their pods.
func (p *placed) ready(ctx context.Context, want int, image string, progress func(string)) (pods []corev1.Pod, err error) {
	answers := map[string]bool{} // a process that runs need not listen yet
	images := imagesToCome{image: image, since: map[string]time.Time{}}
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	err = wait.Until(ctx, startTimeout, fmt.Sprintf("%s in namespace %s to start", history.Count(want, "prober"), p.namespace), func(ctx context.Context) string {
		list, err := p.Clientset.CoreV1().Pods(p.namespace).List(ctx, p.selected())
		if err != nil {
			return err.Error()
		}
		pods = pods[:0]
		why := ""
		for _, pod := range list.Items {
			switch {
			case !running(pod):
				why = pod.Name + ": " + objects.WhyNotReady(pod)
				if err := images.missing(pod); err != nil {
					giveUp(err)
				}
				continue
			case !answers[pod.Name]:
				if _, err := p.get(ctx, p.namespace, pod.Name, proberPort, "healthz", p.token); err != nil {
					why = err.Error()
					continue
				}
				answers[pod.Name] = true
			}
			pods = append(pods, pod)
		}
		progress(fmt.Sprintf("starting probers: %d of %d", len(pods), want))
		if len(pods) < want {
			if why == "" && len(list.Items) < want {
				why = fmt.Sprintf("%s there; is one refused? kubectl -n %s get events", history.Count(len(list.Items), "pod"), p.namespace)
			}
			return why
		}
		return ""
	})
	var never *neverStarts
	if errors.As(context.Cause(ctx), &never) {
		return nil, never
	}
	return pods, err
}

func running(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && p.Status.PodIP != "" &&
		len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Running != nil
}

// beat keeps the keeper alive until ctx ends.
func (p *placed) beat(ctx context.Context) {
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		p.beatOnce(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// beatOnce reaches every keeper that runs. One that has just been started elsewhere is patient.
func (p *placed) beatOnce(ctx context.Context) {
	list, err := p.Clientset.CoreV1().Pods(p.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=keeper," + nameLabel + "=" + p.name})
	if err != nil {
		return
	}
	for _, pod := range list.Items {
		if running(pod) {
			ctx, cancel := context.WithTimeout(ctx, beatEvery)
			_, _ = p.request(http.MethodPost, p.namespace, pod.Name, proberPort, "beat", p.token).DoRaw(ctx)
			cancel()
		}
	}
}

// awaitServer waits until the API server answers: one that is replaced must not leave everything
// behind.
func (p *placed) awaitServer(ctx context.Context, within time.Duration) {
	_ = wait.Until(ctx, within, "the API server to answer", func(ctx context.Context) string { // else what follows fails, and shows why
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		if _, err := p.Clientset.CoreV1().Pods(p.namespace).List(ctx, p.selected()); err != nil {
			return err.Error()
		}
		return ""
	})
}

// remove removes everything of the observation, and waits until its pods are gone.
func (p *placed) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	p.awaitServer(ctx, removeTimeout)
	err := p.Clientset.BatchV1().Jobs(p.namespace).Delete(ctx, p.name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove Job %s/%s: %w; spotdrill observe --cleanup removes what is left", p.namespace, p.name, err)
	}
	if err := p.gone(ctx, nameLabel+"="+p.name); err != nil {
		return err
	}
	if p.madeNamespace {
		if err := p.Clientset.CoreV1().Namespaces().Delete(ctx, p.namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove namespace %s: %w", p.namespace, err)
		}
	}
	return nil
}

// gonePods waits until no selected pod is left.
func (c *Cluster) gonePods(ctx context.Context, namespace, selector string) error {
	return wait.Until(ctx, removeTimeout, "the pods of the observation to end", func(ctx context.Context) string {
		list, err := c.Clientset.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		switch {
		case err != nil:
			return err.Error()
		case len(list.Items) > 0:
			return fmt.Sprintf("%d are left, such as %s on %s", len(list.Items), list.Items[0].Name, list.Items[0].Spec.NodeName)
		}
		return ""
	})
}

func (p *placed) gone(ctx context.Context, selector string) error {
	return p.gonePods(ctx, p.namespace, selector)
}

// Cleanup removes what observations have left in a namespace, and returns what it removed and what
// it left alone: the observation of a client that is alive, whose keeper runs.
func (c *Cluster) Cleanup(ctx context.Context, namespace string) (removed, left []string, err error) {
	jobs, err := c.Clientset.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: PartOf})
	if err != nil {
		return nil, nil, fmt.Errorf("look for leftovers in namespace %s: %w", namespace, err)
	}
	for _, job := range jobs.Items {
		if owned(job) {
			continue // goes with its keeper
		}
		if job.Status.Active > 0 {
			left = append(left, fmt.Sprintf("Job/%s: its client is alive, or was %s ago; then it ends by itself", job.Name, Patience))
			continue
		}
		err := c.Clientset.BatchV1().Jobs(namespace).Delete(ctx, job.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		if err != nil && !apierrors.IsNotFound(err) {
			return removed, left, fmt.Errorf("remove Job %s/%s: %w", namespace, job.Name, err)
		}
		if err := c.gonePods(ctx, namespace, nameLabel+"="+job.Name); err != nil {
			return removed, left, err
		}
		removed = append(removed, "Job/"+job.Name+" and what it owns")
	}
	if len(left) > 0 {
		return removed, left, nil
	}
	ns, err := c.Clientset.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil || ns.Labels[madeByUs] == "" {
		return removed, left, nil //nolint:nilerr // without the right to read it, it is not ours
	}
	if err := c.Clientset.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return removed, left, fmt.Errorf("remove namespace %s: %w", namespace, err)
	}
	return append(removed, "Namespace/"+namespace), left, nil
}

func owned(job batchv1.Job) bool {
	return metav1.GetControllerOf(&job) != nil || len(job.OwnerReferences) > 0
}

const (
	// Patience is how long the keeper waits for its client while the API server can be reached.
	// With the removal of what it owns, an observation whose client has died is gone within a minute.
	Patience = 30 * time.Second
	// beatEvery is how often the client shows that it is alive.
	beatEvery = 5 * time.Second
)

// errDrained makes a keeper that is asked to terminate fail, so that its Job starts another one.
var errDrained = errors.New("asked to terminate while the client is alive")

// Keep serves POST /beat until no client was heard of for Patience, and returns nil then: the Job
// of its pod is complete, and Kubernetes removes what it owns.
func Keep(ctx context.Context, l net.Listener, token string, patience time.Duration) error {
	alone := prober.NewAlone(patience)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /beat", func(w http.ResponseWriter, _ *http.Request) {
		alone.Release() // it came, and has left
		_, _ = fmt.Fprintln(w, "ok")
	})
	server := guard.Server(token, mux)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	defer server.Close()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	gone := make(chan bool, 1)
	go func() { gone <- alone.Wait(waiting) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case isGone := <-gone:
		if !isGone {
			return errDrained
		}
		return nil
	}
}
