// Command garboard-ssh is the ssh that git uses in the sidecar, where it is
// installed as ssh. OpenSSH's own refuses to run for a user that the system does
// not list, and clusters that give each namespace user IDs of its own have no
// others. It takes the arguments that vendir and git pass and no more: there is
// no terminal, no agent, no configuration file and no password.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// dialTimeout bounds the connection and the handshake.
const dialTimeout = 30 * time.Second

// exitFailed is what OpenSSH returns when it, and not the command, failed.
const exitFailed = 255

func main() {
	c, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "ssh: %v\n", err)
		os.Exit(exitFailed)
	}
	code, err := c.run(os.Getenv("GIT_PROTOCOL"), os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "ssh: %s: %v\n", c.address(), err)
	}
	os.Exit(code)
}

// call is what the arguments ask for.
type call struct {
	user, host, port, command string
	keys, knownHosts          []string
	// anyHost says that the host's key is not checked.
	anyHost bool
	sendEnv []string
}

// parse reads the arguments. Options that OpenSSH has and that cannot matter
// here are accepted; unknown ones are an error, so that nothing is lost silently.
func parse(args []string) (c call, err error) {
	c.port = "22"
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flag, value, rest := args[0][:min(2, len(args[0]))], args[0][min(2, len(args[0])):], args[1:]
		switch flag {
		case "-4", "-6", "-T", "-x", "-a", "-q":
			args = rest
			continue
		case "-o", "-i", "-p", "-F", "-l":
		default:
			return c, fmt.Errorf("option %q is not supported", args[0])
		}
		if value == "" {
			if len(rest) == 0 {
				return c, fmt.Errorf("option %q needs a value", flag)
			}
			value, rest = rest[0], rest[1:]
		}
		if err := c.set(flag, value); err != nil {
			return c, err
		}
		args = rest
	}
	if len(args) < 2 {
		return c, errors.New("expected a host and a command")
	}
	target := args[0]
	if at := strings.LastIndexByte(target, '@'); at >= 0 {
		c.user, target = target[:at], target[at+1:]
	}
	c.host, c.command = strings.Trim(target, "[]"), strings.Join(args[1:], " ")
	if c.user == "" {
		c.user = "git"
	}
	return c, nil
}

func (c *call) set(flag, value string) error {
	switch flag {
	case "-i":
		c.keys = append(c.keys, value)
	case "-p":
		c.port = value
	case "-l":
		c.user = value
	case "-F":
		if value != os.DevNull && value != "none" {
			return fmt.Errorf("configuration file %q is not supported", value)
		}
	case "-o":
		return c.option(value)
	}
	return nil
}

func (c *call) option(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("option %q: expected KEY=VALUE", text)
	}
	switch strings.ToLower(key) {
	case "userknownhostsfile":
		c.knownHosts = append(c.knownHosts, value)
	case "stricthostkeychecking":
		c.anyHost = value == "no" || value == "off"
	case "sendenv":
		c.sendEnv = append(c.sendEnv, value)
	case "serveraliveinterval", "forwardagent", "identitiesonly", "batchmode", "passwordauthentication":
		// This client is never interactive, has no agent and no other keys.
	default:
		return fmt.Errorf("option %q is not supported", key)
	}
	return nil
}

func (c call) address() string { return net.JoinHostPort(c.host, c.port) }

// run executes the command on the host and returns its exit code.
func (c call) run(protocol string, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	config, err := c.config()
	if err != nil {
		return exitFailed, err
	}
	client, err := ssh.Dial("tcp", c.address(), config)
	if err != nil {
		return exitFailed, explain(err)
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return exitFailed, err
	}
	defer session.Close()
	if protocol != "" && slices.Contains(c.sendEnv, "GIT_PROTOCOL") {
		// A server may refuse variables; git then speaks its older protocol.
		_ = session.Setenv("GIT_PROTOCOL", protocol)
	}
	session.Stdout, session.Stderr = stdout, stderr
	// Not session.Stdin: Run would wait for the end of our standard input, which
	// git closes only after this process has ended.
	in, err := session.StdinPipe()
	if err != nil {
		return exitFailed, err
	}
	go func() {
		_, _ = io.Copy(in, stdin)
		_ = in.Close()
	}()
	err = session.Run(c.command)
	if exit := (*ssh.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitStatus(), nil
	}
	if err != nil {
		return exitFailed, err
	}
	return 0, nil
}

func (c call) config() (*ssh.ClientConfig, error) {
	config := &ssh.ClientConfig{User: c.user, Timeout: dialTimeout}
	var signers []ssh.Signer
	for _, path := range c.keys {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read private key: %w", err)
		}
		signer, err := ssh.ParsePrivateKey(data)
		if err != nil {
			return nil, fmt.Errorf("private key: %w", err)
		}
		signers = append(signers, signer)
	}
	config.Auth = []ssh.AuthMethod{ssh.PublicKeys(signers...)}
	if c.anyHost {
		config.HostKeyCallback = ssh.InsecureIgnoreHostKey()
		return config, nil
	}
	if len(c.knownHosts) == 0 {
		return nil, errors.New("host key verification failed: no known hosts are given (hint: put them into the Secret's key ssh-knownhosts)")
	}
	check, err := knownhosts.New(c.knownHosts...)
	if err != nil {
		return nil, fmt.Errorf("known hosts: %w", err)
	}
	config.HostKeyCallback = check
	config.HostKeyAlgorithms, err = algorithms(check, c.address())
	return config, err
}

// algorithms returns the kinds of keys that are known of a host: a server that
// has several must show one of those.
func algorithms(check ssh.HostKeyCallback, address string) ([]string, error) {
	var unknown *knownhosts.KeyError
	if err := check(address, &net.TCPAddr{}, noKey{}); !errors.As(err, &unknown) {
		return nil, err
	}
	var out []string
	for _, k := range unknown.Want {
		if k.Key.Type() == ssh.KeyAlgoRSA {
			out = append(out, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		}
		out = append(out, k.Key.Type())
	}
	if len(out) == 0 {
		return nil, errors.New("host key verification failed: the host is not among the known hosts")
	}
	return out, nil
}

// noKey is a key that no host has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return []byte("none") }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("not a key") }

// explain says in a user's words why there is no connection.
func explain(err error) error {
	var key *knownhosts.KeyError
	switch {
	case errors.As(err, &key):
		return errors.New("host key verification failed: the host's key is not the known one")
	case strings.Contains(err.Error(), "no common algorithm for host key"):
		return errors.New("host key verification failed: the host has no key of the kind that is known")
	case strings.Contains(err.Error(), "unable to authenticate"):
		return errors.New("permission denied (publickey)")
	}
	return err
}
