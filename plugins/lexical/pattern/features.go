package pattern

import "assay/plugins/internal/suffix"

// Name is a host name with its wording and structure.
type Name struct {
	Host *suffix.Host
	Wording
	Build
}

// Read sets n to the name of h, which must outlive n.
func (n *Name) Read(h *suffix.Host) {
	n.Host = h
	n.Wording.read(h)
	n.Build = read(h)
}

// Points are set by hand for evidence that no model learns, because lists of names do not show it, or show it
// wrongly.
type Points struct {
	Address int // a part of another address
	Shape   int // a hexadecimal number
	Bait    int // bait words of goods that need a licence, or left of the name
}

// Points returns the points of n.
func (n *Name) Points() (p Points) {
	if n.Hex() {
		p.Shape = 30
	}
	if fakesPunycode(n.Host.Name) || fakesPunycode(n.Host.Subdomain) {
		p.Address = 8
	}
	points, _ := n.posing()
	p.Address += points
	// A single bait word left of a name, such as shop or login, is honest: lists of honest sites hold domains, and
	// lists of reported ones host names.
	if n.inLeft > 1 {
		p.Bait = 40
	}
	if n.goods > 1 {
		p.Bait += 70
	}
	return p
}

// fakesPunycode reports whether one of the labels starts with xn-. Real internationalised labels arrive decoded.
func fakesPunycode(labels string) bool {
	for i := 0; i+3 <= len(labels); i++ {
		if labels[i] == 'x' && labels[i+1] == 'n' && labels[i+2] == '-' && (i == 0 || labels[i-1] == '.') {
			return true
		}
	}
	return false
}

// Posing returns the part of the name, or of the labels left of it, that imitates a part of another address. It is ""
// if none does.
func (n *Name) Posing() string {
	_, part := n.posing()
	return part
}

// posing returns the points and the text of an imitated address, or 0 and "".
func (n *Name) posing() (points int, part string) {
	own := !n.Host.Private || n.Host.OnSharedHosting()
	if own {
		if part = posingToken(n.Host.Name, n.Hyphens > 0); part != "" {
			return 8, part
		}
		if gluedWWW(n.Host.Name) {
			return 8, "www"
		}
		if n.Hyphens > 0 && (n.Host.Private || suffix.IsRisky(n.Host.TLD)) {
			if part = posingCountry(n.Host.Name); part != "" {
				return 9, part
			}
		}
	}
	if part = posingLabel(n.Host.Subdomain); part != "" {
		return 49, part
	}
	return 0, ""
}
