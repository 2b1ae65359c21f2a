package addon

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/spotdrill/spotdrill/framework/history"
)

// corefile is a CoreDNS configuration with that lameduck.
func corefile(lameduck string) string {
	return fmt.Sprintf(".:53 {\n    errors\n    health {\n        lameduck %s\n    }\n    ready\n    kubernetes cluster.local\n}\n", lameduck)
}

// manifest is a version of the add-on.
func manifest(t *testing.T, version, lameduck string, replicas int) []*unstructured.Unstructured {
	t.Helper()
	text := fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: %q
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: coredns, namespace: kube-system, labels: {version: %s}}
spec:
  replicas: %d
  selector: {matchLabels: {k8s-app: kube-dns}}
  template:
    metadata: {labels: {k8s-app: kube-dns}}
    spec:
      terminationGracePeriodSeconds: 30
      containers:
        - name: coredns
          image: coredns:%s
          readinessProbe: {httpGet: {path: /ready, port: 8181}, periodSeconds: 10}
`, corefile(lameduck), version, replicas, version)
	objects, err := Objects(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// newCluster is an API server in this process, with the field management of the real one.
func newCluster(objects ...client.Object) client.Client {
	api := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithReturnManagedFields().WithObjects(objects...).Build()
	return interceptor.NewClient(api, interceptor.Funcs{Apply: applyOrTry})
}

// applyOrTry applies, or tries what an apply would do. The fake API server itself does nothing in a
// dry run, so that one is played on a copy.
func applyOrTry(ctx context.Context, api client.WithWatch, obj runtime.ApplyConfiguration, options ...client.ApplyOption) error {
	o := new(client.ApplyOptions).ApplyOptions(options)
	if len(o.DryRun) == 0 {
		return api.Apply(ctx, obj, options...)
	}
	var configs corev1.ConfigMapList
	var deploys appsv1.DeploymentList
	if err := errors.Join(api.List(ctx, &configs), api.List(ctx, &deploys)); err != nil {
		return err
	}
	var all []client.Object
	for i := range configs.Items {
		all = append(all, &configs.Items[i])
	}
	for i := range deploys.Items {
		all = append(all, &deploys.Items[i])
	}
	wet := slices.DeleteFunc(slices.Clone(options), func(o client.ApplyOption) bool { return o == client.DryRunAll })
	return newCluster(all...).Apply(ctx, obj, wet...)
}

// installed is a cluster with version 1 of the add-on.
func installed(t *testing.T) client.Client {
	t.Helper()
	api := newCluster()
	if err := Upgrade(t.Context(), api, manifest(t, "v1", "5s", 2), Manager, history.OverwriteConflicts); err != nil {
		t.Fatal(err)
	}
	return api
}

// update changes an object as a program does that reads it and writes it.
func update[T client.Object](t *testing.T, api client.Client, obj T, manager string, change func(T)) {
	t.Helper()
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "coredns"}, obj); err != nil {
		t.Fatal(err)
	}
	change(obj)
	if err := api.Update(t.Context(), obj, client.FieldOwner(manager)); err != nil {
		t.Fatal(err)
	}
}

// state is what of the add-on's values counts for DNS.
type state struct {
	Lameduck string
	Replicas int32
	Period   int32
	Pool     string // of the nodeSelector
	Version  string
}

func stateOf(t *testing.T, api client.Client) state {
	t.Helper()
	var config corev1.ConfigMap
	var deploy appsv1.Deployment
	for _, obj := range []client.Object{&config, &deploy} {
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "coredns"}, obj); err != nil {
			t.Fatal(err)
		}
	}
	_, after, _ := strings.Cut(config.Data["Corefile"], "lameduck ")
	lameduck, _, _ := strings.Cut(after, "\n")
	pod := deploy.Spec.Template.Spec
	s := state{Lameduck: lameduck, Replicas: *deploy.Spec.Replicas, Pool: pod.NodeSelector["pool"], Version: deploy.Labels["version"]}
	if probe := pod.Containers[0].ReadinessProbe; probe != nil {
		s.Period = probe.PeriodSeconds
	}
	return s
}

// edit is a way in which somebody sets values of an add-on.
type edit struct {
	what, by string
	set      func(*testing.T, client.Client)
	// lameduck is that of version 2, as the add-on's configuration values have it; its own if empty.
	lameduck string
	// kept reports in which modes the value is still set after the upgrade.
	kept   func(state) bool
	wanted map[history.ConflictMode]fate
}

// fate is what becomes of a value in an upgrade.
type fate string

const (
	stays    fate = "stays"
	reverted fate = "**reverted**"
	fails    fate = "stays; the upgrade fails"
)

func corefileSetBy(manager string) func(*testing.T, client.Client) {
	return func(t *testing.T, api client.Client) {
		t.Helper()
		update(t, api, &corev1.ConfigMap{}, manager, func(c *corev1.ConfigMap) { c.Data["Corefile"] = corefile("30s") })
	}
}

func deploymentSetBy(manager string, change func(*appsv1.DeploymentSpec)) func(*testing.T, client.Client) {
	return func(t *testing.T, api client.Client) {
		t.Helper()
		update(t, api, &appsv1.Deployment{}, manager, func(d *appsv1.Deployment) { change(&d.Spec) })
	}
}

func appliedBy(manager, text string) func(*testing.T, client.Client) {
	return func(t *testing.T, api client.Client) {
		t.Helper()
		objects, err := Objects(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range objects {
			if err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner(manager), client.ForceOwnership); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// edits are the ways in which people change CoreDNS. Version 2 of the add-on has another image
// and one replica more.
func edits() []edit {
	lameduck := func(s state) bool { return s.Lameduck == "30s" }
	byMode := map[history.ConflictMode]fate{history.OverwriteConflicts: reverted, history.PreserveConflicts: stays, history.RefuseConflicts: fails}
	always := map[history.ConflictMode]fate{history.OverwriteConflicts: stays, history.PreserveConflicts: stays, history.RefuseConflicts: stays}
	never := map[history.ConflictMode]fate{history.OverwriteConflicts: reverted, history.PreserveConflicts: reverted, history.RefuseConflicts: reverted}
	text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: coredns, namespace: kube-system}\ndata: {Corefile: %q}\n", corefile("30s"))
	return []edit{
		{"lameduck in the Corefile", "`kubectl edit`", corefileSetBy("kubectl-edit"), "", lameduck, byMode},
		{"lameduck in the Corefile", "Helm 3, `kubectl apply`, Terraform's `kubernetes_config_map_v1` (client-side)", corefileSetBy("helm"), "", lameduck, byMode},
		{"lameduck in the Corefile", "`kubectl apply --server-side`, Terraform's `kubernetes_config_map_v1_data`, Helm 4", appliedBy("Terraform", text), "", lameduck, byMode},
		{
			"lameduck in the Corefile", "configuration values of the add-on",
			func(t *testing.T, api client.Client) {
				t.Helper()
				if err := Upgrade(t.Context(), api, manifest(t, "v1", "30s", 2), Manager, history.OverwriteConflicts); err != nil {
					t.Fatal(err)
				}
			}, "30s", lameduck, always,
		},
		{
			"replicas", "`kubectl scale`",
			deploymentSetBy("kubectl", func(d *appsv1.DeploymentSpec) { *d.Replicas = 4 }), "",
			func(s state) bool { return s.Replicas == 4 }, byMode,
		},
		{
			"the period of the readiness probe", "`kubectl patch`",
			deploymentSetBy("kubectl-patch", func(d *appsv1.DeploymentSpec) { d.Template.Spec.Containers[0].ReadinessProbe.PeriodSeconds = 1 }), "",
			func(s state) bool { return s.Period == 1 }, byMode,
		},
		{
			"a readiness probe that was removed", "`kubectl edit`",
			deploymentSetBy("kubectl-edit", func(d *appsv1.DeploymentSpec) { d.Template.Spec.Containers[0].ReadinessProbe = nil }), "",
			func(s state) bool { return s.Period == 0 }, never,
		},
		{
			"a nodeSelector, which the add-on does not set", "`kubectl edit`",
			deploymentSetBy("kubectl-edit", func(d *appsv1.DeploymentSpec) { d.Template.Spec.NodeSelector = map[string]string{"pool": "system"} }), "",
			func(s state) bool { return s.Pool == "system" }, always,
		},
	}
}

func TestUpgrade(t *testing.T) {
	for _, e := range edits() {
		for _, mode := range history.ConflictModes() {
			t.Run(e.what+" by "+e.by+"/"+string(mode), func(t *testing.T) {
				if got := e.upgraded(t, mode); got != e.wanted[mode] {
					t.Errorf("it %s, want: %s", got, e.wanted[mode])
				}
			})
		}
	}
}

// upgraded plays an edit and then the upgrade.
func (e edit) upgraded(t *testing.T, mode history.ConflictMode) fate {
	t.Helper()
	api := installed(t)
	e.set(t, api)
	before := stateOf(t, api)
	if !e.kept(before) {
		t.Fatalf("the edit has no effect: %+v", before)
	}
	err := Upgrade(t.Context(), api, manifest(t, "v2", cmp.Or(e.lameduck, "5s"), 3), Manager, mode)
	after := stateOf(t, api)
	switch {
	case errors.Is(err, ErrConflict):
		if after != before {
			t.Errorf("it failed, and changed %+v to %+v", before, after)
		}
		return fails
	case err != nil:
		t.Fatal(err)
	case after.Version != "v2":
		t.Errorf("it did not upgrade: %+v", after)
	case e.kept(after):
		return stays
	}
	return reverted
}

// The table in the documentation is what the upgrades do, as TestUpgrade shows.
func TestTheTableIsWhatUpgradesDo(t *testing.T) {
	var b strings.Builder
	b.WriteString("| What was set | By | OVERWRITE | PRESERVE | NONE |\n|---|---|---|---|---|\n")
	for _, e := range edits() {
		fmt.Fprintf(&b, "| %s | %s |", e.what, e.by)
		for _, mode := range history.ConflictModes() {
			fmt.Fprintf(&b, " %s |", e.wanted[mode])
		}
		b.WriteString("\n")
	}
	const file = "../../docs/addons.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begun := strings.Cut(string(text), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", file)
	}
	want := head + begin + "\n" + b.String() + end + tail
	if *write {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s is out of date: run go test ./framework/addon -update", file)
	}
}

// The place of the table.
const (
	begin = "<!-- what upgrades do: go test ./framework/addon -update -->\n"
	end   = "\n<!-- end of the table -->"
)

var write = flag.Bool("update", false, "write the table")

func TestPreview(t *testing.T) {
	api := installed(t)
	corefileSetBy("kubectl-edit")(t, api)
	deploymentSetBy("kubectl", func(d *appsv1.DeploymentSpec) { *d.Replicas = 4 })(t, api)
	before := stateOf(t, api)
	found, err := Preview(t.Context(), api, manifest(t, "v2", "5s", 3), Manager)
	if err != nil {
		t.Fatal(err)
	}
	if after := stateOf(t, api); after != before {
		t.Errorf("the preview changed %+v to %+v", before, after)
	}
	var got []string
	for _, o := range found {
		for _, v := range o.Taken {
			got = append(got, o.Name+" "+v.Field+" of "+strings.Join(v.Owners, ", ")+": "+strings.Join(v.Lines(), ", "))
		}
		if len(o.Conflicts) != len(o.Taken) {
			t.Errorf("%s: %d conflicts, and %d values are taken", o.Name, len(o.Conflicts), len(o.Taken))
		}
	}
	want := []string{
		"ConfigMap kube-system/coredns .data.Corefile of kubectl-edit: -         lameduck 30s, +         lameduck 5s",
		"Deployment kube-system/coredns .spec.replicas of kubectl: - 4, + 3",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPreviewOfANewObject(t *testing.T) {
	api := newCluster()
	found, err := Preview(t.Context(), api, manifest(t, "v1", "5s", 2), Manager)
	if err != nil || len(found) != 2 || !found[0].New || !found[1].New {
		t.Errorf("%+v, %v", found, err)
	}
	var configs corev1.ConfigMapList
	if err := api.List(t.Context(), &configs); err != nil || len(configs.Items) != 0 {
		t.Errorf("the preview made %d objects (%v)", len(configs.Items), err)
	}
}

func TestManifestsThatDoNotApply(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":      "",
		"empty":        "---\n---\n",
		"no kind":      "metadata: {name: a}\n",
		"no name":      "apiVersion: v1\nkind: ConfigMap\n",
		"no mapping":   "[1, 2]\n",
		"broken YAML":  "a: [\n",
		"second wrong": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: x\n",
	} {
		if objects, err := Objects(strings.NewReader(text)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %d objects, error %v", name, len(objects), err)
		}
	}
}

// A field that the kind does not have is a mistake in the manifest. A lost connection is none.
func TestWhoseFaultARefusalIs(t *testing.T) {
	for text, manifest := range map[string]bool{
		"failed to create typed patch object (kube-system/coredns; /v1, Kind=ConfigMap): .nope: field not declared in schema": true,
		"connection refused": false,
	} {
		if err := refused(errors.New(text)); errors.Is(err, ErrManifest) != manifest {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := refused(nil); err != nil {
		t.Errorf("no error is %v", err)
	}
}

func TestObjectsOfAList(t *testing.T) {
	objects, err := Objects(strings.NewReader(`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "b"}}]}`))
	if err != nil || len(objects) != 2 || Name(objects[1]) != "Secret b" {
		t.Errorf("%v, %v", objects, err)
	}
}

func FuzzObjects(f *testing.F) {
	f.Add("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
	f.Add("kind: List\nitems: [1]\n")
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := Objects(strings.NewReader(text))
		if err == nil && len(objects) == 0 {
			t.Error("no object and no error")
		}
	})
}
