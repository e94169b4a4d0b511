// Package why turns a failed deploy into what its user needs: the cause that kapp
// does not name, such as why a Pod does not start, and what to try. It is pure:
// texts and objects in, lines out. Only kapp's words decide what is said, so a text
// that is not known gets nothing added.
package why

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of what is added to kapp's text.
const (
	// MaxObjects is how many objects' causes are looked up.
	MaxObjects = 4
	maxHints   = 5
	maxReasons = 8
	maxText    = 600 // bytes of a text from the cluster
)

// Run is who deployed.
type Run struct {
	// App is namespace/name of what is deployed.
	App string
	// Account is namespace/name of the service account; empty: a kubeconfig.
	Account string
}

// Object is an object that kapp waited for.
type Object struct {
	// Kind is in lower case, as kapp prints it. Namespace is empty for objects
	// without one.
	Kind, Name, Namespace string
}

func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind + "/" + o.Name
	}
	return o.Kind + "/" + o.Name + " in namespace " + o.Namespace
}

var (
	// waited is in the errors that kapp ends a wait with.
	waited = regexp.MustCompile(`Timed out waiting after |Finished waiting unsuccessfully|Resource timed out waiting after `)
	// described is how kapp writes an object.
	described = regexp.MustCompile(`([a-z][a-z0-9]*)/([a-z0-9][a-z0-9.-]*) \([a-z0-9./-]+\) (?:namespace: ([a-z0-9-]+)|cluster)`)
)

// Waited returns the objects that kapp gave up waiting for, from its error text: at
// most MaxObjects of the kinds whose causes can be looked up.
func Waited(text string) []Object {
	if !waited.MatchString(text) {
		return nil
	}
	var all []Object
	for _, m := range described.FindAllStringSubmatch(text, -1) {
		o := Object{m[1], m[2], m[3]}
		if !explained[o.Kind] || o.Namespace == "" || slices.Contains(all, o) {
			continue
		}
		if all = append(all, o); len(all) == MaxObjects {
			break
		}
	}
	return all
}

// explained are the kinds whose causes can be looked up.
var explained = map[string]bool{
	"deployment": true, "statefulset": true, "daemonset": true, "replicaset": true, "job": true, "pod": true,
	"persistentvolumeclaim": true,
}

// Reason is why one object is not as it should be.
type Reason struct {
	// Object names it, as pod/web-1 in namespace shop.
	Object string
	// Text is the cause, in the cluster's words.
	Text string
	// Hint is what to try; may be empty.
	Hint string
}

// Text joins reasons and hints to what is printed below kapp's own text, or returns
// "". Equal ones are named once.
func Text(reasons []Reason, hints []string) string {
	var out strings.Builder
	var seen []string
	add := func(prefix, text string) {
		line := prefix + oneLine(text)
		if text == "" || slices.Contains(seen, line) {
			return
		}
		seen = append(seen, line)
		out.WriteString(line + "\n")
	}
	for i, r := range reasons {
		if i == maxReasons {
			add("Why: ", "more objects have problems")
			break
		}
		add("Why: ", r.Object+": "+r.Text)
	}
	for _, r := range reasons[:min(len(reasons), maxReasons)] {
		add("Hint: ", r.Hint)
	}
	for _, h := range hints[:min(len(hints), maxHints)] {
		add("Hint: ", h)
	}
	return out.String()
}

// oneLine makes a text from the cluster a line that is not too long.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
