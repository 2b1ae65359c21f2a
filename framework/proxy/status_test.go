package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/spotdrill/spotdrill/framework/history"
)

// The AWS SDK's own client reads the findings, by the filters that handlers use. Without findings,
// LocalStack answers.
func TestInstanceStatus(t *testing.T) {
	p, endpoint := before(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`<DescribeInstanceStatusResponse><instanceStatusSet><item><instanceId>i-upstream</instanceId></item></instanceStatusSet></DescribeInstanceStatusResponse>`))
	})
	client := ec2.NewFromConfig(aws.Config{
		Region: "eu-west-1", BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "x", ""),
	})
	ask := func(filters ...types.Filter) []types.InstanceStatus {
		t.Helper()
		out, err := client.DescribeInstanceStatus(context.Background(), &ec2.DescribeInstanceStatusInput{Filters: filters})
		if err != nil {
			t.Fatal(err)
		}
		return out.InstanceStatuses
	}
	if found := ask(); len(found) != 1 || aws.ToString(found[0].InstanceId) != "i-upstream" {
		t.Errorf("without findings: %+v", found)
	}
	control := func(method, body string) int {
		w := httptest.NewRecorder()
		p.Admin().ServeHTTP(w, httptest.NewRequest(method, "/findings", strings.NewReader(body)))
		return w.Code
	}
	if got := control(http.MethodPost, "{"); got != http.StatusBadRequest {
		t.Errorf("no JSON: %d", got)
	}
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, f := range []Finding{{"i-own", history.InstanceCheck, since}, {"i-host", history.SystemCheck, since}, {"i-old", history.InstanceRetirement, since}} {
		if got := control(http.MethodPost, `[{"instance":"`+f.Instance+`","of":"`+string(f.Of)+`","since":"`+since.Format(time.RFC3339)+`"}]`); got != http.StatusOK {
			t.Fatalf("add a finding: %d", got)
		}
	}
	filter := func(name string, values ...string) types.Filter { return types.Filter{Name: &name, Values: values} }
	for name, c := range map[string]struct {
		filters []types.Filter
		want    string
	}{
		"all":                {nil, "i-own i-host i-old"},
		"own check":          {[]types.Filter{filter("instance-status.status", "impaired")}, "i-own"},
		"system check":       {[]types.Filter{filter("system-status.status", "impaired")}, "i-host"},
		"event":              {[]types.Filter{filter("event.code", "system-reboot", "instance-retirement")}, "i-old"},
		"another event":      {[]types.Filter{filter("event.code", "system-reboot")}, ""},
		"both, so that none": {[]types.Filter{filter("instance-status.status", "impaired"), filter("system-status.status", "impaired")}, ""},
	} {
		var got []string
		for _, s := range ask(c.filters...) {
			got = append(got, aws.ToString(s.InstanceId))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	own := ask(filter("instance-status.status", "impaired"))[0]
	if d := own.InstanceStatus.Details[0]; d.Status != types.StatusTypeFailed || !d.ImpairedSince.Equal(since) || own.SystemStatus.Status != types.SummaryStatusOk {
		t.Errorf("own check: %+v", own)
	}
	if e := ask(filter("event.code", "instance-retirement"))[0].Events; len(e) != 1 || !e[0].NotBefore.Equal(since) {
		t.Errorf("event: %+v", e)
	}
	control(http.MethodDelete, "")
	if found := ask(); len(found) != 1 || aws.ToString(found[0].InstanceId) != "i-upstream" {
		t.Errorf("when they are cleared: %+v", found)
	}
}
