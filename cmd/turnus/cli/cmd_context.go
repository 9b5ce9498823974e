package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/remote"
	"github.com/turnus/turnus/cmd/turnus/settings"
	"github.com/turnus/turnus/core/client"
)

func (a *app) contextCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "context",
		Short: "Keep servers with their tokens under names, and choose one",
		Long: `Keep servers with their tokens under names, and choose the one that commands ask. They
are in a file of the user's config folder (TURNUS_CONFIG names another one) that nobody
else can read. turnus up writes a context "local".`,
		Example: `  turnus context ls
  turnus context set prod --server https://turnus.example.net --token-file prod.token
  turnus context use prod`,
	}
	c.AddCommand(a.contextListCmd(), a.contextUseCmd(), a.contextSetCmd(), a.contextRemoveCmd())
	return c
}

// contextDoc is a context in the -o json document of context ls. The token is not in it.
type contextDoc struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	settings.Context
}

func (a *app) contextListCmd() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the contexts", Args: cobra.NoArgs, Example: "  turnus context ls -o json",
		RunE: func(*cobra.Command, []string) error {
			file, err := settings.LoadContexts()
			if err != nil {
				return err
			}
			docs, cells := []contextDoc{}, [][]string{{"", "NAME", "SERVER", "TOKEN"}}
			for _, name := range slices.Sorted(maps.Keys(file.Contexts)) {
				s := file.Contexts[name]
				mark, token := "", "none"
				if name == file.Current {
					mark = "*"
				}
				switch {
				case s.TokenFile != "":
					token = "in " + s.TokenFile
				case s.Login:
					token = "login"
				case s.Token != "":
					token = "kept"
				}
				cells = append(cells, []string{mark, name, s.Server, token})
				docs = append(docs, contextDoc{Name: name, Current: name == file.Current, Context: s})
			}
			if a.Output == "json" {
				return console.PrintJSON(a.Out, console.ListOf(docs))
			}
			if len(docs) == 0 {
				fmt.Fprintln(a.Err, "no context yet\nhint: turnus up makes one, or turnus context set NAME --server URL --token-file FILE")
				return nil
			}
			console.Table(a.Out, cells)
			return nil
		},
	}
}

func (a *app) contextUseCmd() *cobra.Command {
	return &cobra.Command{
		Use: "use NAME", Short: "Choose the context that commands ask", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteContexts, Example: "  turnus context use prod",
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := settings.LoadContexts()
			if err != nil {
				return err
			}
			s, err := file.Find(args[0])
			if err != nil {
				return err
			}
			file.Current = args[0]
			if err := file.Save(); err != nil {
				return err
			}
			a.Message("commands ask " + s.Server + " now")
			return nil
		},
	}
}

func (a *app) contextSetCmd() *cobra.Command {
	var s settings.Context
	var stdin bool
	c := &cobra.Command{
		Use: "set NAME --server URL", Short: "Add a context, or change it; what is not given stays", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteContexts,
		Example: `  turnus context set prod --server https://turnus.example.net --token-file prod.token
  turnus context set prod --token-stdin < new.token`,
		RunE: func(cmd *cobra.Command, args []string) error { return a.setContext(cmd, args[0], s, stdin) },
	}
	c.Flags().StringVar(&s.Server, "server", "", "URL of the server")
	c.Flags().StringVar(&s.TokenFile, "token-file", "", "file that holds the token; it is read each time")
	c.Flags().BoolVar(&stdin, "token-stdin", false, "read the token from stdin, and keep it in the contexts' file")
	c.Flags().StringVar(&s.CAFile, "ca-file", "", "certificates, in PEM, of the certificate authority that signed the server's")
	c.Flags().StringVar(&s.CertFile, "cert-file", "", "certificate of this client, in PEM, where the server asks for one")
	c.Flags().StringVar(&s.KeyFile, "key-file", "", "its key, in PEM")
	c.Flags().BoolVar(&s.Insecure, "insecure-http", false, "send the token over http to another machine, though everybody on the way can read it")
	return c
}

func (a *app) setContext(cmd *cobra.Command, name string, s settings.Context, stdin bool) error {
	file, err := settings.LoadContexts()
	if err != nil {
		return err
	}
	was, known := file.Contexts[name]
	changed := cmd.Flags().Changed
	if changed("server") {
		was.Server = s.Server
	}
	if was.Server == "" {
		return console.Invalid("context %s has no server yet\nhint: --server https://HOST", name)
	}
	if changed("ca-file") {
		if was.CAFile, err = settings.Absolute(s.CAFile); err != nil {
			return err
		}
	}
	if changed("cert-file") {
		if was.CertFile, err = settings.Absolute(s.CertFile); err != nil {
			return err
		}
	}
	if changed("key-file") {
		if was.KeyFile, err = settings.Absolute(s.KeyFile); err != nil {
			return err
		}
	}
	if changed("insecure-http") {
		was.Insecure = s.Insecure
	}
	if changed("token-file") {
		was.Token, was.Login = "", false
		if was.TokenFile, err = settings.Absolute(s.TokenFile); err != nil {
			return err
		}
	}
	if stdin {
		text, err := io.ReadAll(io.LimitReader(a.In, settings.MaxToken))
		if err != nil {
			return err
		}
		was.Login = false
		if was.Token, was.TokenFile = strings.TrimSpace(string(text)), ""; was.Token == "" {
			return console.Invalid("--token-stdin: stdin holds no token")
		}
	}
	if _, err := client.New(client.Config{Server: was.Server, Token: was.Token, Insecure: was.Insecure}); err != nil {
		return err
	}
	file.Contexts[name] = was
	if file.Current == "" || !known && len(file.Contexts) == 1 {
		file.Current = name
	}
	if err := file.Save(); err != nil {
		return err
	}
	if file.Current != name {
		a.Message("kept; turnus context use " + name + " makes commands ask it")
	}
	return nil
}

func (a *app) contextRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Short: "Forget a context", Args: cobra.ExactArgs(1), ValidArgsFunction: remote.CompleteContexts, Example: "  turnus context rm old",
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := settings.LoadContexts()
			if err != nil {
				return err
			}
			if _, err := file.Find(args[0]); err != nil {
				return err
			}
			delete(file.Contexts, args[0])
			if file.Current == args[0] {
				file.Current = ""
			}
			return file.Save()
		},
	}
}
