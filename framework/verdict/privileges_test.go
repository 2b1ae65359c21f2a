package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestLeastPrivilege(t *testing.T) {
	reading := func() *script {
		s := drainStory()
		s.meta.Handler.SQSActions = []string{"DeleteMessage", "ReceiveMessage"}
		s.meta.Environment = map[string]string{"cluster": "drill"}
		s.at(4.2, history.NewSQSCall("drill", "ReceiveMessage", "", history.Status(200)))
		s.at(6, history.NewSQSCall("drill", "DeleteMessage", "", history.Status(200)))
		return s
	}
	call := func(action, queue, owner string) func(*script) {
		return func(s *script) {
			s.at(7, history.NewSQSCall(queue, action, "", history.Owner(owner)))
		}
	}
	for _, x := range []expectation{
		{name: "only what is allowed", want: Pass, got: "2 calls"},
		{name: "another action", edit: call("PurgeQueue", "drill", ""), want: Fail, got: "1 of 3 calls: PurgeQueue"},
		{name: "another action that was refused", edit: func(s *script) {
			s.at(7, history.NewSQSCall("", "ListQueues", "", history.Status(403)))
		}, want: Fail, got: "ListQueues"},
		{name: "another action while the cluster is put back", edit: func(s *script) {
			s.at(30, history.NewSQSCall("drill", "PurgeQueue", ""))
		}, want: Fail, got: "PurgeQueue"},
		{name: "each action is reported once", edit: func(s *script) {
			call("PurgeQueue", "drill", "")(s)
			call("PurgeQueue", "drill", "")(s)
		}, want: Fail, got: "2 of 4 calls: PurgeQueue"},
		{name: "another queue", edit: call("ReceiveMessage", "other", ""), want: Fail, got: `ReceiveMessage on queue "other"`},
		{name: "a queue of that name in another account", edit: func(s *script) {
			s.meta.Environment["account"] = "000000000000"
			s.at(7, history.NewSQSCall("drill", "ReceiveMessage", "", history.Account("111111111111")))
		}, want: Fail, got: `ReceiveMessage on queue "drill" of account 111111111111`},
		{name: "its queue in its account", edit: func(s *script) {
			s.meta.Environment["account"] = "000000000000"
			s.at(7, history.NewSQSCall("drill", "ReceiveMessage", "", history.Account("000000000000")))
		}, want: Pass, got: "3 calls"},
		{name: "a batch, by the permission of its single call", edit: call("DeleteMessageBatch", "drill", ""), want: Pass, got: "3 calls"},
		{name: "a batch of what is not allowed", edit: call("ChangeMessageVisibilityBatch", "drill", ""), want: Fail, got: "1 of 3 calls: ChangeMessageVisibilityBatch"},
		{name: "another action that ends in Batch", edit: call("PurgeBatch", "drill", ""), want: Fail, got: "PurgeBatch"},
		{name: "the right to read every secret", edit: granted("get,list", "/secrets"), want: Fail, got: "ClusterRole handler: verbs get,list of /secrets"},
		{name: "the right to read the secrets of a namespace", edit: grantedBy("Role kube-system/handler", "get", "/secrets"), want: Pass},
		{name: "the right to read the secrets of a namespace, by a ClusterRole", edit: grantedBy("ClusterRole handler in kube-system", "get", "/secrets"), want: Pass},
		{name: "the right to run commands in every pod", edit: granted("create", "/pods/exec"), want: Fail, got: "/pods/exec"},
		{name: "the right to be somebody else", edit: granted("impersonate", "/users"), want: Fail, got: "impersonate"},
		{name: "the right to be somebody else, within a namespace", edit: grantedBy("Role kube-system/handler", "impersonate", "/serviceaccounts"), want: Fail, got: "impersonate"},
		{name: "the right to give itself rights", edit: granted("escalate", "rbac.authorization.k8s.io/clusterroles"), want: Fail, got: "escalate"},
		{name: "the right to bind roles", edit: granted("create", "rbac.authorization.k8s.io/clusterrolebindings"), want: Fail, got: "clusterrolebindings"},
		{name: "the right to read roles", edit: granted("get,list", "rbac.authorization.k8s.io/clusterroles"), want: Pass},
		{name: "the right to create pods anywhere", edit: granted("create", "/pods"), want: Fail, got: "verbs create of /pods"},
		{name: "the right to evict", edit: granted("create", "/pods/eviction"), want: Pass},
		{name: "the right to read every secret, of a handler that is not ours", edit: others(granted("get", "/secrets")), want: Pass, got: "2 calls; ClusterRole handler: verbs get of /secrets"},
		{name: "a request that is no API call", edit: call("GET /", "", ""), want: Fail, got: "GET /"},
		{name: "a call of the proxy's own", edit: call("ChangeMessageVisibilityBatch", "drill", history.ProxyOwner), want: Pass, got: "2 calls"},
		{name: "another service", edit: call("ec2:DescribeInstances", "", ""), want: Pass, got: "2 calls"},
		{name: "no call at all", edit: func(s *script) { s.drop(kind(history.SQSCall)) }, want: Pass, got: "0 calls"},
		{name: "what is allowed is not known", edit: func(s *script) { s.meta.Handler.SQSActions = nil }, want: Unknown, got: "does not show"},
		{name: "its queue is not known", edit: func(s *script) { s.meta.Environment = nil }, want: Unknown, got: "does not show"},
		{name: "the right to delete nodes", edit: granted("get,delete", "/nodes,/pods"), want: Fail, got: "ClusterRole handler: verbs get,delete of /nodes,/pods"},
		{name: "the right to delete them all", edit: granted("deletecollection", "/nodes"), want: Fail, got: "deletecollection"},
		{name: "the right to delete what only sounds like nodes", edit: granted("delete", "karpenter.sh/nodes,/nodes/status"), want: Pass, got: "2 calls"},
		{name: "the right to read nodes", edit: granted("get,list", "/nodes"), want: Pass, got: "2 calls"},
		{name: "the right to delete nodes, of a handler that states that it does", edit: func(s *script) {
			s.meta.Handler.DeletesNode = true
			granted("delete", "/nodes")(s)
		}, want: Pass, got: "2 calls"},
		{name: "the right to delete nodes, of a handler that is not ours", edit: others(granted("delete", "/nodes")), want: Pass, got: "2 calls; ClusterRole handler: verbs delete of /nodes"},
		{name: "recording ends too soon", edit: func(s *script) {
			s.at(9, history.NewRunError("x"))
		}, want: Unknown, got: "recording ends there"},
	} {
		x.check = "least privilege"
		x.run(t, reading)
	}
}

