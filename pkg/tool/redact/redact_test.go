package redact_test

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/tool/redact"
)

func TestString(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for name, tc := range map[string]struct {
		reason   string
		with     func(*redact.Redactor)
		in, want string
	}{
		"Value":        {"known values go", func(r *redact.Redactor) { r.Add("hunter2") }, "pass hunter2!", "pass [redacted]!"},
		"Nothing":      {"text without secrets stays", func(r *redact.Redactor) { r.Add("hunter2") }, "fine", "fine"},
		"Short":        {"short values do not shred the text", func(r *redact.Redactor) { r.Add("a"); r.Add("abc"); r.Add("") }, "a abc", "a abc"},
		"Word":         {"common words do not either", func(r *redact.Redactor) { r.Add("true") }, "true", "true"},
		"Space":        {"a final newline is not part of the secret", func(r *redact.Redactor) { r.Add("hunter2\n") }, "hunter2", "[redacted]"},
		"Base64":       {"encoded alone", func(r *redact.Redactor) { r.Add("hunter2") }, b64([]byte("hunter2")), "[redacted]=="},
		"Query":        {"escaped for an address", func(r *redact.Redactor) { r.Add("p@ss w") }, url.QueryEscape("p@ss w") + " p%40ss%20w", "[redacted] [redacted]"},
		"Quoted":       {"as Go and JSON quote it", func(r *redact.Redactor) { r.Add(`a"b\c`) }, fmt.Sprintf("%q", `a"b\c`), `"[redacted]"`},
		"Overlap":      {"overlapping secrets leave no rest", func(r *redact.Redactor) { r.Add("abcdef"); r.Add("defghi") }, "abcdefghi", "[redacted]"},
		"URLPassword":  {"the host stays", func(r *redact.Redactor) { r.AddURL("https://u:tok3n@git.example/r.git") }, "tok3n at https://u:tok3n@git.example/r.git", "[redacted] at https://[redacted]@git.example/r.git"},
		"URLBadEscape": {"also when it does not parse", func(r *redact.Redactor) { r.AddURL("http://robot:p%ssw0rd@proxy.example:3128") }, `"p%ssw0rd" at proxy.example`, `"[redacted]" at proxy.example`},
		"URLEscaped":   {"and in plain", func(r *redact.Redactor) { r.AddURL("https://u:p%40ssw@h/") }, "p@ssw", "[redacted]"},
		"URLSlash":     {"a slash in the password", func(r *redact.Redactor) { r.AddURL("https://u:p/ssw0rd@h/r") }, "x p/ssw0rd y", "x [redacted] y"},
		"URLToken":     {"a user without a password is a token", func(r *redact.Redactor) { r.AddURL("https://ghp_abcdef@h/r") }, "ghp_abcdef", "[redacted]"},
		"URLAtInPath":  {"an at sign in the path", func(r *redact.Redactor) { r.AddURL("https://host:8443/pkg@v2") }, "host 8443/pkg", "host 8443/pkg"},
		"URLUser":      {"the user of ssh stays", func(r *redact.Redactor) { r.AddURL("ssh://deploy@h/r") }, "ssh://deploy@h/r", "ssh://deploy@h/r"},
		"URLUnknown":   {"addresses that nobody announced", nil, "see https://a:b@h/x and ssh://a:b@h", "see https://[redacted]@h/x and ssh://a:[redacted]@h"},
		"Header":       {"headers that nobody announced", nil, "http.extraHeader Authorization: Basic QTpC]", "http.extraHeader Authorization: Basic [redacted]]"},
		"Pair":         {"basic authentication", func(r *redact.Redactor) { r.AddPair("u", "pw") }, b64([]byte("u:pw")), "[redacted]"},
		"SecretUser":   {"a user name stays beside a password", func(r *redact.Redactor) { r.AddSecret(secret("username", "robot", "password", "hunter2")) }, "robot hunter2", "robot [redacted]"},
		"SecretToken":  {"and goes without one", func(r *redact.Redactor) { r.AddSecret(secret("username", "tok3n")) }, "tok3n", "[redacted]"},
		"SecretHost":   {"the host stays", func(r *redact.Redactor) { r.AddSecret(secret("hostname", "registry.example.com")) }, "registry.example.com", "registry.example.com"},
		"SecretPEM": {"each line of a key", func(r *redact.Redactor) {
			r.AddSecret(secret("ssh-privatekey", "-----BEGIN X-----\nb3BlbnNzaC1rZXktdjEAAAA1\n-----END X-----\n"))
		}, "bad b3BlbnNzaC1rZXktdjEAAAA1", "bad [redacted]"},
		"SecretValues":   {"by the name of the key", func(r *redact.Redactor) { r.AddSecret(secret("values.yml", "image: nginx\ndb:\n  password: s3cr\n")) }, "nginx s3cr", "nginx [redacted]"},
		"SecretRefStays": {"names of Secrets stay", func(r *redact.Redactor) { r.AddSecret(secret("values.yml", "secretName: my-secret\nx: y\n")) }, "my-secret", "my-secret"},
		"SecretRandom":   {"by its looks", func(r *redact.Redactor) { r.AddSecret(secret("values.yml", "x: 0123456789abcdef0123\n")) }, "0123456789abcdef0123", "[redacted]"},
		"SecretKind": {"Kubernetes Secrets within", func(r *redact.Redactor) {
			r.AddDocument("kind: Secret\nstringData: {a: plainly}\ndata: {b: ZW5jb2RlZA==}\n")
		}, "plainly encoded ZW5jb2RlZA==", "[redacted] [redacted] [redacted]"},
		"SecretAliases": {"a file that would fill the memory is not read, but hidden word by word", func(r *redact.Redactor) {
			r.AddSecret(secret("v", "password: &p s3cr-t\nlong: &a "+strings.Repeat("x", 100_000)+"\nb: ["+strings.Repeat("*a,", 10_000)+"]\n"))
		}, "s3cr-t", "[redacted]"},
		"SecretEnv":  {"properties files", func(r *redact.Redactor) { r.AddSecret(secret(".env", "A=1\nDB_PASSWORD='s3cr'\n")) }, "s3cr", "[redacted]"},
		"SecretDocs": {"each of several documents", func(r *redact.Redactor) { r.AddDocument("a: b\n---\ntoken: s3cr\n") }, "s3cr", "[redacted]"},
		"DockerConfig": {"registry credentials", func(r *redact.Redactor) {
			r.AddSecret(secret(".dockerconfigjson", `{"auths":{"r.example":{"auth":"`+b64([]byte("u:hunter2"))+`"}}}`))
		}, "r.example hunter2 " + b64([]byte("u:hunter2")), "r.example [redacted] [redacted]"},
	} {
		t.Run(name, func(t *testing.T) {
			var r redact.Redactor
			if tc.with != nil {
				tc.with(&r)
			}
			if got := r.String(tc.in); got != tc.want {
				t.Errorf("%s: %q became %q, want %q", tc.reason, tc.in, got, tc.want)
			}
		})
	}
}

