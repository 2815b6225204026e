package mail

import "strings"

// Borrowed returns the provider whose name is part of one of labels (a host without its public suffix) without
// being the whole registrable name, or "". The names are coined words, so honest mail domains do not contain them;
// gmail must begin a word, because of names such as bigmail.
func Borrowed(labels string) string {
	for labels != "" {
		label, rest, more := strings.Cut(labels, ".")
		labels = rest
		at := strings.Index(label, "gmail")
		if at > 0 && label[at-1] <= '9' || at == 0 && (more || len(label) > len("gmails")) {
			return "gmail.com"
		}
		for _, name := range [...]string{"hotmail", "protonmail", "googlemail"} {
			if strings.Contains(label, name) && (more || len(label) > len(name)+1) {
				return name + ".com"
			}
		}
	}
	return ""
}
