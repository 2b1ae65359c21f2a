# The step runner and the steps that several images share.

# step NUMBER NAME SECONDS INPUT... performs a step whose result is kept: make_NAME
# fills the empty folder $out, which becomes $(made NAME) when it succeeds. With the
# same code and the same inputs (files, functions or words) it is not done again.
step() {
	local number=$1 name=$2 seconds=$3 key out=$work/$2
	shift 3
	key=$(inputs "make_$name" "$@" | sha256sum | cut -c1-16)
	echo "$cache/steps/$name-$key" >"$work/$name.path"
	if [[ -e $(made "$name") ]]; then
		say "$number" "$name" "kept from an earlier build"
		return
	fi
	mkdir "$out"
	perform "$number" "$name" "$seconds"
	mv -T "$out" "$(made "$name")"
}

# perform NUMBER NAME SECONDS ARG... runs make_NAME with its output in a log file.
# SECONDS is what it took on two cores, beside the other steps.
perform() {
	local number=$1 name=$2 seconds=$3 started=$SECONDS log=$cache/logs/$2.log status beat
	shift 3
	say "$number" "$name" "about $(duration "$seconds")"
	# Behind || or if, a failing command would not end make_NAME.
	set +e
	still_at_it "$number" "$name" "$seconds" &
	beat=$!
	(
		set -e
		"make_$name" "$@"
	) >"$log" 2>&1
	status=$?
	kill "$beat"
	wait "$beat" 2>/dev/null
	set -e
	((status == 0)) || step_failed "$name" "$log"
	say "$number" "$name" "$((SECONDS - started)) s"
}

# still_at_it NUMBER NAME SECONDS says once a minute that a long step goes on.
still_at_it() {
	local started=$SECONDS
	while sleep 60 >/dev/null 2>&1; do
		say "$1" "$2" "$(duration $((SECONDS - started))) of about $(duration "$3")"
	done
}

# made NAME prints the folder that step NAME filled.
made() {
	cat "$work/$1.path"
}

# inputs ARG... prints what goes into a step: the content of a file, the text of a
# function, or the word itself.
inputs() {
	local input
	dpkg --print-architecture
	for input in "$@"; do
		if [[ -f $input ]]; then
			cat "$input"
		else
			declare -f "$input" || echo "$input"
		fi
	done
}

say() {
	printf '[%s %2s/%s] %s … %s\n' "$image" "$1" "$steps" "$2" "$3" >&2
}

duration() {
	if (($1 >= 100)); then echo "$((($1 + 30) / 60)) min"; else echo "$1 s"; fi
}

step_failed() {
	{
		echo "step $1 failed; its last lines were:"
		tail -n 30 "$2"
		echo "(all of them: $2)"
	} >&2
	exit 1
}

# need_packages PACKAGE... installs the Debian packages that are missing here, one
# build at a time.
need_packages() {
	local apt
	exec {apt}>"$cache/packages.lock"
	flock "$apt"
	install_missing "$@"
	exec {apt}>&-
}

install_missing() {
	local package missing=()
	for package in "$@"; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
	done
	((${#missing[@]})) || return 0
	echo "installing Debian packages to build with: ${missing[*]}" >&2
	if ! { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$cache/logs/packages.log" 2>&1; then
		step_failed packages "$cache/logs/packages.log"
	fi
}

# bootstrap PACKAGES makes a Debian root file system as $out/root.tar. mmdebstrap
# takes half of what debootstrap takes, and leaves no mount behind.
bootstrap() {
	TMPDIR=$work mmdebstrap --variant=minbase --include="$1" "$DEBIAN_SUITE" "$out/root.tar"
}

# go_version MODULE prints the version of Go that builds the module in a folder.
go_version() {
	(cd "$1" && GOWORK=off GOFLAGS= go env GOVERSION)
}

# go_build MODULE OUTPUT LDFLAGS PACKAGE... builds static binaries from the go.mod
# in the folder MODULE, one as OUTPUT, several under their own names. It compiles
# without debug information, which -s -w drops in the end, and collects the
# compiler's garbage less often: a quarter less time. Kubernetes' own packages,
# most of the rest, are not inlined: another fifth of theirs, for a control plane
# that idles here. The Makefile builds the product alike, so that both share what
# they compile.
go_build() {
	(
		cd "$images/$1"
		GOWORK=off GOFLAGS= CGO_ENABLED=0 GOGC=400 go build -mod=readonly -trimpath -buildvcs=false \
			-gcflags=all=-dwarf=false -gcflags='k8s.io/...=-dwarf=false -l' -ldflags "-s -w $3" -o "$out/$2" "${@:4}"
	)
}
