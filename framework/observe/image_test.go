package observe

import (
	"context"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

func waiting(reason string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "prober", Labels: map[string]string{"app": "prober", nameLabel: "o"}}}
	pod.Spec.NodeName = "worker-1"
	pod.Status.Phase = corev1.PodPending
	if reason != "" {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "no such host"}}}}
	}
	return pod
}

func TestAnImageThatWillNotComeEndsTheWait(t *testing.T) {
	t.Parallel()
	for reason, c := range map[string]struct {
		failing time.Duration // so far
		ends    bool
	}{
		"InvalidImageName":  {0, true},
		"ErrImageNeverPull": {0, true},
		"ErrImagePull":      {pullPatience, true},
		"ImagePullBackOff":  {pullPatience, true},
		"ContainerCreating": {time.Hour, false},
		"":                  {time.Hour, false}, // not scheduled yet
	} {
		images := imagesToCome{"example/none:v1", map[string]time.Time{"prober": time.Now().Add(-c.failing)}}
		err := images.missing(*waiting(reason))
		if (err != nil) != c.ends || err != nil && !strings.Contains(err.Error(), "pod prober on node worker-1: "+reason+": no such host; the nodes must have the image example/none:v1") {
			t.Errorf("%q: %v, want an error: %t", reason, err, c.ends)
		}
		if fresh := (imagesToCome{since: map[string]time.Time{}}); c.failing == pullPatience && fresh.missing(*waiting(reason)) != nil {
			t.Errorf("%s: the kubelet's second try was not awaited", reason)
		}
	}
}

func TestTheStartEndsWithTheReasonOfThePod(t *testing.T) {
	t.Parallel()
	p := &placed{Cluster: of(waiting("InvalidImageName")), namespace: "ours", name: "o"}
	began := time.Now()
	_, err := p.ready(t.Context(), 1, "Example:v1", func(string) {})
	if err == nil || !strings.Contains(err.Error(), "InvalidImageName") || time.Since(began) > time.Minute {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

func TestANamespaceThatIsBeingTerminatedIsAwaited(t *testing.T) {
	t.Parallel()
	now := metav1.Now()
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ours", DeletionTimestamp: &now, Finalizers: []string{"kubernetes"}}})
	client.PrependReactor("create", "selfsubjectaccessreviews", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}}, nil
	})
	printed := ""
	p := &placed{Cluster: &Cluster{Clientset: client}, namespace: "ours"}
	err := p.ensureNamespace(t.Context(), Options{Progress: func(text string) {
		if printed = text; text != "" { // it is gone once it was waited for
			_ = client.Tracker().Delete(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", "ours")
		}
	}})
	if err != nil || !p.madeNamespace || !strings.Contains(printed, "waiting until namespace ours") {
		t.Errorf("made %t, printed %q: %v", p.madeNamespace, printed, err)
	}
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	client = fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ours"}})
	if err := (&placed{Cluster: &Cluster{Clientset: client}, namespace: "ours"}).ensureNamespace(interrupted, Options{}); err != nil {
		t.Errorf("without the right to create it: %v", err)
	}
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"user:ana@example.org":               `{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"ana@example.org"}`,
		"user:arn:aws:iam::1:role/sre":       `{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"arn:aws:iam::1:role/sre"}`,
		"group:system:masters":               `{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"system:masters"}`,
		"serviceaccount:ci/runner.one":       `{"kind":"ServiceAccount","name":"runner.one","namespace":"ci"}`,
		"serviceaccount:runner":              "",
		"serviceaccount:/runner":             "",
		"serviceaccount:ci/Runner":           "",
		"serviceaccount:CI/runner":           "",
		"serviceaccount:ci/a/b":              "",
		"user:":                              "",
		"user:a b":                           "",
		"user:a\n- {kind: Group, name: all}": "",
		"ana":                                "",
		"role:admin":                         "",
		"":                                   "",
	} {
		subject, err := ParseSubject(text)
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", text, err)
		}
		if got, _ := (Rights{Subject: subject}).To(); err == nil && got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
