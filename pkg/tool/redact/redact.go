// Package redact keeps secret values out of text that people read: what tools
// print, errors, status, logs. It knows the values that a run used and hides them
// in every form in which tools are known to show them.
package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// minLength is the length in bytes below which a value is not hidden: it guards
// nothing, and hiding every "a" would leave no text to read.
const minLength = 4

// words are values shorter than 8 bytes that Secrets hold often and that are no
// secrets; hiding them would make messages unreadable.
var words = map[string]bool{
	"true": true, "false": true, "null": true, "none": true, "admin": true, "root": true, "user": true,
	"http": true, "https": true, "test": true, "prod": true, "info": true, "debug": true, "main": true,
}

// Redactor hides the secrets it was given. The zero value hides only what is
// recognisable by its form, such as passwords in addresses. It is not safe for
// concurrent use.
type Redactor struct {
	secrets map[string]bool
	// patterns are the forms of the secrets by their first bytes, longest first;
	// nil when secrets changed.
	patterns map[[minLength]byte][]string
}

// Add hides value from now on, wherever it stands, also within longer words.
// Values of fewer than 4 bytes and a few common short words are left alone. White
// space at both ends is not part of the secret.
func (r *Redactor) Add(value string) {
	value = strings.TrimSpace(value)
	if len(value) < minLength || words[value] || r.secrets[value] {
		return
	}
	if r.secrets == nil {
		r.secrets = map[string]bool{}
	}
	r.secrets[value] = true
	r.patterns = nil
}

// AddURL hides the password in address, whether or not it parses as a URL, and the
// user name of an http address without a password, which is a token then.
func (r *Redactor) AddURL(address string) {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return
	}
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && end < at {
		// A slash may be part of the password by mistake. That of a path such as
		// /pkg@v2 is not: what stands before it holds no colon or is host:port.
		if user, port, found := strings.Cut(rest[:end], ":"); !strings.Contains(rest[:end], "@") && (!found || user == "" || digits(port)) {
			return
		}
		if inner := strings.LastIndexByte(rest[:end], '@'); inner >= 0 {
			at = inner
		}
	}
	user, password, found := strings.Cut(rest[:at], ":")
	if !found {
		if !strings.HasPrefix(scheme, "http") {
			return
		}
		password = user
	}
	r.Add(password)
	if plain, err := url.PathUnescape(password); err == nil {
		r.Add(plain)
		password = plain
	}
	r.AddPair(user, password)
}

// AddPair hides what HTTP basic authentication sends for user and password.
func (r *Redactor) AddPair(user, password string) {
	if password != "" {
		r.Add(base64.StdEncoding.EncodeToString([]byte(user + ":" + password)))
	}
}

// userinfo finds the user information in an http address, and user:password in
// any other. It may take more than it should in odd text, never less.
var userinfo = regexp.MustCompile(`(?i)(\bhttps?://)[^\s/@'"]+@|(\b[a-z][a-z0-9+.-]*://[^\s/@:'"]+:)[^\s/@'"]+@`)

// header finds the credentials of an HTTP header.
var header = regexp.MustCompile(`(?i)(authorization:\s*(?:basic|bearer|token)\s+)[^\s'"\]]+`)

// String returns s with each secret replaced by Mark. Secrets that overlap become
// one mark.
func (r *Redactor) String(s string) string {
	if s == "" {
		return s
	}
	if r != nil {
		s = r.hideKnown(s)
	}
	if strings.Contains(s, "://") {
		s = userinfo.ReplaceAllString(s, "${1}${2}"+Mark+"@")
	}
	return header.ReplaceAllString(s, "${1}"+Mark)
}

// Err returns an error whose text is redacted. It is of no other type and wraps
// nothing when the text changed: what it would wrap still has the secret.
func (r *Redactor) Err(err error) error {
	if err == nil {
		return nil
	}
	if text := r.String(err.Error()); text != err.Error() {
		return redacted(text)
	}
	return err
}

type redacted string

func (e redacted) Error() string { return string(e) }

func (r *Redactor) hideKnown(s string) string {
	if r.patterns == nil {
		r.compile()
	}
	if len(r.patterns) == 0 {
		return s
	}
	// One pass, whatever the number of patterns: a Secret may hold thousands of
	// lines, and a tool may print a megabyte.
	var b strings.Builder
	end, copied := 0, 0 // where the latest secret ends; what of s is in b
	for i := 0; i+minLength <= len(s); i++ {
		for _, p := range r.patterns[head(s[i:])] {
			if !strings.HasPrefix(s[i:], p) {
				continue
			}
			if i > end || end == 0 {
				b.WriteString(s[copied:i])
				b.WriteString(Mark)
			}
			end = max(end, i+len(p))
			copied = end
			break // the others are not longer
		}
	}
	if end == 0 {
		return s
	}
	b.WriteString(s[copied:])
	return b.String()
}

// head is the beginning that all patterns of a bucket share.
func head(s string) [minLength]byte { return [minLength]byte([]byte(s[:minLength])) }

// compile makes the forms of all secrets, each once.
func (r *Redactor) compile() {
	r.patterns = map[[minLength]byte][]string{}
	seen := map[string]bool{}
	for s := range r.secrets {
		for _, form := range forms(s) {
			if len(form) >= minLength && !words[form] && !seen[form] {
				seen[form] = true
				r.patterns[head(form)] = append(r.patterns[head(form)], form)
			}
		}
	}
	for _, bucket := range r.patterns {
		slices.SortFunc(bucket, func(a, b string) int { return len(b) - len(a) })
	}
}

// forms returns s and what tools print instead of it: quoted, escaped for an
// address, and in base64, alone or as part of something longer.
func forms(s string) []string {
	quoted := strconv.Quote(s)
	out := []string{s, quoted[1 : len(quoted)-1], url.QueryEscape(s), url.PathEscape(s), strings.TrimPrefix(url.UserPassword("", s).String(), ":")}
	if j, err := json.Marshal(s); err == nil {
		out = append(out, string(j[1:len(j)-1]))
	}
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		out = append(out, enc.EncodeToString([]byte(s)))
		// Inside longer data the encoding depends on the offset modulo 3, and the
		// characters at both ends on the neighbours; those are left out.
		for offset := range 3 {
			whole := enc.EncodeToString([]byte(strings.Repeat("\x00", offset) + s))
			from := (offset*8 + 5) / 6
			to := (offset + len(s)) * 8 / 6
			if to-from >= 6 {
				out = append(out, whole[from:to])
			}
		}
	}
	return out
}

func digits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
