package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Annotations by which Helm knows hooks.
const (
	hookEvents = "helm.sh/hook"
	hookWeight = "helm.sh/hook-weight"
)

// The change groups of kapp in which a chart's objects are: its hooks of one weight
// before and after the rest, and the rest. Groups are annotations, each with a key
// of its own, by which the rules below find their objects.
const (
	groupKey    = "kapp.k14s.io/change-group."
	groupDomain = "garboard.dev/"
	groupBefore = "helm-pre-install-weight-"
	groupAfter  = "helm-post-install-weight-"
	groupRest   = "helm-chart"
)

// strategyKey says how kapp changes an object. Helm makes a hook anew each time, so
// a changed Job must not fail because its template cannot be changed.
const strategyKey = "kapp.k14s.io/update-strategy"

// hooks makes of what Helm printed what kapp is to deploy. Helm runs hooks at a time
// of their own; kapp knows only objects:
//
//   - Those for helm test, and those that run only when a release is deleted or
//     rolled back, are left out; notes tell of the latter.
//   - Those of pre-install come before the chart's other objects, those of
//     post-install and post-upgrade after them, both in the order of their weights.
//     Rules say so that kapp leaves aside where they contradict others, as the
//     App's author knows better.
//   - All others are objects like any other: which of an install and an upgrade it
//     is nobody can tell.
//
// A chart without such hooks comes back byte for byte.
func hooks(printed []byte) (manifest []byte, notes []string, err error) {
	if !bytes.Contains(printed, []byte(hookEvents)) {
		return printed, nil, nil
	}
	var docs []*document
	ordered := false
	for text := range documents(printed) {
		doc := &document{text: text}
		if bytes.Contains(text, []byte(hookEvents)) {
			if err := doc.parse(); err != nil {
				return nil, nil, err
			}
		}
		if note, out := doc.leftOut(); out {
			if note != "" {
				notes = append(notes, note)
			}
			continue
		}
		ordered = ordered || doc.when() != groupRest
		docs = append(docs, doc)
	}
	if ordered {
		manifest, err = order(docs)
		return manifest, notes, err
	}
	for _, doc := range docs {
		manifest = append(manifest, doc.text...)
	}
	return manifest, notes, nil
}

// documents splits a stream of YAML before each line that begins a document.
func documents(stream []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		start := 0
		for at := 0; at < len(stream); {
			end := len(stream)
			if i := bytes.IndexByte(stream[at:], '\n'); i >= 0 {
				end = at + i + 1
			}
			line := stream[at:end]
			if at > start && bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.IndexByte(" \t\r\n", line[3]) >= 0) {
				if !yield(stream[start:at]) {
					return
				}
				start = at
			}
			at = end
		}
		if start < len(stream) {
			yield(stream[start:])
		}
	}
}

// document is one document that Helm printed.
type document struct {
	text []byte
	// object is what text holds, nil if that is no object or was not parsed.
	object map[string]any
}

