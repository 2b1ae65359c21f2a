package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/iam"
	"github.com/spotdrill/spotdrill/framework/logic"
	"github.com/spotdrill/spotdrill/framework/recommend"
	"github.com/spotdrill/spotdrill/framework/session"
	"github.com/spotdrill/spotdrill/framework/sweep"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// deployed names a cluster's CoreDNS.
type deployed struct {
	clusterAccess
	namespace, name string
	manifests       []string // files of objects, instead of a cluster
	kubelet         string   // file with the configuration of its kubelets
}

func newRecommendCommand() *cobra.Command {
	var dns deployed
	var drills drillOptions
	var as form
	var inAWS, tryNextPod bool
	var addOnValues string
	cmd := &cobra.Command{
		Use:   "recommend",
		Short: "Find settings of a cluster's CoreDNS and Karpenter that lose queries, and print a patch",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usage("%s: files are given with -f: spotdrill recommend -f %s", strings.Join(args, " "), strings.Join(args, " -f "))
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := as.check(); err != nil {
				return err
			}
			if drills.wanted && tryNextPod {
				return usage("--try-next-pod and --drill cannot be used together")
			}
			if len(dns.manifests) > 0 && (drills.wanted || tryNextPod || dns.kubeconfig != "" || dns.context != "") {
				return usage("--filename reads files instead of a cluster: it cannot be used together with --kubeconfig, --context, --drill and --try-next-pod")
			}
			if drills.wanted {
				return drills.advise(cmd, dns, as)
			}
			if err := drills.unused(); err != nil {
				return err
			}
			found, err := dns.read(cmd)
			if err != nil {
				return err
			}
			a, err := recommend.New(found.DNS)
			if err != nil {
				return err
			}
			if inAWS {
				if a, err = lookUpQueue(cmd.Context(), a); err != nil {
					return err
				}
			}
			if addOnValues != "" {
				values, err := readAddOnValues(addOnValues)
				if err != nil {
					return err
				}
				a = a.WithAddOnValues(values)
			}
			if tryNextPod {
				f, err := recommend.TryNextPod(cmd.Context(), found.client, found.DNS)
				if err != nil {
					return err
				}
				a = a.With(f...)
			}
			return printAdvice(cmd, a, as)
		},
	}
	flags := cmd.Flags()
	dns.flags(flags)
	flags.Lookup("kubeconfig").Usage += ", or with --drill that of spotdrill's cluster"
	flags.StringVar(&dns.namespace, "namespace", "kube-system", "`namespace` of CoreDNS")
	flags.StringVar(&dns.name, "deployment", "", "`name` of CoreDNS's Deployment or DaemonSet; the default is the one that the Service of the cluster's DNS selects")
	flags.StringArrayVarP(&dns.manifests, "filename", "f", nil, "read this `file` or folder of objects instead of a cluster, such as kubectl get -o yaml writes it, or - for stdin; can be given several times")
	flags.StringVar(&dns.kubelet, "kubelet-config", "", "read the configuration of the nodes' kubelets from this `file`, instead of their /configz: a KubeletConfiguration, a NodeConfig of nodeadm, or what /configz answered")
	as.flags(flags)
	flags.BoolVar(&inAWS, "aws", false, "also look up Karpenter's interruption queue and its rules, with your AWS credentials (read-only)")
	flags.BoolVar(&tryNextPod, "try-next-pod", false, "also start one pod with CoreDNS's image and Corefile, which gets no query, and delete it: does the next pod start?")
	flags.StringVar(&addOnValues, "add-on-values", "", "also check a `file` with the configuration values of the EKS add-on coredns: JSON, YAML, or the answer of aws eks describe-addon")
	drills.flags(flags)
	return cmd
}

func readAddOnValues(file string) (recommend.AddOnValues, error) {
	text, err := readInput(file)
	if err != nil {
		return recommend.AddOnValues{}, usage("--add-on-values: %w", err)
	}
	values, err := recommend.ReadAddOnValues(text)
	if err != nil {
		return values, usage("--add-on-values %s: %w", file, err)
	}
	return values, nil
}

// lookUpQueue looks up the interruption queue, if Karpenter has one.
func lookUpQueue(ctx context.Context, a recommend.Advice) (recommend.Advice, error) {
	queue := a.InterruptionQueue()
	if queue == "" {
		return a, nil
	}
	cfg, err := awsAccess{}.config(ctx)
	if err != nil {
		return a, err
	}
	found, err := cloud.NoticesThatReach(ctx, cfg, queue)
	if err != nil {
		return a, err
	}
	q := recommend.Queue{Name: queue, Missing: found.ARN == "", Unread: found.Unread, Doubts: found.Doubts, Policy: objection(found.Policy), Encryption: objection(found.Encryption)}
	q.Silent = found.Silent
	q.Unheard, q.Unclear = wanted(found.Unheard), wanted(found.Unclear)
	return a.WithQueue(q), nil
}

