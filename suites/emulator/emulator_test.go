// Package emulator checks what an emulator of AWS must do so that drills can rest on it: LocalStack, or any other whose
// endpoint is given. It needs no cluster.
package emulator

import (
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/proxy"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/kind"
	"github.com/spotdrill/spotdrill/suites/flags"
)

const (
	setUpTimeout = 15 * time.Minute // LocalStack's image may have to be built
	// requirementTimeout bounds one requirement; the longest waits for a message to expire, which takes a minute.
	requirementTimeout = 3 * time.Minute
	// network is that of the LocalStack that is brought up; drills have another one, so that both can exist.
	network = "spotdrill-emulator"
)

var (
	drillFlag    = flags.AddDrill()
	endpointFlag = flag.String("endpoint", "", "URL of the emulator to check; empty: LocalStack is brought up")
	recordFlag   = flag.String("record", "", "name and version of the emulator, such as ministack-1.5.33: the outcomes are written to suites/emulator/results, for docs/emulators.md")
)

func TestSpecs(t *testing.T) {
	drillFlag.SkipUnless(t, "emulator-test")
	specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill emulator")
}

// requirement is something that an emulator must do. Check fails the spec if it does not.
type requirement struct {
	name, title string
	check       func(context.Context, *emulator)
}

func requirements() []requirement { return append(ofTheQueue(), ofStacksAndInstances()...) }

func specs() {
	e := &emulator{}
	BeforeSuite(e.setUp, NodeTimeout(setUpTimeout))
	var entries []TableEntry
	for _, r := range requirements() {
		entries = append(entries, Entry(r.title, Label(r.name), NodeTimeout(requirementTimeout), r))
	}
	DescribeTable("An emulator:", func(ctx SpecContext, r requirement) { r.check(ctx, e) }, entries)
	ReportAfterSuite("results", func(report Report) {
		if *recordFlag != "" {
			Expect(resultsOf(*recordFlag, report).write("suites/emulator/" + resultsFolder)).To(Succeed())
		}
	})
}

// emulator is the one that is checked.
type emulator struct{ endpoint string }

func (e *emulator) setUp(ctx SpecContext) {
	e.endpoint = *endpointFlag
	if e.endpoint == "" {
		aws, stop, err := system.LocalStack(ctx, system.Options{
			Cluster: network, Source: ".", Log: func(format string, args ...any) { GinkgoWriter.Printf(format+"\n", args...) },
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func(ctx SpecContext) { Expect(stop(ctx)).To(Succeed()) }, NodeTimeout(2*time.Minute))
		e.endpoint = aws.Endpoint()
	}
	Expect(cloud.Connect(e.endpoint, kind.Region).WaitReady(ctx)).To(Succeed())
}

// stack deploys the stack that drills use, with a queue of that name, until the spec is over.
func (e *emulator) stack(ctx context.Context, name string) *cloud.AWS {
	a := cloud.Connect(e.endpoint, kind.Region)
	need(a.DeployStack(ctx, name))
	DeferCleanup(func(ctx SpecContext) { need(a.DeleteStack(ctx, name)) }, NodeTimeout(time.Minute))
	return a
}

// config is that of clients which do not try again.
func (e *emulator) config(endpoint string) aws.Config {
	return aws.Config{
		Region: kind.Region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: &http.Client{Transport: &http.Transport{}}, Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
}

// drillQueue is the queue of a stack behind the recording proxy, as a handler has it.
type drillQueue struct {
	*cloud.AWS
	handler *sqs.Client // through the proxy
	url     string
	admin   string // where the proxy is controlled
	rec     *history.Recorder
}

func (e *emulator) queue(ctx context.Context) *drillQueue {
	a := e.stack(ctx, "drill")
	need(a.Purge(ctx))
	recorder := proxy.New(must(url.Parse(e.endpoint)))
	served, admin := httptest.NewServer(recorder), httptest.NewServer(recorder.Admin())
	DeferCleanup(func() { served.Close(); admin.CloseClientConnections(); admin.Close() })
	rec := must(history.Create(GinkgoT().TempDir(), history.NewClock(), history.Meta{Scenario: "emulator"}))
	request := must(http.NewRequestWithContext(ctx, http.MethodGet, admin.URL+"/records", http.NoBody))
	records := must(http.DefaultClient.Do(request))
	DeferCleanup(records.Body.Close)
	collecting, stop := context.WithCancel(ctx)
	DeferCleanup(stop)
	go func() { _ = proxy.Collect(collecting, make(chan struct{}), records.Body, rec.Clock(), rec) }() // a record that is missing fails the spec
	return &drillQueue{AWS: a, handler: sqs.NewFromConfig(e.config(served.URL)), url: a.QueueURL(served.URL), admin: admin.URL, rec: rec}
}

// must returns a value that could be had; else the spec fails with the error alone, which is what the results have.
func must[T any](value T, err error) T {
	GinkgoHelper()
	need(err)
	return value
}

func need(err error) {
	GinkgoHelper()
	if err != nil {
		Fail(err.Error())
	}
}
