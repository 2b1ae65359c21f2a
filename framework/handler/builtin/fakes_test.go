package builtin

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// sqsServer answers SQS's JSON protocol in process, so that tests can run on
// synctest's clock.
type sqsServer struct {
	mu       sync.Mutex
	waiting  []string       // bodies to hand out
	deleted  []string       // bodies
	calls    []sqsCall      // in their order
	failing  map[string]int // action: how many calls are yet to fail
	stale    bool           // receipt handles have expired
	onDelete func()
}

type sqsCall struct {
	action, host string
	input        map[string]any
}

func (s *sqsServer) Do(r *http.Request) (*http.Response, error) {
	_, action, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, _ := io.ReadAll(r.Body)
	var input map[string]any
	_ = json.Unmarshal(body, &input)

	s.mu.Lock()
	s.calls = append(s.calls, sqsCall{action, r.URL.Host, input})
	if s.failing[action] > 0 {
		s.failing[action]--
		s.mu.Unlock()
		return answer(r, http.StatusInternalServerError, map[string]any{"__type": "InternalFailure"}), nil
	}
	stale := s.stale
	s.mu.Unlock()
	if stale && action == "DeleteMessage" {
		return answer(r, http.StatusNotFound, map[string]any{"__type": "com.amazonaws.sqs#ReceiptHandleIsInvalid"}), nil
	}
	switch action {
	case "GetQueueUrl":
		return answer(r, http.StatusOK, map[string]any{"QueueUrl": "http://sqs.nowhere.invalid:4566/000000000000/" + input["QueueName"].(string)}), nil
	case "DeleteMessage":
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.onDelete != nil {
			s.onDelete()
		}
		s.deleted = append(s.deleted, input["ReceiptHandle"].(string))
		return answer(r, http.StatusOK, map[string]any{}), nil
	}
	if messages := s.take(); len(messages) > 0 {
		return answer(r, http.StatusOK, map[string]any{"Messages": messages}), nil
	}
	poll, _ := input["WaitTimeSeconds"].(float64)
	if !sleep(r.Context(), time.Duration(poll)*time.Second) {
		return nil, r.Context().Err()
	}
	return answer(r, http.StatusOK, map[string]any{"Messages": s.take()}), nil
}

func (s *sqsServer) take() []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []map[string]any
	for _, body := range s.waiting {
		sum := md5.Sum([]byte(body))
		// The receipt handle is the body: tests read in deleted what was deleted.
		out = append(out, map[string]any{"MessageId": "m", "Body": body, "ReceiptHandle": body, "MD5OfBody": hex.EncodeToString(sum[:])})
	}
	s.waiting = nil
	return out
}

func (s *sqsServer) put(bodies ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, bodies...)
}

func (s *sqsServer) hasDeleted(body string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.deleted, body)
}

func answer(r *http.Request, status int, body any) *http.Response {
	data, _ := json.Marshal(body)
	return &http.Response{
		StatusCode: status, Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body:   io.NopCloser(strings.NewReader(string(data))), ContentLength: int64(len(data)),
	}
}

func (s *sqsServer) queue(m *metrics) *queue {
	return &queue{
		url: "http://sqs.nowhere.invalid:4566/000000000000/drill", metrics: m, log: slog.New(slog.DiscardHandler),
		api: sqs.New(sqs.Options{
			HTTPClient: s, Region: "eu-west-1", BaseEndpoint: aws.String("http://configured.example:4566"), Retryer: aws.NopRetryer{},
			Credentials: aws.CredentialsProviderFunc(credentials),
		}),
	}
}

// cluster is a fake API server with the two things that the real one does and
// client-go's fake does not: resourceVersion conflicts, and evictions.
type cluster struct {
	*fake.Clientset
	mu      sync.Mutex
	evicted []string             // pod names, in their order; repeated calls too
	blocked map[string]time.Time // pod: until when a disruption budget refuses it
	answer  map[string]error     // pod: what the API server answers until then, if not 429
	grace   map[string]time.Duration
	// beforePatch runs before the next patch of a node, as another replica might.
	beforePatch func()
	// afterPatch is what becomes of the answer to the next patch of a node.
	afterPatch func() error
}

func newCluster(objects ...runtime.Object) *cluster {
	c := &cluster{Clientset: fake.NewClientset(objects...), blocked: map[string]time.Time{}, answer: map[string]error{}, grace: map[string]time.Duration{}}
	nodes := corev1.SchemeGroupVersion.WithResource("nodes")
	apply := clienttesting.ObjectReaction(c.Tracker())
	c.PrependReactor("patch", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if c.beforePatch != nil {
			c.beforePatch()
			c.beforePatch = nil
		}
		patch := action.(clienttesting.PatchAction)
		var want metav1.PartialObjectMetadata
		_ = json.Unmarshal(patch.GetPatch(), &want)
		old, err := c.Tracker().Get(nodes, "", patch.GetName())
		if err != nil {
			return true, nil, err
		}
		if want.ResourceVersion != old.(*corev1.Node).ResourceVersion {
			return true, nil, apierrors.NewConflict(nodes.GroupResource(), patch.GetName(), nil)
		}
		_, obj, err := apply(action)
		if err != nil {
			return true, nil, err
		}
		node := c.store(obj.(*corev1.Node))
		if lose := c.afterPatch; lose != nil {
			c.afterPatch = nil
			return true, nil, lose()
		}
		return true, node, nil
	})
	c.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "eviction" {
			return false, nil, nil
		}
		e := action.(clienttesting.CreateAction).GetObject().(*policyv1.Eviction)
		return true, nil, c.evict(e)
	})
	return c
}