// wanted are those of the notices for which each version of Karpenter has a rule: older ones have none for
// interruptions of capacity reservations, and none has any for the others.
func wanted(types []history.NoticeType) (out []string) {
	for _, t := range types {
		if t != history.CapacityReservationInterruption && t != history.LifecycleAction && t != history.CapacityBlockExpiration {
			out = append(out, string(t))
		}
	}
	return out
}

func objection(d iam.Decision) recommend.Objection {
	if d.Is == logic.Yes {
		return recommend.Objection{}
	}
	return recommend.Objection{Why: d.Why, Unknown: d.Is == logic.Maybe}
}

// form is how the advice is printed.
type form struct {
	format string
	json   bool // the same as the format json
}

// The formats.
const (
	asText   = "text"
	asJSON   = "json"
	asSARIF  = "sarif"
	asGitHub = "github"
)

func (o *form) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.format, "output", asText, "print `text`, json, sarif (SARIF 2.1.0) or github (annotations of a GitHub workflow)")
	flags.BoolVar(&o.json, "json", false, "print one JSON object, as --output json")
}

func (o *form) check() error {
	all := []string{asText, asJSON, asSARIF, asGitHub}
	switch {
	case !slices.Contains(all, o.format):
		return usage("--output is %q, and must be one of %s", o.format, strings.Join(all, ", "))
	case o.json && o.format != asText && o.format != asJSON:
		return usage("--json and --output %s cannot be used together", o.format)
	case o.json:
		o.format = asJSON
	}
	return nil
}

func (o *form) write(cmd *cobra.Command, a recommend.Advice) error {
	switch o.format {
	case asSARIF:
		return writeJSON(cmd.OutOrStdout(), a.SARIF(thisVersion().Version))
	case asGitHub:
		return a.WriteGitHub(cmd.OutOrStdout())
	}
	return show(cmd, o.format == asJSON, a, a.WriteText)
}

// printAdvice prints the advice. Its error has the exit code.
func printAdvice(cmd *cobra.Command, a recommend.Advice, as form) error {
	if err := as.write(cmd, a); err != nil {
		return err
	}
	switch broken, unknown := a.Broken(); {
	case broken > 0:
		return exitError{exitFailed, fmt.Errorf("%s violates %s", a.Name(), history.Count(broken, "rule"))}
	case unknown > 0:
		return exitError{exitUnknown, fmt.Errorf("%s could not be evaluated for %s", history.Count(unknown, "rule"), a.Name())}
	}
	return nil
}

// reading is what was read of a cluster.
type reading struct {
	recommend.DNS
	own    bool // all nodes are spotdrill's
	client kubernetes.Interface
}

// read reads the CoreDNS of the cluster, or of files. A kubeconfig that cannot be used, and files that have too little,
// are usage errors.
func (d deployed) read(cmd *cobra.Command) (reading, error) {
	if len(d.manifests) > 0 {
		if d.kubelet != "" {
			d.manifests = append(slices.Clone(d.manifests), d.kubelet)
		}
		m, err := recommend.ReadManifests(cmd.InOrStdin(), d.namespace, d.manifests...)
		if err != nil {
			return reading{}, usage("%w\nthis exports enough of a cluster: %s", err, exports)
		}
		found, err := m.Read(cmd.Context(), d.namespace, d.name)
		if err != nil {
			return reading{}, usage("%s: %w\nthe files have too little of a cluster; this exports enough: %s", strings.Join(d.manifests, ", "), err, exports)
		}
		return reading{DNS: found}, nil
	}
	config, err := d.config()
	if err != nil {
		return reading{}, err
	}
	place := "cluster at " + config.Host
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return reading{}, usage("no access to the %s: %w", place, err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return reading{}, usage("no access to the %s: %w", place, err)
	}
	var kubelets []recommend.Kubelet
	if d.kubelet != "" {
		m, err := recommend.ReadManifests(cmd.InOrStdin(), d.namespace, d.kubelet)
		if err == nil {
			kubelets, err = m.Kubelets()
		}
		if err != nil {
			return reading{}, usage("--kubelet-config: %w", err)
		}
	}
	found, err := recommend.Read(cmd.Context(), client, objects, d.namespace, d.name)
	if err != nil {
		return reading{}, fmt.Errorf("%s: %w", place, err)
	}
	found = found.WithKubelets(kubelets)
	own, err := cluster.AllOurs(cmd.Context(), client)
	if err != nil && found.NodesUnread != "" {
		own, err = false, nil // the nodes cannot be read
	}
	return reading{found, own, client}, err
}

// exports is what prints the objects that recommend reads.
const exports = "kubectl get nodes,deploy,sts,ds,svc,cm,pods,pdb,hpa -A -o yaml --show-managed-fields"

// builtInSweep is the default matrix.
const builtInSweep = "lameduck-by-readiness"

// lossyDrills is the share of drills that may lose anything with a setting that counts
// as safe. 9 drills without a loss show it at confidence 0.95, 13 at 0.99. A drill
// takes about a minute; a share of 5 % at 0.95 would take 59.
const lossyDrills = 0.3

