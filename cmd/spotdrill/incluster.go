package main

import (
	"fmt"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// inCluster is a client of the cluster that this process runs in, with the rights of its pod.
func inCluster() (kubernetes.Interface, error) {
	cluster, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	api, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return api, nil
}
