package run

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

func TestAutoScaling(t *testing.T) {
	s := scaler{of: coredns.AutoScaling{Min: 3, Max: 10}, replicas: 3}
	var got []int
	for _, c := range []struct {
		at    time.Duration
		cores int
	}{
		{10 * time.Second, 20},
		{20 * time.Second, 2580}, // ten, at once
		{30 * time.Second, 20},   // the first step down
		{40 * time.Second, 20},
		{209 * time.Second, 20},
		{210 * time.Second, 20},   // three minutes later
		{220 * time.Second, 1600}, // up again, at once
		{230 * time.Second, 20},
		{390 * time.Second, 20},
	} {
		if s.next(5, c.cores, c.at) {
			got = append(got, s.replicas)
		}
	}
	if want := []int{10, 7, 5, 7, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Without auto scaling, nothing goes on next to the steps.
func TestNoAutoScaling(t *testing.T) {
	s := &scaling{drill: forTests(t)}
	s.start(t.Context())
	if err := s.end(); err != nil || s.stop != nil {
		t.Error(err)
	}
}

// An error of the scaling ends the steps, which wait, and is returned at the end.
func TestAutoScalingThatFailsEndsTheSteps(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL})
	if err != nil {
		t.Fatal(err)
	}
	s := &scaling{drill: forTests(t), clientset: client}
	s.broken = make(chan error, 1)
	s.Scenario.CoreDNS.AutoScaling = coredns.AutoScaling{Min: 2, Max: 4}
	s.start(t.Context())
	const want = "scale CoreDNS"
	if err := s.Sleep(t.Context(), time.Minute); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the steps end with %v", err)
	}
	if err := s.end(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the end: %v", err)
	}
}
