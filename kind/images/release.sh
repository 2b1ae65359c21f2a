# A released program: the binary of releases/PROGRAM-VERSION, and for kube-proxy what it runs.

build_release() {
	local engine=$1 ref=$2 steps=2 go module=$images/releases/$image program=${image%-v*} sources=()
	go=$(go_version "$module") || fail "building the $image image needs Go: put go in PATH"
	[[ ! -e $module/main.go ]] || sources=("$module/main.go")
	if [[ $program = kube-proxy ]]; then
		steps=3
		source "$images/node.sh"
		need_packages mmdebstrap debian-archive-keyring
		step 2 node_root 65 bootstrap "$DEBIAN_SUITE"
	fi
	step 1 release "$(release_seconds)" go_build release_package "$go" "$image" "$module"/go.{mod,sum} "${sources[@]}"
	perform "$steps" release_image 8 "$engine" "$ref"
}

# release_seconds prints what the build takes on two cores with an empty cache.
release_seconds() {
	case $program in
	nth) echo 150 ;;
	coredns) echo 120 ;;
	kwok) echo 90 ;;
	*) echo 300 ;;
	esac
}

# release_package prints the main package of the program.
release_package() {
	case $program in
	etcd) echo go.etcd.io/etcd/server/v3 ;;
	nth) echo github.com/aws/aws-node-termination-handler/cmd ;;
	karpenter) echo github.com/aws/karpenter-provider-aws/cmd/controller ;;
	coredns) echo . ;;
	kwok) echo sigs.k8s.io/kwok/cmd/kwok ;;
	kube-proxy) echo k8s.io/kubernetes/cmd/kube-proxy ;;
	*) fail "release.sh does not know how to build $program" ;;
	esac
}

make_release() {
	local version=${image##*-} flags=""
	case $program in
	karpenter) flags="-X sigs.k8s.io/karpenter/pkg/operator.Version=${version#v}" ;;
	kube-proxy) flags="-X k8s.io/component-base/version.gitVersion=$version" ;;
	esac
	go_build "releases/$image" "$program" "$flags" "$(release_package)"
}

make_release_image() {
	local root=$work/userland content=$work/content change="ENTRYPOINT [\"/$program\"]"
	mkdir "$content"
	case $program in
	kube-proxy)
		# The manifest of kubeadm names the path.
		change='ENTRYPOINT ["/usr/local/bin/kube-proxy"]'
		mkdir -p "$root" "$content/usr/local/bin"
		tar -C "$root" -xf "$(made node_root)/root.tar"
		kube_proxy_userland "$root" "$content"
		cp "$(made release)/kube-proxy" "$content/usr/local/bin/"
		rm -rf "$root"
		;;
	*) cp "$(made release)/$program" "$content/" ;;
	esac
	tar -C "$content" --owner=0 --group=0 -c . | "$1" import \
		--change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' --change "$change" - "$2"
}
