# LocalStack on Debian's own Python, as PyPI's packages pinned by hash.

build_localstack() {
	local engine=$1 ref=$2 steps=3
	need_packages mmdebstrap debian-archive-keyring
	python3 -c 'import ensurepip, venv' 2>/dev/null || need_packages python3-venv
	step 1 localstack_root 65 bootstrap "$DEBIAN_SUITE"
	step 2 localstack_packages 40 "$images"/localstack/{uv,requirements}.txt
	perform 3 localstack_image 140 "$engine" "$ref"
}

make_localstack_root() {
	bootstrap python3-minimal,python3,ca-certificates,libexpat1
}

# The host's own Python may be another version than the image's, so that uv is
# told what to choose for. The lock file is complete: nothing is resolved.
make_localstack_packages() {
	python3 -m venv "$work/venv"
	"$work/venv/bin/pip" install --disable-pip-version-check --require-hashes --no-deps --no-compile -r "$images/localstack/uv.txt"
	"$work/venv/bin/uv" pip install --no-config --no-cache --require-hashes --no-deps --python "$work/venv/bin/python" \
		--python-version 3.11 --python-platform "$(uname -m)-manylinux_2_34" \
		--target "$out/localstack" -r "$images/localstack/requirements.txt"
}

make_localstack_image() {
	local engine=$1 ref=$2 root=$work/localstack
	mkdir "$root"
	tar -C "$root" -xf "$(made localstack_root)/root.tar"
	mkdir -p "$root/opt"
	cp -r "$(made localstack_packages)/localstack" "$root/opt/localstack"
	# Compiled here once, not at every start of a container. Some packages carry
	# templates that are no valid Python.
	chroot "$root" python3 -m compileall -qq -j 0 /opt/localstack || true
	tar -C "$root" -c . | "$engine" import \
		--change 'ENV PYTHONPATH=/opt/localstack' \
		--change 'ENV DISABLE_EVENTS=1' \
		--change 'ENV SKIP_SSL_CERT_DOWNLOAD=1' \
		--change 'ENV GATEWAY_LISTEN=0.0.0.0:4566' \
		--change 'ENV SERVICES=sqs,events,ec2,cloudformation,iam,sts,s3,ssm' \
		--change 'EXPOSE 4566' \
		--change 'ENTRYPOINT ["python3","-m","localstack.runtime.main"]' \
		- "$ref"
}
