package settings

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kubernetesHostPlaceholder in noProxy stands for the address of the API server,
// which whoever writes the configuration can't know.
const kubernetesHostPlaceholder = "KAPPCTRL_KUBERNETES_SERVICE_HOST"

// Proxy is how tools reach the network. Empty fields mean no proxy. Printing or
// logging it shows hosts only: the addresses may hold a password.
type Proxy struct {
	// HTTP and HTTPS are the proxies' addresses, by the scheme of the request.
	HTTP, HTTPS string
	// No lists hosts that are reached without a proxy, with commas.
	No string
}

// ForCluster returns p with the placeholder in No, its first occurrence, replaced
// by the API server's host. With a proxy that host is always in No: a proxy outside
// cannot reach it, whoever forgets to say so.
func (p Proxy) ForCluster(apiServerHost string) Proxy {
	p.No = strings.Replace(p.No, kubernetesHostPlaceholder, apiServerHost, 1)
	entries := splitList(p.No)
	if apiServerHost == "" || p.HTTP == "" && p.HTTPS == "" || slices.Contains(entries, apiServerHost) {
		return p
	}
	p.No = strings.Join(append(entries, apiServerHost), ",")
	return p
}

// Format prints p without user names and passwords, whatever the verb.
func (p Proxy) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "{HTTP:%s HTTPS:%s No:%s}", hostOnly(p.HTTP), hostOnly(p.HTTPS), p.No)
}

// MarshalJSON is what a logger writes: hosts only. Nothing reads it back.
func (p Proxy) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"http": hostOnly(p.HTTP), "https": hostOnly(p.HTTPS), "no": p.No})
}

// checkProxy accepts what the tools accept: a URL, or a host with or without a
// port. Its error shows at most the host: url.Parse's own error quotes everything.
func checkProxy(key, address string) error {
	if address == "" {
		return nil
	}
	rest := address
	if !strings.Contains(rest, "://") {
		rest = "http://" + rest
	}
	u, err := url.Parse(rest)
	if err != nil {
		return fmt.Errorf("%s: the address%s is no URL; a special character in a user name or a password is written as %% and two digits, "+
			"%% itself as %%25", key, ofHost(address))
	}
	if !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
		return fmt.Errorf("%s: the address%s has another scheme than http, https, socks5 or socks5h", key, ofHost(address))
	}
	if u.Hostname() == "" {
		return fmt.Errorf("%s: the address names no host", key)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%s: the address%s has a port outside of 1 to 65535", key, ofHost(address))
		}
	}
	if strings.ContainsFunc(address, isControl) {
		return fmt.Errorf("%s: the address%s has a line break or another control character", key, ofHost(address))
	}
	return nil
}

// checkNoProxy refuses what can't be the value of an environment variable.
func checkNoProxy(list string) error {
	if strings.ContainsRune(list, 0) {
		return fmt.Errorf("%s: has a NUL character", keyNoProxy)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func ofHost(address string) string {
	if host := hostOnly(address); host != "?" {
		return " of " + host
	}
	return ""
}

// hostPort is what certainly is a host, with a port if it has one. It has no form
// that a user name with a password has, unless the password is a number.
var hostPort = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// hostOnly returns the host and port of an address, even of one that is no URL;
// "" for none, and "?" when it can't be told from a user name or a password.
func hostOnly(address string) string {
	if address == "" {
		return ""
	}
	_, rest, hasScheme := strings.Cut(address, "://")
	if !hasScheme {
		rest = address
	}
	// A password may hold / ? # and @ if it is not escaped, a host holds none of
	// them: the host is what follows the last @.
	at := strings.LastIndex(rest, "@")
	rest = rest[at+1:]
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if !hostPort.MatchString(rest) {
		return "?"
	}
	return rest
}
