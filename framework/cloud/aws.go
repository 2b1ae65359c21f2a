// Package cloud is the AWS side of a drill, which LocalStack provides: the stack with
// the EventBridge rules and the queue, the EC2 instances, and the notices about them.
// It also sends notices to any queue or event bus. No other package knows the fields
// of EventBridge's events, except for handlers, which read them.
package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/spotdrill/spotdrill/framework/wait"
)

const (
	readyTimeout = 2 * time.Minute
	pollInterval = 200 * time.Millisecond
	// idleTimeout is shorter than LocalStack's own, so that no request is sent on a
	// connection that LocalStack is closing.
	idleTimeout = 15 * time.Second
)

// AWS is a client of one LocalStack: of its EventBridge, SQS, EC2 and CloudFormation.
// It is safe for concurrent use once DeployStack has returned.
type AWS struct {
	endpoint string
	region   string
	account  string
	http     *http.Client
	stacks   *cloudformation.Client
	events   *eventbridge.Client
	queues   *sqs.Client
	ec2      *ec2.Client
	queueURL string // set by DeployStack
}

// Connect returns a client of the LocalStack at endpoint (a URL) and sends nothing
// yet. It never reads the user's AWS profile, environment, proxy settings or instance
// metadata, so that a drill can reach no real account.
func Connect(endpoint, region string) *AWS { return connect(endpoint, region, Account) }

func connect(endpoint, region, account string) *AWS {
	endpoint = strings.TrimSuffix(endpoint, "/")
	client := &http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     idleTimeout,
		},
	}
	cfg := aws.Config{
		Region:       region,
		BaseEndpoint: aws.String(endpoint),
		Credentials:  credentials.NewStaticCredentialsProvider(account, "test", ""),
		HTTPClient:   client,
	}
	return &AWS{
		endpoint: endpoint,
		region:   region,
		account:  account,
		http:     client,
		stacks:   cloudformation.NewFromConfig(cfg),
		queues:   sqs.NewFromConfig(cfg),
		ec2:      ec2.NewFromConfig(cfg),
		// A retried PutEvents could send a notice twice: an error is better.
		events: eventbridge.NewFromConfig(cfg, func(o *eventbridge.Options) { o.Retryer = aws.NopRetryer{} }),
	}
}

// Endpoint is the URL of the LocalStack.
func (a *AWS) Endpoint() string { return a.endpoint }

// Another returns a client of the same LocalStack for another queue.
func (a *AWS) Another() *AWS { return connect(a.endpoint, a.region, a.account) }

// In returns a client of the same LocalStack in another account, of 12 digits. LocalStack takes an access key id of 12
// digits as the account, and shows no account what another one has:
// https://docs.localstack.cloud/aws/capabilities/config/multi-account-setups/.
func (a *AWS) In(account string) *AWS { return connect(a.endpoint, a.region, account) }

// Account is the client's.
func (a *AWS) Account() string { return a.account }

// WaitReady waits up to two minutes until LocalStack offers every service that a drill
// needs. Its error includes what was seen last.
func (a *AWS) WaitReady(ctx context.Context) error {
	return wait.Until(ctx, readyTimeout, "LocalStack at "+a.endpoint, func(ctx context.Context) string {
		if err := a.checkHealth(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
}

// checkHealth returns why LocalStack is not ready, nil if it is.
func (a *AWS) checkHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.endpoint+healthPath, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health answers %s", resp.Status)
	}
	var health struct{ Services map[string]string }
	if err := json.NewDecoder(resp.Body).Decode(&health); err != nil {
		return fmt.Errorf("read health: %w", err)
	}
	for _, service := range []string{"cloudformation", "ec2", "events", "sqs"} {
		if s := health.Services[service]; s != "available" && s != "running" {
			return fmt.Errorf("service %s is %q", service, s)
		}
	}
	return nil
}

// healthPath is LocalStack's health check.
const healthPath = "/_localstack/health"
