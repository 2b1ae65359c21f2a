# A kind node: Debian, kind's own base files, Kubernetes, containerd and the
# container images of the control plane and the cluster's add-ons.

build_node() {
	local engine=$1 ref=$2 steps=9 go others
	local KUBERNETES_VERSION=${image#node-} kubernetes=$images/releases/$release ETCD_VERSION
	source "$kubernetes/versions.env"
	local etcd=$images/releases/etcd-$ETCD_VERSION
	go=$(go_version "$kubernetes") || fail "building the node image needs Go: put go in PATH"
	need_packages mmdebstrap debian-archive-keyring

	# Kubernetes takes half of the time, with pauses for its linker; the others
	# fill them. A process group of its own (set -m) lets cleanup end all of it.
	set -m
	build_others "$go" &
	others=$!
	set +m
	step 1 kubernetes 520 "${kubernetes_binaries[*]}" go_build "$go" "$kubernetes"/go.{mod,sum} "$KUBERNETES_VERSION"
	wait "$others" || exit 1
	step 7 container_images 6 add_image kube_proxy_userland kind_files "$KIND_VERSION" \
		"$(made node_root)" "$(made kubernetes)" "$(made etcd)" "$(made pause)"
	perform 8 node_files 10
	perform 9 node_image 30 "$engine" "$ref"
}

# build_others GO performs the steps that need nothing of Kubernetes.
build_others() {
	set +m
	step 2 node_root 65 bootstrap "$DEBIAN_SUITE"
	step 3 containerd 210 go_build "$1" "$images"/containerd/go.{mod,sum} "$CONTAINERD_VERSION"
	step 4 cni 10 go_build "$1" "$images"/cni/go.{mod,sum}
	step 5 etcd 25 go_build "$1" "$etcd"/go.{mod,sum}
	step 6 pause 1 go_build "$1" "$images/pause/main.go"
}

make_node_root() {
	bootstrap systemd,dbus,conntrack,iptables,nftables,iproute2,ethtool,util-linux,mount,kmod,libseccomp2,runc,bash,ca-certificates,curl,jq,procps,hostname,openssl,socat
}

# What of Kubernetes runs in a node, in one build: it compiles what they share
# once, and goes on compiling while it links.
kubernetes_binaries=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl)

