package recommend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/spotdrill/spotdrill/framework/coredns"
)

// Mount is what the container of CoreDNS has at a path.
type Mount struct {
	Path string
	// Files are those of ConfigMaps, by their path below Path; "" is a file that is mounted alone.
	Files map[string]MountedFile
	// ConfigMap is the name of the one that is mounted; empty for several, or for another volume.
	ConfigMap string
	// Unread is why there may be other files, which cannot be read; empty if there are none.
	Unread string
}

// MountedFile is a key of a ConfigMap.
type MountedFile struct {
	ConfigMap *corev1.ConfigMap
	Key, Text string
}

// readMounts reads the ConfigMaps that the container of CoreDNS mounts.
func readMounts(ctx context.Context, client kubernetes.Interface, w Workload) (out []Mount, err error) {
	c := w.container()
	if c == nil {
		return nil, nil
	}
	for _, at := range c.VolumeMounts {
		i := slices.IndexFunc(w.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == at.Name })
		if i < 0 {
			continue // the API server refuses it
		}
		m := Mount{Path: path.Clean(at.MountPath), Files: map[string]MountedFile{}}
		if err := m.readVolume(ctx, client, w.Namespace, w.Template.Spec.Volumes[i].VolumeSource); err != nil {
			return nil, err
		}
		if sub := subPath(at); sub != "" {
			m.below(sub)
		}
		out = append(out, m)
	}
	return out, nil
}

func subPath(at corev1.VolumeMount) string {
	if at.SubPath != "" {
		return path.Clean(at.SubPath)
	}
	return at.SubPathExpr
}

// below keeps what is mounted with a subPath: one file, or a folder.
func (m *Mount) below(sub string) {
	files := m.Files
	m.Files = map[string]MountedFile{}
	for name, f := range files {
		if name == sub {
			m.Files[""] = f
		} else if rest, ok := strings.CutPrefix(name, sub+"/"); ok {
			m.Files[rest] = f
		}
	}
}

func (m *Mount) readVolume(ctx context.Context, client kubernetes.Interface, namespace string, v corev1.VolumeSource) error {
	switch {
	case v.ConfigMap != nil:
		m.ConfigMap = v.ConfigMap.Name
		return m.readConfigMap(ctx, client, namespace, v.ConfigMap.Name, v.ConfigMap.Items, ptr.Deref(v.ConfigMap.Optional, false))
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap == nil {
				m.Unread = "it is not in a ConfigMap"
				continue
			}
			if err := m.readConfigMap(ctx, client, namespace, s.ConfigMap.Name, s.ConfigMap.Items, ptr.Deref(s.ConfigMap.Optional, false)); err != nil {
				return err
			}
		}
	default:
		m.Unread = "it is not in a ConfigMap"
	}
	return nil
}

func (m *Mount) readConfigMap(ctx context.Context, client kubernetes.Interface, namespace, name string, items []corev1.KeyToPath, optional bool) error {
	cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		why, fatal := unread(err)
		if !apierrors.IsNotFound(err) || !optional {
			m.Unread = why
		}
		return fatal
	}
	for key, text := range cm.Data {
		at := key
		if len(items) > 0 {
			i := slices.IndexFunc(items, func(item corev1.KeyToPath) bool { return item.Key == key })
			if i < 0 {
				continue
			}
			at = path.Clean(items[i].Path)
		}
		m.Files[at] = MountedFile{cm, key, text}
	}
	return nil
}

// corefilePath is what the container's -conf names; empty if it has none.
func corefilePath(c corev1.Container) string {
	value, _ := argument(&c, "conf")
	return value
}

