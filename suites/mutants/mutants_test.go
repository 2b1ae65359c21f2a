// Package mutants shows that the scenarios catch broken handlers: it drills the
// built-in handler with each of the defects of mutants.yaml planted in it.
package mutants

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	. "github.com/onsi/ginkgo/v2" //nolint:revive,staticcheck // Ginkgo specs read as they are meant to
	. "github.com/onsi/gomega"    //nolint:revive,staticcheck // so do Gomega's matchers
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spotdrill/spotdrill/framework/handler"
	"github.com/spotdrill/spotdrill/framework/history"
	"github.com/spotdrill/spotdrill/framework/run"
	"github.com/spotdrill/spotdrill/framework/verdict"
	"github.com/spotdrill/spotdrill/reports"
	"github.com/spotdrill/spotdrill/scenarios"
	"github.com/spotdrill/spotdrill/suites/mutants/defects"
)

// Limits of the suite; a drill takes half a minute to two.
const (
	setUpTimeout  = 40 * time.Minute // images may have to be built
	mutantTimeout = 12 * time.Minute
	finishTimeout = 6 * time.Minute
)

// attempts is how often a drill is played that could not be judged.
const attempts = 2

// The flags of the suite; `make mutants` sets them, in the folder of go.mod, from
// which paths are meant.
var (
	drillFlag     = flag.Bool("drill", false, "really drill: go test ./... must not")
	mutantsFlag   = flag.String("mutants", "", "names of mutants, by comma; empty: all")
	clusterFlag   = flag.String("cluster", run.DefaultCluster, "the name of the kind cluster")
	proxyModeFlag = flag.String("proxy-mode", history.IPTables, "kube-proxy's mode: "+strings.Join(history.ProxyModes(), ", "))
	binaryFlag    = flag.String("binary", "bin/spotdrill", "the static spotdrill binary that runs in the cluster")
	outFlag       = flag.String("out", "reports/out/mutants", "the folder that histories and the table are written to")
)

func TestMutants(t *testing.T) {
	if !*drillFlag {
		t.Skip("it drills a real system: run `make mutants`")
	}
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose(*mutantsFlag)
	if err != nil {
		t.Fatal(err)
	}
	s := &suite{root: root, mutants: chosen, dir: t.TempDir(), opts: run.Options{
		Cluster: *clusterFlag, ProxyMode: *proxyModeFlag, Source: root, Binary: *binaryFlag, Log: say,
	}}
	s.specs()
	RegisterFailHandler(Fail)
	RunSpecs(t, "spotdrill mutants")
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// choose picks mutants by name, in the order of the scenarios that catch them:
// those of a profile share the cluster's settings.
func choose(list string) ([]defects.Mutant, error) {
	mutants, err := defects.Load("suites/mutants/mutants.yaml")
	if err != nil {
		return nil, err
	}
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	for _, name := range names {
		if !slices.ContainsFunc(mutants, func(m defects.Mutant) bool { return m.Name == name }) {
			return nil, fmt.Errorf("--mutants: no mutant is named %q", name)
		}
	}
	if len(names) > 0 {
		mutants = slices.DeleteFunc(mutants, func(m defects.Mutant) bool { return !slices.Contains(names, m.Name) })
	}
	catalogue, err := scenarios.Catalogue()
	if err != nil {
		return nil, err
	}
	place := func(m defects.Mutant) int {
		return slices.IndexFunc(catalogue, func(s scenarios.Scenario) bool { return s.Name == m.CaughtBy.Scenario })
	}
	slices.SortStableFunc(mutants, func(a, b defects.Mutant) int { return place(a) - place(b) })
	return mutants, nil
}

// suite is one run over the mutants.
type suite struct {
	root    string
	dir     string // for overlays and binaries
	mutants []defects.Mutant
	opts    run.Options

	system *run.System
	folder reports.Folder
	rows   []row
}

// row is a line of the table that the run ends with.
type row struct {
	mutant defects.Mutant
	found  defects.Fate
	got    string
	took   time.Duration
}

func (s *suite) specs() {
	Describe("The built-in handler with a planted defect", Ordered, ContinueOnFailure, func() {
		BeforeAll(s.setUp, NodeTimeout(setUpTimeout))
		AfterAll(s.finish, NodeTimeout(finishTimeout))
		for _, m := range s.mutants {
			It(m.Name+": "+m.Defect, func(ctx SpecContext) {
				r := s.drill(ctx, m)
				s.rows = append(s.rows, r)
				say("[%d/%d] %s: %s in %.0f s (%s of %s: %s)", len(s.rows), len(s.mutants), m.Name, r.found, r.took.Seconds(), m.CaughtBy, m.CaughtBy.Scenario, r.got)
				Expect(r.found).To(Equal(defects.Caught), r.got)
			}, NodeTimeout(mutantTimeout))
		}
	})
}

// buildNews is how often a build of many says how far it is.
const buildNews = 30 * time.Second

// setUp builds every mutant before the first drill: the compiler would disturb it.
func (s *suite) setUp(ctx SpecContext) {
	started, told := time.Now(), time.Now()
	say("building %d mutants (6 to 10 s each)", len(s.mutants))
	for i, m := range s.mutants {
		Expect(s.build(ctx, m)).To(Succeed())
		if time.Since(told) > buildNews {
			told = time.Now()
			say("  %d of %d built after %.0f s", i+1, len(s.mutants), time.Since(started).Seconds())
		}
	}
	say("built %d mutants in %.0f s", len(s.mutants), time.Since(started).Seconds())
	var err error
	s.folder, err = reports.NewFolder(*outFlag, started)
	Expect(err).NotTo(HaveOccurred())
	s.system, err = run.Up(ctx, s.opts)
	Expect(err).NotTo(HaveOccurred(), "set-up")
}

// build compiles the product with the mutant's files in place of its own, as all
// else of it is compiled already.
func (s *suite) build(ctx context.Context, m defects.Mutant) error {
	dir := filepath.Join(s.dir, m.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("build mutant %s: %w", m.Name, err)
	}
	overlay, err := m.Overlay(s.root, dir)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "make", "build", "OVERLAY="+overlay, "BINARY="+s.binary(m))
	cmd.Dir = s.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build mutant %s: %w\n%s", m.Name, err, out)
	}
	return nil
}

