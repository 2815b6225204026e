package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpColumns is the width of a page of help. TestHelpFitsOneScreen also limits its lines.
const helpColumns = 100

// printHelp prints the page of the selected command, or the first page if there is none. Kong calls it for --help.
func printHelp(_ kong.HelpOptions, ctx *kong.Context) error {
	return helpPage(cmp.Or(ctx.Selected(), ctx.Model.Node)).write(ctx.Stdout)
}

// helpPage returns the page about a command, or the first page for the program itself. Settings have their own pages,
// because all commands have them.
func helpPage(node *kong.Node) *page {
	p := &page{}
	if node.Parent == nil {
		p.text(0, node.Help)
		p.text(0, "")
		p.text(0, "Usage: assay [COMMAND]")
		for _, group := range commandGroups(node) {
			p.section(group.title, commandRows(group.members))
		}
		p.section("Examples", helpExamples)
		p.text(0, "")
		p.text(0, "'assay COMMAND --help' describes a command, and 'assay help settings' lists the settings.")
		return p
	}
	p.text(0, "Usage: assay "+node.Summary())
	p.text(0, "")
	p.text(0, node.Help)
	p.section("Arguments", argumentRows(node.Positional))
	p.section("Flags", flagRows(node))
	p.section("Commands", commandRows(node.Children))
	p.text(0, "")
	if len(node.Children) > 0 {
		p.text(0, fmt.Sprintf("'assay %s COMMAND --help' describes a command.", node.Path()))
	}
	p.text(0, "Settings are flags of every command: 'assay help settings' lists them.")
	return p
}

// settingsPage returns the page that lists all settings with a line each, or explains those of a topic.
func settingsPage(app *kong.Node, topic string) (*page, error) {
	p, topics := &page{}, settingTopics(app)
	if topic == "" {
		p.text(0, "Each setting is a flag (ASSAY_DATA_DIR: --data-dir), a variable, or a line of a file (--config).")
		const variable, value = len("ASSAY_STRIPE_WEBHOOK_SECRET"), len("ASSAY_DATABASE_URL")
		p.line(fmt.Sprintf("  %-*s  %-*s  MEANING", variable, "VARIABLE", value, "DEFAULT"))
		for _, group := range topics {
			p.text(0, group.title)
			var rows [][2]string
			for _, f := range group.members {
				if f.Hidden { // its topic explains it
					continue
				}
				shown := settingDefault(f)
				if first, _, list := strings.Cut(shown, ", "); list && len(shown) > value {
					shown = first + ", ..."
				}
				left := fmt.Sprintf("%-*s  %s", variable, f.Envs[0], shown)
				rows = append(rows, [2]string{left, settingLine(f)})
			}
			p.rows(rows, variable+value+2)
		}
		p.text(0, "'assay help settings TOPIC' explains a topic, such as "+topics[0].title+".")
		return p, nil
	}
	var names []string
	for _, group := range topics {
		names = append(names, group.title)
		if group.title != topic {
			continue
		}
		for i, f := range group.members {
			if i > 0 {
				p.text(0, "")
			}
			p.text(0, f.Envs[0]+", "+f.String())
			text := f.Help
			if f.HasDefault {
				text += " Default: " + f.Default + "."
			}
			p.text(4, text)
		}
		return p, nil
	}
	return nil, fmt.Errorf("there is no topic %q of settings, but there are %s", topic, strings.Join(names, ", "))
}

// settingTopics returns the settings by topic. A setting without a group has the topic of the setting before it.
func settingTopics(app *kong.Node) (topics []group[*kong.Flag]) {
	for _, f := range settingsOf(app) {
		title := "general"
		if f.Group != nil {
			title = f.Group.Key
		} else if len(topics) > 0 {
			title = topics[len(topics)-1].title
		}
		topics = addToGroup(topics, title, f)
	}
	return topics
}

// settingLine describes a setting in a line, by the first sentence of its help text. It also names the flag if that is
// not named like its variable.
func settingLine(f *kong.Flag) string {
	line := firstSentence(f.Help)
	if "ASSAY_"+strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) != f.Envs[0] {
		line += fmt.Sprintf(" (--%s)", f.Name)
	}
	return line
}

// settingDefault returns a setting's default or, if that is not a fixed value, how the help text describes it.
func settingDefault(f *kong.Flag) string {
	_, text, _ := strings.Cut(f.Help, "Default: ")
	return cmp.Or(f.Default, strings.TrimSuffix(text, "."))
}

