package main

import (
	"strings"
	"testing"
)

// The API server of a cluster whose nodes are containers of this machine is reached on this machine.
func TestOnlyAClusterOfThisMachineGetsThisProgram(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://[::1]:6443": true, "https://localhost:6443": true,
		"https://10.0.0.1:6443": false, "https://x.eks.amazonaws.com": false, "https://localhost.example.org": false, "": false, "::": false,
	} {
		if got := onThisMachine(host); got != want {
			t.Errorf("%q: %t, want %t", host, got, want)
		}
	}
}

func TestTheImageOfTheProbers(t *testing.T) {
	elsewhere := observeOptions{cluster: clusterAccess{kubeconfig: kubeconfig(t, "https://192.0.2.1")}}
	given := elsewhere
	given.Image = "example/spotdrill:v1"
	image, err := chooseImage(t.Context(), nil, given)
	if err != nil || image.reference != given.Image || !strings.Contains(image.words, "of --image") {
		t.Errorf("a given image: %+v, %v", image, err)
	}
	if _, err := chooseImage(t.Context(), nil, elsewhere); codeOf(err) != exitUsage || !strings.Contains(err.Error(), "docker import") {
		t.Errorf("no image: %v", err)
	}
	releaseImage = "example/spotdrill:v2"
	defer func() { releaseImage = "" }()
	image, err = chooseImage(t.Context(), nil, elsewhere)
	if err != nil || image.reference != releaseImage || !strings.Contains(image.words, "of this release") {
		t.Errorf("a release: %+v, %v", image, err)
	}
}
