package system

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/engine"
	"github.com/spotdrill/spotdrill/kind"
)

// What is created may remove its own parts before it returns, and so fail the rest first.
func TestTheErrorOfWhatIsCreatedComesFirst(t *testing.T) {
	kubeadm, unloaded := errors.New("kubeadm failed"), errors.New("load image: exit status 137")
	for name, c := range map[string]struct{ created, rest, want error }{
		"both fail":            {kubeadm, unloaded, kubeadm},
		"only the rest fails":  {nil, unloaded, unloaded},
		"only creating fails":  {kubeadm, nil, kubeadm},
		"nothing fails at all": {nil, nil, nil},
	} {
		failed := make(chan struct{})
		err := whileCreating(t.Context(), func(context.Context) error {
			<-failed // the rest fails first
			return c.created
		}, func(context.Context) error {
			close(failed)
			return c.rest
		})
		if !errors.Is(err, c.want) || err != nil && c.want == nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// dockerThat is a Docker whose network exists once it was made, and which runs no container. It writes its commands to
// the file asked.
const dockerThat = `#!/bin/sh
echo "$*" >>"$FOLDER/asked"
case "$1 $2" in
"network create") touch "$FOLDER/made" ;;
"network rm") rm "$FOLDER/made" ;;
"network ls") [ ! -e "$FOLDER/made" ] || echo drill ;;
"network inspect") echo '[{"Name": "drill", "Id": "0123456789abcdef", "Labels": {"spotdrill.dev/owned": "true"}}]' ;;
"info --format") echo '{"CgroupDriver": "cgroupfs", "MemoryLimit": true, "PidsLimit": true, "CPUShares": true}' ;;
"run "*) echo "docker: Error response from daemon: no space left on device." >&2; exit 125 ;;
"exec "*) exit 1 ;;
esac
`

// A set-up that fails shows what the engine printed, and leaves neither containers nor a network.
func TestAFailedSetUpLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "docker"), []byte(dockerThat), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FOLDER", folder)
	t.Setenv("SPOTDRILL_CACHE", folder)
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	s := newSystem(Options{Cluster: "drill", Log: t.Logf})
	s.engine = &engine.Engine{Name: "docker"}
	err := s.create(t.Context(), cluster.Options{Name: "drill", Network: "drill", Nodes: kind.Nodes{Image: "node", Kubernetes: "v1.37.2"}, CoreDNS: "v1.15.0", ProxyMode: "iptables", KubeconfigDir: folder}, "localstack", cluster.Origin{Digest: "digest"}, "a test")
	if err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("the error hides what the engine printed: %v", err)
	}
	asked, unread := os.ReadFile(filepath.Join(folder, "asked"))
	if unread != nil {
		t.Fatal(unread)
	}
	_, after, _ := strings.Cut(string(asked), "\nrun ")
	if !strings.Contains(after, "rm --force --volumes drill-localstack") || exists(filepath.Join(folder, "made")) {
		t.Errorf("after the failure it asked for\n%s", after)
	}
}

// LocalStack's own health check takes a tenth of a processor, and its own EC2 forgets instances of a fleet.
func TestHowLocalStackRuns(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "docker"), []byte(dockerThat), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("FOLDER", folder)
	t.Setenv("SPOTDRILL_CACHE", folder)
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	s := newSystem(Options{Cluster: "drill", Log: t.Logf})
	s.engine = &engine.Engine{Name: "docker"}
	if err := s.startLocalStack(t.Context(), "localstack"); err == nil || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("got %v", err)
	}
	asked, err := os.ReadFile(filepath.Join(folder, "asked"))
	if err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(folder, "kubeconfig", "fleets.py")
	for _, want := range []string{" --no-healthcheck ", " --add-host localstack.cloud:127.0.0.1 ", " --env DNS_ADDRESS=0 ", " --volume " + hook + ":/etc/localstack/init/start.d/fleets.py:ro "} {
		if !strings.Contains(string(asked), want) {
			t.Errorf("it runs without %q: %s", want, asked)
		}
	}
	if text, err := os.ReadFile(hook); err != nil || !strings.Contains(string(text), "reservation.instances") {
		t.Errorf("what it runs at its start: %v\n%s", err, text)
	}
}
