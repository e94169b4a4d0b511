package values_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/resolve/values"
)

// schema is what ytt makes of a data values schema.
const schema = `
type: object
additionalProperties: false
properties:
  namespace: {type: string, default: web}
  replicas: {type: integer, default: 1, maximum: 5}
  ratio: {type: number, format: float, default: 0.5}
  debug: {type: boolean, default: false}
  level: {type: string, enum: [low, high], default: low}
  password: {type: string, default: "", minLength: 8}
  address: {type: string, format: ipv4, default: ""}
  note: {type: string, nullable: true, default: null}
  any: {nullable: true, default: anything}
  labels: {type: object, additionalProperties: {type: string}, default: {}}
  hosts:
    type: array
    default: []
    items: {type: object, additionalProperties: false, properties: {name: {type: string, default: ""}, port: {type: integer, default: 80}}}
  tls:
    type: object
    additionalProperties: false
    properties: {enabled: {type: boolean, default: false}, secret: {type: string, default: ""}}
`

func toJSON(t testing.TB, text string) []byte {
	t.Helper()
	out, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func files(contents ...string) (out []values.File) {
	for i, c := range contents {
		out = append(out, values.File{Source: fmt.Sprintf("Secret v, key %d.yml", i), Content: []byte(c)})
	}
	return out
}

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		reason, schema string
		files          []values.File
		form           values.Form
		want           []string
	}{
		"NoValues":     {"defaults fit", schema, nil, values.Form{}, nil},
		"NoSchema":     {"nothing to check against", "", files("a: 1"), values.Form{}, nil},
		"NullSchema":   {"stored without one", "null", files("a: 1"), values.Form{}, nil},
		"EmptySchema":  {"it accepts everything", "{}", files("a: 1"), values.Form{}, nil},
		"Fits":         {"all kinds", schema, files("replicas: 2\nratio: 1\ndebug: true\nlevel: high\npassword: longenough\nlabels: {a: b}\nhosts: [{name: x, port: 1}]\ntls: {enabled: true}\nnote: null\nany: [1]\naddress: 10.0.0.1"), values.Form{}, nil},
		"Defaults":     {"{} and [] are values like others", schema, files("labels: {}\nhosts: []"), values.Form{}, nil},
		"Type":         {"the key, and why", schema, files("replicas: two"), values.Form{}, []string{"replicas: want integer, have string"}},
		"Fraction":     {"not whole", schema, files("replicas: 1.5"), values.Form{}, []string{"replicas: want integer, have number"}},
		"Nested":       {"the whole path", schema, files("hosts: [{name: x}, {port: '80'}]\ntls: {enabled: 'yes'}"), values.Form{}, []string{"hosts[1].port: want integer, have string", "tls.enabled: want boolean, have string"}},
		"Unknown":      {"misspelt keys", schema, files("replica: 2\ntls: {on_: true}"), values.Form{}, []string{"replica: not a key of the schema", "tls.on_: not a key of the schema"}},
		"Map":          {"a map where a list belongs", schema, files("hosts: {name: x}"), values.Form{}, []string{"hosts: want array, have object"}},
		"Enum":         {"what is allowed", schema, files("level: medium"), values.Form{}, []string{"level should be one of [low high]"}},
		"Bound":        {"the bound", schema, files("replicas: 9"), values.Form{}, []string{"replicas should be less than or equal to 5"}},
		"Null":         {"not nullable", schema, files("replicas: null"), values.Form{}, []string{"replicas: want integer, have null"}},
		"HelmNull":     {"null takes the key away", schema, files("replicas: 3", "replicas: null\ntls: {enabled: null}"), values.Form{NullRemoves: true}, nil},
		"LaterWins":    {"files are merged in order", schema, files("replicas: two\ntls: {enabled: 'yes', secret: x}", "replicas: 2\ntls: {enabled: true}"), values.Form{}, nil},
		"Documents":    {"so are documents", schema, files("replicas: two\n---\nreplicas: 2\n"), values.Form{}, nil},
		"Empty":        {"an empty file is none", schema, files("", "# nothing\n", "---\n"), values.Form{}, nil},
		"YAML":         {"which file, and where", schema, files("replicas: 1", "a: b\n  c: [secret"), values.Form{}, []string{"Secret v, key 1.yml: not valid YAML (line 2)"}},
		"List":         {"not a map", schema, files("[a]", "text"), values.Form{}, []string{"Secret v, key 0.yml: want keys and values at the top, have array", "Secret v, key 1.yml: want keys and values at the top, have string"}},
		"Comment":      {"a comment of ytt in plain values is one", schema, files("#@data/values\n---\nreplicas: two"), values.Form{}, []string{"replicas: want integer, have string"}},
		"Overlay":      {"an overlay of plain values", schema, files("#@data/values\n---\nreplicas: two"), values.Form{Overlay: true}, []string{"replicas: want integer, have string"}},
		"OverlayCode":  {"what code computes is not known", schema, files("#@ load(\"@ytt:data\", \"data\")\n#@data/values\n---\nreplicas: #@ data.values.x"), values.Form{Overlay: true}, nil},
		"Required":     {"what has no default must be given", "type: object\nrequired: [a, b]\nproperties: {a: {type: string}, b: {type: string, default: x}}", nil, values.Form{}, []string{"a is required"}},
		"Open":         {"a schema without additionalProperties takes other keys", "type: object\nproperties: {a: {type: string}}", files("b: 1"), values.Form{}, nil},
		"AnyOf":        {"alternatives", "type: object\nproperties: {a: {anyOf: [{type: string}, {type: integer}]}}", files("a: true"), values.Form{}, []string{`"a" must validate at least one schema (anyOf)`, "a: want string, have boolean"}},
		"Reference":    {"what is not supported accepts everything", "type: object\nproperties: {a: {$ref: '#/x'}, b: {type: string}}", files("a: 1\nb: 1"), values.Form{}, []string{"b: want string, have number"}},
		"PatternProps": {"so do patterns of keys", "type: object\nadditionalProperties: false\npatternProperties: {'^x': {type: string}}", files("y: 1"), values.Form{}, nil},
		"SchemaList":   {"a schema that is none is told", "[a]", files("y: 1"), values.Form{}, []string{"values were not checked: the Package's values schema is no object"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var s []byte
			if c.schema != "" {
				s = toJSON(t, c.schema)
			}
			got := values.Check(s, c.files, c.form)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

// TestNoValueIsTold: texts go to Events and statuses, which more people may read
// than the Secrets that values come from.
func TestNoValueIsTold(t *testing.T) {
	const secret = "hunter2"
	s := toJSON(t, schema)
	for _, key := range []string{"replicas", "ratio", "debug", "level", "password", "address", "labels", "hosts", "tls"} {
		got := values.Check(s, files(key+": "+secret), values.Form{})
		if len(got) == 0 || strings.Contains(strings.Join(got, "\n"), secret) {
			t.Errorf("%s: %q", key, got)
		}
	}
	for _, broken := range []string{"a: *" + secret, "a: {" + secret + ": [", "? " + secret, "a: !!int " + secret, "\"" + secret} {
		if got := values.Check(s, files(broken), values.Form{}); strings.Contains(strings.Join(got, "\n"), secret+" ") {
			t.Errorf("%q: %q", broken, got)
		}
	}
}

func TestWorkIsBounded(t *testing.T) {
	var list strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&list, "- {name: n%d}\n", i)
	}
	unique := `{"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true}}}`
	if got := values.Check([]byte(unique), files("a:\n"+list.String()), values.Form{}); got != nil {
		t.Errorf("a long list: %q", got)
	}
	wide := map[string]any{}
	for i := range 2000 {
		wide[fmt.Sprint(i)] = map[string]any{"type": "string"}
	}
	s, err := json.Marshal(map[string]any{"properties": map[string]any{"a": map[string]any{"items": map[string]any{"properties": wide}}}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"values were not checked: values and schema are too large together"}
	if diff := cmp.Diff(want, values.Check(s, files("a:\n"+list.String()), values.Form{})); diff != "" {
		t.Error(diff)
	}
	deep := strings.Repeat(`{"properties":{"a":`, 300) + "{}" + strings.Repeat("}}", 300)
	if got := values.Check([]byte(deep), nil, values.Form{}); len(got) != 1 || !strings.Contains(got[0], "nested too deeply") {
		t.Errorf("a deep schema: %q", got)
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"
	if got := values.Check(toJSON(t, schema), files(bomb), values.Form{}); len(got) == 0 {
		t.Error("a bomb of aliases was not told about")
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "k%d%s: 1\n", i, strings.Repeat("ü", 300))
	}
	got := values.Check(toJSON(t, schema), files(b.String()), values.Form{})
	if len(got) != 10 || !strings.HasPrefix(got[9], "and 49") {
		t.Errorf("%d problems, the last is %q", len(got), got[len(got)-1])
	}
}

// FuzzCheck: any schema and any values are judged, in valid and bounded texts.
func FuzzCheck(f *testing.F) {
	f.Add(toJSON(f, schema), []byte("replicas: two\nhosts: [{}]"), true, false)
	f.Add([]byte(`{"type":"x","items":[1],"pattern":"("}`), []byte("a: &a [*a]"), false, true)
	f.Add([]byte(`{"properties":{"a":{"type":["string","null"],"pattern":"(","format":"date","multipleOf":0}}}`), []byte("a: 1e999"), false, true)
	f.Fuzz(func(t *testing.T, schema, content []byte, overlay, nulls bool) {
		got := values.Check(schema, []values.File{{Source: "s", Content: content}}, values.Form{Overlay: overlay, NullRemoves: nulls})
		if len(got) > 10 {
			t.Fatalf("%d problems", len(got))
		}
		for _, text := range got {
			if !utf8.ValidString(text) || len(text) > 1000 {
				t.Fatalf("%q", text)
			}
		}
	})
}

func ExampleCheck() {
	schema := []byte(`{"type": "object", "properties": {"replicas": {"type": "integer"}}}`)
	fmt.Println(values.Check(schema, []values.File{{Source: "Secret web, key values.yml", Content: []byte("replicas: two")}}, values.Form{}))
	// Output: [replicas: want integer, have string]
}
