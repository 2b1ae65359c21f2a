package system

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/wrap"
	"github.com/spotdrill/spotdrill/kind"
)

// fleets is what LocalStack's EC2 has to do otherwise; it runs at each start, in any image of LocalStack.
//
//go:embed hooks/fleets.py
var fleets string

// fleetsHook is where LocalStack looks for it: https://docs.localstack.cloud/references/init-hooks
const fleetsHook = "/etc/localstack/init/start.d/fleets.py"

// hookFile writes the hook to a file on this host, next to those that the nodes mount.
func (s *System) hookFile() (string, error) {
	kubeconfig, err := Kubeconfig(s.opts.Cluster)
	if err != nil {
		return "", err
	}
	file := filepath.Join(filepath.Dir(kubeconfig), filepath.Base(fleetsHook))
	if err = os.MkdirAll(filepath.Dir(file), 0o755); err == nil {
		err = os.WriteFile(file, []byte(fleets), 0o644)
	}
	return file, wrap.Errorf(err, "write what LocalStack runs at its start")
}

func localStackName(cluster string) string { return cluster + "-localstack" }

func (s *System) localStackName() string { return localStackName(s.opts.Cluster) }

// localStackEnv are the variables, as KEY=value, that LocalStack runs with.
func localStackEnv() []string {
	return append(kind.LocalStackEnv(), "DEFAULT_REGION="+kind.Region,
		"SQS_ENABLE_MESSAGE_RETENTION_PERIOD=1", // its own default is to keep messages for ever
		"DNS_ADDRESS=0")                         // no DNS server of its own, which looks for one on the Internet
}

// lookedUp are the names that LocalStack looks up at its start. The engine's resolver would ask the host's for them.
func lookedUp() []string {
	return []string{"localstack.cloud", "localhost.localstack.cloud", "host.docker.internal"}
}

// startLocalStack runs LocalStack on the cluster's network; this host reaches it on
// a loopback port only.
func (s *System) startLocalStack(ctx context.Context, image string) error {
	hook, err := s.hookFile()
	if err != nil {
		return err
	}
	args := []string{
		"run", "--detach", "--name", s.localStackName(), "--network", s.opts.Cluster,
		"--label", cluster.Label + "=true", "--publish", "127.0.0.1::4566",
		"--no-healthcheck",                                                             // the public image's starts a Python program every 10 s, which takes most of a second of a processor
		"--volume", hook + ":" + fleetsHook + ":ro", "--security-opt", "label=disable", // so that SELinux lets it read the file
	}
	for _, name := range lookedUp() {
		args = append(args, "--add-host", name+":127.0.0.1")
	}
	for _, env := range localStackEnv() {
		args = append(args, "--env", env)
	}
	if _, err := s.engine.Run(ctx, append(args, image)...); err != nil {
		return fmt.Errorf("start LocalStack: %w", err)
	}
	endpoint, err := s.LocalStack(ctx)
	if err != nil {
		return err
	}
	s.AWS = cloud.Connect(endpoint, kind.Region)
	if err := s.AWS.WaitReady(ctx); err != nil {
		return err
	}
	return s.proveConfined(ctx)
}

// LocalStack is LocalStack's URL as seen from this host.
func (s *System) LocalStack(ctx context.Context) (string, error) {
	name := s.localStackName()
	running, err := s.engine.Running(ctx, name)
	if err != nil {
		return "", fmt.Errorf("inspect LocalStack: %w", err)
	}
	if !running {
		return "", fmt.Errorf("LocalStack's container %s is not running", name)
	}
	port, err := s.engine.Run(ctx, "port", name, "4566/tcp")
	if err != nil {
		return "", fmt.Errorf("find LocalStack's port: %w", err)
	}
	first, _, _ := strings.Cut(port, "\n")
	return "http://" + strings.TrimSpace(first), nil
}

// aliveTimeout bounds the check whether LocalStack and the cluster still run.
const aliveTimeout = 10 * time.Second

// Alive returns an error if LocalStack or the cluster's control plane has died: which
// one, and the last lines of its log. No further drill can be played then.
func (s *System) Alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, aliveTimeout)
	defer cancel()
	var errs []error
	for _, part := range []struct{ what, container string }{
		{"LocalStack", s.localStackName()},
		{"the cluster's control plane", s.opts.Cluster + "-control-plane"},
	} {
		running, err := s.engine.Running(ctx, part.container)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("check whether %s still runs: %w", part.what, err))
		case !running:
			errs = append(errs, fmt.Errorf("%s died: its container %s is not running (the next run creates a new one); its last log lines:\n%s",
				part.what, part.container, s.lastLines(ctx, part.container)))
		}
	}
	return errors.Join(errs...)
}

// lastLines are the last lines of a container's log.
func (s *System) lastLines(ctx context.Context, container string) string {
	lines, err := s.engine.Logs(ctx, container, 5)
	if err != nil {
		return err.Error()
	}
	return lines
}

// LocalStack runs LocalStack without a cluster, on a network of its own with the name
// opts.Cluster. Stop removes both; so does the next call if a run was killed.
func LocalStack(ctx context.Context, opts Options) (aws *cloud.AWS, stop func(context.Context) error, err error) {
	s := &System{opts: opts}
	if s.engine, err = detect(ctx, opts); err != nil {
		return nil, nil, err
	}
	image, err := kind.LocalStackImage(ctx, s.engine, kind.ImageOptions{Source: opts.Source, Log: opts.Log})
	if err != nil {
		return nil, nil, err
	}
	stop = func(ctx context.Context) error {
		_, err := remove(ctx, s.engine, cluster.Options{Name: opts.Cluster, Network: opts.Cluster})
		return err
	}
	if err := stop(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.startAlone(ctx, image); err != nil {
		return nil, nil, errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
	return s.AWS, stop, nil
}

func (s *System) startAlone(ctx context.Context, image string) error {
	if _, err := s.engine.EnsureNetwork(ctx, s.opts.Cluster, map[string]string{cluster.Label: "true"}); err != nil {
		return err
	}
	if err := s.confine(ctx); err != nil {
		return err
	}
	return s.timed("LocalStack", func() error { return s.startLocalStack(ctx, image) })
}
