package handler

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/kind"
)

const known = "QUEUE_URL, QUEUE_NAME, AWS_ENDPOINT, AWS_REGION, CLUSTER_NAME, CLUSTER_ENDPOINT, IMAGE, NAMESPACE, NODE_SELECTOR, AMI_ID, OTHER_AMI_ID, SUBNET_ID, SECURITY_GROUP_ID"

const knownToWorkers = known + ", NODE_NAME, INSTANCE_ID, PROVIDER_ID, INSTANCE_TYPE, CAPACITY_TYPE, ZONE, CPU, MEMORY, PODS, NOW"

const features = "spot, state-change, scheduled-change, scheduled-change-at-once, scheduled-change-status, rebalance-event, rebalance-drain, capacity-reservation, karpenter-order, launch, limits, pod-eni, drift, consolidation, multi-node-consolidation, spot-consolidation, emptiness, expiration, daemon-sets, disruption-budget, without-queue, instance-returns, two-handlers, lifecycle-action, status-check, capacity-block"

// invalid has a line for each file in testdata/invalid-*.yaml: what is wrong
// with it, word by word, after the name of the file.
var invalid = map[string][]string{
	"invalid-api-version":               {`:1: apiVersion: "spotdrill.dev/v2" is not known; allowed: spotdrill.dev/v1alpha1`},
	"invalid-kind":                      {`testdata/invalid-kind.yaml is a scenario, not a handler: spotdrill run testdata/invalid-kind.yaml plays it`},
	"invalid-name":                      {`:3: name: "My Handler" is not a DNS label: up to 63 of a-z, 0-9 and -`},
	"invalid-field":                     {`:8: unknown field "mark" in the document; did you mean "marks"? allowed: apiVersion, commitPoint, configurations, deletesNode, deviations, electsLeader, features, image, keeps, kind, launches, manifests, marks, name, noWatch, reads, ready, settings, sqsActions, url, version, workers`},
	"invalid-field-in-marks":            {`:8: unknown field "cordon" in marks; allowed: event, reporter, taint, unschedulable`},
	"invalid-feature":                   {`:9: features[1]: "spots" is not known; did you mean "spot"? allowed: ` + features},
	"invalid-features-of-nothing":       {`:8: features: a handler that installs nothing cannot claim any`},
	"invalid-image-built":               {`:5: image.built: "other" is not known; allowed: self`},
	"invalid-image-both":                {`:5: image: needs either ref or built, not both`},
	"invalid-image-recipe":              {`:5: image.recipe: "other" is not known; allowed: karpenter-v1.15.0, karpenter-v1.14.1, karpenter-v1.13.1, karpenter-v1.2.1, nth-v1.25.6, nth-v1.25.1`},
	"invalid-image-build":               {`:5: image.build: needs ref, the image that it builds, and no recipe`},
	"invalid-image-recipe-without-ref":  {`:5: image.recipe: needs ref, too: the image is only built if no registry has it`},
	"invalid-commit-point":              {`:10: commitPoint: "later" is not known; allowed: received, recorded, drained`},
	"invalid-settings":                  {`:11: settings.rebalance-drain: is not among the features that the handler claims`},
	"invalid-reads":                     {`:10: reads: "mail" is not known; allowed: queue, metadata`},
	"invalid-metadata-of-a-deployment":  {`:7: ready.daemonSet: is required with reads metadata: only a pod of the node can read its metadata; a handler that gets its notices from the queue has reads: [queue, metadata]`, `:1: workers.capacity: must be spot with reads metadata: only spot nodes have the service here`},
	"invalid-metadata-commit-point":     {`:11: reads: with metadata there are no messages: commitPoint, sqsActions and keeps are not allowed`},
	"invalid-daemon-set-and-deployment": {`:7: ready.daemonSet: is not allowed with deployment: a handler is one or the other`},
	"invalid-sqs-action":                {`:10: sqsActions[1]: ReceiveMessage is part of the policy anyway: DeleteMessage, GetQueueAttributes, GetQueueUrl, ReceiveMessage`},
	"invalid-deviation":                 {`:11: deviations.spot-notice-drains-node: needs a sentence that describes how, or why`},
	"invalid-workers": {
		`:11: workers.capacity: "reserved" is not known; allowed: spot, on-demand`,
		`:12: workers.condition: needs manifests, whose objects have it`,
		`:13: workers.tags.cluster: "CLUSTER" is not known; did you mean "CLUSTER_NAME"? allowed: ` + knownToWorkers,
	},
	"invalid-workers-field":            {`:11: unknown field "label" in workers; did you mean "labels"? allowed: capacity, condition, labels, manifests, tags`},
	"invalid-workers-of-nothing":       {`:4: workers: a handler that installs nothing can have no objects, tags or labels for workers`},
	"invalid-workers-manifest-missing": {`:10: workers.manifests[0]: read manifest: open testdata/missing.yaml: no such file or directory`},
	"invalid-workers-one-name":         {`testdata/manifests/one-name.yaml:1: metadata.name "mine" needs ${NODE_NAME} or ${INSTANCE_ID}: there is one object for each worker`},
	"invalid-workers-placeholder":      {`testdata/manifests/one-worker.yaml:3: unknown placeholder ${NODE_NAME}; allowed: ` + known},
	"invalid-no-version":               {`:1: version: must not be empty: a report must describe what was tested`},
	"invalid-no-marks":                 {`:1: marks: needs unschedulable, taint or both: they show which node the handler drains`},
	"invalid-no-deployment":            {`:7: ready.deployment: "" is not NAMESPACE/NAME, which is needed to see when the handler is ready`},
	"invalid-timeout":                  {`:7: "30" is not a duration; write a number with its unit, such as 500ms, 5s or 2m`},
	"invalid-manifest-outside":         {`:6: manifests[0]: "../valid-manifests.yaml" is not a path in the folder of the description or below`},
	"invalid-manifest-missing":         {`:6: manifests[0]: read manifest: open testdata/missing.yaml: no such file or directory`},
	"invalid-placeholder": {
		"testdata/manifests/placeholder.yaml:5: unknown placeholder ${QUEUE}; allowed: " + known,
		"testdata/manifests/placeholder.yaml:6: unknown placeholder ${}; allowed: " + known,
	},
	"invalid-yaml-in-manifest":    {`testdata/manifests/not-yaml.yaml:5: decode the document: error converting YAML to JSON: yaml: line 1: did not find expected ',' or ']'`},
	"invalid-object-without-name": {`testdata/manifests/without-name.yaml:1: the document needs apiVersion, kind and metadata.name`},
	"invalid-several": {
		`:2: kind: "Handler" is not known; allowed: HandlerUnderTest`,
		`:9: features[0]: "spots" is not known; did you mean "spot"? allowed: ` + features,
	},
	"invalid-several-unread": {
		`:7: unknown field "deploymnet" in ready; did you mean "deployment"? allowed: daemonSet, deployment, timeout`,
		`:7: "30" is not a duration; write a number with its unit, such as 500ms, 5s or 2m`,
		`:10: unknown field "colour" in the document; allowed: apiVersion, commitPoint, configurations, deletesNode, deviations, electsLeader, features, image, keeps, kind, launches, manifests, marks, name, noWatch, reads, ready, settings, sqsActions, url, version, workers`,
		`:2: kind: "Handler" is not known; allowed: HandlerUnderTest`,
		`:9: features[0]: "spots" is not known; did you mean "spot"? allowed: ` + features,
	},
	"invalid-empty": {`:1: the file is empty`},
}

