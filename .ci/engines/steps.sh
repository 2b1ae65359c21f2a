# What the tests of container engines share: named steps, the programs and images that they need, and a Docker 29 in a
# namespace of its own. Sourced by test and guest, which set the trap for clean_up.

cd "$(dirname "$0")/../.."
here=$PWD/.ci/engines
spotdrill=$PWD/bin/spotdrill
# Docker's daemon 29, and the runc that it needs: Debian's has no time namespaces yet.
MOBY_VERSION=v2.0.0-beta.24
RUNC_VERSION=v1.4.3
cache=${SPOTDRILL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spotdrill}
# The control group of the daemon's containers. It may be below one that limits what they get of a processor.
group=${CONTROL_GROUP:-spotdrill-engines}
registry=127.0.0.1:80
passed=0 failed=() code=0

note() { printf '%s engines-test: %s\n' "$(date +%H:%M:%S)" "$*"; }

fail() {
	note "$*"
	exit 1
}

# to_the_end LOG COMMAND... runs a command that ends at its first failure, and sets code. Called in an if or before ||, it would not
# end there: bash ignores errexit in all that is run in such a place, also in a subshell that sets it again.
to_the_end() {
	(
		set -e
		"${@:2}"
	) >"$1" 2>&1 &
	set +e
	wait $!
	code=$?
	set -e
}

# what NAME COMMAND... is a step: it shows the end of what the command printed if that fails, and goes on.
what() {
	local name=$1 started=$SECONDS log=$dir/log/step.log
	shift
	to_the_end "$log" "$@"
	if ((code == 0)); then
		passed=$((passed + 1))
		note "passed  $name ($((SECONDS - started)) s)"
	else
		failed+=("$name")
		note "FAILED  $name ($((SECONDS - started)) s); its last lines:"
		tail -n 25 "$log" | sed 's/^/    /'
	fi
}

# must NAME COMMAND... is what all steps need.
must() {
	local name=$1 started=$SECONDS log=$dir/log/must.log
	shift
	to_the_end "$log" "$@"
	((code == 0)) || {
		tail -n 25 "$log" | sed 's/^/    /'
		fail "$name failed"
	}
	note "$name: $((SECONDS - started)) s"
}

