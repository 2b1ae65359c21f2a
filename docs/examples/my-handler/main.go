// Command my-handler is a small interruption handler, to be replaced by your own: it receives spot
// interruption notices from SQS, cordons the node of the instance, evicts its pods, and deletes the
// message once the node is drained. It needs nothing but the standard library.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

// again is the time until something that failed, or is not over, is tried again.
const again = time.Second

func main() {
	cluster, err := inCluster()
	if err != nil {
		slog.Error("read the pod's account", "error", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	queue := queue{
		url: os.Getenv("QUEUE_URL"), endpoint: os.Getenv("AWS_ENDPOINT_URL"), region: os.Getenv("AWS_REGION"),
		key: os.Getenv("AWS_ACCESS_KEY_ID"), secret: os.Getenv("AWS_SECRET_ACCESS_KEY"),
	}
	(&handler{queue: queue, cluster: cluster, receipts: map[string]string{}}).run(ctx)
}

// handler drains nodes. receipts has the newest receipt of each message that is being handled.
type handler struct {
	queue    queue
	cluster  cluster
	mu       sync.Mutex
	receipts map[string]string
}

// message is one of SQS.
type message struct{ MessageID, ReceiptHandle, Body string }

// notice is what EventBridge puts into a message.
type notice struct {
	Type   string `json:"detail-type"`
	Detail struct {
		Instance string `json:"instance-id"`
	} `json:"detail"`
}

// run receives messages until ctx ends. What is not handled by then comes again after the
// visibility timeout of the queue.
func (h *handler) run(ctx context.Context) {
	for ctx.Err() == nil {
		messages, err := h.queue.receive(ctx)
		if err != nil {
			slog.Warn("receive", "error", err)
			pause(ctx)
		}
		for _, m := range messages {
			if h.isNew(m) {
				go h.handle(ctx, m)
			}
		}
	}
}

// isNew reports whether a message is not being handled yet. Only the newest receipt deletes it.
func (h *handler) isNew(m message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, known := h.receipts[m.MessageID]
	h.receipts[m.MessageID] = m.ReceiptHandle
	return !known
}

// handle drains the node that a message is about, if any, and deletes the message.
func (h *handler) handle(ctx context.Context, m message) {
	var n notice
	err := json.Unmarshal([]byte(m.Body), &n)
	if err == nil && n.Type == "EC2 Spot Instance Interruption Warning" && n.Detail.Instance != "" {
		for h.drain(ctx, n.Detail.Instance) != nil && ctx.Err() == nil {
			pause(ctx)
		}
	}
	if ctx.Err() != nil {
		return
	}
	h.mu.Lock()
	receipt := h.receipts[m.MessageID]
	delete(h.receipts, m.MessageID)
	h.mu.Unlock()
	for ctx.Err() == nil {
		if err := h.queue.delete(ctx, receipt); err == nil {
			return
		}
		pause(ctx)
	}
}

// drain cordons the node of an instance, and evicts its pods until none is left. Without such a
// node there is nothing to do.
func (h *handler) drain(ctx context.Context, instance string) (err error) {
	defer func() {
		if err != nil {
			slog.Warn("drain", "instance", instance, "error", err)
		}
	}()
	node, err := h.cluster.nodeOf(ctx, instance)
	if err != nil || node == "" {
		return err
	}
	slog.Info("draining", "node", node, "instance", instance)
	if err := h.cluster.cordon(ctx, node); err != nil {
		return ignoreGone(err)
	}
	for {
		left, err := h.cluster.podsToEvict(ctx, node)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			slog.Info("drained", "node", node)
			return nil
		}
		for _, p := range left {
			if p.Metadata.DeletionTimestamp != "" {
				continue
			}
			// 429 is a PodDisruptionBudget that lets no pod go yet.
			if err := ignoreGone(h.cluster.evict(ctx, p)); err != nil {
				slog.Info("evict", "pod", p.Metadata.Name, "error", err)
			}
		}
		pause(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func pause(ctx context.Context) {
	select {
	case <-time.After(again):
	case <-ctx.Done():
	}
}

// cluster is a client of the Kubernetes API.
type cluster struct {
	url, token string
	client     *http.Client
}

// inCluster is the client of the pod's ServiceAccount.
func inCluster() (cluster, error) {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return cluster{}, err
	}
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return cluster{}, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return cluster{}, errors.New("ca.crt has no certificate")
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	host := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return cluster{"https://" + host, string(token), &http.Client{Transport: transport, Timeout: 30 * time.Second}}, nil
}

type metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Annotations       map[string]string `json:"annotations"`
	OwnerReferences   []struct {
		Kind string `json:"kind"`
	} `json:"ownerReferences"`
}

type pod struct {
	Metadata metadata `json:"metadata"`
	Status   struct {
		Phase string `json:"phase"`
	} `json:"status"`
}

// nodeOf is the node whose providerID, such as aws:///eu-west-1a/i-0123456789abcdef0, ends with
// the instance's id; empty if there is none.
func (c cluster) nodeOf(ctx context.Context, instance string) (string, error) {
	var nodes struct {
		Items []struct {
			Metadata metadata `json:"metadata"`
			Spec     struct {
				ProviderID string `json:"providerID"`
			} `json:"spec"`
		} `json:"items"`
	}
	err := c.do(ctx, http.MethodGet, "/api/v1/nodes", "", &nodes)
	for _, n := range nodes.Items {
		if strings.HasSuffix(n.Spec.ProviderID, "/"+instance) {
			return n.Metadata.Name, nil
		}
	}
	return "", err
}

func (c cluster) cordon(ctx context.Context, node string) error {
	return c.do(ctx, http.MethodPatch, "/api/v1/nodes/"+node, `{"spec":{"unschedulable":true}}`, nil)
}

// podsToEvict are the pods of a node, without those that a drain leaves: of DaemonSets, static
// ones, and those that have ended.
func (c cluster) podsToEvict(ctx context.Context, node string) ([]pod, error) {
	var pods struct {
		Items []pod `json:"items"`
	}
	if err := c.do(ctx, http.MethodGet, "/api/v1/pods?fieldSelector=spec.nodeName%3D"+node, "", &pods); err != nil {
		return nil, err
	}
	var out []pod
	for _, p := range pods.Items {
		_, static := p.Metadata.Annotations["kubernetes.io/config.mirror"]
		ended := p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
		ofDaemonSet := len(p.Metadata.OwnerReferences) > 0 && p.Metadata.OwnerReferences[0].Kind == "DaemonSet"
		if !static && !ended && !ofDaemonSet {
			out = append(out, p)
		}
	}
	return out, nil
}

func (c cluster) evict(ctx context.Context, p pod) error {
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", p.Metadata.Namespace, p.Metadata.Name)
	body := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, p.Metadata.Name, p.Metadata.Namespace)
	return c.do(ctx, http.MethodPost, path+"/eviction", body, nil)
}

func (c cluster) do(ctx context.Context, method, path, body string, answer any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	return send(c.client, r, answer)
}

// queue is a client of SQS, with the credentials of the environment.
type queue struct{ url, endpoint, region, key, secret string }

func (q queue) receive(ctx context.Context) ([]message, error) {
	var answer struct {
		Messages []struct {
			MessageID     string `json:"MessageId"`
			ReceiptHandle string
			Body          string
		}
	}
	err := q.do(ctx, "ReceiveMessage", map[string]any{"QueueUrl": q.url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 20}, &answer)
	var out []message
	for _, m := range answer.Messages {
		out = append(out, message(m))
	}
	return out, err
}

func (q queue) delete(ctx context.Context, receipt string) error {
	return q.do(ctx, "DeleteMessage", map[string]any{"QueueUrl": q.url, "ReceiptHandle": receipt}, nil)
}

// do calls SQS by its JSON protocol. Your own handler will use an AWS SDK.
func (q queue) do(ctx context.Context, action string, in map[string]any, answer any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, cmp.Or(q.endpoint, "https://sqs."+q.region+".amazonaws.com")+"/", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.0")
	r.Header.Set("X-Amz-Target", "AmazonSQS."+action)
	r.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
	q.sign(r, body)
	return send(&http.Client{Timeout: 40 * time.Second}, r, answer)
}

// sign signs a request with AWS's Signature Version 4.
func (q queue) sign(r *http.Request, body []byte) {
	moment := r.Header.Get("X-Amz-Date")
	scope := moment[:8] + "/" + q.region + "/sqs/aws4_request"
	const signed = "content-type;host;x-amz-date;x-amz-target"
	canonical := strings.Join([]string{
		r.Method, "/", "", "content-type:" + r.Header.Get("Content-Type"), "host:" + r.URL.Host, "x-amz-date:" + moment,
		"x-amz-target:" + r.Header.Get("X-Amz-Target"), "", signed, hash(body),
	}, "\n")
	key := []byte("AWS4" + q.secret)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	signature := mac(key, "AWS4-HMAC-SHA256\n"+moment+"\n"+scope+"\n"+hash([]byte(canonical)))
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x", q.key, scope, signed, signature))
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func mac(key []byte, data string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(data))
	return h.Sum(nil)
}

// refused is an answer with an HTTP status that is no success.
type refused struct {
	status int
	text   string
}

func (r refused) Error() string { return fmt.Sprintf("HTTP %d: %s", r.status, r.text) }

// ignoreGone is nil for an object that is no longer there.
func ignoreGone(err error) error {
	var r refused
	if errors.As(err, &r) && r.status == http.StatusNotFound {
		return nil
	}
	return err
}

func send(client *http.Client, r *http.Request, answer any) error {
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return refused{response.StatusCode, string(body[:min(len(body), 200)])}
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(body, answer)
}
