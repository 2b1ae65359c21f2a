package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/consent"
	"github.com/spotdrill/spotdrill/framework/foreign"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// restoreTimeout bounds putting back one drill's change.
const restoreTimeout = time.Minute

func newRestoreCommand() *cobra.Command {
	var journal string
	var list bool
	var access clusterAccess
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Put back what a drill of your own cluster has changed, after a crash",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if journal != "" {
				if _, err := os.Stat(journal); err != nil {
					return usage("--journal: %w", err)
				}
			}
			pending, err := consent.Pending(journal)
			if errors.Is(err, consent.ErrNoHome) {
				return usage("%w; --journal names one", err)
			}
			errs := []error{err}
			if access != (clusterAccess{}) {
				marked, err := access.marked(cmd.Context(), pending)
				pending, errs = append(pending, marked...), append(errs, err)
			}
			if len(pending) == 0 && errors.Join(errs...) == nil {
				printf(cmd.OutOrStdout(), "there is nothing to put back\n")
			}
			for _, e := range pending {
				if list {
					printf(cmd.OutOrStdout(), "%s\n", foreign.Line(e.String()))
					continue
				}
				done, err := access.restore(cmd.Context(), e)
				for _, line := range done {
					printf(cmd.OutOrStdout(), "%s\n", foreign.Line(fmt.Sprintf("%s: %s", e, line)))
				}
				errs = append(errs, wrap.Errorf(err, "%s", e))
			}
			return errors.Join(errs...)
		},
	}
	access.flags(cmd.Flags())
	cmd.Flags().StringVar(&journal, "journal", "", "`folder` of the journals; the default is in the user's state folder")
	cmd.Flags().BoolVar(&list, "list", false, "only list what would be put back")
	return cmd
}

// client is that of the cluster.
func (a clusterAccess) client() (*kubernetes.Clientset, error) {
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	return client, wrap.Errorf(err, "reach the cluster at %s", config.Host)
}

// identify describes the cluster so that another process finds it and recognizes it.
func (a clusterAccess) identify(ctx context.Context, client kubernetes.Interface) (consent.Cluster, error) {
	config, err := a.config()
	if err != nil {
		return consent.Cluster{}, err
	}
	recorded, err := a.recorded()
	if err != nil {
		return consent.Cluster{}, err
	}
	uid, err := consent.ClusterUID(ctx, client)
	return consent.Cluster{Kubeconfig: recorded.kubeconfig, Context: recorded.context, Server: config.Host, UID: uid}, err
}

// marked are the drills that the cluster's nodes have on record, without those whose journals are here.
func (a clusterAccess) marked(ctx context.Context, pending []consent.Entry) ([]consent.Entry, error) {
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	at, err := a.identify(ctx, client)
	if err != nil {
		return nil, err
	}
	return consent.Marked(ctx, client, at, pending...)
}

// restore puts back the change of one drill: in the cluster of the flags or, without them, in that of
// the journal. The cluster is recognized by its UID in both cases.
func (a clusterAccess) restore(ctx context.Context, e consent.Entry) (done []string, err error) {
	if a == (clusterAccess{}) {
		a = clusterAccess{e.Cluster.Kubeconfig, e.Cluster.Context}
	}
	client, err := a.client()
	if err != nil {
		return nil, fmt.Errorf("%w; the cluster of the drill is that of context %q at %s", err, e.Cluster.Context, e.Cluster.Server)
	}
	held, release, err := consent.Hold(ctx, client, process())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	held, cancel := context.WithTimeout(held, restoreTimeout)
	defer cancel()
	return consent.RestorePending(held, client, e)
}

// process names this process to others that would change the same cluster.
func process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("spotdrill, process %d on %s, since %s", os.Getpid(), host, time.Now().UTC().Format("2006-01-02 15:04:05 UTC"))
}
