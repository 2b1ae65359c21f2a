package scenarios

import (
	"cmp"
	"slices"

	"go.yaml.in/yaml/v4"
)

// formerActions rewrite the nine former kinds of steps that do something to a target.
func formerActions() map[string]func(*yaml.Node) string {
	return map[string]func(*yaml.Node) string{
		"disturb": func(f *yaml.Node) string {
			verb := take(f, "handler")
			return do(f, cmp.Or(map[string]Verb{"update": Restart, "terminate": Delete}[verb], Verb(verb)), OnHandler)
		},
		"operate": func(f *yaml.Node) string {
			switch action := take(f, "action"); action {
			case "readmit":
				set(f, "untaint", "true")
				return do(f, Uncordon, OnNode)
			case "delete-node":
				return do(f, Delete, OnNode)
			case "rejoin":
				return do(f, Join, OnNode)
			case "rejoin-without-provider-id":
				set(f, "withoutProviderID", "true")
				return do(f, Join, OnNode)
			case "stop-kubelet":
				return do(f, Stop, OnKubelet)
			case "start-instance":
				return do(f, Start, OnInstance)
			case "initialize":
				return do(f, Label, OnNode)
			case "uninitialize":
				return do(f, Unlabel, OnNode)
			default:
				return do(f, Verb(action), OnNode)
			}
		},
		"disrupt": func(f *yaml.Node) string {
			switch action := take(f, "coredns"); action {
			case "drain":
				return do(f, Drain, OnNode)
			case "reload":
				set(f, "corefile", string(SlowCorefile))
			case "break-corefile":
				set(f, "corefile", string(BrokenCorefile))
			case "node-selector":
				set(f, "placement", Nowhere)
			case "lameduck":
				set(f, "lameduck", "0s")
			default:
				return do(f, Verb(action), OnCoreDNS)
			}
			return do(f, Configure, OnCoreDNS)
		},
		"reconfigure": func(f *yaml.Node) string { return do(f, Configure, OnHandler) },
		"deploy":      func(f *yaml.Node) string { return do(f, Create, OnWorkload) },
		"grow": func(f *yaml.Node) string {
			set(f, "nodes", "0")
			return do(f, Scale, OnCluster)
		},
		"upgrade":   func(f *yaml.Node) string { return do(f, Upgrade, OnAddOn) },
		"setValues": func(f *yaml.Node) string { return do(f, Configure, OnAddOn) },
		"budget": func(f *yaml.Node) string {
			set(f, "minAvailable", "0")
			if second := take(f, "remove"); second != "" {
				set(f, "budget", second)
				return do(f, Delete, OnBudget)
			}
			return do(f, Configure, OnBudget)
		},
	}
}

// do begins the fields of a step with its verb and target.
func do(fields *yaml.Node, verb Verb, target Target) string {
	fields.Content = slices.Concat(scalars("verb", string(verb), "target", string(target)), fields.Content)
	return "do"
}

// take removes a field and returns its value.
func take(fields *yaml.Node, name string) string {
	value := valueOf(fields, name)
	remove(fields, name)
	return value
}
