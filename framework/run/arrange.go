package run

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/spotdrill/spotdrill/framework/cloud"
	"github.com/spotdrill/spotdrill/framework/cluster"
	"github.com/spotdrill/spotdrill/framework/clusterdns"
	"github.com/spotdrill/spotdrill/framework/nodes"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/scenarios"
)

// Arrange brings the cluster into the state that the scenarios start from. They agree
// about the handler and CoreDNS. What does not depend on each other is done at once: pods
// take a second or two to become Ready.
func (p *Play) Arrange(ctx context.Context) error {
	if err := p.begin(ctx); err != nil {
		return err
	}
	first, restored := p.Drills[0], make(chan []string, 1) // what had to be repaired
	group, ctx := errgroup.WithContext(ctx)
	// A handler's client drops events about a node beyond 25 in a row, as client-go's spam filter
	// does, and drills share few nodes.
	if slices.ContainsFunc(p.Drills, func(r *Runner) bool { return r.Scenario.ReadsNodeEvents() }) {
		p.sys.Handlers.ReplacePods()
	}
	group.Go(func() error {
		repaired, err := p.sys.Restore(ctx, p.joining())
		if err != nil {
			return err
		}
		if err := clearProxy(ctx, p.pods()); err != nil {
			return err
		}
		restored <- repaired
		for _, want := range first.Handlers {
			if err := p.sys.Handlers.Install(ctx, want); err != nil {
				return err
			}
		}
		for _, r := range p.Drills {
			if err := r.handlers.followLogs(ctx); err != nil {
				return err
			}
		}
		if !p.sys.Handlers.ServesMetadata() {
			return nil
		}
		return p.sys.Metadata().Clear(ctx)
	})
	group.Go(func() error {
		if err := p.sys.SetDNS(ctx, first.Scenario.CoreDNS); err != nil {
			return err
		}
		select {
		case repaired := <-restored:
			// CoreDNS pods may have gone with a node.
			if len(repaired) > 0 {
				if err := p.sys.SetDNS(ctx, first.Scenario.CoreDNS); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := p.pickNodes(ctx); err != nil {
			return err
		}
		if slices.ContainsFunc(p.Drills, func(r *Runner) bool { return r.Scenario.Grows() }) {
			if err := p.sys.StartKwok(ctx); err != nil {
				return err
			}
		}
		return inParallel(ctx, p.Drills, func(ctx context.Context, r *Runner) error {
			if err := r.start(ctx); err != nil {
				return err
			}
			// Last: the workload's pods could not be bound to a node with the taints.
			return r.operator.prepare(ctx)
		})
	})
	return group.Wait()
}

// begin empties the queue first: an installed handler would mark a node for a message that
// becomes visible after the node is restored. What the handler requests from now on belongs
// to the drill.
func (p *Play) begin(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.sys.AWS.Purge(ctx) })
	group.Go(func() (err error) { p.audit, err = p.sys.AuditLog().Mark(ctx); return err })
	return group.Wait()
}

// pickNodes chooses a node for each name of the scenarios: first for those that the
// steps act on, each a node of its own, then for those that are only observed.
func (p *Play) pickNodes(ctx context.Context) error {
	pods, err := p.sys.DNS.ReadyPods(ctx)
	if err != nil {
		return err
	}
	runsDNS := func(n cluster.Node) bool {
		return slices.ContainsFunc(pods, func(p clusterdns.Pod) bool { return p.Node == n.Name })
	}
	p.nameLaunched()
	others, err := p.sys.Launches.Others(ctx)
	if err != nil {
		return err
	}
	free := slices.Concat(p.sys.Cluster.Nodes, others)
	for _, targets := range []bool{true, false} {
		for _, r := range p.Drills {
			wanted := maps.Clone(r.Scenario.Nodes)
			maps.DeleteFunc(wanted, func(name string, _ scenarios.Pick) bool {
				return wanted[name].Launched != nil || slices.Contains(r.Scenario.Targets(), name) != targets
			})
			picked, err := pick(wanted, free, runsDNS)
			if err != nil {
				return fmt.Errorf("%s: %w", r.Scenario.Name, err)
			}
			maps.Copy(r.nodes, picked)
			if targets {
				free = slices.DeleteFunc(free, func(n cluster.Node) bool { return slices.Contains(r.targets(), n.Name) })
			}
		}
	}
	return nil
}

// joining are the nodes that the scenarios require in addition to the fixed workers, in the order of launching. Only one
// drill at a time has a fleet: its claims see to that.
func (p *Play) joining() (out system.Joining) {
	for _, r := range p.Drills {
		if r.Scenario.Fleet != nil {
			out.Fleet = r.Scenario.Fleet.Nodes
		}
	}
	p.eachLaunched(func(_ *Runner, _ string, pick scenarios.Pick) {
		out.Launches = append(out.Launches, cloud.Launch{Type: pick.Launched.Type, Zone: pick.Launched.Zone, Spot: pick.Capacity == nodes.Spot})
	})
	return out
}

// nameLaunched gives the launched nodes their names in the scenarios.
func (p *Play) nameLaunched() {
	for _, r := range p.Drills {
		if r.Scenario.Fleet != nil {
			r.fleet = p.sys.Launches.Fleet()
		}
	}
	launched := p.sys.Launches.OfDrill()
	p.eachLaunched(func(r *Runner, name string, _ scenarios.Pick) { r.nodes[name], launched = launched[0], launched[1:] })
}

func (p *Play) eachLaunched(do func(r *Runner, name string, pick scenarios.Pick)) {
	for _, r := range p.Drills {
		for _, name := range slices.Sorted(maps.Keys(r.Scenario.Nodes)) {
			if pick := r.Scenario.Nodes[name]; pick.Launched != nil {
				do(r, name, pick)
			}
		}
	}
}

// pick chooses a node for each name: first for those that must run CoreDNS, so
// that no other name takes theirs. The same picks on the same nodes always give the
// same result.
func pick(wanted map[string]scenarios.Pick, nodes []cluster.Node, runsDNS func(cluster.Node) bool) (map[string]cluster.Node, error) {
	names := slices.Sorted(maps.Keys(wanted))
	picked, taken := map[string]cluster.Node{}, map[string]bool{}
	for _, needsDNS := range []bool{true, false} {
		for _, name := range names {
			pick := wanted[name]
			if (pick.Runs == "coredns") != needsDNS {
				continue
			}
			candidates := slices.DeleteFunc(slices.Clone(nodes), func(n cluster.Node) bool {
				return n.Capacity != pick.Capacity || taken[n.Name] || (needsDNS && !runsDNS(n))
			})
			if len(candidates) == 0 {
				return nil, fmt.Errorf("no node left for %q: capacity %s, runs %q", name, pick.Capacity, pick.Runs)
			}
			slices.SortStableFunc(candidates, func(a, b cluster.Node) int {
				return boolOrder(runsDNS(a)) - boolOrder(runsDNS(b))
			})
			picked[name], taken[candidates[0].Name] = candidates[0], true
		}
	}
	return picked, nil
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}
