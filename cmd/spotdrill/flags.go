package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/spotdrill/spotdrill/framework/guard"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/strict"
)

// Flags that several commands share.

// clusterAccess chooses a cluster, as kubectl does.
type clusterAccess struct{ kubeconfig, context string }

func (a *clusterAccess) flags(flags *pflag.FlagSet) {
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig `file`; the default is that of kubectl")
	flags.StringVar(&a.context, "context", "", "`context` of the kubeconfig; the default is the current one")
}

// requestTimeout bounds each request to the cluster.
const requestTimeout = 15 * time.Second

// config is the access that the kubeconfig gives. One that cannot be used is a usage error.
func (a clusterAccess) config() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if rules.ExplicitPath = a.kubeconfig; strings.ContainsRune(a.kubeconfig, filepath.ListSeparator) {
		rules.ExplicitPath, rules.Precedence = "", filepath.SplitList(a.kubeconfig)
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.context}).ClientConfig()
	if err != nil {
		return nil, usage("no access to a cluster: %w; choose one with --kubeconfig and --context", err)
	}
	config.Timeout = requestTimeout
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { return answered{to} })
	return config, nil
}

// answered are requests to an API server. The error of one without an answer shows what to do.
type answered struct{ http.RoundTripper }

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := a.RoundTripper.RoundTrip(r)
	// A client's timeout ends a request by its deadline or by its channel, whichever comes first; the error
	// of the latter is no net.Error (net/http, setRequestCancel).
	deadline, bounded := r.Context().Deadline()
	_, network := errors.AsType[net.Error](err)
	timedOut := err != nil && bounded && !time.Now().Before(deadline)
	if (network || timedOut) && !errors.Is(r.Context().Err(), context.Canceled) {
		err = fmt.Errorf("the API server does not answer: %w; does the cluster run, and can this machine reach it? --kubeconfig and --context choose another one", err)
	}
	return answer, err
}

// WrappedRoundTripper is how client-go reaches the transport that it cancels requests of.
func (a answered) WrappedRoundTripper() http.RoundTripper { return a.RoundTripper }

// recorded is the access with absolute paths and the name of the context, so that another process finds
// the same cluster from any folder.
func (a clusterAccess) recorded() (clusterAccess, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	raw, err := rules.Load()
	if err != nil {
		return a, usage("no access to a cluster: %w; choose one with --kubeconfig and --context", err)
	}
	a.context = cmp.Or(a.context, raw.CurrentContext)
	var files []string
	for _, file := range rules.GetLoadingPrecedence() {
		absolute, err := filepath.Abs(file)
		if err != nil {
			return a, fmt.Errorf("find kubeconfig %s: %w", file, err)
		}
		files = append(files, absolute)
	}
	a.kubeconfig = strings.Join(files, string(filepath.ListSeparator))
	return a, nil
}

// awsAccess chooses the API of AWS. What is empty is as in the AWS SDK's default chain.
type awsAccess struct{ endpoint, region string }

func (a *awsAccess) flags(flags *pflag.FlagSet) {
	flags.StringVar(&a.endpoint, "endpoint-url", "", "`URL` of the AWS API, such as http://localhost:4566; empty for AWS")
	flags.StringVar(&a.region, "region", "", "AWS `region`; the default is that of the AWS SDK's default chain")
}

// credentialsTimeout bounds the search for credentials. It ends with the instance
// metadata service, which most machines do not have.
const credentialsTimeout = 10 * time.Second

// config reads the user's AWS configuration and checks that there are credentials.
func (a awsAccess) config(ctx context.Context) (aws.Config, error) {
	var options []func(*config.LoadOptions) error
	if a.region != "" {
		options = append(options, config.WithRegion(a.region))
	}
	if a.endpoint != "" {
		options = append(options, config.WithBaseEndpoint(a.endpoint))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return cfg, usage("read the AWS configuration: %w", err)
	}
	if cfg.Region == "" {
		return cfg, usage("no AWS region: give --region, or set AWS_REGION")
	}
	ctx, cancel := context.WithTimeout(ctx, credentialsTimeout)
	defer cancel()
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return cfg, usage("no AWS credentials: log in, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (LocalStack accepts any, such as test and test): %w", err)
	}
	return cfg, nil
}

// guarded is a server in a pod that only the process with the token of its run may use.
type guarded struct{ address, tokenFile string }

func (g *guarded) flags(flags *pflag.FlagSet) {
	flags.StringVar(&g.address, "listen", ":8080", "`address` to listen on")
	flags.StringVar(&g.tokenFile, "token-file", "", "`file` with a token that every request must carry; empty: none is required")
}

// listen opens the address and reads the token.
func (g guarded) listen(ctx context.Context) (net.Listener, string, error) {
	token, err := guard.ReadToken(g.tokenFile)
	if err != nil {
		return nil, "", usage("--token-file: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", g.address)
	if err != nil {
		return nil, "", usage("--listen %s: %w", g.address, err)
	}
	return listener, token, nil
}

// choices adds a flag that takes one or more of a few words. Its usage lists them.
func choices[T ~string](cmd *cobra.Command, into *[]T, name, use string, allowed []T) {
	words := history.Words(allowed)
	cmd.Flags().Func(name, use+": "+strings.Join(words, ", "), func(text string) error {
		for word := range strings.SplitSeq(text, ",") {
			i := slices.IndexFunc(words, func(known string) bool { return strings.EqualFold(known, word) })
			if i < 0 {
				return fmt.Errorf("%q is not known%s", word, strict.Among(word, words))
			}
			*into = append(*into, allowed[i])
		}
		return nil
	})
	completeFlag(cmd, name, words...)
}

// completeFlag completes the values of a flag. It panics if the flag does not exist.
func completeFlag(cmd *cobra.Command, name string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveDefault)); err != nil {
		panic(err)
	}
}

// checkLanes checks a number of lanes.
func checkLanes(n int) error {
	if n < 1 || n > session.MaxLanes {
		return usage("--lanes is %d: want 1 to %d", n, session.MaxLanes)
	}
	return nil
}

// optional adds a flag that sets what is nil without it, such as a limit.
func optional[T any](flags *pflag.FlagSet, into **T, name, use string, parse func(string) (T, error)) {
	flags.Func(name, use, func(text string) error {
		v, err := parse(text)
		*into = &v
		return err
	})
}
