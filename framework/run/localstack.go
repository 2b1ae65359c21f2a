package run

import (
	"context"
	"fmt"
	"strings"

	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/queue"
	"github.com/spotdrill/spotdrill/kind"
)

func localStackName(cluster string) string { return cluster + "-localstack" }

func (s *System) localStackName() string { return localStackName(s.opts.Cluster) }

// startLocalStack runs LocalStack on the cluster's network, reachable from this
// host on a loopback port only.
func (s *System) startLocalStack(ctx context.Context, image string) error {
	args := []string{
		"run", "--detach", "--name", s.localStackName(), "--network", s.opts.Cluster,
		"--label", cluster.Label + "=true", "--publish", "127.0.0.1::4566",
	}
	for _, env := range append(kind.LocalStackEnv(), "DEFAULT_REGION="+kind.Region) {
		args = append(args, "--env", env)
	}
	if _, err := s.engine.Run(ctx, append(args, image)...); err != nil {
		return fmt.Errorf("start LocalStack: %w", err)
	}
	endpoint, err := s.localStackEndpoint(ctx)
	if err != nil {
		return err
	}
	s.AWS = queue.Connect(endpoint, kind.Region)
	return s.AWS.WaitReady(ctx)
}

// localStackEndpoint is LocalStack's URL as seen from this host.
func (s *System) localStackEndpoint(ctx context.Context) (string, error) {
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
