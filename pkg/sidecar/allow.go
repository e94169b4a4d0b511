package sidecar

import (
	"encoding/csv"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/garboard-dev/garboard/pkg/tool"
)

// policy is what a tool may do.
type policy struct {
	// network allows it to connect to other hosts.
	network bool
	// writes allows it to write anywhere in the workspace, and not only below its
	// home/ and tmp/.
	writes bool
	// foreign says that what it leaves in its folder is other people's content, which
	// is checked before another tool sees it.
	foreign bool
	// env has the variables that the controller may set.
	env map[string]valueKind
	// flags has the options that it may be given, long and short, with dashes.
	flags map[string]valueKind
	// need has options that must be there, as written.
	need []string
	// command is the subcommand that must come first, or empty.
	command string
	// operands checks the arguments that are no options; nil allows none.
	operands func([]string) error
}

// valueKind says what an option's or variable's value must look like.
type valueKind int

const (
	// noValue is an option without a value, or with =true.
	noValue valueKind = iota
	// anyText is not interpreted by the tool as a path.
	anyText
	// localPath stays in the workspace.
	localPath
	// pathOrStdin is localPath or "-".
	pathOrStdin
	// pathList has paths, or "-", with commas between and quoted as in a CSV file.
	pathList
	// namedPath is NAME=PATH with a local path, or a local path.
	namedPath
	// safeArchives makes Go's readers of archives refuse names that lead outside.
	safeArchives
	// remoteGit are git's protocols that neither run programs nor read folders.
	remoteGit
	// hostPaths are local paths by address, as URL=PATH with spaces between. Like
	// localPath the tool gets them absolute.
	hostPaths
)

// gitCAs is the variable with certificates that git trusts for one address each. It
// becomes configuration of git, where a path must be absolute for git-lfs.
const gitCAs = "GARBOARD_GIT_CAS"

// The only values that safeArchives and remoteGit take.
const (
	safeArchivesValue = "tarinsecurepath=0,zipinsecurepath=0"
	remoteGitValue    = "http:https:ssh"
)

// policies is the allowlist. What is not in it is not run.
var policies = map[string]policy{
	"vendir": {
		network: true, writes: true, foreign: true, command: "sync",
		env:   map[string]valueKind{"GODEBUG": safeArchives, "GIT_ALLOW_PROTOCOL": remoteGit, gitCAs: hostPaths},
		flags: map[string]valueKind{"-f": pathOrStdin, "--file": pathOrStdin, "--lock-file": anyText},
		need:  []string{"--lock-file=/dev/null"},
	},
	// What it is to do comes on standard input.
	"unpack": {writes: true, foreign: true},
	// Which image, and the login, comes on standard input.
	"resolve": {network: true},
	"ytt": {
		flags: map[string]valueKind{
			"-f": namedPath, "--file": namedPath, "--file-mark": anyText, "--ignore-unknown-comments": noValue, "--strict": noValue,
			"--data-values-file": namedPath,
		},
	},
	"kbld": {
		network: true,
		flags:   map[string]valueKind{"-f": pathList, "--file": pathList, "--build": anyText},
		need:    []string{"--build=false"},
	},
	"helm": {
		command: "template",
		env:     map[string]valueKind{"KUBERNETES_SERVICE_HOST": anyText, "KUBERNETES_SERVICE_PORT": anyText},
		flags: map[string]valueKind{
			"-n": anyText, "--namespace": anyText, "--include-crds": noValue, "--skip-tests": noValue, "--kube-version": anyText,
			"-a": anyText, "--api-versions": anyText, "-f": pathList, "--values": pathList,
		},
		operands: nameAndPath,
	},
	"sops": {
		writes: true,
		env:    map[string]valueKind{"GNUPGHOME": localPath, "SOPS_AGE_KEY_FILE": localPath},
		flags: map[string]valueKind{
			"--config": localPath, "-d": noValue, "--decrypt": noValue, "--input-type": anyText, "--output-type": anyText,
		},
		need:     []string{"--decrypt"},
		operands: oneFile,
	},
	"cue": {
		command: "export",
		flags: map[string]valueKind{
			"--out": anyText, "-l": anyText, "--path": anyText, "-e": anyText, "--expression": anyText,
		},
		operands: localPaths,
	},
	"kustomize": {
		command:  "build",
		flags:    map[string]valueKind{"--load-restrictor": anyText},
		operands: atMostOnePath,
	},
	"jsonnet": {
		flags: map[string]valueKind{
			"-J": localPath, "--jpath": localPath, "-y": noValue, "--yaml-stream": noValue, "-S": noValue, "--string": noValue,
			"-V": anyText, "--ext-str": anyText, "--ext-code": anyText, "--ext-str-file": namedPath, "--ext-code-file": namedPath,
			"-A": anyText, "--tla-str": anyText, "--tla-code": anyText, "--tla-str-file": namedPath, "--tla-code-file": namedPath,
		},
		operands: oneFileOrStdin,
	},
}

// Tools returns the names of the tools that the sidecar runs, sorted.
func Tools() []string { return slices.Sorted(maps.Keys(policies)) }

// Check is the gate: it returns nil when the sidecar runs c, and an error that is
// ErrNotAllowed otherwise. It looks at nothing but c. That no argument leads out
// of the workspace is checked here for a clear message; the kernel sees to it, too.
func Check(c tool.Command) error {
	_, err := allow(c)
	return err
}

// notAllowed is a refusal.
type notAllowed struct{ text string }

func (e *notAllowed) Error() string { return e.text }
func (e *notAllowed) Unwrap() error { return ErrNotAllowed }