make_kubernetes() {
	local minor=${KUBERNETES_VERSION#v1.} version=k8s.io/component-base/version
	go_build "releases/$release" "" "-X $version.gitVersion=$KUBERNETES_VERSION -X $version.gitMajor=1 -X $version.gitMinor=${minor%%.*}" \
		"${kubernetes_binaries[@]/#/k8s.io/kubernetes/cmd/}"
}

make_containerd() {
	local commands=(containerd containerd-shim-runc-v2 ctr)
	go_build containerd "" "-X github.com/containerd/containerd/v2/version.Version=$CONTAINERD_VERSION" \
		"${commands[@]/#/github.com/containerd/containerd/v2/cmd/}"
}

make_cni() {
	local plugins=(main/ptp main/loopback ipam/host-local meta/portmap)
	go_build cni "" "" "${plugins[@]/#/github.com/containernetworking/plugins/plugins/}"
}

make_etcd() { go_build "releases/etcd-$ETCD_VERSION" etcd "" go.etcd.io/etcd/server/v3; }
make_pause() { go_build pause pause "" main.go; }

# kind_files prints the folder of the files that kind's own base image is made of.
kind_files() {
	local module
	module=$(cd "$work" && GOFLAGS= go mod download -json "sigs.k8s.io/kind@$KIND_VERSION" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	echo "$module/images/base/files"
}

# Makes one archive of the container images under exactly the names that kubeadm
# and kind's containerd configuration ask for.
make_container_images() {
	local name files=$work/archive root=$work/userland
	mkdir "$files" "$root"
	: >"$files/manifest.json"
	tar -C "$root" -xf "$(made node_root)/root.tar"
	"$(made kubernetes)/kubeadm" config images list --kubernetes-version "$KUBERNETES_VERSION" >"$work/names"
	while read -r name; do
		local content=$work/content
		mkdir -p "$content/usr/local/bin"
		case $name in
		*/kube-proxy:*)
			kube_proxy_userland "$root" "$content"
			cp "$(made kubernetes)/kube-proxy" "$content/usr/local/bin/"
			add_image /usr/local/bin/kube-proxy "$name"
			;;
		*/kube-*)
			local binary=${name##*/}
			binary=${binary%:*}
			cp "$(made kubernetes)/$binary" "$content/usr/local/bin/"
			add_image "/usr/local/bin/$binary" "$name"
			;;
		*/etcd:"${ETCD_VERSION#v}"-*)
			cp "$(made etcd)/etcd" "$content/usr/local/bin/"
			add_image /usr/local/bin/etcd "$name"
			;;
		*/coredns:*) ;; # the set-up loads the version that was chosen
		*/pause:*)
			cp "$(made pause)/pause" "$content/"
			# containerd is configured with a tag of its own.
			add_image /pause "$name" "$(sed -n 's/.*sandbox_image = "\(.*\)"/\1/p' "$(kind_files)/etc/containerd/config.toml")"
			;;
		*)
			echo "kubeadm $KUBERNETES_VERSION wants $name, which is not what $kubernetes names"
			return 1
			;;
		esac
		rm -rf "$content"
	done <"$work/names"
	sed -i '1s/^/[/; $!s/$/,/; $s/$/]/' "$files/manifest.json"
	tar -C "$files" -cf "$out/images.tar" .
	rm -rf "$files" "$root"
}

# add_image ENTRYPOINT NAME... adds $content as an image of one layer to the
# archive in $files (the format of `docker save`, its layers compressed: the engine
# copies them all for each node that it makes).
add_image() {
	local entrypoint=$1 layer config tags
	shift
	tar -C "$content" --sort=name --mtime=@0 --owner=0 --group=0 -cf "$files/layer.tar" .
	layer=$(sha256sum "$files/layer.tar" | cut -d' ' -f1)
	gzip -n1 "$files/layer.tar"
	mv "$files/layer.tar.gz" "$files/$layer.tar.gz"
	printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["%s"],"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
		"$(dpkg --print-architecture)" "$entrypoint" "$layer" >"$files/config"
	config=$(sha256sum "$files/config" | cut -d' ' -f1)
	mv "$files/config" "$files/$config.json"
	tags=$(printf '"%s",' "$@")
	printf '{"Config":"%s.json","RepoTags":[%s],"Layers":["%s.tar.gz"]}\n' "$config" "${tags%,}" "$layer" >>"$files/manifest.json"
}

