package core

import "strings"

// ShellWord returns an argument as a shell takes it.
func ShellWord(arg string) string {
	if arg == "" || strings.ContainsAny(arg, " \t\n*?[]{}!&;$|<>()#~`'\"\\") {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}
