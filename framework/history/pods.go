package history

import "strings"

// Pods gathers the events of each pod, by UID, from events in order of time: one
// group a pod, in the order in which they appear, none empty.
func Pods(events []Event) [][]Event {
	var pods [][]Event
	index := map[string]int{}
	for _, e := range events {
		if e.UID == "" || !strings.HasPrefix(string(e.Kind), "pod.") {
			continue
		}
		i, ok := index[e.UID]
		if !ok {
			i = len(pods)
			index[e.UID], pods = i, append(pods, nil)
		}
		pods[i] = append(pods[i], e)
	}
	return pods
}
