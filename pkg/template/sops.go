package template

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/refs"
	"github.com/garboard-dev/garboard/pkg/status"
	"github.com/garboard-dev/garboard/pkg/tool"
)

// encrypted are the names of files that are decrypted, and their names then.
var encrypted = map[string]string{".sops.yml": ".yml", ".sops.yaml": ".yaml"}

// sops replaces encrypted files in the root by what they hold. The keys are gone
// when it returns.
func (r *run) sops(ctx context.Context, i int, spec v1alpha1.AppTemplateSops) (out outcome) {
	if r.streaming {
		return failed("", errors.New("Templating data is not supported"))
	}
	home := fmt.Sprintf("keys/%d", i)
	env, files, err := r.sopsKeys(ctx, home, spec)
	if err != nil {
		return failed("", err)
	}
	targets, err := r.sopsFiles(ctx, spec.Paths)
	if err != nil {
		return failed("", err)
	}
	defer func() {
		err := r.ws.Remove(context.WithoutCancel(ctx), []string{home})
		if err != nil && !out.stage.Failed() {
			out = failed("Decrypting dir: ", fmt.Errorf("Removing keys: %w", err))
		}
	}()
	if err := r.ws.Put(ctx, files); err != nil {
		return failed("Building config: ", err)
	}
	for _, file := range targets {
		if err := r.decrypt(ctx, sopsCommand(home, env, file), file); err != nil {
			return failed("Decrypting dir: ", err)
		}
	}
	return outcome{stage: status.Stage{}}
}

func sopsCommand(home, env, file string) tool.Command {
	return tool.Command{
		Name: "sops", Args: []string{"--config=./" + home + "/.sops.yml", "--decrypt", "./" + file}, Env: []string{env},
	}
}

// decrypt replaces file by its content in plain.
func (r *run) decrypt(ctx context.Context, c tool.Command, file string) error {
	shown := strings.TrimPrefix(file, r.req.Root+"/")
	c.Admit = r.req.Memory.Resize
	defer r.req.Memory.Shrink(0) // the file goes back to the workspace
	res, err := r.ws.Run(ctx, c)
	if err == nil {
		err = res.Err()
	}
	if err != nil {
		// The text holds what sops said, as kapp-controller has it; no exit code
		// goes with it, because this is not the only run of the step.
		return fmt.Errorf("Decrypting file '%s': Running sops: %s, %v", shown, strings.TrimSpace(string(res.Stderr)), err)
	}
	r.objects.hide.AddDocument(string(res.Stdout))
	if err := r.ws.Put(ctx, []tool.File{{Path: plainName(file), Content: res.Stdout}}); err != nil {
		return fmt.Errorf("Decrypting file '%s': %w", shown, err)
	}
	if err := r.ws.Remove(ctx, []string{file}); err != nil {
		return fmt.Errorf("Decrypting file '%s': %w", shown, err)
	}
	return nil
}

func plainName(file string) string {
	for suffix, plain := range encrypted {
		if base, found := strings.CutSuffix(file, suffix); found {
			return base + plain
		}
	}
	return file
}

// sopsFiles lists the encrypted files at and below paths, each once.
func (r *run) sopsFiles(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	suffixes := slices.Sorted(maps.Keys(encrypted))
	var files []string
	for _, p := range paths {
		dir, err := r.below(p)
		if err != nil {
			return nil, fmt.Errorf("Checking path: %w", err)
		}
		found, err := r.ws.List(ctx, path.Clean(dir), suffixes)
		if err != nil {
			return nil, fmt.Errorf("Decrypting dir: %w", err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

// sopsKeys returns the variable that leads sops to its keys in home, and the files
// to put there. pgp counts if age is set, too.
func (r *run) sopsKeys(ctx context.Context, home string, spec v1alpha1.AppTemplateSops) (env string, files []tool.File, err error) {
	var ref *v1alpha1.AppTemplateSopsPrivateKeysSecretRef
	switch {
	case spec.PGP != nil:
		ref = spec.PGP.PrivateKeysSecretRef
	case spec.Age != nil:
		ref = spec.Age.PrivateKeysSecretRef
	default:
		return "", nil, errors.New("Unsupported SOPS strategy")
	}
	if ref == nil || ref.Name == "" {
		return "", nil, errors.New("Building config: Expected privateKeysSecretRef to be specified")
	}
	data, err := r.objects.lookup(ctx)(refs.Key{Kind: refs.Secret, Name: ref.Name})
	if err != nil {
		return "", nil, fmt.Errorf("Building config: Getting private keys secret: %w", err)
	}
	files = []tool.File{{Path: home + "/.sops.yml", Content: []byte("{}")}}
	if spec.PGP != nil {
		ring, err := keyRing(data)
		if err != nil {
			return "", nil, fmt.Errorf("Building config: Reading private keys of secret '%s': %w", ref.Name, err)
		}
		return "GNUPGHOME=./" + home, append(files, tool.File{Path: home + "/secring.gpg", Content: ring}), nil
	}
	var keys bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(data)) {
		keys.Write(data[name])
		keys.WriteByte('\n')
	}
	return "SOPS_AGE_KEY_FILE=./" + home + "/key.txt", append(files, tool.File{Path: home + "/key.txt", Content: keys.Bytes()}), nil
}

// keyRing makes one binary key ring of all armored private keys in data, in the
// order of the names. sops reads it itself; gpg is not needed.
func keyRing(data map[string][]byte) ([]byte, error) {
	var ring bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(data)) {
		rest := bufio.NewReader(bytes.NewReader(data[name]))
		for {
			block, err := armor.Decode(rest)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("key '%s': %w", name, err)
			}
			body, err := io.ReadAll(block.Body)
			if err != nil {
				return nil, fmt.Errorf("key '%s': %w", name, err)
			}
			if block.Type != openpgp.PrivateKeyType {
				continue
			}
			if err := usable(body); err != nil {
				return nil, fmt.Errorf("key '%s': %w", name, err)
			}
			ring.Write(body)
		}
	}
	if ring.Len() == 0 {
		return nil, errors.New("expected at least one armored PGP private key, but found none")
	}
	return ring.Bytes(), nil
}

// usable checks that nobody is asked for a passphrase.
func usable(body []byte) error {
	entities, err := openpgp.ReadKeyRing(bytes.NewReader(body))
	if err != nil {
		return err
	}
	for _, e := range entities {
		if e.PrivateKey != nil && e.PrivateKey.Encrypted {
			return errors.New("is protected by a passphrase, which is not supported")
		}
	}
	return nil
}
