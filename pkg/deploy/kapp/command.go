package kapp

import (
	"io/fs"
	"sync"
	"time"

	kappcmd "carvel.dev/kapp/pkg/kapp/cmd"
	cmdapp "carvel.dev/kapp/pkg/kapp/cmd/app"
	cmdcore "carvel.dev/kapp/pkg/kapp/cmd/core"
	"carvel.dev/kapp/pkg/kapp/crdupgradesafety"
	"carvel.dev/kapp/pkg/kapp/logger"
	"carvel.dev/kapp/pkg/kapp/permissions"
	"carvel.dev/kapp/pkg/kapp/preflight"
	"github.com/cppforlife/cobrautil"
	"github.com/spf13/cobra"
)

// kapp's commands.
const (
	deployCommand  = "deploy"
	deleteCommand  = "delete"
	inspectCommand = "inspect"
)

// manifestName is the path of the manifest in manifestFS.
const manifestName = "stdin"

// building serialises the making of commands, which writes to a map that cobra
// shares among all commands of the process.
var building sync.Mutex

// newCommand returns kapp with the one subcommand name, as its own main function
// would make it, but with our clients, output and manifest.
func newCommand(name string, u *runUI, deps *depsFactory, manifest []byte) *cobra.Command {
	building.Lock()
	defer building.Unlock()

	log := logger.NewUILogger(u)
	flags := cmdcore.NewFlagsFactory(deps, deps)
	var sub *cobra.Command
	switch name {
	case deployCommand:
		o := cmdapp.NewDeployOptions(u, deps, log, preflight.NewRegistry(map[string]preflight.Check{
			"PermissionValidation": permissions.NewPreflight(deps, false),
			"CRDUpgradeSafety":     crdupgradesafety.NewPreflight(deps, false),
		}))
		o.FileSystem = manifestFS(manifest)
		sub = cmdapp.NewDeployCmd(o, flags)
	case deleteCommand:
		sub = cmdapp.NewDeleteCmd(cmdapp.NewDeleteOptions(u, deps, log), flags)
	case inspectCommand:
		sub = cmdapp.NewInspectCmd(cmdapp.NewInspectOptions(u, deps, log), flags)
	}
	_, tty := sub.Annotations[cmdapp.TTYByDefaultKey]
	sub.Flags().BoolVar(&tty, "tty", tty, "Force TTY-like output")

	root := &cobra.Command{Use: "kapp", SilenceErrors: true, SilenceUsage: true}
	root.SetOut(u.out)
	root.SetErr(u.err)
	var (
		uiFlags      kappcmd.UIFlags
		loggerFlags  kappcmd.LoggerFlags
		warningFlags kappcmd.WarningFlags
		apiFlags     cmdcore.KubeAPIFlags // accepted; the limits are not ours to keep
	)
	uiFlags.Set(root, flags)
	loggerFlags.Set(root, flags)
	warningFlags.Set(root, flags)
	apiFlags.Set(root, flags)
	root.AddCommand(sub)
	cobrautil.DisallowExtraArgs(sub)
	sub.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !tty {
			u.plain()
		}
		if err := cobrautil.ResolveFlagsForCmd(cmd, args); err != nil {
			return err
		}
		uiFlags.ConfigureUI(u.conf)
		loggerFlags.Configure(log)
		warningFlags.Configure(deps)
		return nil
	}
	return root
}

// manifestFS is a file system that holds one file, manifestName.
type manifestFS []byte

func (m manifestFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
}

func (m manifestFS) ReadFile(name string) ([]byte, error) {
	if name != manifestName {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	return m, nil
}

func (m manifestFS) Stat(name string) (fs.FileInfo, error) {
	if name != manifestName {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return manifestInfo(len(m)), nil
}

// manifestInfo describes the one file by its size.
type manifestInfo int64

func (i manifestInfo) Name() string       { return manifestName }
func (i manifestInfo) Size() int64        { return int64(i) }
func (i manifestInfo) Mode() fs.FileMode  { return 0o400 }
func (i manifestInfo) ModTime() time.Time { return time.Time{} }
func (i manifestInfo) IsDir() bool        { return false }
func (i manifestInfo) Sys() any           { return nil }
