package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/consent"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

// restoreTimeout bounds putting back one drill's change.
const restoreTimeout = time.Minute

func newRestoreCommand() *cobra.Command {
	var journal string
	var list bool
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Put back what a drill of your own cluster has changed, after a crash",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pending, damaged := consent.Pending(journal)
			errs := []error{damaged}
			if len(pending) == 0 && damaged == nil {
				fmt.Fprintln(cmd.OutOrStdout(), "there is nothing to put back")
			}
			for _, e := range pending {
				if list {
					fmt.Fprintln(cmd.OutOrStdout(), e)
					continue
				}
				done, err := restore(cmd.Context(), e)
				for _, line := range done {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", e, line)
				}
				errs = append(errs, wrap.Errorf(err, "%s", e))
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().StringVar(&journal, "journal", "", "`folder` of the journals; the default is in the user's state folder")
	cmd.Flags().BoolVar(&list, "list", false, "only list what would be put back")
	return cmd
}

// restore puts back the change of one drill, in the cluster where it was played.
func restore(ctx context.Context, e consent.Entry) ([]string, error) {
	config, err := clusterAccess{e.Cluster.Kubeconfig, e.Cluster.Context}.config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster at %s: %w", e.Cluster.Server, err)
	}
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	return consent.RestorePending(ctx, client, e)
}
