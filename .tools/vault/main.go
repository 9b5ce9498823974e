// Command vaultdev is HashiCorp Vault for tests: the core, HTTP API, key-value engines, SSH engine and AppRole of Vault 1.1.2, in memory, unsealed. It
// listens at the address that it is given, and prints "token ROOT". Tests start it; see core/testparts/servers.
//
// Vault's own command would bring the SDK of every cloud. This version is under the MPL, and from before modules; of the engine of keys and values
// there is one from just after the sdk became a module of its own, which sdk/ leads back to the same types where they were before.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	log "github.com/hashicorp/go-hclog"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	"github.com/hashicorp/vault/builtin/logical/ssh"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/logical"
	"github.com/hashicorp/vault/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: vaultdev ADDRESS")
		os.Exit(2)
	}
	if err := serve(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "vaultdev:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address string) error {
	logger := log.New(&log.LoggerOptions{Level: log.Info})
	store, err := inmem.NewInmem(nil, logger)
	if err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical: store, Logger: logger, DisableMlock: true,
		LogicalBackends:    map[string]logical.Factory{"kv": kv.Factory, "ssh": ssh.Factory},
		CredentialBackends: map[string]logical.Factory{"approle": approle.Factory},
	})
	if err != nil {
		return fmt.Errorf("core: %w", err)
	}
	made, err := core.Initialize(ctx, &vault.InitParams{BarrierConfig: &vault.SealConfig{SecretShares: 1, SecretThreshold: 1}})
	if err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	if open, err := core.Unseal(made.SecretShares[0]); err != nil || !open {
		return errors.Join(errors.New("Vault stays sealed"), err)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("token", made.RootToken)
	web := &http.Server{Handler: vaulthttp.Handler(&vault.HandlerProperties{Core: core, MaxRequestSize: 1 << 20}), ReadHeaderTimeout: 10 * time.Second}
	return web.Serve(l)
}
