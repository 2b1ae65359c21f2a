package run

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/e2e-framework/klient/k8s"

	"github.com/spotdrill/spotdrill/framework/objects"
	"github.com/spotdrill/spotdrill/framework/system"
	"github.com/spotdrill/spotdrill/framework/wrap"
)

//go:embed manifests
var manifests embed.FS

// pods creates the drills' own pods and what belongs to them, and calls those that serve records.
type pods struct {
	objects.Client
	namespace string // of those that serve records
}

func podsOfSystem(sys *system.System) pods { return pods{sys.Cluster.Objects(), sys.Namespace} }

// create creates the objects of one of the manifests, as change has changed them.
func (p pods) create(ctx context.Context, file string, values map[string]string, change ...func(k8s.Object)) error {
	return p.Create(ctx, manifests, "manifests/"+file, values, change...)
}

// asYAML is a part of an object as the value of a placeholder; JSON is YAML.
func asYAML(part any) string {
	text, err := json.Marshal(part)
	if err != nil {
		panic(fmt.Sprintf("encode a part of a manifest: %v", err)) // all are plain structs
	}
	return string(text)
}

// request is a request to a pod, where it serves its records.
func (p pods) request(verb, pod, path string) *rest.Request {
	return p.PodRequest(verb, p.namespace, pod, system.RecordsPort, path)
}

func (p pods) get(ctx context.Context, pod, path string) (io.ReadCloser, error) {
	body, err := p.request(http.MethodGet, pod, path).Stream(ctx)
	return body, wrap.Errorf(err, "read %s of pod %s", path, pod)
}

func (p pods) post(ctx context.Context, pod, path string, body []byte) (io.ReadCloser, error) {
	answer, err := p.request(http.MethodPost, pod, path).SetHeader("Content-Type", "application/json").Body(body).Stream(ctx)
	return answer, wrap.Errorf(err, "post %s to pod %s", path, pod)
}