# kube_proxy_userland ROOT CONTENT copies what kube-proxy runs (iptables with its
# extensions, nft, conntrack, ip, a shell) from a Debian root file system, with the
# libraries of all that.
kube_proxy_userland() {
	local root=$1 content=$2 name library libraries
	local programs=(/usr/sbin/xtables-nft-multi /usr/sbin/nft /usr/sbin/conntrack /bin/ip /bin/bash)
	libraries=/usr/lib/$(uname -m)-linux-gnu
	mkdir -p "$content"/{usr/sbin,usr/bin,usr/lib64,"$libraries",etc,var/lib,run,tmp}
	for name in bin sbin lib lib64; do
		ln -s "usr/$name" "$content/$name"
	done
	for name in "${programs[@]}"; do
		cp -L "$root$name" "$content$name"
	done
	cp -r "$root$libraries/xtables" "$content$libraries/"
	chroot "$root" bash -c 'ldd "${@:2}" "$1"/xtables/*.so || true' ldd "$libraries" "${programs[@]}" |
		grep -o '/[^ ]*\.so[^ :]*' | sort -u | while read -r library; do
		[[ $library = */xtables/* ]] || cp -L "$root$library" "$content$library"
	done
	ln -s bash "$content/usr/bin/sh"
	for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
		ln -s xtables-nft-multi "$content/usr/sbin/$name"
	done
	# An extension without its library would be noticed by a running cluster only.
	chroot "$content" iptables -m statistic -h >/dev/null
}

# Puts the node's root file system together, as kind's own Dockerfile and its node
# image builder do.
make_node_files() {
	mkdir "$work/files"
	tar -C "$work/files" -xf "$(made node_root)/root.tar"
	install_files "$work/files"
	arrange_services "$work/files"
	preload_images "$work/files"
}

install_files() {
	local root=$1 kind name
	kind=$(kind_files)
	# Go's module cache is read-only and knows no executable files.
	cp -r --no-preserve=mode "$kind"/{etc,kind,usr} "$root/"
	chmod 0755 "$root"/usr/local/bin/* "$root"/kind/bin/*
	mkdir -p "$root"/{opt/cni/bin,kind/manifests,etc/kubernetes/manifests}
	cp "$(made cni)"/* "$root/opt/cni/bin/"
	cp "$(made containerd)"/* "$root/usr/local/bin/"
	for name in kubelet kubeadm kubectl; do
		cp "$(made kubernetes)/$name" "$root/usr/bin/"
	done
	printf '%s' "$KUBERNETES_VERSION" >"$root/kind/version"
	# No storage driver and no kindnet: a drill needs neither.
	cat >"$root/kind/manifests/default-storage.yaml" <<-'YAML'
		apiVersion: storage.k8s.io/v1
		kind: StorageClass
		metadata:
		  name: standard
		provisioner: kubernetes.io/no-provisioner
	YAML
	: >"$root/kind/manifests/default-cni.yaml"
}

arrange_services() {
	local root=$1 units=$1/lib/systemd/system
	find "$units/sysinit.target.wants/" -name systemd-tmpfiles-setup.service -delete
	rm -f "$units"/{multi-user,local-fs,basic}.target.wants/* "$root"/etc/systemd/system/*.wants/*
	rm -f "$units"/sockets.target.wants/*{udev,initctl}*
	echo ReadKMsg=no >>"$root/etc/systemd/journald.conf"
	ln -sf /usr/lib/systemd/systemd "$root/sbin/init"
	systemctl --root="$root" enable kubelet.service containerd.service undo-mount-hacks.service
	systemctl --root="$root" mask systemd-binfmt.service
}

# preload_images runs the node's own containerd in the root file system, in
# namespaces whose end takes its processes and mounts along.
preload_images() {
	cp "$(made container_images)/images.tar" "$1/images.tar"
	unshare --mount --pid --fork --kill-child bash -s "$1" <<-'OUTSIDE'
		set -euo pipefail
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		mount -t tmpfs tmpfs "$1/run"
		mount -t tmpfs tmpfs "$1/tmp"
		chroot "$1" bash -s <<-'INSIDE'
			set -euo pipefail
			ctr oci spec |
				jq '.hooks.createContainer[.hooks.createContainer | length] |= . + {"path": "/kind/bin/mount-product-files.sh"} | del(.process.rlimits)' \
					>/etc/containerd/cri-base.json
			containerd &
			for _ in {1..60}; do
				ctr version >/dev/null 2>&1 && break
				sleep 0.5
			done
			ctr -n k8s.io images import --all-platforms --no-unpack --label io.cri-containerd.pinned=pinned /images.tar
			ctr -n k8s.io images ls -q
			kill %1
			wait
		INSIDE
	OUTSIDE
	rm "$1/images.tar"
}

# Kind's own image also names a stop signal, which Docker's import does not know; a
# drill kills nodes and never stops them.
make_node_image() {
	tar -C "$work/files" -c . | "$1" import \
		--change 'ENV container=docker' \
		--change 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]' \
		- "$2"
}
