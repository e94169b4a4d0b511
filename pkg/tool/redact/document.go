package redact

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/garboard-dev/garboard/pkg/tool/yamlsize"
)

// public are keys of Secrets whose values are no secrets and which errors need to
// show, such as the host that refused.
var public = map[string]bool{
	"hostname": true, "ssh-knownhosts": true, "known_hosts": true, "ca.crt": true, "caFile": true, "tls.crt": true, "identity.pub": true,
}

// telling are keys whose values are secrets; harmless are those of them that
// only name or describe one.
var (
	telling  = regexp.MustCompile(`(?i)passw|passphrase|pwd|secret|token|credential|(api|access|private|encryption|signing|account|shared)[_-]?key|^auth$|dsn|connection[_-]?string|webhook`)
	harmless = regexp.MustCompile(`(?i)(name|ref|refs|key|type|class|enabled|length|size|path|file|expiry|ttl|namespace)$`)
	keyEnds  = regexp.MustCompile(`(?i)(api|access|private|encryption|signing|account|shared)[_-]?key$`)
	// assignment is one line of an environment or properties file.
	assignment = regexp.MustCompile(`^\s*(?:export\s+)?["']?([A-Za-z0-9_.-]+)["']?\s*[=:]\s*(.+?)\s*$`)
)

// AddSecret hides the values of a Secret: each value as a whole, the lines of keys
// and certificates, and of YAML, JSON and properties files what is secret by its
// name or its looks. A user name is hidden only if no password is beside it,
// as a token then takes its place.
func (r *Redactor) AddSecret(data map[string][]byte) {
	for key, value := range data {
		switch {
		case public[key]:
		case key == "username":
			if len(data["password"]) == 0 || random(string(value)) {
				r.Add(string(value))
			}
		default:
			if !r.addDocument(string(value)) {
				r.Add(string(value))
			}
		}
	}
	if password := data["password"]; len(password) > 0 {
		r.AddPair(string(data["username"]), string(password))
	}
}

// AddDocument hides what is secret in the content of a file. Values whose keys do
// not tell, such as names of images, stay readable.
func (r *Redactor) AddDocument(text string) { r.addDocument(text) }

// addDocument says whether text has a structure. Hiding such a text as a whole
// would say nothing for a long one, and hide "a: 1" everywhere for a short one.
func (r *Redactor) addDocument(text string) (structured bool) {
	for doc := range strings.SplitSeq("\n"+text, "\n---") {
		if yamlsize.Check([]byte(doc)) != nil {
			// Not to be read. Nobody writes such a file to be quoted in messages.
			for word := range strings.FieldsSeq(doc) {
				r.Add(word)
			}
			structured = true
			continue
		}
		var parsed any
		if yaml.Unmarshal([]byte(doc), &parsed) == nil {
			switch parsed.(type) {
			case map[string]any, []any:
				r.walk("", parsed, false)
				structured = true
				continue
			}
		}
		r.addLines(doc)
	}
	return structured
}

func (r *Redactor) addLines(text string) {
	if !strings.Contains(strings.TrimSpace(text), "\n") {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		if m := assignment.FindStringSubmatch(line); m != nil {
			r.walk(m[1], strings.Trim(m[2], `"'`), false)
		} else if random(line) {
			r.Add(line)
		}
	}
}

// walk hides the secrets in v, which stands at key; all says that every value
// below is one.
func (r *Redactor) walk(key string, v any, all bool) {
	switch v := v.(type) {
	case map[string]any:
		isSecret := v["kind"] == "Secret"
		for k, child := range v {
			r.walk(k, child, all || isSecret && (k == "data" || k == "stringData"))
		}
		if user, password := scalar(v["username"]), scalar(v["password"]); password != "" {
			r.AddPair(user, password)
		}
	case []any:
		for _, child := range v {
			r.walk(key, child, all)
		}
	default:
		s := scalar(v)
		r.AddURL(s)
		if all || random(s) || secretKey(key) {
			r.Add(s)
			if plain, err := base64.StdEncoding.DecodeString(s); err == nil && len(plain) > 0 && text(plain) {
				r.addDecoded(key, string(plain))
			}
		}
		r.addLines(s)
	}
}

// addDecoded hides what a value in base64 says: for auth, of a registry's
// credentials, that is user:password.
func (r *Redactor) addDecoded(key, plain string) {
	if _, password, found := strings.Cut(plain, ":"); found && key == "auth" {
		r.Add(password)
		return
	}
	r.Add(plain)
}

func scalar(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func secretKey(key string) bool {
	return telling.MatchString(key) && (!harmless.MatchString(key) || keyEnds.MatchString(key))
}

// random says whether s looks made by a machine to be hard to guess.
func random(s string) bool {
	if len(s) < 16 {
		return false
	}
	letter, digit := false, false
	for _, c := range s {
		switch {
		case unicode.IsDigit(c):
			digit = true
		case unicode.IsLetter(c):
			letter = true
		case !strings.ContainsRune("+/=_-", c):
			return false
		}
	}
	return letter && digit
}

func text(b []byte) bool {
	return !strings.ContainsFunc(string(b), func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) && !unicode.IsSpace(r) })
}
