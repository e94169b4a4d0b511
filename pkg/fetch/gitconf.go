package fetch

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// home is what git is to find besides vendir's input: what vendir cannot pass on,
// and what it passes on for the repository itself but not for its submodules. Each
// part counts for one host only.
type home struct {
	files []tool.File
	// cas has the file with authorities by address, for the sidecar.
	cas []string
}

func gitHome(sources []v1alpha1.AppFetch, given []credentials) (home, error) {
	var conf bytes.Buffer
	var h home
	for i, src := range sources {
		if src.Git == nil || src.Inline != nil || src.Image != nil || src.HTTP != nil || given[i].secret == "" {
			continue
		}
		g := given[i]
		u, err := url.Parse(src.Git.URL)
		if err != nil || u.Host == "" {
			continue // SSH, or vendir's to report
		}
		if err := checkGit(u, g); err != nil {
			return home{}, err
		}
		scope := gitScope(u, sources, g.secret, given)
		if len(g.ca) > 0 {
			file := fmt.Sprintf("home/ca-%d.crt", i)
			h.files = append(h.files, tool.File{Path: file, Content: g.ca})
			h.cas = append(h.cas, scope+"="+file)
		}
		if len(g.bearer) > 0 {
			// The empty one takes back those of a wider scope.
			fmt.Fprintf(&conf, "[http %s]\n\textraHeader =\n\textraHeader = %s\n", quote(scope), quote("Authorization: Bearer "+strings.TrimSpace(string(g.bearer))))
		}
		if user, found := g.data[keyUser]; found && u.Scheme == "https" {
			name := fmt.Sprintf("login-%d", i)
			login := url.URL{Scheme: u.Scheme, Host: u.Host, User: url.UserPassword(string(user), string(g.data[keyPassword]))}
			h.files = append(h.files, tool.File{Path: "home/" + name, Content: []byte(login.String() + "\n")})
			fmt.Fprintf(&conf, "[credential %s]\n\thelper = store --file ~/%s\n", quote(scope), name)
		}
	}
	if conf.Len() > 0 {
		h.files = append(h.files, tool.File{Path: "home/.gitconfig", Content: conf.Bytes()})
	}
	return h, nil
}

func checkGit(u *url.URL, g credentials) error {
	for key, value := range map[string][]byte{keyBearer: g.bearer, keyCA: g.ca} {
		if len(value) > 0 && u.Scheme != "https" {
			return fmt.Errorf("Key '%s' of secret '%s' is only supported for https remotes", key, g.secret)
		}
	}
	if strings.ContainsFunc(strings.TrimSpace(string(g.bearer)), func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("Key '%s' of secret '%s' is no token: it has control characters", keyBearer, g.secret)
	}
	if len(g.ca) > 0 && !x509.NewCertPool().AppendCertsFromPEM(g.ca) {
		return fmt.Errorf("Key '%s' of secret '%s' has no certificate in PEM", keyCA, g.secret)
	}
	return nil
}

// gitScope is the address that git's settings for a source are to count for: the
// whole host, so that submodules beside it are reached, or only the repository when
// another source has other credentials there.
func gitScope(u *url.URL, sources []v1alpha1.AppFetch, secret string, given []credentials) string {
	scope := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	for i, src := range sources {
		if src.Git == nil || given[i].secret == secret {
			continue
		}
		if other, err := url.Parse(src.Git.URL); err == nil && other.Scheme == u.Scheme && other.Host == u.Host {
			scope.Path = u.Path
		}
	}
	return scope.String()
}

// quote quotes a value or the name of a part of git's configuration.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func paths(files []tool.File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Path)
	}
	return out
}