// firstSentence returns the first sentence of a text, without its full stop.
func firstSentence(text string) string {
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(first, ".")
}

// group is a part of a page: commands or settings under a title.
type group[T any] struct {
	title   string
	members []T
}

// addToGroup adds a member to the group with the title, which may be new.
func addToGroup[T any](groups []group[T], title string, member T) []group[T] {
	i := slices.IndexFunc(groups, func(g group[T]) bool { return g.title == title })
	if i < 0 {
		i = len(groups)
		groups = append(groups, group[T]{title: title})
	}
	groups[i].members = append(groups[i].members, member)
	return groups
}

// commandGroups returns the commands of the program by group.
func commandGroups(app *kong.Node) (groups []group[*kong.Node]) {
	for _, n := range app.Children {
		if n.Hidden {
			continue
		}
		title := "Commands"
		if n.Group != nil {
			title = n.Group.Title
		}
		groups = addToGroup(groups, title, n)
	}
	return groups
}

func commandRows(nodes []*kong.Node) (rows [][2]string) {
	for _, n := range nodes {
		if !n.Hidden {
			rows = append(rows, [2]string{n.Name, firstSentence(n.Help)})
		}
	}
	return rows
}

func argumentRows(arguments []*kong.Positional) (rows [][2]string) {
	for _, a := range arguments {
		rows = append(rows, [2]string{a.Summary(), a.Help})
	}
	return rows
}

// flagRows describes the flags of a command and of the commands above it, but not those of the program.
func flagRows(node *kong.Node) (rows [][2]string) {
	for ; node.Parent != nil; node = node.Parent {
		for _, f := range node.Flags {
			if !f.Hidden {
				rows = append(rows, [2]string{f.String(), f.Help})
			}
		}
	}
	return rows
}

// page is a page of help that is being written.
type page struct{ lines []string }

// text adds a text, wrapped and indented. An empty text adds an empty line.
func (p *page) text(indent int, text string) {
	for _, line := range Wrap(text, helpColumns-indent) {
		p.line(strings.Repeat(" ", indent) + line)
	}
}

// line adds a line as it is.
func (p *page) line(line string) { p.lines = append(p.lines, strings.TrimRight(line, " ")) }

// section adds rows under a title. Without rows it adds nothing.
func (p *page) section(title string, rows [][2]string) {
	if len(rows) == 0 {
		return
	}
	p.text(0, "")
	p.text(0, title)
	p.rows(rows, 0)
}

// rows adds rows of two columns. The first has the given width, or that of its longest cell that fits if width is 0. A
// longer cell has a line to itself.
func (p *page) rows(rows [][2]string, width int) {
	if width == 0 {
		const widest = 36
		for _, row := range rows {
			if len(row[0]) <= widest {
				width = max(width, len(row[0]))
			}
		}
	}
	for _, row := range rows {
		left := row[0]
		if len(left) > width {
			p.line("  " + left)
			left = ""
		}
		for _, line := range Wrap(row[1], helpColumns-width-4) {
			p.line(fmt.Sprintf("  %-*s  %s", width, left, line))
			left = ""
		}
	}
}

func (p *page) write(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(p.lines, "\n")+"\n")
	return err
}

// Wrap breaks a text into lines of at most the given number of columns, except for longer words.
func Wrap(text string, columns int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len([]rune(*last))+1+len([]rune(word)) <= columns:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// reportMisuse reports a command line that cannot be parsed, and names the page of help about it.
func reportMisuse(w io.Writer, s *settings, err error) {
	see := "'assay --help'"
	var misused *kong.ParseError
	if errors.As(err, &misused) {
		err = misused.Unwrap()
	}
	for _, err := range split(err) {
		text := err.Error()
		if misused != nil && misused.Context != nil {
			text = s.locate(misused.Context, err).Error()
			node := misused.Context.Selected()
			if node == nil {
				node = misused.Context.Model.Node
			} else {
				see = "'" + node.FullPath() + " --help'"
			}
			if len(node.Children) > 0 {
				text = strings.Replace(text, "unexpected argument", "unknown command", 1)
			}
		}
		if strings.Contains(text, "ASSAY_") || s.broken != nil {
			see = "'assay config' and 'assay help settings'"
		}
		fmt.Fprintln(w, "assay:", text)
	}
	fmt.Fprintf(w, "See %s.\n", see)
}