func TestLoadRefuses(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid-*.yaml")
	if err != nil || len(files) != len(invalid) {
		t.Fatalf("%d files for %d messages, %v", len(files), len(invalid), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, message := range invalid[name] {
				if strings.HasPrefix(message, ":") {
					message = file + message
				}
				want = append(want, message)
			}
			_, err := Load(file)
			if err == nil || err.Error() != strings.Join(want, "\n") {
				t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
			}
		})
	}
}

func TestLoadOfAnUnknownNameSaysWhatIsPossible(t *testing.T) {
	_, err := Load("karpentre")
	want := `no handler is named "karpentre"; did you mean "karpenter"? allowed: builtin, builtin-imds, karpenter, nth, nth-imds, none, or the path of a description such as ./my-handler/handler.yaml`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestLoadNamesAMissingFileAsTheUserDid(t *testing.T) {
	folder := t.TempDir()
	described := filepath.Join(folder, "handler.yaml")
	text, err := os.ReadFile("testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(described, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"testdata/there-is-none.yaml":         "open testdata/there-is-none.yaml: no such file",
		"/there-is-none.yaml":                 "open /there-is-none.yaml: no such file",
		filepath.Join(folder, "another.yaml"): "open " + folder + "/another.yaml: no such file",
		described:                             "open " + folder + "/valid-manifests.yaml: no such file", // which lacks its manifests
	} {
		if _, err := Load(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestLoadAFileOfOnesOwn(t *testing.T) {
	d, err := Load("testdata/valid.yaml")
	if err != nil {
		t.Fatalf("Load: %v", err)
	}
	if d.Ready.Timeout.D() != 30*time.Second || d.File != "testdata/valid.yaml" || !d.Claims("spot") || d.Claims("rebalance-drain") {
		t.Errorf("loaded %+v", d)
	}
	if m := d.Meta(); m.Name != "mine" || m.Version != "v1" || !m.Unschedulable || m.Taint != "" {
		t.Errorf("meta %+v", m)
	}
	if len(d.documents) != 3 {
		t.Errorf("%d documents, want 3", len(d.documents))
	}
}

func TestWhatAJudgeMustKnow(t *testing.T) {
	for file, want := range map[string]history.Handler{
		"testdata/valid.yaml": {Name: "mine", Version: "v1", Unschedulable: true, CommitPoint: "recorded", SQSActions: PolicyActions()},
		"testdata/valid-workers.yaml": {
			Name: "mine", Version: "v1", Taint: "example.org/leaving", DeletesNode: true, CommitPoint: "drained",
			SQSActions: append(PolicyActions(), "ChangeMessageVisibility"),
			Deviations: map[string]string{"invalid-json-does-not-stop-the-next-notice": "It is kept."},
		},
		"testdata/valid-metadata.yaml":           {Name: "mine", Version: "v1", Unschedulable: true, Reads: history.FromMetadata},
		"testdata/valid-queue-and-metadata.yaml": {Name: "mine", Version: "v1", Unschedulable: true, CommitPoint: "recorded", SQSActions: PolicyActions(), Reads: history.FromQueue},
		"none":                                   {Name: "none"},
	} {
		d, err := Load(file)
		if got := d.Meta(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\ngot  %+v\nwant %+v", file, err, got, want)
		}
	}
}

func TestADeviationNamesAClause(t *testing.T) {
	d, err := Load("testdata/valid-workers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.CheckScenarios([]string{"a", "invalid-json-does-not-stop-the-next-notice"}); err != nil {
		t.Error(err)
	}
	want := "testdata/valid-workers.yaml:22: deviations.invalid-json-does-not-stop-the-next-notice: no scenario has this name"
	if err := d.CheckScenarios([]string{"a"}); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestTheHandlersOfTheProductLoad(t *testing.T) {
	for _, name := range Names() {
		d, err := Load(name)
		if err != nil || d.Name != name || !d.Embedded() {
			t.Errorf("Load(%s) = %q, embedded %v, %v", name, d.Name, d.Embedded(), err)
		}
		// What is built is what is pulled, and what the report shows.
		if _, number, ok := strings.Cut(d.Version, "v"); ok && !strings.HasSuffix(d.Image.Ref, number) {
			t.Errorf("%s: version %s, image %s", name, d.Version, d.Image.Ref)
		}
		if _, of, ok := strings.Cut(d.Image.Recipe, "-"); ok && of != d.Version {
			t.Errorf("%s: version %s, recipe %s", name, d.Version, d.Image.Recipe)
		}
	}
	none, _ := Load("none")
	if own := None(); none.File != own.File || own.Name != none.Name || len(own.Features) > 0 {
		t.Errorf("None() = %+v, the file has %+v", own, none)
	}
	if err := errors.Join(install(t, none), nil); err != nil {
		t.Errorf("installing nothing: %v", err)
	}
}

// install uses no cluster: it is for handlers that install nothing.
func install(t *testing.T, d Description) error {
	t.Helper()
	h := Installation{Description: d}
	return errors.Join(h.Install(t.Context()), h.Uninstall(t.Context()))
}

func TestWhatIsLeftOnANode(t *testing.T) {
	d := Description{Marks: Marks{Taint: "example.org/leaving"}}
	for key, want := range map[string]bool{
		"spotdrill.dev/draining":                   true,
		"karpenter.sh/disrupted":                   true,
		"aws-node-termination-handler/spot-itn":    true,
		"example.org/leaving":                      true,
		"spotdrill.dev/owned":                      false,
		"karpenter.sh/capacity-type":               false,
		"node-role.kubernetes.io/control-plane":    false,
		"kubeadm.alpha.kubernetes.io/cri-socket":   false,
		"volumes.kubernetes.io/controller-managed": false,
		"": false,
	} {
		if got := d.LeavesBehind(key); got != want {
			t.Errorf("LeavesBehind(%q) = %v, want %v", key, got, want)
		}
	}
	builtin, err := Load("builtin")
	if err != nil || !LeavesBehind(builtin.Marks.Taint) {
		t.Errorf("the built-in handler's taint %q would stay on the node (%v)", builtin.Marks.Taint, err)
	}
	if !slices.Equal(slices.Sorted(slices.Values(builtin.Features)), []string{"capacity-block", "capacity-reservation", "instance-returns", "karpenter-order", "lifecycle-action", "rebalance-event", "scheduled-change", "scheduled-change-at-once", "scheduled-change-status", "spot", "state-change", "status-check"}) {
		t.Errorf("the built-in handler claims %v", builtin.Features)
	}
}

func TestAnIAMPolicyDecidesWhatMayBeCalled(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.json")
	write := func(text string) {
		if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Load("builtin")
	if err != nil {
		t.Fatal(err)
	}
	write(`{"Statement": {"Effect": "Allow", "Action": "sqs:ReceiveMessage", "Resource": "*"}}`)
	limited, err := d.WithPolicies(policy)
	if err != nil || !slices.Equal(limited.Meta().SQSActions, []string{"ReceiveMessage"}) {
		t.Errorf("%v, %v", limited.Meta().SQSActions, err)
	}
	if limited.Same(d) {
		t.Error("a handler with a policy would be taken for one without")
	}
	write(`{"Statement": {"Effect": "Deny", "Action": "sqs:*", "Resource": "*"}}`)
	if _, err := d.WithPolicies(policy); err == nil || !strings.Contains(err.Error(), "allows no action of SQS") {
		t.Errorf("a policy that allows nothing: %v", err)
	}
	second := filepath.Join(t.TempDir(), "second.yaml")
	if err := os.WriteFile(second, []byte("Statement: {Effect: Allow, Action: [sqs:ReceiveMessage, sqs:DeleteMessage, 'kms:Decrypt'], Resource: '*'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(`{"Statement": {"Effect": "Deny", "Action": "sqs:DeleteMessage", "Resource": "*"}}`)
	both, err := d.WithPolicies(policy, second)
	if err != nil || !slices.Equal(both.Meta().SQSActions, []string{"ReceiveMessage"}) || both.Policy != policy+","+second || !strings.Contains(both.PolicyNote(), "kms:Decrypt") {
		t.Errorf("two policies: %v, %q, %q, %v", both.Meta().SQSActions, both.Policy, both.PolicyNote(), err)
	}
	write(`{}`)
	for name, of := range map[string]string{"builtin": policy, "none": policy, "nth-imds": policy, "karpenter": policy + ".missing"} {
		d, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.WithPolicies(of); err == nil {
			t.Errorf("%s with %s: no error", name, of)
		}
	}
}

// A version that is chosen is that of the handler under test, or of the other one.
func TestAtVersions(t *testing.T) {
	for _, c := range []struct {
		handlers, want string // NAME VERSION, with * at a release's image, by comma
		chosen         kind.Versions
		err            string
	}{
		{handlers: "karpenter", chosen: kind.Versions{}, want: "karpenter v1.15.0"},
		{handlers: "karpenter", chosen: kind.Versions{Karpenter: "v1.13.1"}, want: "karpenter v1.13.1*"},
		{handlers: "karpenter", chosen: kind.Versions{Karpenter: "v1.15.0"}, want: "karpenter v1.15.0"},
		{handlers: "nth-imds", chosen: kind.Versions{NTH: "v1.25.1"}, want: "nth-imds v1.25.1*"},
		{handlers: "karpenter nth", chosen: kind.Versions{Karpenter: "v1.14.1", NTH: "v1.25.1"}, want: "karpenter v1.14.1*,nth v1.25.1*"},
		{handlers: "builtin nth", chosen: kind.Versions{NTH: "v1.25.1"}, want: "builtin ,nth v1.25.1*"},
		{handlers: "builtin", chosen: kind.Versions{NTH: "v1.25.1"}, err: "--nth v1.25.1 changes nothing: the handler is builtin; choose it with --handler nth"},
		{handlers: "builtin nth", chosen: kind.Versions{Karpenter: "v1.14.1"}, err: "--karpenter v1.14.1 changes nothing: the handler is builtin and nth"},
	} {
		under, other, err := LoadPair(strings.Fields(c.handlers))
		if err != nil {
			t.Fatal(err)
		}
		under, other, err = AtVersions(c.chosen, under, other)
		if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s at %s: %v, want %q", c.handlers, c.chosen.Flags(), err, c.err)
		}
		if err != nil {
			continue
		}
		var got []string
		for _, d := range []*Description{&under, other} {
			if d == nil {
				continue
			}
			text := d.Name + " " + d.Version
			if d.Release != nil {
				text += "*"
			}
			got = append(got, text)
		}
		if strings.Join(got, ",") != c.want {
			t.Errorf("%s at %s: %v, want %s", c.handlers, c.chosen.Flags(), got, c.want)
		}
	}
}

// A definition in the manifests replaces the release's.
func TestADescriptionsOwnDefinitionsComeFirst(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"handler.yaml": "apiVersion: spotdrill.dev/v1alpha1\nkind: HandlerUnderTest\nname: mine\nversion: v1\nimage: {ref: a/b:1, recipe: karpenter-v1.15.0}\n" +
			"manifests: [own.yaml]\nready: {deployment: \"${NAMESPACE}/mine\"}\nmarks: {unschedulable: true}\n",
		"own.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: nodepools.karpenter.sh}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Load(filepath.Join(folder, "handler.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.definitions) != 4 || len(d.documents) != 1 {
		t.Errorf("%d definitions of the release and %d documents, want 4 and 1", len(d.definitions), len(d.documents))
	}
	if at, err := d.AtVersions(kind.Versions{Karpenter: "v1.13.1"}); err != nil || at.Version != "v1" {
		t.Errorf("somebody's own handler is not Karpenter: %s, %v", at.Version, err)
	}
}
