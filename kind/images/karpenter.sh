# The stock Karpenter controller: its one static binary on an empty image.

build_karpenter() {
	local engine=$1 ref=$2 steps=2 go
	go=$(go env GOVERSION) || fail "building the karpenter image needs Go: put go in PATH"
	step 1 karpenter 270 go_build "$go" "$images"/karpenter/go.{mod,sum} "$KARPENTER_VERSION"
	perform 2 karpenter_image 8 "$engine" "$ref"
}

make_karpenter() {
	go_build karpenter karpenter "-X sigs.k8s.io/karpenter/pkg/operator.Version=${KARPENTER_VERSION#v}" github.com/aws/karpenter-provider-aws/cmd/controller
}

make_karpenter_image() {
	tar -C "$(made karpenter)" --owner=0 --group=0 -c karpenter | "$1" import --change 'ENTRYPOINT ["/karpenter"]' - "$2"
}