func secret(kv ...string) map[string][]byte {
	m := map[string][]byte{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i]] = []byte(kv[i+1])
	}
	return m
}

// FuzzString: no secret of 8 bytes or more remains, in no form and at no offset.
func FuzzString(f *testing.F) {
	f.Add("hunter2hunter2", "at ", " end")
	f.Add("p@ss wörd\"\\", "https://u:", "@h")
	f.Add("12345678", "1234567", "2345678")
	f.Add("1234567=", "1234567", "0")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		secret = strings.TrimSpace(secret)
		if len(secret) < 8 || strings.Contains(redact.Mark, secret) || strings.Contains(secret, redact.Mark) {
			return
		}
		var r redact.Redactor
		r.Add(secret)
		// Padding tells nothing and may remain.
		base64Std, base64URL := base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret))
		for _, shown := range []string{
			secret, fmt.Sprintf("%q", secret), url.QueryEscape(secret), url.PathEscape(secret), base64Std, base64URL,
		} {
			got := r.String(before + shown + after)
			rest := strings.ReplaceAll(got, redact.Mark, "\x00")
			if strings.Contains(rest, secret) || strings.Contains(rest, shown) {
				t.Fatalf("%q remains in %q", secret, got)
			}
		}
		wrapped := base64.StdEncoding.EncodeToString([]byte(before + secret + after))
		if got := r.String(wrapped); got == wrapped {
			t.Fatalf("%q remains in base64 %q", secret, got)
		}
	})
}

func ExampleRedactor() {
	var r redact.Redactor
	r.AddURL("https://u:tok3n@git.example/r.git")
	fmt.Println(r.String("fatal: unable to access 'https://u:tok3n@git.example/r.git/': bad token tok3n"))
	// Output: fatal: unable to access 'https://[redacted]@git.example/r.git/': bad token [redacted]
}
