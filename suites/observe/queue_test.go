package observe

import (
	"context"
	"fmt"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	region   = "us-east-1"
	endpoint = "http://127.0.0.1:14566" // of LocalStack
	queue    = endpoint + "/000000000000/interruptions"
	listen   = "127.0.0.1:18080" // of the handler
)

// notices are sent to the queue of a handler that drains.
func notices(f *foreign) {
	const container = name + "-localstack"
	noticing := func(node string) []string {
		return f.drilling("notice-drains-node", "--node", node, "--allow", "notice", "--queue-url", queue, "--endpoint-url", endpoint)
	}

	BeforeAll(func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) { Expect(f.engine.Remove(ctx, container)).To(Succeed()) })
		_, err := f.engine.Run(ctx, "run", "-d", "--name", container, "-p", "127.0.0.1:14566:4566", "-e", "SERVICES=sqs", f.localStack)
		Expect(err).NotTo(HaveOccurred())
		answers(ctx, endpoint+"/_localstack/health", beginTimeout)
		answers(ctx, endpoint+"/?Action=CreateQueue&QueueName=interruptions&Version=2012-11-05", time.Minute)
	}, NodeTimeout(specTimeout))

	It("but kind's instance id is none of EC2's", func(ctx SpecContext) {
		refused := f.play(ctx, noticing(worker2)...)
		Expect(refused).To(gexec.Exit(64))
		Expect(refused.printed()).To(ContainSubstring("names no EC2 instance"))
	}, SpecTimeout(specTimeout))

	It("whose notice a handler receives, and drains the node", func(ctx SpecContext) {
		handler := f.start("handler", "--kubeconfig", f.kubeconfig(), "--queue-url", queue, "--endpoint", endpoint, "--region", region, "--listen", listen)
		answers(ctx, "http://"+listen+"/readyz", 30*time.Second)
		c := f.play(ctx, noticing(worker)...)
		Expect(c.ExitCode()).To(BeElementOf(0, 1))
		Expect(c.printed()).To(ContainSubstring("drained node: pass"))
		node, err := f.admin.CoreV1().Nodes().Get(ctx, worker, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(node.Spec.Unschedulable).To(BeFalse(), "the node is still cordoned")
		Expect(node.Spec.Taints).To(BeEmpty())
		handler.Terminate()
		handler.end(ctx)
	}, SpecTimeout(specTimeout))

	It("whose notice no handler receives", func(ctx SpecContext) {
		c := f.play(ctx, noticing(worker)...)
		Expect(c.ExitCode()).To(BeElementOf(1, 2))
		Expect(c.printed()).To(ContainSubstring("no handler received it"))
	}, SpecTimeout(specTimeout))
}

// answers waits until a GET request succeeds. LocalStack finds the service by the signature, which it
// does not check.
func answers(ctx SpecContext, url string, within time.Duration) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return StopTrying("make the request").Wrap(err)
		}
		request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20260101/"+region+"/sqs/aws4_request, SignedHeaders=host, Signature=0")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}).WithTimeout(within).WithPolling(time.Second).Should(Succeed())
}
