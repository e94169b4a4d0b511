package settings

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// keys are all that the configuration knows.
var keys = []string{
	keyCACerts, keyHTTPProxy, keyHTTPSProxy, keyNoProxy, keyDangerousSkipTLSVerify, keyKappDeployRawOptions,
	keyAppDefaultSyncPeriod, keyAppMinimumSyncPeriod, keyPackageInstallDefaultSyncPeriod,
}

// Doubts returns what in a configuration that Parse accepts has no effect, or not
// the one that it seems to have, in a fixed order. kapp-controller takes all of it
// without a word, so it must not stop anybody. Nothing that may be secret is quoted.
func Doubts(data map[string]string) []string {
	var doubts []string
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if slices.Contains(keys, key) {
			continue
		}
		hint := ""
		for _, known := range keys {
			if strings.EqualFold(known, key) {
				hint = fmt.Sprintf(" (hint: it is written %s)", known)
			}
		}
		doubts = append(doubts, fmt.Sprintf("there is no key %q%s", key, hint))
	}
	if doubt := doubtCerts(data[keyCACerts]); doubt != "" {
		doubts = append(doubts, doubt)
	}
	for _, entry := range splitList(data[keyDangerousSkipTLSVerify]) {
		if strings.ContainsAny(entry, "/@*") {
			doubts = append(doubts, fmt.Sprintf("%s: an entry%s matches nothing: it must be a host or host:port", keyDangerousSkipTLSVerify, ofHost(entry)))
		}
	}
	if strings.TrimSpace(data[keyNoProxy]) != "" && strings.TrimSpace(data[keyHTTPProxy]+data[keyHTTPSProxy]) == "" {
		doubts = append(doubts, fmt.Sprintf("%s: has no effect without %s or %s", keyNoProxy, keyHTTPProxy, keyHTTPSProxy))
	}
	for _, key := range []string{keyAppDefaultSyncPeriod, keyAppMinimumSyncPeriod, keyPackageInstallDefaultSyncPeriod} {
		if d, err := time.ParseDuration(strings.TrimSpace(data[key])); err == nil && d < MinSyncPeriod {
			doubts = append(doubts, fmt.Sprintf("%s: %v is less than the least possible, %v, which counts", key, d, MinSyncPeriod))
		}
	}
	return doubts
}

// doubtCerts finds what tools that read the bundle leave out.
func doubtCerts(text string) string {
	rest, certs, bad := []byte(text), 0, 0
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil || block.Type != "CERTIFICATE" {
			bad++
			continue
		}
		certs++
	}
	switch {
	case strings.TrimSpace(text) == "":
		return ""
	case bad > 0:
		return fmt.Sprintf("%s: %d of %d PEM blocks are no certificate", keyCACerts, bad, bad+certs)
	case certs == 0:
		return fmt.Sprintf("%s: holds no certificate in PEM", keyCACerts)
	}
	return ""
}
