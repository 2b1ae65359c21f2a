#!/bin/sh
# Builds the image. spotdrill sets IMAGE, its name, and ENGINE, docker or podman, which must have it
# afterwards. With a Dockerfile, this is all: exec "$ENGINE" build -t "$IMAGE" .
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CGO_ENABLED=0 GOOS=linux go build -trimpath -o "$work/handler" main.go
tar -C "$work" -c handler | "$ENGINE" import -c 'ENTRYPOINT ["/handler"]' - "$IMAGE"