// parse reads the text as kapp does.
func (d *document) parse() error {
	asJSON, err := yaml.YAMLToJSON(d.text)
	if err != nil {
		return fmt.Errorf("read what helm printed: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber() // as they are, however large
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("read what helm printed: %w", err)
	}
	d.object, _ = value.(map[string]any)
	return nil
}

func (d *document) metadata() map[string]any {
	m, _ := d.object["metadata"].(map[string]any)
	return m
}

func (d *document) annotation(key string) string {
	annotations, _ := d.metadata()["annotations"].(map[string]any)
	text, _ := annotations[key].(string)
	return text
}

func (d *document) events() []string {
	var events []string
	for event := range strings.SplitSeq(d.annotation(hookEvents), ",") {
		if event = strings.ToLower(strings.TrimSpace(event)); event != "" {
			events = append(events, event)
		}
	}
	return events
}

// leftOut says whether the document is a hook that no deploy is for.
func (d *document) leftOut() (note string, out bool) {
	events := d.events()
	tests := true
	for _, event := range events {
		switch event {
		case "test", "test-success", "test-failure":
		case "pre-delete", "post-delete", "pre-rollback", "post-rollback":
			tests = false
		default:
			return "", false
		}
	}
	if len(events) == 0 || tests {
		return "", len(events) > 0
	}
	return fmt.Sprintf("hook %v %v is left out: it is for %s only", d.object["kind"], d.metadata()["name"], strings.Join(events, ", ")), true
}

// when returns the group of hooks that the document belongs to, or groupRest.
func (d *document) when() string {
	events := d.events()
	switch {
	case slices.Contains(events, "pre-install"):
		return groupBefore
	case slices.Contains(events, "post-install"), slices.Contains(events, "post-upgrade"):
		return groupAfter
	}
	return groupRest
}

func (d *document) weight() int {
	n, err := strconv.Atoi(d.annotation(hookWeight))
	if err != nil {
		return 0 // as Helm has it
	}
	return n
}

// annotate sets an annotation unless it is there.
func (d *document) annotate(key, value string) {
	metadata := d.metadata()
	if metadata == nil {
		return // no object of Kubernetes: kapp says so
	}
	annotations, ok := metadata["annotations"].(map[string]any)
	if !ok {
		annotations = map[string]any{}
		metadata["annotations"] = annotations
	}
	if _, found := annotations[key]; !found {
		annotations[key] = value
	}
}

// order puts the documents into groups and adds the rules for these.
func order(docs []*document) ([]byte, error) {
	weights := map[string][]int{}
	needed := map[string]bool{}
	for _, doc := range docs {
		if doc.object == nil {
			if err := doc.parse(); err != nil {
				return nil, err
			}
		}
		when := doc.when()
		if when == groupRest {
			continue
		}
		weights[when] = append(weights[when], doc.weight())
		if when == groupBefore {
			words(doc.object, needed)
		}
	}
	var out bytes.Buffer
	for _, doc := range docs {
		doc.join(needed)
		if err := doc.write(&out); err != nil {
			return nil, err
		}
	}
	for _, list := range weights {
		slices.Sort(list)
	}
	rules, err := yaml.Marshal(rulesFor(slices.Compact(weights[groupBefore]), slices.Compact(weights[groupAfter])))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(&out, "---\n# When kapp deploys the hooks of the chart.\n%s", rules)
	return out.Bytes(), nil
}

// join puts the document into its group. What hooks before the rest may need stays
// out of the rest, so that it is there in time: kapp deploys it before all Pods.
func (d *document) join(needed map[string]bool) {
	when := d.when()
	kind, _ := d.object["kind"].(string)
	name, _ := d.metadata()["name"].(string)
	switch {
	case when != groupRest:
		group := when + strconv.Itoa(d.weight())
		d.annotate(groupKey+group, groupDomain+group)
		if kind == "Job" || kind == "Pod" {
			d.annotate(strategyKey, "fallback-on-replace")
		}
	case slices.Contains([]string{"Namespace", "CustomResourceDefinition"}, kind):
	case slices.Contains([]string{"ServiceAccount", "ConfigMap", "Secret", "PersistentVolumeClaim"}, kind) && needed[name]:
	case slices.Contains([]string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}, kind):
	default:
		d.annotate(groupKey+groupRest, groupDomain+groupRest)
	}
}

// words collects the strings in value, among which are the names of what an object
// refers to.
func words(value any, into map[string]bool) {
	switch value := value.(type) {
	case string:
		into[value] = true
	case []any:
		for _, v := range value {
			words(v, into)
		}
	case map[string]any:
		for _, v := range value {
			words(v, into)
		}
	}
}

func (d *document) write(out *bytes.Buffer) error {
	if d.object == nil {
		out.Write(d.text)
		return nil
	}
	text, err := yaml.Marshal(d.object)
	if err != nil {
		return err
	}
	out.WriteString("---\n")
	// Where it comes from: what kapp says of an object is hard to follow otherwise.
	for line := range bytes.Lines(d.text) {
		if bytes.HasPrefix(line, []byte("# Source: ")) {
			out.Write(line)
			break
		}
	}
	out.Write(text)
	return nil
}

// rulesFor returns kapp's configuration for hooks of these weights, in ascending
// order.
func rulesFor(before, after []int) map[string]any {
	var earlier []string
	var bindings []any
	bind := func(group string) {
		if len(earlier) > 0 {
			bindings = append(bindings, map[string]any{
				"rules": slices.Clone(earlier), "ignoreIfCyclical": true,
				"resourceMatchers": []any{map[string]any{"hasAnnotationMatcher": map[string]any{"keys": []string{groupKey + group}}}},
			})
		}
		earlier = append(earlier, "upsert after upserting "+groupDomain+group)
	}
	for _, w := range before {
		bind(groupBefore + strconv.Itoa(w))
	}
	bind(groupRest)
	for _, w := range after {
		bind(groupAfter + strconv.Itoa(w))
	}
	return map[string]any{
		"apiVersion": "kapp.k14s.io/v1alpha1", "kind": "Config",
		"metadata": map[string]any{"name": "helm-hooks"}, "changeRuleBindings": bindings,
	}
}
