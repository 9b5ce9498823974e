package user

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
)

// account is a user as the host has it.
type account struct {
	exists, elsewhere         bool // elsewhere: known to the host, but not in /etc/passwd
	uid, comment, home, shell string
	primary                   string   // name of the primary group
	groups                    []string // others that list the user
	known                     []string // groups that exist, of those asked for
	taken                     string   // another user with the wanted number
	shadow                    bool     // /etc/shadow can be read
	password                  bool     // the hash there is the wanted one
	tool                      string   // shadow, busybox, or "" for none
}

func read(text string) account {
	a := sdk.ReadAnswer(text)
	return account{
		exists: a.Has("uid"), elsewhere: a.Has("elsewhere"), uid: a.Value("uid"), comment: a.Value("comment"), home: a.Value("home"), shell: a.Value("shell"),
		primary: a.Value("primary"), groups: strings.Fields(a.Text("in")), known: strings.Fields(a.Text("group")),
		taken: a.Value("taken"), shadow: a.Has("shadow"), password: a.Has("password"), tool: a.Value("tool"),
	}
}

// asked is the groups that the host must look for. That with the user's own name is one: useradd
// does not create it again.
func (p *Params) asked() []string {
	all := append([]string{p.Name}, p.Groups...)
	if p.Group != "" {
		all = append(all, p.Group)
	}
	return all
}

// number is the wanted number; "" for any.
func (p *Params) number() string {
	if p.UID == nil {
		return ""
	}
	return strconv.Itoa(*p.UID)
}

// by is the words for the tool that the host has.
func (a account) by(shadow, busybox string) string {
	return map[string]string{"shadow": shadow, "busybox": busybox}[a.tool]
}

// missing is the groups that the step needs and the host does not have.
func (a account) missing(p Params) []string {
	if p.State == "absent" {
		return nil
	}
	return slices.DeleteFunc(p.asked()[1:], func(g string) bool { return slices.Contains(a.known, g) })
}

// fields is the options of usermod for what differs in /etc/passwd.
func (p *Params) fields(now account) []string {
	var options []string
	set := func(option, want, is string) {
		if want != "" && want != is {
			options = append(options, option, want)
		}
	}
	set("-u", p.number(), now.uid)
	set("-g", p.Group, now.primary)
	set("-d", p.Home, now.home)
	set("-s", p.Shell, now.shell)
	if p.Comment != nil && *p.Comment != now.comment {
		options = append(options, "-c", *p.Comment)
	}
	return options
}

// membership is the groups to add the user to, and those to remove the user from.
func (p *Params) membership(now account) (add, remove []string) {
	primary := cmp.Or(p.Group, now.primary)
	for _, g := range p.Groups {
		if g != primary && !slices.Contains(now.groups, g) && !slices.Contains(add, g) {
			add = append(add, g)
		}
	}
	if p.Exact {
		for _, g := range now.groups {
			if g != primary && !slices.Contains(p.Groups, g) {
				remove = append(remove, g)
			}
		}
	}
	return add, remove
}

// commands returns the command lines that make the account what it should be, in order; none where
// it is.
func commands(p Params, now account) []string {
	if p.State == "absent" {
		if !now.exists {
			return nil
		}
		line := now.by("userdel ", "deluser ")
		if p.RemoveHome {
			line += now.by("-r ", "--remove-home ")
		}
		return []string{line + sdk.Quote(p.Name)}
	}
	var lines []string
	name := sdk.Quote(p.Name)
	add, drop := p.membership(now)
	switch {
	case !now.exists:
		lines = append(lines, create(p, now))
	case len(p.fields(now)) > 0:
		lines = append(lines, "usermod "+sdk.QuoteAll(p.fields(now)...)+" "+name)
	}
	for _, g := range add {
		lines = append(lines, now.by("usermod -a -G "+sdk.Quote(g)+" "+name, "addgroup "+name+" "+sdk.Quote(g)))
	}
	for _, g := range drop {
		lines = append(lines, now.by("gpasswd -d "+name+" "+sdk.Quote(g), "delgroup "+name+" "+sdk.Quote(g)))
	}
	if p.Password != "" && !now.password {
		lines = append(lines, `printf '%s:%s\n' "$n" "$hash" | chpasswd -e`) // printf is of the shell: no process has the hash as an argument
	}
	return lines
}

func create(p Params, now account) string {
	options := p.fields(now)
	if p.Group == "" && slices.Contains(now.known, p.Name) {
		options = append(options, "-g", p.Name) // useradd refuses to create a group that exists
	}
	if now.tool == "shadow" {
		options = append(options, map[bool]string{true: "-r", false: "-m"}[p.System])
		return "useradd " + sdk.QuoteAll(append(options, p.Name)...)
	}
	for i := 0; i < len(options); i += 2 { // adduser of busybox has other letters
		options[i] = map[string]string{"-u": "-u", "-g": "-G", "-d": "-h", "-s": "-s", "-c": "-g"}[options[i]]
	}
	if p.System {
		options = append(options, "-S", "-H")
	}
	return "adduser -D " + sdk.QuoteAll(append(options, p.Name)...)
}

// after is the account as it will be.
func (p *Params) after(now account) account {
	if p.State == "absent" {
		return account{}
	}
	then := now
	then.exists, then.password = true, true
	add, drop := p.membership(now)
	then.groups = slices.DeleteFunc(slices.Concat(now.groups, add), func(g string) bool { return slices.Contains(drop, g) })
	options := p.fields(now)
	for i := 0; i < len(options); i += 2 {
		*map[string]*string{"-u": &then.uid, "-g": &then.primary, "-d": &then.home, "-s": &then.shell, "-c": &then.comment}[options[i]] = options[i+1]
	}
	return then
}

// text is the account as a person compares it. Of the password it has only whether it is the wanted
// one.
func (a account) text() string {
	if !a.exists {
		return ""
	}
	password := ""
	if !a.password {
		password = "password: differs\n"
	}
	return fmt.Sprintf("uid %s\ngroup %s\ngroups %s\nhome %s\nshell %s\ncomment %s\n%s", a.uid, a.primary, strings.Join(a.groups, ","), a.home, a.shell, a.comment, password)
}