// drillOptions are the flags of recommend --drill.
type drillOptions struct {
	given           *pflag.FlagSet // flags that only apply with --drill
	wanted, standIn bool
	matrix, out     string
	confidence      float64
	repeats         int
	system          system.Options
}

func (o *drillOptions) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.wanted, "drill", false, "measure on spotdrill's own cluster which setting loses nothing")
	o.given = pflag.NewFlagSet("drill", pflag.ContinueOnError)
	o.given.BoolVar(&o.standIn, "stand-in", false, "with --drill: drill spotdrill's own cluster instead of the one that is read")
	o.given.StringVar(&o.matrix, "matrix", "", "with --drill: `file` of the matrix; the default is "+builtInSweep)
	o.given.Float64Var(&o.confidence, "confidence", 0, "with --drill: confidence of both bounds, 0.5 to less than 1; the default is that of the matrix")
	o.given.IntVar(&o.repeats, "repeats", 0, fmt.Sprintf("with --drill: drills of each setting; the default is that of the matrix, and at least the number that the confidence requires for %.0f %% of drills", lossyDrills*100))
	o.given.StringVar(&o.out, "out", "reports/out/sweeps", "with --drill: `folder` for results; each matrix gets its own subfolder")
	systemFlags(o.given, &o.system)
	flags.AddFlagSet(o.given)
}

// unused returns an error that names the given flags that require --drill.
func (o drillOptions) unused() error {
	var names []string
	o.given.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			names = append(names, "--"+f.Name)
		}
	})
	if len(names) == 0 {
		return nil
	}
	return usage("%s: requires --drill", strings.Join(names, ", "))
}

// sweep is the matrix with the changes of the flags.
func (o *drillOptions) sweep() (scenarios.Sweep, error) {
	loader, err := session.OnPlatform(&o.system, o.given.Changed("proxy-mode"))
	if err != nil {
		return scenarios.Sweep{}, err
	}
	load := func() (scenarios.Sweep, error) { return loader.LoadSweep(o.matrix) }
	if o.matrix == "" {
		load = func() (scenarios.Sweep, error) { return loader.BuiltInSweep(builtInSweep) }
	}
	s, err := load()
	if err != nil {
		return s, err
	}
	if o.given.Lookup("confidence").Changed {
		s.Confidence = o.confidence
	}
	if o.given.Lookup("repeats").Changed {
		s.Repeats = o.repeats
	} else if s.Check() == nil { // no number of drills shows a confidence of 1
		s.Repeats = max(s.Repeats, sweep.DrillsFor(lossyDrills, s.Confidence))
	}
	return s, s.Check()
}

// advise drills the matrix up to the first safe setting and prints the advice for it.
// If none is safe, the advice is for settings that keep the rules.
func (o *drillOptions) advise(cmd *cobra.Command, dns deployed, as form) error {
	matrix, err := o.sweep()
	if err != nil {
		return exitError{exitUsage, err}
	}
	if err := checkSystem(&o.system); err != nil {
		return err
	}
	named := dns.kubeconfig != "" || dns.context != ""
	var found reading
	if named {
		if found, err = dns.read(cmd); err != nil {
			return err
		}
		if !found.own && !o.standIn {
			return usage("--drill reclaims nodes, and this cluster is not spotdrill's own, so nothing was drilled; use --stand-in to drill spotdrill's own cluster and only read this one")
		}
	}
	under, err := handler.Load("builtin")
	if err != nil {
		return err
	}
	table, err := sweepAll(cmd.Context(), sweep.Options{
		Sweep: matrix, Handler: under, System: o.system, Out: filepath.Join(o.out, matrix.Name), FirstSafe: true, Console: cmd.ErrOrStderr(),
	})
	if err = errors.Join(err, shown(cmd.ErrOrStderr(), table.WriteText)); err != nil {
		return err
	}
	unsafe := swept(cmd.Context(), table)
	if cmd.Context().Err() != nil {
		return unsafe
	}
	if !named {
		if dns.kubeconfig, err = system.Kubeconfig(o.system.Cluster); err != nil {
			return errors.Join(unsafe, err)
		}
		if found, err = dns.read(cmd); err != nil {
			return errors.Join(unsafe, err)
		}
	}
	a, err := recommend.New(found.DNS)
	if err != nil {
		return errors.Join(unsafe, err)
	}
	if r, ok := table.Smallest(); ok {
		evidence := fmt.Sprintf("%s; drills in %s", table.Verdict(), filepath.Join(o.out, matrix.Name))
		if a, err = a.Measured(r.Settings, evidence); err != nil {
			return err
		}
	}
	broken := printAdvice(cmd, a, as)
	if codeOf(unsafe) == exitFailed {
		return errors.Join(unsafe, broken) // the first one's exit code counts
	}
	return errors.Join(broken, unsafe)
}
