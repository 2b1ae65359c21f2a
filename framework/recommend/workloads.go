package recommend

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// program is how a program is known, whatever its chart, release and labels are called. Mirrors keep
// the end of an image's name at best, so its settings count as well.
type program struct {
	images    []string // patterns of the last parts of the image's name, without registry and tag
	commands  []string // the last part of a command's path
	variables []string // that no other program has
	flags     []string // that no other program has
	label     string   // app.kubernetes.io/name of its chart
}

// in returns the container of that program; nil if the workload has none.
func (p program) in(w Workload) *corev1.Container {
	for _, c := range running(&w.Template.Spec) {
		if p.hasImage(c.Image) || len(c.Command) > 0 && slices.Contains(p.commands, path.Base(c.Command[0])) || slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return slices.Contains(p.variables, e.Name) }) ||
			slices.ContainsFunc(p.flags, func(flag string) bool { _, set := argument(c, flag); return set }) {
			return c
		}
	}
	if p.label != "" && w.Labels["app.kubernetes.io/name"] == p.label {
		return containerOf(&w.Template.Spec, p.label)
	}
	return nil
}

// running are the containers that run as long as the pod: its containers, and init containers that are sidecars.
func running(pod *corev1.PodSpec) (out []*corev1.Container) {
	for i := range pod.Containers {
		out = append(out, &pod.Containers[i])
	}
	for i := range pod.InitContainers {
		if p := pod.InitContainers[i].RestartPolicy; p != nil && *p == corev1.ContainerRestartPolicyAlways {
			out = append(out, &pod.InitContainers[i])
		}
	}
	return out
}

func (p program) hasImage(image string) bool {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:]
	name, _, _ = strings.Cut(name, ":")
	name = path.Join(path.Base(path.Dir(image)), name)
	return slices.ContainsFunc(p.images, func(pattern string) bool {
		matches, err := path.Match(pattern, name)
		return err == nil && matches
	})
}

// tagOf is the tag of an image; empty if it has none.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// shellText is the flag of a shell before the text that it runs, such as -c and -ec.
var shellText = regexp.MustCompile(`^-[eilux]{0,2}c$`)

// commandLine are the words of a container's command and arguments, also of the one that a shell is given.
func commandLine(c *corev1.Container) (words []string) {
	all := slices.Concat(c.Command, c.Args)
	for i, word := range all {
		if i > 0 && shellText.MatchString(all[i-1]) {
			words = append(words, strings.Fields(word)...)
			continue
		}
		words = append(words, word)
	}
	return words
}

// argument is the value of a flag of a container's command line.
func argument(c *corev1.Container, flag string) (value string, set bool) {
	args := commandLine(c)
	for i, arg := range args {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case !strings.HasPrefix(arg, "-") || name != flag:
		case given:
			return value, true
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			return args[i+1], true
		default:
			return "true", true
		}
	}
	return "", false
}

// setting is the value of a setting, by its argument or its environment variable; and where else it may
// be, if it is in neither.
func setting(c *corev1.Container, variable, flag string) (value, elsewhere string) {
	if c == nil {
		return "", ""
	}
	if v, set := argument(c, flag); set {
		return known(v)
	}
	for _, env := range slices.Backward(c.Env) { // the last one counts
		switch {
		case env.Name != variable:
		case env.ValueFrom != nil:
			return "", "what its valueFrom refers to"
		default:
			return known(env.Value)
		}
	}
	for _, from := range c.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			elsewhere = "ConfigMap " + from.ConfigMapRef.Name
		case from.SecretRef != nil:
			elsewhere = "Secret " + from.SecretRef.Name
		}
	}
	return "", elsewhere
}

// known is a value, or where it may be if it has a reference that could not be resolved.
func known(v string) (value, elsewhere string) {
	if reference.MatchString(v) {
		return "", "what " + v + " refers to"
	}
	return v, ""
}

// reference is one to an environment variable in the environment, the command or the arguments of a
// container; $$ is no reference.
var reference = regexp.MustCompile(`\$\$|\$\([^()]+\)`)

// expand replaces the references to variables that are before it in the environment; others stay, as
// Kubernetes leaves them.
func expand(text string, env []corev1.EnvVar) string {
	return reference.ReplaceAllStringFunc(text, func(ref string) string {
		for _, e := range slices.Backward(env) {
			if ref == "$("+e.Name+")" && e.ValueFrom == nil {
				return e.Value
			}
		}
		return ref
	})
}