# begin PROGRAM... installs what every part needs, and these, and makes a folder for one run: overlay file systems cannot lie on each other, so that
# /tmp may not do.
begin() {
	[[ $EUID == 0 ]] || fail "a namespace of its own needs root"
	[[ -x bin/spotdrill ]] || fail "there is no bin/spotdrill: make build"
	local program missing=()
	for program in iptables python3 gcc pkg-config "$@"; do # each in the package of its name
		command -v "$program" >/dev/null || missing+=("$program")
	done
	[[ -e /usr/include/seccomp.h ]] || missing+=(libseccomp-dev)
	((${#missing[@]} == 0)) || .ci/install "${missing[@]}" >/dev/null
	command -v docker >/dev/null || fail "there is no docker in PATH: its client must be of version 25 at least"
	mkdir -p "$cache/engines"
	dir=$(mktemp -d "$cache/engines/run.XXXXXX")
	mkdir -p "$dir/log"
	bin=$(kept docker build_docker "$MOBY_VERSION" "$RUNC_VERSION" "$(declare -f build)" "$(go env GOVERSION)")
	local made
	for made in "$cache"/images/steps/containerd-*/; do # the nodes' containerd is as good as the host's
		[[ ! -d $made ]] || command -v containerd >/dev/null || PATH=$PATH:${made%/}
	done
	command -v containerd >/dev/null || fail "there is no containerd: apt-get install containerd, or build the node image (bin/spotdrill up)"
	PATH=$bin:$PATH
}

# kept NAME FUNCTION INPUT... prints the folder that FUNCTION has filled as $out. It is kept for later runs, until the text of
# the function or an input changes.
kept() {
	local key folder out=$dir/$1
	key=$({ declare -f "$2" && printf '%s\n' "${@:3}"; } | sha256sum | cut -c1-16)
	folder=$cache/engines/$1-$key
	if [[ ! -d $folder ]]; then
		note "making $1, which later runs reuse" >&2
		mkdir "$out"
		must "$1" "$2" >&2
		rm -rf "$cache/engines/$1"-*
		mv -T "$out" "$folder"
	fi
	echo "$folder"
}

build_docker() {
	CGO_ENABLED=0 build "github.com/moby/moby/v2@$MOBY_VERSION" \
		-ldflags "-s -w -X github.com/moby/moby/v2/dockerversion.Version=29.0.0-$MOBY_VERSION" ./cmd/dockerd ./cmd/docker-proxy
	CGO_ENABLED=1 build "github.com/opencontainers/runc@$RUNC_VERSION" \
		-tags seccomp,netgo,osusergo -ldflags '-s -w -linkmode external -extldflags -static' .
}

# build MODULE@VERSION ARGUMENT... runs go build in a copy of a module, so that its go.sum holds.
build() {
	local source
	source=$(cd "$dir" && GOFLAGS='' go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
	cp -r --no-preserve=mode "$source" "$dir/source"
	cd "$dir/source"
	GOWORK=off GOFLAGS='' go build -mod=mod -trimpath -buildvcs=false -gcflags=all=-dwarf=false -o "$out/" "${@:2}"
	cd "$dir"
	rm -rf "$dir/source"
}

inside() { "$here/namespace" in "$dir" "$@"; }

# start_docker starts a namespace, and in it a registry and a Docker whose images come from there: those of docker.io by a
# mirror, those of registry.k8s.io by its name, which stands for the same registry.
start_docker() {
	"$here/namespace" start "$dir"
	inside sh -c 'echo "127.0.0.1 registry.k8s.io" >>/etc/hosts'
	printf '{version: 0.1, storage: {filesystem: {rootdirectory: %s}}, http: {addr: "%s"}}\n' "$dir/registry" "$registry" >"$dir/registry.yaml"
	inside docker-registry serve "$dir/registry.yaml" >"$dir/log/registry.log" 2>&1 &
	inside groupadd --force --system docker
	inside dockerd --group docker --cgroup-parent "/$group" --exec-opt native.cgroupdriver=cgroupfs \
		--registry-mirror "http://$registry" --insecure-registry registry.k8s.io >"$dir/log/dockerd.log" 2>&1 &
	local _
	for _ in {1..300}; do
		inside docker version >/dev/null 2>&1 && break
		sleep 0.2
	done
	inside docker version --format 'server {{.Server.Version}}, client {{.Client.Version}}' || {
		tail -n 20 "$dir/log/dockerd.log"
		return 1
	}
}

stop_docker() {
	inside pkill -TERM -x dockerd
	while inside pgrep -x dockerd >/dev/null; do sleep 0.2; done
}

# images prints a line for each image that spotdrill needs in the namespace: its name, and its reference.
images() {
	inside env HOME="$dir/home" KIND_EXPERIMENTAL_PROVIDER=docker "$spotdrill" doctor --json 2>/dev/null | python3 -c '
import json, sys
for found in json.load(sys.stdin):
    if found["what"].startswith("image "):
        print(found["what"].removeprefix("image "), found["detail"].split()[0])'
}

# built NAME prints the command of the engine of this host that has an image which spotdrill built, and its newest reference.
built() {
	local engine ref
	[[ ! -e $cache/containers.conf ]] || export CONTAINERS_CONF=$cache/containers.conf # as spotdrill runs podman
	for engine in podman docker; do
		ref=$("$engine" images --filter "reference=localhost/spotdrill/$1" --format '{{.Repository}}:{{.Tag}}' 2>/dev/null | sed -n 1p || true)
		[[ -z $ref ]] || echo "$engine $ref"
	done | sed -n 1p
}

# give NAME REF gives the namespace an image of this host: one that is built under its own name is loaded, since no registry
# has it; another can then be pulled, and is what this host has built or a registry has.
give() {
	local name=$1 ref=$2 from path
	from=$(built "$name")
	path=${ref#*/}
	local to=docker://$registry/${path%@*}
	case $ref in
	localhost/*)
		[[ -n $from ]] || fail "no engine of this host has $ref: run bin/spotdrill up once"
		"${from%% *}" save --output "$dir/image.tar" "$ref"
		inside docker load --quiet --input "$dir/image.tar"
		;;
	*)
		if [[ -n $from ]]; then
			"${from%% *}" save --output "$dir/image.tar" "${from#* }"
			inside skopeo copy --dest-tls-verify=false --dest-compress-level 1 "docker-archive:$dir/image.tar" "$to"
		else
			skopeo copy --all "docker://$ref" "dir:$dir/image" || fail "no registry gives $ref, and it was not built here: run bin/spotdrill up once"
			inside skopeo copy --all --preserve-digests --dest-tls-verify=false "dir:$dir/image" "$to"
		fi
		;;
	esac
	rm -rf "$dir/image" "$dir/image.tar"
}

# give_images gives the namespace all images.
give_images() {
	local name ref
	images >"$dir/images"
	[[ -s $dir/images ]] || fail "doctor names no image: $(inside "$spotdrill" doctor 2>&1 | tail -n 3)"
	while read -r name ref <&3; do
		must "image $name, $ref" give "$name" "$ref"
	done 3<"$dir/images"
}

clean_up() {
	"$here/namespace" stop "$dir"
	wait 2>/dev/null || true
	# The control groups of the containers that ended with it: they are empty.
	local root _
	for root in /sys/fs/cgroup/*/"$group" /sys/fs/cgroup/"$group"; do
		for _ in {1..50}; do
			[[ -d $root ]] || break
			find "$root" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
		done
	done
	rm -rf --one-file-system "$dir"
}

# conclude ends a part with its counts.
conclude() {
	note "passed $passed, failed ${#failed[@]}"
	((${#failed[@]} == 0)) || exit 1
}
