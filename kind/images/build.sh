#!/usr/bin/env bash
# Builds a container image from Go modules, Debian packages and PyPI, for hosts
# that reach no image registry, and hands it to the container engine:
#
#	build.sh localstack|node-VERSION|PROGRAM-VERSION docker|podman IMAGE
#
# PROGRAM-VERSION is a folder of releases/, such as coredns-v1.15.0; node-v1.37.2 is built from
# kubernetes-v1.37.2. Runs on Debian or Ubuntu; nodes, localstack and kube-proxy need root
# (mmdebstrap, chroot).
# Every step is kept in ${SPOTDRILL_CACHE:-~/.cache/spotdrill}/images under a key
# of what goes into it.
set -euo pipefail

images=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$images/versions.env"
source "$images/steps.sh"

main() {
	local image=${1-} engine=${2-} ref=${3-} recipe=release release=${1-}
	case $image in
	localstack) recipe=localstack release='' ;;
	node-v*) recipe=node release=kubernetes-${image#node-} ;;
	*-v*) ;;
	*) fail "usage: build.sh localstack|node-VERSION|PROGRAM-VERSION docker|podman IMAGE" ;;
	esac
	[[ -n $engine && -n $ref ]] || fail "usage: build.sh $image docker|podman IMAGE"
	[[ -z $release || -f $images/releases/$release/go.mod ]] || fail "there is no folder $images/releases/$release with a go.mod"
	case $image in
	node-* | localstack | kube-proxy-*)
		[[ $(id -u) = 0 ]] || fail "building the $image image needs root (mmdebstrap and chroot): run it as root, or where an image registry can be reached"
		;;
	esac
	# A release may need a newer Go than the one in PATH.
	export GOTOOLCHAIN=auto

	cache=${SPOTDRILL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spotdrill}/images
	mkdir -p "$cache/steps" "$cache/logs"
	exec 9>"$cache/$image.lock"
	flock -n 9 || { echo "waiting for another build of the $image image in $cache" >&2 && flock 9; }
	rm -rf --one-file-system "$cache/work.$image".* # of a build that was killed
	work=$(mktemp -d "$cache/work.$image.XXXXXX")
	trap cleanup EXIT
	trap 'exit 130' INT TERM

	source "$images/$recipe.sh"
	"build_$recipe" "$engine" "$ref"
}

# fail MESSAGE ends the build with a message for the user.
fail() {
	echo "$1" >&2
	exit 1
}

# cleanup ends the step that still runs in the background and removes what an
# unfinished step left. Mounts are made in namespaces that end with their step.
cleanup() {
	local group
	for group in $(jobs -p); do
		kill -TERM -- "-$group" 2>/dev/null || true
	done
	wait
	rm -rf --one-file-system "$work"
}

main "$@"
