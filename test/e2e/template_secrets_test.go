package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/test/pgp"
)

func quoted(text string) string { return fmt.Sprintf("%q", text) }

// secret is a Secret of text.
func secret(name string, pairs ...string) string {
	out := "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData:\n"
	for i := 0; i < len(pairs); i += 2 {
		out += fmt.Sprintf("  %s: %q\n", pairs[i], pairs[i+1])
	}
	return out
}

// sopsPGP makes a PGP key and encrypts content for it.
func sopsPGP(t *testing.T, content string) (key, sealed string) {
	t.Helper()
	pgpKey := pgp.New(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(env.BinDir("tools"), "sops"), "--encrypt", "--pgp", pgpKey.Fingerprint,
		"--encrypted-regex", "^data$", "--input-type", "yaml", "--output-type", "yaml", "/dev/stdin")
	cmd.Env = append(os.Environ(), "GNUPGHOME="+pgpKey.Home)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(content), &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("sops: %v: %s", err, errs.String())
	}
	return pgpKey.Private, string(out)
}

// TestSopsFields: each field of a sops step, with keys in several places.
func TestSopsFields(t *testing.T) {
	t.Parallel()
	age, byAge := sopsFile(t, cm("templated", "by", "age"))
	otherAge, _ := sopsFile(t, cm("x"))
	pgp, byPGP := sopsPGP(t, cm("templated", "by", "pgp"))
	otherPGP, _ := sopsPGP(t, cm("x"))
	keys := strings.Join([]string{
		secret("age", "b", age, "a", otherAge), secret("age-one", "keys", otherAge+age), secret("pgp", "a.asc", otherPGP, "b.asc", pgp), secret("pgp-one", "keys", otherPGP+pgp),
	}, "---\n")
	fromAge, fromPGP := map[string]string{"by": "age"}, map[string]string{"by": "pgp"}
	for name, f := range map[string]field{
		"age":       {files: map[string]string{"a/b.sops.yaml": byAge}, steps: "[{sops: {age: {privateKeysSecretRef: {name: age}}}}, {ytt: {}}]", want: fromAge},
		"age-one":   {files: map[string]string{"b.sops.yml": byAge}, steps: "[{sops: {age: {privateKeysSecretRef: {name: age-one}}}}, {ytt: {}}]", want: fromAge},
		"pgp":       {files: map[string]string{"b.sops.yml": byPGP}, steps: "[{sops: {pgp: {privateKeysSecretRef: {name: pgp}}}}, {ytt: {}}]", want: fromPGP},
		"pgp-one":   {files: map[string]string{"b.sops.yml": byPGP}, steps: "[{sops: {pgp: {privateKeysSecretRef: {name: pgp-one}}}}, {ytt: {}}]", want: fromPGP},
		"both":      {files: map[string]string{"b.sops.yml": byPGP}, steps: "[{sops: {age: {privateKeysSecretRef: {name: age}}, pgp: {privateKeysSecretRef: {name: pgp}}}}, {ytt: {}}]", want: fromPGP},
		"paths":     {files: map[string]string{"a/b.sops.yml": byAge, "c.sops.yml": byPGP}, steps: "[{sops: {paths: [a], age: {privateKeysSecretRef: {name: age}}}}, {ytt: {paths: [a]}}]", want: fromAge},
		"file":      {files: map[string]string{"a/b.sops.yml": byAge, "a/c.sops.yml": byPGP}, steps: "[{sops: {paths: [a/b.sops.yml], age: {privateKeysSecretRef: {name: age}}}}, {ytt: {paths: [a/b.yml]}}]", want: fromAge},
		"two-steps": {files: map[string]string{"a.sops.yml": byAge, "b/c.sops.yml": byPGP}, steps: "[{sops: {paths: [a.sops.yml], age: {privateKeysSecretRef: {name: age}}}}, {sops: {paths: [b], pgp: {privateKeysSecretRef: {name: pgp}}}}, {ytt: {paths: [b]}}]", want: fromPGP},
		"values":    {files: with(echo, "v.sops.yml", strings.Replace(byAge, "kind: ConfigMap\n", "kind: ConfigMap\n", 1)), steps: "[{sops: {paths: [v.sops.yml], age: {privateKeysSecretRef: {name: age}}}}, {ytt: {paths: [v.yml]}}]", want: fromAge},
	} {
		f.objects = keys
		t.Run(name, f.run)
	}
}

// TestTemplateSecretsStayHidden: what steps read of Secrets and what sops decrypts is
// in no status, event or log, however a step fails.
func TestTemplateSecretsStayHidden(t *testing.T) {
	t.Parallel()
	const value, sealed = "correct-horse-battery", "staple-tr0ub4dor"
	age, file := sopsFile(t, "#@ x =\ndata:\n  password: "+sealed+" #@ bad\n")
	other, _ := sopsFile(t, cm("x"))
	w := newWorld(t)
	w.apply(strings.Join([]string{secret("values", "v.yml", "nowhere:\n  password: "+value+"\n"), secret("age", "key", age), secret("other", "key", other)}, "---\n"))
	ref := "valuesFrom: [{secretRef: {name: values}}]"
	apps := map[string]string{
		"ytt":     templated(echo, "[{ytt: {"+ref+"}}]"),
		"helm":    templated(chart("templates/x.yaml", "{{ fail (toYaml .Values.nowhere) }}\n"), "[{helmTemplate: {"+ref+"}}]"),
		"jsonnet": templated(map[string]string{"main.jsonnet": "error std.toString(std.extVar('values'))"}, "[{jsonnet: {"+ref+"}}]"),
		"cue":     templated(map[string]string{"a.cue": "package a\nnowhere: password: \"x\"\n"}, "[{cue: {"+ref+"}}]"),
		"sops":    templated(map[string]string{"a.sops.yml": file}, "[{sops: {age: {privateKeysSecretRef: {name: age}}}}, {ytt: {}}]"),
		"no-key":  templated(map[string]string{"a.sops.yml": file}, "[{sops: {age: {privateKeysSecretRef: {name: other}}}}, {ytt: {}}]"),
	}
	for name, spec := range apps {
		w.app(name, spec)
	}
	for name := range apps {
		app := w.failed(name)
		if s := app.Status; s.Template == nil || s.Template.Error == "" || s.Deploy != nil {
			t.Errorf("%s failed elsewhere: %+v", name, s.Conditions)
		}
		t.Logf("%s: %s", name, app.Status.UsefulErrorMessage)
	}
	forbidden := []string{value, sealed}
	for _, key := range []string{age, other} {
		for line := range strings.Lines(key) {
			if strings.HasPrefix(line, "AGE-SECRET-KEY-") {
				forbidden = append(forbidden, strings.TrimSpace(line))
			}
		}
	}
	w.noSecrets(forbidden...)
}
