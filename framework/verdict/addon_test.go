package verdict

import (
	"testing"

	"github.com/spotdrill/spotdrill/framework/history"
)

func TestAddOnUpgraded(t *testing.T) {
	with := func(refused bool, ended ...history.Event) func(*script) {
		return func(s *script) {
			s.only(Require(AddOnUpgraded{AddOn: "coredns", Refused: refused}))
			s.at(3.9, history.NewAddOnUpgrading("coredns", "NONE"))
			for _, e := range ended {
				s.at(5, e)
			}
		}
	}
	done := history.NewAddOnUpgraded("coredns", "OVERWRITE", history.With(history.Numbers{history.Took: 1.1}))
	conflicts := history.NewAddOnRefused("coredns", "NONE", history.Note(".data.Corefile: conflict with kubectl-edit"))
	another := history.NewAddOnUpgraded("vpc-cni", "OVERWRITE", history.Like(done))
	for _, x := range []expectation{
		{name: "done", edit: with(false, done), want: Pass, got: "done with OVERWRITE after 1.100s"},
		{name: "refused", edit: with(false, conflicts), want: Fail, got: ".data.Corefile"},
		{name: "refused, as required", edit: with(true, conflicts), want: Pass, got: "refused: .data.Corefile"},
		{name: "done, and was to be refused", edit: with(true, done), want: Fail, got: "it was done with OVERWRITE"},
		{name: "not over", edit: with(false), want: Unknown, got: "no upgrade is on record"},
		{name: "not over, and was to be refused", edit: with(true), want: Unknown},
		{name: "another one", edit: with(false, another), want: Unknown},
	} {
		x.check = "add-on coredns upgraded"
		x.run(t, drainStory)
	}
}