func (s *suite) binary(m defects.Mutant) string { return filepath.Join(s.dir, m.Name, "spotdrill") }

func (s *suite) drill(ctx context.Context, m defects.Mutant) row {
	started := time.Now()
	r := row{mutant: m}
	r.found, r.got = s.play(ctx, m)
	r.took = time.Since(started)
	return r
}

// play drills the mutant by the scenario that must catch it.
func (s *suite) play(ctx context.Context, m defects.Mutant) (defects.Fate, string) {
	under, err := handler.Load("builtin")
	if err != nil {
		return defects.NotJudged, err.Error()
	}
	under.File = "mutant " + m.Name // another handler than the one before
	if err := s.system.ProvideBinary(ctx, under, s.binary(m)); err != nil {
		return defects.NotJudged, err.Error()
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		if err := errors.Join(s.system.Withdraw(ctx, under), s.revoke(ctx)); err != nil {
			say("    %v", err)
		}
	}()
	if err := s.grant(ctx, m); err != nil {
		return defects.NotJudged, err.Error()
	}
	chosen, err := scenarios.Select(scenarios.Fast, []string{m.CaughtBy.Scenario})
	if err != nil {
		return defects.NotJudged, err.Error()
	}
	scenario := defects.Impatient(chosen[0])
	folder := s.folder
	folder.Path = filepath.Join(folder.Path, m.Name)
	for attempt := 1; ; attempt++ {
		dir, err := folder.Attempt(scenario, attempt)
		if err != nil {
			return defects.NotJudged, err.Error()
		}
		played := s.system.Play(ctx, run.Drill{Scenario: scenario, Set: scenarios.Fast, Handler: under, Attempt: attempt, Dir: dir})
		h, err := history.Load(dir)
		if err != nil {
			return defects.NotJudged, err.Error()
		}
		result := verdict.Judge(scenario, h)
		found, got := m.Judge(result)
		if found == defects.NotJudged && played != nil {
			return found, played.Error()
		}
		if found != defects.NotJudged || attempt == attempts {
			return found, got
		}
	}
}

// extra is the name of the role and binding with a mutant's own rights.
const extra = "spotdrill-mutant"

// grant gives the handler's service account the rights that the mutant has beyond
// those of the sound handler.
func (s *suite) grant(ctx context.Context, m defects.Mutant) error {
	if len(m.Grants) == 0 {
		return nil
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: extra}}
	for _, g := range m.Grants {
		groups := g.Groups
		if len(groups) == 0 {
			groups = []string{""}
		}
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: groups, Resources: g.Resources, Verbs: g.Verbs})
	}
	// A run that was killed may have left them.
	if err := s.revoke(ctx); err != nil {
		return err
	}
	rbac := s.system.Cluster.Clientset.RbacV1()
	if _, err := rbac.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("grant rights to mutant %s: %w", m.Name, err)
	}
	_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: extra},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: extra},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: handler.DefaultNamespace, Name: "handler"}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("grant rights to mutant %s: %w", m.Name, err)
	}
	return nil
}

// revoke takes back what grant gave, if anything.
func (s *suite) revoke(ctx context.Context) error {
	rbac := s.system.Cluster.Clientset.RbacV1()
	for _, remove := range []func() error{
		func() error { return rbac.ClusterRoleBindings().Delete(ctx, extra, metav1.DeleteOptions{}) },
		func() error { return rbac.ClusterRoles().Delete(ctx, extra, metav1.DeleteOptions{}) },
	} {
		if err := remove(); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("take a mutant's rights back: %w", err)
		}
	}
	return nil
}

// finish writes the table and puts the cluster back.
func (s *suite) finish(ctx SpecContext) {
	if s.system == nil {
		return
	}
	for _, m := range s.mutants[len(s.rows):] { // the run ended before them
		s.rows = append(s.rows, row{mutant: m, found: defects.NotJudged})
	}
	writeTable(os.Stderr, s.rows)
	file, err := os.Create(filepath.Join(s.folder.Path, "table.txt"))
	Expect(err).NotTo(HaveOccurred())
	writeTable(file, s.rows)
	Expect(file.Close()).To(Succeed())
	say("%s", file.Name())
	Expect(s.system.Finish(ctx)).To(Succeed())
}

// writeTable tells of every mutant what became of it. The last line has the
// counts.
func writeTable(w io.Writer, rows []row) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nMUTANT\tFOUND\tSECONDS\tSCENARIO\tCHECK")
	count := map[defects.Fate]int{}
	for _, r := range rows {
		count[r.found]++
		fmt.Fprintf(table, "%s\t%s\t%.0f\t%s\t%s\n", r.mutant.Name, r.found, r.took.Seconds(), r.mutant.CaughtBy.Scenario, r.mutant.CaughtBy)
	}
	_ = table.Flush()
	fmt.Fprintf(w, "%d caught, %d survived, %d not judged\n", count[defects.Caught], count[defects.Survived], count[defects.NotJudged])
}
