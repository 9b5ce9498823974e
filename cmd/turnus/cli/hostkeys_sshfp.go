package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/hostkeys"
)

const resolvConf = "/etc/resolv.conf"

// sshfpFlags are the flags for keys that DNS proves, and for the resolver that validates.
type sshfpFlags struct {
	on       bool
	resolver string
}

func (f *sshfpFlags) add(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&f.on, "sshfp", false, usage)
	c.Flags().StringVar(&f.resolver, "resolver", "", "validating DNS resolver that you trust, ADDRESS or ADDRESS:PORT; when not given, that of this machine on loopback")
}

// lookUp asks DNS for scanned hosts, and returns one answer for each; nil without --sshfp.
func (f *sshfpFlags) lookUp(ctx context.Context, a *app, list []hostkeys.Result) ([]hostkeys.Vouch, error) {
	if !f.on {
		if f.resolver != "" {
			return nil, console.Invalid("--resolver is for --sshfp\nhint: add --sshfp")
		}
		return nil, nil
	}
	r, err := f.open()
	if err != nil {
		return nil, err
	}
	ctx, stop := a.Interruptible(ctx)
	defer stop()
	vouches := r.LookUp(ctx, list)
	return vouches, ctx.Err()
}

func (f *sshfpFlags) open() (hostkeys.Resolver, error) {
	if f.resolver != "" {
		return hostkeys.ParseResolver(f.resolver)
	}
	conf, err := os.Open(resolvConf)
	if err != nil {
		return hostkeys.Resolver{}, fmt.Errorf("--sshfp: %w\nhint: --resolver ADDRESS of a validating resolver", err)
	}
	defer conf.Close()
	return hostkeys.SystemResolver(conf)
}