// granted puts a rule of the handler's on record, which holds in the whole cluster.
func granted(verbs, of string) func(*script) { return grantedBy("ClusterRole handler", verbs, of) }

func grantedBy(role, verbs, of string) func(*script) {
	return func(s *script) {
		s.at(0.3, history.NewRBACRule(role, verbs, of))
	}
}

// others makes the handler one that is not ours.
func others(edit func(*script)) func(*script) {
	return func(s *script) {
		s.meta.Handler.Name = "karpenter"
		edit(s)
	}
}

func TestWildcards(t *testing.T) {
	for _, x := range []expectation{
		{name: "none", want: Pass, got: "1 rule"},
		{name: "every verb", edit: granted("*", "/nodes"), want: Fail, got: "1 of 2 rules: ClusterRole handler: verbs * of /nodes"},
		{name: "every resource", edit: granted("get", "apps/*"), want: Fail, got: "apps/*"},
		{name: "every group", edit: granted("get", "*/pods"), want: Fail, got: "*/pods"},
		{name: "every URL", edit: granted("get", "/metrics/*"), want: Fail, got: "/metrics/*"},
		{name: "of a handler that is not ours", edit: others(granted("*", "/nodes")), want: Pass, got: "1 of 2 rules"},
	} {
		x.check = "no RBAC wildcard"
		x.run(t, func() *script {
			s := drainStory()
			granted("get,list", "/nodes,/pods")(s)
			return s
		})
	}
	t.Run("not reported if the rights are not on record", func(t *testing.T) {
		for _, v := range drainStory().judge().Verdicts {
			if v.Check == "no RBAC wildcard" {
				t.Errorf("judged all the same: %+v", v)
			}
		}
	})
}