// readCorefile finds the Corefile among the mounted files: by the path that CoreDNS is given, else by
// its name.
func (d *DNS) readCorefile() {
	c := d.Workload.container()
	if c == nil {
		d.CorefileUnread = "the pods have no container"
		return
	}
	at := corefilePath(*c)
	file, err := d.mounted(path.Join("/", at))
	if at == "" || err != nil {
		for _, m := range d.Mounts {
			if f, ok := m.Files["Corefile"]; ok && at == "" {
				file, err, at = f, nil, path.Join(m.Path, "Corefile")
			}
		}
	}
	if err != nil {
		var mounts []string
		for _, m := range d.Mounts {
			for name := range m.Files {
				mounts = append(mounts, path.Join(m.Path, name))
			}
		}
		slices.Sort(mounts)
		d.CorefileUnread = fmt.Sprintf("the Corefile%s: %v; of ConfigMaps the pods have: %s", after(" ", at), err, cmp.Or(strings.Join(mounts, ", "), "none"))
		return
	}
	d.CorefilePath, d.Corefile, d.CorefileObject, d.ConfigMap = path.Join("/", at), file.Text, file.ConfigMap, file.ConfigMap.Namespace+"/"+file.ConfigMap.Name
	d.CorefileKey = file.Key
}

var errNotMounted = errors.New("it is in no ConfigMap that is mounted")

// mountOf is the innermost mount of a path.
func (d DNS) mountOf(file string) (Mount, bool) {
	found := -1
	for i, m := range d.Mounts {
		if (file == m.Path || strings.HasPrefix(file, strings.TrimSuffix(m.Path, "/")+"/")) && (found < 0 || len(m.Path) > len(d.Mounts[found].Path)) {
			found = i
		}
	}
	if found < 0 {
		return Mount{}, false
	}
	return d.Mounts[found], true
}

// mounted is a file of the pods.
func (d DNS) mounted(file string) (MountedFile, error) {
	m, ok := d.mountOf(file)
	if !ok {
		return MountedFile{}, errNotMounted
	}
	f, ok := m.Files[strings.TrimPrefix(strings.TrimPrefix(file, m.Path), "/")]
	switch {
	case ok:
		return f, nil
	case m.Unread != "":
		return f, errors.New(m.Unread)
	}
	return f, fmt.Errorf("there is no such file in what is mounted at %s", m.Path)
}

// source is the Corefile with what the pods read next to it.
func (d DNS) source() coredns.Source {
	s := coredns.Source{Text: d.Corefile, Import: d.imported, Env: d.env}
	if d.WorkloadUnread != "" {
		s.Tag = "none"
	}
	if c := d.container(); c != nil && c.Image != "" {
		s.Tag = cmp.Or(tagOf(c.Image), "none")
	}
	return s
}

// imported are the mounted files that the pattern of an import matches. CoreDNS looks for them in the
// folder of its Corefile, and sorts them.
func (d DNS) imported(pattern string) ([]coredns.File, error) {
	if d.WorkloadUnread != "" {
		return nil, errors.New("what the pods mount is not known: " + d.WorkloadUnread)
	}
	if !path.IsAbs(pattern) {
		pattern = path.Join(path.Dir(d.CorefilePath), pattern)
	}
	fixed := pattern
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		fixed = path.Dir(pattern[:i] + "x")
	}
	if m, ok := d.mountOf(fixed); !ok {
		return nil, errNotMounted
	} else if m.Unread != "" {
		return nil, errors.New(m.Unread)
	}
	var out []coredns.File
	for _, m := range d.Mounts {
		for name, f := range m.Files {
			at := path.Join(m.Path, name)
			if ok, err := path.Match(pattern, at); err != nil {
				return nil, fmt.Errorf("no pattern of files: %w", err)
			} else if ok && f.ConfigMap != nil {
				out = append(out, coredns.File{Path: at, Text: f.Text})
			}
		}
	}
	slices.SortFunc(out, func(a, b coredns.File) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// env is an environment variable of the container, if its value could be read.
func (d DNS) env(name string) (string, bool) {
	for _, e := range slices.Backward(d.Env) {
		if e.Name == name {
			return e.Value, e.ValueFrom == nil && !reference.MatchString(e.Value)
		}
	}
	return "", false
}