// allow returns the policy of an allowed command. Refusals name an option but not
// its value, which may be secret.
func allow(c tool.Command) (policy, error) {
	p, ok := policies[c.Name]
	if !ok {
		return policy{}, &notAllowed{fmt.Sprintf("Command '%s' is not allowed", c.Name)}
	}
	err := p.check(c)
	if err != nil {
		err = &notAllowed{fmt.Sprintf("Command '%s' is not allowed: %v", c.Name, err)}
	}
	return p, err
}

func (p policy) check(c tool.Command) error {
	if c.Dir != "" && !local(c.Dir) {
		return fmt.Errorf("the working directory must be relative and inside the workspace")
	}
	for _, kv := range c.Env {
		key, value, found := strings.Cut(kv, "=")
		kind, known := p.env[key]
		if !known || !found || strings.ContainsRune(kv, 0) {
			return fmt.Errorf("the variable %q cannot be set", key)
		}
		if err := kind.check(value); err != nil {
			return fmt.Errorf("the variable %q %w", key, err)
		}
	}
	args := c.Args
	if p.command != "" {
		if len(args) == 0 || args[0] != p.command {
			return fmt.Errorf("only %s %s is", c.Name, p.command)
		}
		args = args[1:]
	}
	return p.checkArgs(args)
}

// checkArgs splits options from operands as the tools do, but more strictly: an
// option's value in an argument of its own must not begin with a dash, so that a
// tool with other rules cannot take it for an option.
func (p policy) checkArgs(args []string) error {
	var operands []string
	have := map[string]bool{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case strings.ContainsRune(arg, 0):
			return fmt.Errorf("an argument has a NUL byte")
		case arg == "--":
			operands = append(operands, args[i+1:]...)
			i = len(args)
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			operands = append(operands, arg)
		default:
			name, value, inline := strings.Cut(arg, "=")
			kind, known := p.flags[name]
			if !known {
				return fmt.Errorf("the option %q is not", name)
			}
			if kind == noValue {
				if inline && value != "true" {
					return fmt.Errorf("the option %q takes no value", name)
				}
				have[name] = true
				continue
			}
			if !inline {
				i++
				if i == len(args) || strings.HasPrefix(args[i], "-") && args[i] != "-" {
					return fmt.Errorf("the option %q needs a value, which must not begin with a dash", name)
				}
				value = args[i]
			}
			if err := kind.check(value); err != nil {
				return fmt.Errorf("the option %q %w", name, err)
			}
			have[name+"="+value] = true
		}
	}
	return p.checkRest(operands, have)
}

func (p policy) checkRest(operands []string, have map[string]bool) error {
	for _, need := range p.need {
		name, _, _ := strings.Cut(need, "=")
		for option := range have {
			// Also another value of it beside the right one: which wins is the
			// tool's affair.
			if got, _, _ := strings.Cut(option, "="); got == name && option != need {
				return fmt.Errorf("the option %q must be %q", name, need)
			}
		}
		if !have[need] && !(need == "--decrypt" && have["-d"]) {
			return fmt.Errorf("the option %q is missing", need)
		}
	}
	if p.operands == nil {
		if len(operands) > 0 {
			return fmt.Errorf("it takes no arguments besides options")
		}
		return nil
	}
	return p.operands(operands)
}

func (k valueKind) check(value string) error {
	ok := true
	switch k {
	case localPath:
		ok = local(value)
	case pathOrStdin:
		ok = value == "-" || local(value)
	case pathList:
		items, err := csv.NewReader(strings.NewReader(value)).Read()
		ok = err == nil && !slices.ContainsFunc(items, func(p string) bool { return p != "-" && !local(p) })
	case namedPath:
		name, target, named := strings.Cut(value, "=")
		// A leading @ names a library of ytt's, with a path behind it.
		ok = value == "-" || !strings.HasPrefix(value, "@") && local(value) && (!named || local(target) && local(name) || target == "-")
	case safeArchives:
		return only(value, safeArchivesValue)
	case remoteGit:
		return only(value, remoteGitValue)
	case hostPaths:
		for pair := range strings.FieldsSeq(value) {
			i := strings.LastIndexByte(pair, '=')
			ok = ok && i > 0 && strings.HasPrefix(pair, "https://") && local(pair[i+1:])
		}
	}
	if !ok {
		return fmt.Errorf("must be a path inside the workspace")
	}
	return nil
}

func only(value, want string) error {
	if value != want {
		return fmt.Errorf("must be %q", want)
	}
	return nil
}

// local says whether p is a path that stays below the folder it starts from and
// no URL.
func local(p string) bool {
	return filepath.IsLocal(p) && !path.IsAbs(p) && !strings.ContainsRune(p, 0) && !strings.Contains(p, "://")
}

func localPaths(operands []string) error {
	for _, o := range operands {
		if !local(o) || strings.HasPrefix(o, "-") {
			return fmt.Errorf("a path argument must be inside the workspace")
		}
	}
	return nil
}

func oneFile(operands []string) error {
	// A bare word could be a subcommand, such as exec-file.
	if len(operands) != 1 || !strings.ContainsAny(operands[0], "./") {
		return fmt.Errorf("it takes one file")
	}
	return localPaths(operands)
}

func oneFileOrStdin(operands []string) error {
	if len(operands) == 1 && operands[0] == "-" {
		return nil
	}
	return oneFile(operands)
}

func atMostOnePath(operands []string) error {
	if len(operands) > 1 {
		return fmt.Errorf("it takes one folder")
	}
	return localPaths(operands)
}

// nameAndPath is helm's release name and chart.
func nameAndPath(operands []string) error {
	if len(operands) != 2 || strings.HasPrefix(operands[0], "-") {
		return fmt.Errorf("it takes a name and a folder")
	}
	return localPaths(operands[1:])
}