// store writes the node with its next resourceVersion.
func (c *cluster) store(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	version, _ := strconv.Atoi(node.ResourceVersion)
	node.ResourceVersion = strconv.Itoa(version + 1)
	_ = c.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), node, "")
	return node
}

func (c *cluster) evict(e *policyv1.Eviction) error {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	c.mu.Lock()
	c.evicted = append(c.evicted, e.Name)
	c.mu.Unlock()
	obj, err := c.Tracker().Get(pods, e.Namespace, e.Name)
	if err != nil {
		return err
	}
	p := obj.(*corev1.Pod).DeepCopy()
	if *e.DeleteOptions.Preconditions.UID != p.UID {
		return apierrors.NewConflict(pods.GroupResource(), e.Name, nil)
	}
	if err := c.answer[e.Name]; err != nil && time.Now().Before(c.blocked[e.Name]) {
		return err
	}
	if time.Now().Before(c.blocked[e.Name]) {
		return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	}
	now := metav1.Now()
	p.DeletionTimestamp, p.Finalizers = &now, []string{"test/kubelet"}
	if err := c.Tracker().Update(pods, p, p.Namespace); err != nil {
		return err
	}
	time.AfterFunc(c.grace[e.Name], func() { _ = c.Tracker().Delete(pods, e.Namespace, e.Name) })
	return nil
}

// asked is every pod whose eviction was asked for so far.
func (c *cluster) asked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.evicted)
}

func (c *cluster) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	obj, err := c.Tracker().Get(corev1.SchemeGroupVersion.WithResource("nodes"), "", name)
	if err != nil {
		t.Fatalf("get node: %v", err)
	}
	return obj.(*corev1.Node)
}

// restore takes cordon, taint and annotation away, as an operator would.
func (c *cluster) restore(t *testing.T, name string) {
	t.Helper()
	node := c.node(t, name).DeepCopy()
	node.Spec = corev1.NodeSpec{ProviderID: node.Spec.ProviderID}
	delete(node.Annotations, drainingAnnotation)
	c.store(node)
}

// uncordon removes cordon and taint and leaves the annotation.
func (c *cluster) uncordon(t *testing.T, name string) {
	t.Helper()
	node := c.node(t, name).DeepCopy()
	node.Spec = corev1.NodeSpec{ProviderID: node.Spec.ProviderID}
	c.store(node)
}

// cordon is for a reason that has nothing to do with a notice.
func (c *cluster) cordon(t *testing.T, name string) {
	t.Helper()
	node := c.node(t, name).DeepCopy()
	node.Spec.Unschedulable = true
	c.store(node)
}

// record marks the node as another handler would.
func (c *cluster) record(t *testing.T, name string, r drainRecord) {
	t.Helper()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatalf("write the record: %v", err)
	}
	node := c.node(t, name).DeepCopy()
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{drainingAnnotation: string(data)}
	c.store(node)
}

// nodes is the store of an informer that is always up to date.
type nodes struct {
	cache.Indexer
	c *cluster
}

func (n nodes) List() []any {
	list, err := n.c.Tracker().List(corev1.SchemeGroupVersion.WithResource("nodes"), corev1.SchemeGroupVersion.WithKind("Node"), "")
	if err != nil {
		return nil
	}
	var out []any
	for _, node := range list.(*corev1.NodeList).Items {
		out = append(out, &node)
	}
	return out
}

func spotNode(name, instance string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///eu-west-1a/" + instance,
			Taints:     []corev1.Taint{{Key: "own", Effect: corev1.TaintEffectPreferNoSchedule}},
		},
	}
}

// newHandler makes a dispatcher over the fakes, and the events that it sends.
func newHandler(t *testing.T, c *cluster, s *sqsServer) (*dispatcher, *record.FakeRecorder) {
	t.Helper()
	m := newMetrics(prometheus.NewRegistry())
	log := slog.New(slog.DiscardHandler)
	events := record.NewFakeRecorder(100)
	known := nodes{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{byInstance: indexByInstance}), c}
	for _, node := range known.List() {
		_ = known.Add(node)
	}
	return &dispatcher{
		queue: s.queue(m), nodes: known, metrics: m, log: log, drainCtx: t.Context(),
		drainer: &drainer{client: c, events: events, metrics: m, log: log, criticalAfter: 30 * time.Second},
	}, events
}

// sent is every event so far, as "Type Reason message".
func sent(events *record.FakeRecorder) []string {
	var out []string
	for {
		select {
		case e := <-events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// reasons are those of events, in their order.
func reasons(events []string) []string {
	var out []string
	for _, e := range events {
		out = append(out, strings.Fields(e)[1])
	}
	return out
}