// resolve takes the environment of a container from the ConfigMaps that it refers to, as far as they can
// be read, and replaces the references to it.
func resolve(ctx context.Context, client kubernetes.Interface, namespace string, c *corev1.Container) error {
	read := map[string]*corev1.ConfigMap{}
	configMap := func(name string) (*corev1.ConfigMap, error) {
		if cm, done := read[name]; done {
			return cm, nil
		}
		cm, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			if _, fatal := unread(err); fatal != nil {
				return nil, fmt.Errorf("read ConfigMap %s/%s: %w", namespace, name, err)
			}
			cm = nil
		}
		read[name] = cm
		return cm, nil
	}
	for i, env := range c.Env {
		if env.ValueFrom == nil || env.ValueFrom.ConfigMapKeyRef == nil {
			continue
		}
		ref := env.ValueFrom.ConfigMapKeyRef
		cm, err := configMap(ref.Name)
		if err != nil {
			return err
		}
		if cm != nil {
			c.Env[i] = corev1.EnvVar{Name: env.Name, Value: cm.Data[ref.Key]}
		}
	}
	var from []corev1.EnvVar
	var left []corev1.EnvFromSource
	for _, source := range c.EnvFrom { // the last one counts, and Env more than all
		var cm *corev1.ConfigMap
		if source.ConfigMapRef != nil {
			var err error
			if cm, err = configMap(source.ConfigMapRef.Name); err != nil {
				return err
			}
		}
		if cm == nil {
			left = append(left, source)
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
			from = append(from, corev1.EnvVar{Name: source.Prefix + key, Value: cm.Data[key]})
		}
	}
	c.Env, c.EnvFrom = append(from, c.Env...), left
	for i := range c.Env {
		c.Env[i].Value = expand(c.Env[i].Value, c.Env[:i])
	}
	for _, words := range [][]string{c.Command, c.Args} {
		for i := range words {
			words[i] = expand(words[i], c.Env)
		}
	}
	return nil
}

// queueReference is a queue of SQS in any text: its URL or its ARN.
var queueReference = regexp.MustCompile(`https?://[a-zA-Z0-9.:-]*(?:sqs|queue)[a-zA-Z0-9.:-]*/\w+/[\w.-]+|arn:[a-z-]+:sqs:[\w-]*:\w*:[\w.-]+`)

// regionName is the region in the ARN of a queue, or in the host of its URL.
var regionName = regexp.MustCompile(`\b[a-z]{2}(?:-[a-z]+)+-\d\b`)

// queueElsewhere reports whether a queue that is given by its URL or ARN is known to be in another region.
func queueElsewhere(of, region string) bool {
	at := regionName.FindString(of[:max(0, strings.LastIndexAny(of, ":/"))])
	return at != "" && region != "" && at != region
}

// queueName is the name of a queue that is given by its name, URL or ARN.
func queueName(of string) string {
	of = strings.TrimRight(strings.TrimSpace(of), "/")
	return of[strings.LastIndexAny(of, ":/")+1:]
}

// queueNamed is the queue that the settings of a workload name: by URL or ARN, or the one of that name in a
// setting of a queue. Empty if they name none.
func (w Workload) queueNamed(name string) string {
	for _, c := range running(&w.Template.Spec) {
		line := commandLine(c)
		for i, arg := range line {
			if found := queueReference.FindString(arg); found != "" {
				return found
			}
			flag, value, given := strings.Cut(arg, "=")
			if !given && i+1 < len(line) {
				value = line[i+1]
			}
			if name != "" && value == name && strings.HasPrefix(flag, "-") && strings.Contains(strings.ToUpper(flag), "QUEUE") {
				return name
			}
		}
		for _, env := range c.Env {
			if found := queueReference.FindString(env.Value); found != "" {
				return found
			}
			if name != "" && env.Value == name && strings.Contains(strings.ToUpper(env.Name), "QUEUE") {
				return name
			}
		}
	}
	return ""
}

// rights are what ServiceAccounts may do in the whole cluster.
type rights struct {
	unread   string // why they are not known; empty if they are
	bindings []rbacv1.ClusterRoleBinding
	rules    map[string][]rbacv1.PolicyRule // of each ClusterRole
}

func noRights(err error) (rights, error) {
	if notServed(err) {
		return rights{}, nil
	}
	why, fatal := unread(err)
	return rights{unread: why}, fatal
}

func readRights(ctx context.Context, client kubernetes.Interface) (rights, error) {
	roles, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return noRights(err)
	}
	bindings, err := client.RbacV1().ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return noRights(err)
	}
	r := rights{bindings: bindings.Items, rules: map[string][]rbacv1.PolicyRule{}}
	for i := range roles.Items {
		r.rules[roles.Items[i].Name] = roles.Items[i].Rules
	}
	return r, nil
}

// may reports whether the ServiceAccount of a workload has a right.
func (r rights) may(w Workload, verb, group, resource string) bool {
	account := w.Template.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	has := func(list []string, word string) bool {
		return slices.Contains(list, word) || slices.Contains(list, "*")
	}
	for _, b := range r.bindings {
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool {
			return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == w.Namespace && s.Name == account ||
				s.Kind == rbacv1.GroupKind && (s.Name == "system:serviceaccounts" || s.Name == "system:serviceaccounts:"+w.Namespace)
		}) {
			continue
		}
		if slices.ContainsFunc(r.rules[b.RoleRef.Name], func(rule rbacv1.PolicyRule) bool {
			return has(rule.Verbs, verb) && has(rule.APIGroups, group) && has(rule.Resources, resource)
		}) {
			return true
		}
	}
	return false
}

// mayDrain reports whether a workload may evict or delete pods, or cordon nodes.
func (r rights) mayDrain(w Workload) bool {
	return r.may(w, "create", "", "pods/eviction") || r.may(w, "delete", "", "pods") || r.may(w, "patch", "", "nodes") || r.may(w, "update", "", "nodes")
}
